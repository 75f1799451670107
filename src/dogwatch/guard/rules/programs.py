"""From a command's words to the rule that judges it. To teach the guard a new program, add it to the table of the
module that it fits: `processes`, `sessions`, `machine`, `paths`, `wrappers`, `many`, `interpreters`, `builds`,
`version_control`, `filters` or `shell_builtins`. A program that no table names is allowed.

The tables are loaded with the first program that is judged: a tool call that only writes a file needs none of them.
"""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import could_be, known, shown, wild, without_holes
from dogwatch.guard.bash.parser import Parser
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Texts, World, merged, text_of
from dogwatch.guard.bash.tree import AndOr, Command, Literal, Pipeline, Script, Simple, Word
from dogwatch.guard.rules import paths

_CANDIDATES_MAX = 40
_SPECIFIC = ("tmux", "pkill", "killall", "kill")
_CODE_OPTIONS = ("-c", "-e", "-x", "--exec", "--command", "--cmd", "--run", "--shell", "--eval", "--execute")
_DATA = frozenset(
    (
        "ack ag apk apropos apt apt-get aptitude aws az basename bat brew cal cargo cat cmp code column comm curl cut "
        "date df diff dirname dnf dpkg du egrep emacs fd fgrep file free gcloud gem gh glab go grep head http hub "
        "info jira jq less linear ls man micro mkdir more nano netstat nl npm nvim open pacman paste pgrep pidof pip "
        "pip3 pipx pnpm port printenv ps readlink realpath rg slack snap sort ss stat tail tldr touch tree uniq "
        "uptime vi vim wc wget whatis whereis which xdg-open yarn yq yum"
    ).split()
)
"""Programs whose arguments are never commands, whatever they look like."""


def run(call: Call) -> Texts:
    """Judges a command; its output, as far as that can be known."""
    name = call.argv[0]
    if not known(name):
        return _unknown_name(call)
    if name in call.shell.functions:
        return call.walker.call(name, call.args, call.shell, call.io)
    if name in call.shell.aliases:
        return _alias(call, name)
    return run_program(call)


def run_program(call: Call) -> Texts:
    """The same, past functions and aliases."""
    from dogwatch.guard.rules.filters import GENERATED_CODE, generates
    from dogwatch.guard.rules.scripts import run_files

    name = call.argv[0]
    files = call.world.files
    meant = call.shell.programs.get(name) or (files.program(call.path(name)) if "/" in name else "")
    if meant:
        call.name = meant.rpartition("/")[2]
    else:
        for folder in _folders(call, name):
            contents = files.read(call.path(f"{folder}/{name}" if folder else name))
            if contents:
                return run_files(call, contents, "", call.args)
    if generates(call):
        return GENERATED_CODE
    if meant := known_as(call.name):
        return _judged_as(call, meant)
    if "/" in name:
        files.ran.append((call.path(name), ""))
    return unknown_program(call)


def _folders(call: Call, name: str) -> list[str]:
    """Where the program is looked for, as far as the command says so itself."""
    if "/" in name:
        return [""]
    paths = text_of(call.shell.variables.get("PATH", ()))
    return ["", *(folder for path in paths for folder in path.split(":")[:16] if folder)] if paths else []


def known_as(name: str) -> str:
    """The name under which a program stands in the table of rules, empty where it does not; a version in its name does
    not matter, nor does its case."""
    from dogwatch.guard.rules.table import RULES

    folded = name.lower().removeprefix("=")
    return next((one for one in (name, folded, folded.rstrip("0123456789.-")) if one in RULES), "")


def _judged_as(call: Call, meant: str) -> Texts:
    """By the rule of that name in the table: rules tell the programs that they serve apart by it."""
    from dogwatch.guard.rules.table import RULES

    if meant != call.name:
        # A shell knows its own commands under their exact names alone: another one is a program at most, or none, and
        # changes no variable, alias or folder of this shell.
        call.shell = call.shell.copy()
        call.shell.locals = None if call.shell.locals is None else dict(call.shell.locals)
    call.name = meant
    return RULES[meant](call)


def _unknown_name(call: Call) -> Texts:
    """The command's own name has a hole."""
    from dogwatch.guard.rules.scripts import run_files
    from dogwatch.guard.rules.table import RULES

    name = call.argv[0]
    if "/" in name:
        contents = call.world.files.read(call.path(name))
        if contents:
            run_files(call, contents, "", call.args)
    last = name.rpartition("/")[2]
    if last and known(last):
        meant = known_as(last)
        return _judged_as(call, meant) if meant else unknown_program(call)
    candidates = list(RULES) if not without_holes(last) else _candidates(last, call.world)
    if not candidates:
        return UNKNOWN
    folder = name.rpartition("/")[0]
    if folder and known(folder) and not wild(name) and not folder.endswith("bin"):
        return UNKNOWN  # some program of the project
    guessed = without_holes(name)
    argv = [guessed, *call.args] if guessed else call.args
    if argv:
        # A variable is often empty: then the name is what is left of it, or the next word.
        call.world.leniently(lambda: call.walker.run(argv, call.shell.copy(), call.io))
    if not wild(name) and len(candidates) <= _CANDIDATES_MAX:
        return merged(text for program in candidates for text in call.run([program, *call.args], call.shell.copy()))
    call.world.unresolved(
        f"which program `{shown(name)}` is cannot be known from the command",
        "write the program's name out, and set variables in the same command that uses them",
    )
    return UNKNOWN


def _candidates(name: str, world: World) -> list[str]:
    """The programs that a name with holes may be."""
    from dogwatch.guard.rules.table import RULES

    if name not in world.candidates:
        world.candidates[name] = [program for program in RULES if could_be(name, program)]
        world.spend(200)
    return world.candidates[name]


def unknown_program(call: Call) -> Texts:
    """A program that no rule knows may still run another one that its arguments name."""
    if call.name in _DATA:
        return UNKNOWN
    for at, word in enumerate(call.args):
        base = word.rpartition("/")[2]
        following = call.args[at + 1] if at + 1 < len(call.args) else ""
        if base in _SPECIFIC and (base != "kill" or word != base or following[:1] == "-" != following[1:2]):
            call.world.leniently(call.walker.run, call.args[at:], call.shell.copy(), call.io)
        elif word in _CODE_OPTIONS and " " in following:
            call.world.leniently(call.code, following)
        elif word.startswith("--") and "=" in word:
            option, _, text = word.partition("=")
            if option in _CODE_OPTIONS and " " in text:
                call.world.leniently(call.code, text)
    return UNKNOWN


def _alias(call: Call, name: str) -> Texts:
    """An alias is its text, with the arguments behind the last command of it."""
    texts = call.shell.aliases[name]
    state = call.shell.copy()
    del state.aliases[name]
    outputs: list[str] = []
    for text in texts:
        arguments = tuple(Word((Literal(word, True),)) for word in call.args)
        script = Parser(text).whole()
        if script.commands and arguments:
            last = _with_arguments(script.commands[-1], arguments)
            script = Script((*script.commands[:-1], last), script.background)
        outputs += call.walker.script(script, state, call.io)
    return merged(outputs) if outputs else NOTHING


def _with_arguments(command: Command, arguments: tuple[Word, ...]) -> Command:
    if isinstance(command, Simple):
        return Simple(command.assignments, (*command.words, *arguments), command.redirects)
    if isinstance(command, AndOr):
        return AndOr((*command.commands[:-1], _with_arguments(command.commands[-1], arguments)), command.ops)
    if isinstance(command, Pipeline):
        return Pipeline((*command.commands[:-1], _with_arguments(command.commands[-1], arguments)), command.merged)
    return command


class Rulebook:
    """All that the walk and the languages ask of the rules: it fulfils `bash.call.Rules`."""

    __slots__ = ()

    def run(self, call: Call) -> Texts:
        return run(call)

    def run_program(self, call: Call) -> Texts:
        return run_program(call)

    def unknown_program(self, call: Call) -> Texts:
        return unknown_program(call)

    def knows(self, name: str) -> bool:
        return bool(known_as(name))

    def may_write(self, world: World, path: str, given: str) -> None:
        paths.may_write(world, path, given)

    def may_remove(self, world: World, path: str, given: str, recursive: bool) -> None:
        paths.may_remove(world, path, given, recursive)

    def inside(self, world: World, path: str, given: str) -> None:
        paths.inside(world, path, given)

    def judge_target(self, call: Call, target: str) -> None:
        from dogwatch.guard.rules.processes import judge_target

        judge_target(call, target)

    def run_module(self, call: Call, language: str, places: tuple[str, ...]) -> None:
        from dogwatch.guard.rules.scripts import run_module

        run_module(call, language, places)

    def written(self, call: Call, path: str, contents: Texts) -> None:
        from dogwatch.guard.rules.scripts import written

        written(call, path, contents)
