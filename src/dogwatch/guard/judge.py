"""The guard's engine: may an agent run this command?

`judge` reads the command as bash, walks through it without running anything, and has every program that it would start
judged by the rules (`rules.programs` says where they are). Whatever goes wrong on the way is a denial.
"""

from dogwatch.guard.bash.holes import clean
from dogwatch.guard.bash.lookahead import SIMPLER
from dogwatch.guard.bash.state import Shell, World
from dogwatch.guard.bash.walk import Walker
from dogwatch.guard.rules.programs import Rulebook
from dogwatch.guard.verdict import COMMAND_CHARS_MAX, Caller, Denied, ParseError, Verdict

__all__ = ["Caller", "Verdict", "judge"]

_TRAPS_MAX = 64
_PLAIN_BASH = "write it as plain bash; put long texts into a file with your editing tool"


def judge(command: str, caller: Caller) -> Verdict:
    """The verdict on a command; never an exception."""
    try:
        return _judged(command, caller)
    except Denied as denied:
        return Verdict(False, denied.rule, denied.reason, denied.hint)
    except ParseError as error:
        return Verdict(False, "parse", f"the command cannot be read: {error}", _PLAIN_BASH)
    except (RecursionError, MemoryError):
        return Verdict(False, "too-complex", "the command is nested too deeply to be followed", SIMPLER)
    except Exception as error:  # a guard that fails must not let anything pass
        return Verdict(False, "guard.error", f"the guard itself has failed on it ({type(error).__name__})", _PLAIN_BASH)


def _judged(command: str, caller: Caller) -> Verdict:
    if len(command) > COMMAND_CHARS_MAX:
        raise Denied("too-long", f"the command has {len(command):,} characters", _PLAIN_BASH)
    if "\0" in command:
        raise ParseError("it holds a zero byte")
    world = World(caller)
    walker = Walker(world, Rulebook())
    shell = Shell(caller.cwd)
    walker.code(clean(command), shell)
    _traps(walker, shell)
    return Verdict(True, wrote=world.files.latest())


def _traps(walker: Walker, shell: Shell) -> None:
    """Traps run at a time nobody knows: every variable may be whatever it ever was."""
    traps = walker.world.traps
    for number, text in enumerate(traps):  # a trap may set another one
        state = shell.copy()
        state.variables.update(walker.world.history)
        walker.code(text, state)
        if number > _TRAPS_MAX:
            raise Denied("too-complex", "there are too many traps to be followed", SIMPLER)
