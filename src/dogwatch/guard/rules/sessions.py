"""Terminal sessions: what may be done with tmux, screen and zellij."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import DISK, known, shown, without_holes
from dogwatch.guard.bash.redirects import content_of
from dogwatch.guard.bash.state import UNKNOWN, Texts
from dogwatch.guard.languages.tmux import VALUED, chained, commands_named, parsed, shell_formats
from dogwatch.guard.rules.options import Options, options
from dogwatch.guard.verdict import deny

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

EXACT = "only a session that you have started yourself, named exactly: -t '=NAME:'"
LEAVE = "leave sessions alone; to end what you have started, end its process; ask the operator for the rest"

_READS = frozenset(
    "capture-pane clock-mode delete-buffer display-message find-window has-session list-buffers list-clients"
    " list-commands list-keys list-panes list-sessions list-windows load-buffer save-buffer set-buffer show-buffer"
    " show-environment show-hooks show-messages show-options show-prompt-history show-window-options start-server"
    " wait-for last-pane last-window next-window previous-window".split()
)
_STARTS = frozenset("new-session new-window split-window display-popup pipe-pane respawn-pane respawn-window".split())
_ENDS = frozenset("kill-server kill-session kill-window kill-pane unlink-window".split())
_RUNS_COMMANDS = frozenset(
    "if-shell bind-key set-hook command-prompt confirm-before display-menu display-panes choose-tree choose-buffer"
    " choose-client".split()
)
_REASONS = {
    "kill-server": "`tmux kill-server` ends every session of that tmux server, also those of others",
    "kill-session": "it ends a session that you have not started",
    "send-keys": "it types into a session that you have not started",
    "paste-buffer": "it types into a session that you have not started",
}
_KEYS = {"Enter": "\n", "C-m": "\n", "KPEnter": "\n", "C-j": "\n", "Space": " ", "Tab": "\t"}


def tmux(call: Call) -> Texts:
    """Reading is free, starting is judged by what is started, ending and changing needs an own session."""
    found = options(call.args, "cfLST")
    if "V" in found.flags or "h" in found.flags:
        return UNKNOWN
    command = found.value("c")
    if command is not None:
        call.code(command)
    config = found.value("f")
    if config is not None:
        _configuration(call, config, must_be_known=False)
    if "C" in found.flags:
        _control(call)
    _commands(call, chained(found.rest))
    return UNKNOWN


def _control(call: Call) -> None:
    """Control mode takes commands from standard input."""
    for text in call.stdin() or ():
        if known(text):
            _commands(call, parsed(text))
        else:
            call.world.unresolved("tmux is given commands that cannot be known", LEAVE)


def _commands(call: Call, commands: list[list[str]]) -> None:
    call.world.spend(len(commands) * 12)
    fresh: set[str] = set()
    for words in commands:
        _command(call, words, fresh)


def _text(call: Call, text: str) -> None:
    """A text that tmux runs as its own commands."""
    call.world.enter()
    _commands(call, parsed(text))
    call.world.leave()


def _command(call: Call, words: list[str], fresh: set[str]) -> None:
    """Judges one command of tmux. `fresh`: the sessions that earlier ones of the same chain have made; tmux stops the
    chain where one fails, so these are surely new."""
    for word in words:
        for code in shell_formats(word):
            call.code(code)
    names = commands_named(words[0])
    if not known(words[0]):
        rest = without_holes(words[0])
        guessed = [rest, *words[1:]] if rest else words[1:]
        if guessed:
            call.world.leniently(lambda: _command(call, guessed, fresh))
        if any(name not in _READS for name in names):
            call.world.unresolved(f"which command `tmux {shown(words[0])}` is cannot be known", "write it out")
        return
    for name in names:  # none: tmux itself refuses it
        _named(call, name, words[1:], fresh)


def _named(call: Call, name: str, args: list[str], fresh: set[str]) -> None:
    found = options(args, VALUED.get(name, "t"))
    if name in _STARTS or name == "run-shell":
        _starts(call, name, found)
    if name in _RUNS_COMMANDS:
        _runs(call, name, found)
    if name == "source-file":
        for path in found.rest:
            _configuration(call, path, must_be_known=True)
        return
    if name == "send-keys":
        _typed(call, found)
    if name == "detach-client" and found.value("E") is not None:
        call.code(found.value("E") or "")
    if name in _READS or name in ("run-shell", "if-shell"):
        return
    if name == "kill-session" and found.flags == {"C"}:
        return
    if name in ("new-session", "new-window", "split-window", "display-popup", "attach-session"):
        harmless = not found.flags & {"k", "D", "X"} and not (name == "attach-session" and found.flags & {"d", "x"})
        if harmless and (name in ("new-session", "attach-session") or "t" not in found.values):
            if name == "new-session" and "A" not in found.flags:
                fresh.add(found.value("s") or "")
            return
    if fresh and name not in _ENDS and "t" not in found.values and not found.flags & {"g", "s", "k"}:
        return  # it means the session that was just made
    if not _is_own(call, name, found, fresh):
        reason = _REASONS.get(name, f"`tmux {name}` touches sessions that you have not started")
        deny(f"tmux.{name}", reason, LEAVE if name in _ENDS else EXACT)


def _is_own(call: Call, name: str, found: Options, fresh: set[str]) -> bool:
    """Whether everything that the command touches is in a session of the agent's own, named exactly."""
    if name in ("kill-server", "bind-key", "unbind-key", "lock-server", "server-access", "set-hook"):
        return False
    if (
        (name == "kill-session" and "a" in found.flags)
        or found.flags & {"g"}
        or (name == "set-option" and "s" in found.flags)
    ):
        return False
    targets = [value for flag in "ts" for value in found.values.get(flag, []) if flag == "t" or name in _TWO_ENDED]
    return bool(targets) and all(
        _session(target) in call.world.caller.spawned or (target and target.partition(":")[0].lstrip("=") in fresh)
        for target in targets
    )


_TWO_ENDED = frozenset("join-pane move-pane move-window link-window swap-pane swap-window break-pane".split())


def _session(target: str) -> str:
    """The session that an exact target names; "" for one that is empty or not exact."""
    return target[1:].partition(":")[0] if target.startswith("=") and known(target) else ""


def _starts(call: Call, name: str, found: Options) -> None:
    """The shell command that a new pane runs: one word is a script, several are a command."""
    if name == "run-shell" and "C" in found.flags:
        for text in found.rest:
            _text(call, text)
    elif len(found.rest) == 1:
        call.code(found.rest[0])
    elif found.rest:
        call.run(found.rest, call.shell.copy())


def _runs(call: Call, name: str, found: Options) -> None:
    """Commands of tmux in the arguments of another one."""
    rest = found.rest
    if name == "if-shell":
        if rest and "F" not in found.flags:
            call.code(rest[0])
        commands = rest[1:]
    elif name in ("bind-key", "set-hook"):
        commands = rest[1:]
        if len(commands) > 1:
            _commands(call, chained([word.replace("\\;", ";") for word in commands]))
            return
    elif name == "display-menu":
        commands = rest[2::3]
    else:
        commands = rest[:1] if len(rest) == 1 else []
        if len(rest) > 1:
            _commands(call, chained(rest))
    for text in commands:
        _text(call, text)


def _configuration(call: Call, path: str, must_be_known: bool) -> None:
    """A file of commands for tmux."""
    if path == "/dev/null":
        return
    for text in content_of(call.walker, path, call.shell, call.io):
        if known(text):
            _text(call, text)
        elif must_be_known or text != DISK:
            call.world.unresolved(f"tmux is given commands from {shown(path)}, which cannot be known", LEAVE)


def _typed(call: Call, found: Options) -> None:
    """What is typed into a shell is run there, out of the guard's sight: so it is judged here."""
    keys: list[str] = []
    for word in found.rest:
        if "H" in found.flags:
            keys.append(
                chr(int(word, 16) % 128) if word and all(char in "0123456789abcdefABCDEF" for char in word[:6]) else ""
            )
        elif "l" in found.flags or word not in _KEYS:
            keys.append("" if word.startswith(("C-", "M-", "S-")) and len(word) < 8 else word)
        else:
            keys.append(_KEYS[word])
    text = "".join(keys)
    if text:
        call.world.leniently(lambda: call.code(text))


def screen(call: Call) -> Texts:
    found = options(call.args, "cehpsStTX")
    if found.has("X") or "X" in call.args:
        deny("screen.command", f"`{call.shown}` commands a session that you have not started", LEAVE)
    if found.flags & {"D"} or ("d" in found.flags and "m" not in found.flags):
        deny("screen.detach", f"`{call.shown}` takes a session away from whoever looks at it", LEAVE)
    return call.run(found.rest, call.shell.copy()) if found.rest and not found.has("r", "R", "x") else UNKNOWN


def zellij(call: Call) -> Texts:
    verb = next((word for word in call.args if not word.startswith("-")), "")
    if verb.startswith(("kill", "delete")) or verb in ("k", "ka", "d", "da", "action", "ac"):
        deny(f"zellij.{verb}", f"`{call.shown}` touches sessions that you have not started", LEAVE)
    if verb in ("run", "r") and "--" in call.args:
        return call.run(call.args[call.args.index("--") + 1 :])
    return UNKNOWN


def session_manager(call: Call) -> Texts:
    """`tmuxinator`, `tmuxp` and the like."""
    verb = call.args[0] if call.args else ""
    if verb in ("stop", "stop-all", "kill", "stop_all"):
        deny("tmux.kill-session", f"`{call.shown}` ends a session that you have not started", LEAVE)
    return UNKNOWN


RULES: "dict[str, Rule]" = {
    "tmux": tmux,
    "tmate": tmux,
    "byobu": tmux,
    "byobu-tmux": tmux,
    "screen": screen,
    "zellij": zellij,
    "tmuxinator": session_manager,
    "mux": session_manager,
    "tmuxp": session_manager,
    "smug": session_manager,
}
