"""Walks through a command as the shell would run it, and has every program that it starts judged by the rules.

Nothing is run. Where the way depends on what cannot be known, every way is walked, and what a variable may be then is
the union. A command's value is what it writes to its standard output, so that pipes and substitutions carry on.
"""

from dogwatch.guard.bash import assigning, loops
from dogwatch.guard.bash.arithmetic import assigns, calculate, names
from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import (
    DISK,
    GENERATED,
    NUMBER,
    OWN,
    TAME,
    WILD,
    WORDS,
    known,
    wild,
    without_empty,
    without_holes,
)
from dogwatch.guard.bash.lookahead import SIMPLER
from dogwatch.guard.bash.parameters import lookup
from dogwatch.guard.bash.parser import Parser
from dogwatch.guard.bash.patterns import matches, usable
from dogwatch.guard.bash.redirects import as_data, content_of, keep, redirected
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Array, Io, Shell, Texts, World, followed, merged, plain, text_of
from dogwatch.guard.bash.tree import (
    AndOr,
    Assignment,
    Calculation,
    Case,
    Command,
    Coprocess,
    For,
    Function,
    Group,
    If,
    Literal,
    Parameter,
    Pipeline,
    Process,
    Script,
    Simple,
    Test,
    While,
    Word,
)
from dogwatch.guard.bash.words import Expander
from dogwatch.guard.verdict import Denied, ParseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dogwatch.guard.bash.call import Rules

_CALLS_MAX = 6
_LINES_MAX = 400
_COMPARES_NUMBERS = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v")


class Walker:
    """The way through one command."""

    def __init__(self, world: World, rules: "Rules") -> None:
        self.world = world
        self.rules = rules
        self.expander = Expander(self)
        self.sinks: dict[str, tuple[Script, Shell]] = {}
        self._ways: dict[type[Command], Callable[..., Texts]] = {
            Simple: self._simple,
            Pipeline: self._pipeline,
            AndOr: self._and_or,
            Script: self.script,
            Group: self._group,
            If: self._if,
            While: self._while,
            For: self._for,
            Case: self._case,
            Function: self._function,
            Test: self._test,
            Calculation: self._calculation,
            Coprocess: self._coprocess,
        }

    # Code that is text

    def code(self, text: str, shell: Shell, io: Io | None = None) -> Texts:
        """Walks through a text that is run as a shell script."""
        self.world.spend(len(text) // 16)
        if text.strip() in (DISK, GENERATED):
            return UNKNOWN  # a script that was there before is run like any other program
        if wild(text):
            if not without_holes(text).strip():
                self.world.unresolved(
                    "text that cannot be known from the command is run as code",
                    "write what is to be run into the command itself, or into a file that you then run",
                )
            # Within other code an unknown text is taken for a plain argument; as a command it is refused later.
            text = text.replace(WILD, TAME).replace(WORDS, TAME).replace(DISK, TAME)
        try:
            script = Parser(text).whole()
        except ParseError:
            if not self.world.in_file:
                raise
            return self._by_lines(text, shell, io)
        self.world.enter()
        output = self.script(script, shell, io or Io())
        self.world.leave()
        return output

    def _by_lines(self, text: str, shell: Shell, io: Io | None) -> Texts:
        """A script in a file that is none of bash's, or not to its end: each line that can be read is judged."""
        lines = text.splitlines()
        for line in lines[:_LINES_MAX] if len(lines) > 1 else ():
            self.world.leniently(self.code, line, shell, io)
        return UNKNOWN

    def hidden(self, text: str, shell: Shell) -> None:
        """Judges the substitutions in a text that bash expands by itself: a prompt, an index in a calculation."""
        if "$(" in text or "`" in text:
            self.world.enter()
            parts = Parser(text).quoted_parts()
            self.expander.text(Word(tuple(parts)), shell.copy())
            self.world.leave()

    def calculated(self, texts: Texts, shell: Shell) -> str:
        """The value of an arithmetic expression as text; NUMBER where it cannot be known."""
        for text in texts:
            self.hidden(text, shell)
            for name in names(text):
                for value in text_of(lookup(name, shell, self.expander)):
                    self.hidden(value, shell)
                if assigns(text):
                    assigning.put(self, name, (NUMBER,), shell)
        only = plain(texts) or ""

        def value_of(name: str) -> int | None:
            found = plain(text_of(lookup(name, shell, self.expander)))
            return int(found) if found and found.lstrip("-").isdigit() and len(found) < 16 else None

        made = calculate(only, value_of) if only else None
        return NUMBER if made is None else str(made)

    def output(self, body: Script, shell: Shell) -> Texts:
        """What `$(…)` gives."""
        only = body.commands[0] if len(body.commands) == 1 else None
        if isinstance(only, Simple) and not only.words and not only.assignments and len(only.redirects) == 1:
            redirect = only.redirects[0]
            if redirect.op == "<":
                paths = self.expander.text(redirect.target, shell)
                return as_data(merged(text for path in paths for text in content_of(self, path, shell, Io())))
        return as_data(self.script(body, shell.copy(), Io()))

    def process(self, part: Process, shell: Shell) -> str:
        """The path that `<(…)` or `>(…)` gives."""
        path = self.world.files.pipe()
        if part.reads:
            self.world.files.write(path, as_data(self.script(part.body, shell.copy(), Io())), False)
        else:
            self.sinks[path] = (part.body, shell.copy())
            self.script(part.body, shell.copy(), Io(UNKNOWN))
        return path

    def may_write(self, path: str, given: str) -> None:
        """Denies a write to a path that must stay as it is."""
        self.rules.may_write(self.world, path, given)

    def write(self, path: str, contents: Texts, appends: bool, shell: Shell) -> None:
        """A file gets a content; what was started from there before is judged now."""
        self.world.spend(4 + len(self.world.files.ran) // 4)
        contents = as_data(contents)
        if path in self.sinks:
            body, state = self.sinks[path]
            self.script(body, state.copy(), Io(contents))
            return
        self.world.files.write(path, contents, appends)
        self.rules.written(Call(self, self.rules, shell, Io(), [path]), path, contents)

    def assign(self, item: Assignment, shell: Shell) -> None:
        assigning.assign(self, item, shell)

    # Commands

    def command(self, node: Command, shell: Shell, io: Io) -> Texts:
        self.world.spend()
        self.world.enter()
        way = self._ways[type(node)]
        if node.redirects and not isinstance(node, Simple):
            output = redirected(self, node.redirects, shell, io, lambda inner: way(node, shell, inner))
        else:
            output = way(node, shell, io)
        self.world.leave()
        return output

    def script(self, node: Script, shell: Shell, io: Io) -> Texts:
        output = NOTHING
        for command, background in zip(node.commands, node.background, strict=True):
            way = self._in_background if background else self.command
            output = followed(output, way(command, shell.copy() if background else shell, io))
        return output

    def _in_background(self, command: Command, shell: Shell, io: Io) -> Texts:
        self.world.background += 1
        output = self.command(command, shell, Io(None, io.merged))
        self.world.background -= 1
        return output

    def _simple(self, node: Simple, shell: Shell, io: Io) -> Texts:
        alternatives = self.expander.arguments(node.words, shell)
        if not node.words:
            for item in node.assignments:
                self.assign(item, shell)
            return redirected(self, node.redirects, shell, io, lambda inner: NOTHING) if node.redirects else NOTHING
        if alternatives == [["exec"]]:
            keep(self, node.redirects, shell, io)
            return NOTHING

        def run(inner: Io) -> Texts:
            before = {item.name: shell.variables.get(item.name) for item in node.assignments}
            for item in node.assignments:
                self.assign(item, shell)
            output = self._alternatives(alternatives, shell, inner)
            for name, value in before.items():
                if value is None:
                    shell.variables.pop(name, None)
                else:
                    shell.variables[name] = value
            shell.last = merged(fields[-1] if fields else "" for fields in alternatives)
            return output

        return redirected(self, node.redirects, shell, io, run) if node.redirects else run(io)

    def _alternatives(self, alternatives: list[list[str]], shell: Shell, io: Io) -> Texts:
        if len(alternatives) == 1:
            return self.run(alternatives[0], shell, io)
        before = shell.copy()
        outputs: list[str] = []
        for number, argv in enumerate(alternatives):
            state = before.copy()
            outputs += self.run(argv, state, io)
            if number:
                shell.join(state)
            else:
                shell.become(state)
        return merged(outputs)

    def run(self, argv: list[str], shell: Shell, io: Io) -> Texts:
        """Judges one command whose words are known; this is where all rules begin."""
        self.world.spend(4 + len(argv) // 8)
        self.world.enter()
        guessed = [without_empty(word) for word in argv]
        if guessed != argv:
            self.world.leniently(self.run, guessed, shell.copy(), io)
        output = self.rules.run(Call(self, self.rules, shell, io, argv)) if argv else NOTHING
        self.world.leave()
        return output

    def _pipeline(self, node: Pipeline, shell: Shell, io: Io) -> Texts:
        stdin = io.stdin
        output = NOTHING
        for number, command in enumerate(node.commands):
            state = shell.copy()
            errors = io.merged if number == len(node.merged) else node.merged[number]
            output = self.command(command, state, Io(stdin, errors))
            stdin = output
            if number == len(node.merged):
                shell.join(state)  # some shells run the last command of a pipe themselves
        return output

    def _and_or(self, node: AndOr, shell: Shell, io: Io) -> Texts:
        output = self.command(node.commands[0], shell, io)
        succeeded = shell.copy()
        failed = shell.copy()
        sure = _surely_succeeds(node.commands[0])
        for op, command in zip(node.ops, node.commands[1:], strict=True):
            state = succeeded.copy() if op == "&&" or sure else failed.copy()
            output = followed(output, self.command(command, state, io))
            if op == "&&":
                succeeded = state
                if sure:
                    failed = state.copy()
                else:
                    failed.join(state)
                sure = sure and _surely_succeeds(command)
            elif not sure:
                failed = state
                succeeded.join(state)
        succeeded.join(failed)
        shell.become(succeeded)
        return output

    def _group(self, node: Group, shell: Shell, io: Io) -> Texts:
        return self.script(node.body, shell.copy() if node.subshell else shell, io)

    def _if(self, node: If, shell: Shell, io: Io) -> Texts:
        ends: list[Shell] = []
        outputs: list[str] = []
        told = NOTHING
        for condition, body in node.branches:
            told = followed(told, self.script(condition, shell, io))
            state = shell.copy()
            outputs += followed(told, self.script(body, state, io))
            ends.append(state)
        if node.otherwise is not None:
            told = followed(told, self.script(node.otherwise, shell, io))
        for state in ends:
            shell.join(state)
        return merged((*outputs, *told))

    def _while(self, node: While, shell: Shell, io: Io) -> Texts:
        return loops.walk_while(self, node, shell, io)

    def _for(self, node: For, shell: Shell, io: Io) -> Texts:
        return loops.walk_for(self, node, shell, io)

    def _case(self, node: Case, shell: Shell, io: Io) -> Texts:
        subject = plain(self.expander.text(node.word, shell))
        states: list[Shell] = []
        outputs: list[str] = []
        falls = False
        for patterns, body, end in node.clauses:
            texts = [text for word in patterns for text in self.expander.pattern(word, shell)]
            decided = subject is not None and all(usable(text, subject) for text in texts)
            # Upper and lower case may be taken for the same: `shopt -s nocasematch`.
            if decided and not falls and not any(matches(text.lower(), (subject or "").lower()) for text in texts):
                continue
            state = shell.copy()
            outputs += self.script(body, state, io)
            states.append(state)
            falls = end == ";&"
            if decided and end == ";;" and any(matches(text, subject or "") for text in texts):
                break
        for state in states:
            shell.join(state)
        return merged((*outputs, "")) if outputs else NOTHING

    def _function(self, node: Function, shell: Shell, io: Io) -> Texts:
        shell.functions[node.name] = (node.body,)
        if node.name.startswith("command_not_found_handle"):
            self.command(node.body, shell.copy(), io)  # bash itself calls it
        return NOTHING

    def call(self, name: str, arguments: list[str], shell: Shell, io: Io) -> Texts:
        """Calls a function of the command's own."""
        active = self.world.calls.count(name)
        if active and self.world.background:
            raise Denied("fork-bomb", f"the function `{name}` starts itself again in the background", SIMPLER)
        if active == _CALLS_MAX and arguments and all(word.lstrip("-").isdigit() for word in arguments):
            arguments = [NUMBER] * len(arguments)  # it counts: once more for whatever number
        elif active >= (_CALLS_MAX if all(map(known, arguments)) else 2):
            if arguments and all(map(known, arguments)):
                self.world.unresolved(f"the function `{name}` calls itself too often to be followed", SIMPLER)
            return UNKNOWN
        positional, locals_before = shell.positional, shell.locals
        shell.positional, shell.locals = (tuple(arguments),), {}
        self.world.calls.append(name)
        self.world.exits.append([])
        outputs: list[str] = []
        for body in shell.functions[name]:
            outputs += self.command(body, shell, io)
        for state in self.world.exits.pop():
            shell.join(state)
        self.world.calls.pop()
        for variable, value in (shell.locals or {}).items():
            if value is None:
                shell.variables.pop(variable, None)
            else:
                shell.variables[variable] = value
        shell.positional, shell.locals = positional, locals_before
        return merged(outputs)

    def _test(self, node: Test, shell: Shell, io: Io) -> Texts:
        numbers = any(word.bare() in _COMPARES_NUMBERS for word in node.words)
        for word in node.words:
            texts = self.expander.pattern(word, shell)
            if numbers:
                self.calculated(texts, shell)
        return NOTHING

    def _calculation(self, node: Calculation, shell: Shell, io: Io) -> Texts:
        self.calculated(self.expander.text(node.word, shell), shell)
        return NOTHING

    def _coprocess(self, node: Coprocess, shell: Shell, io: Io) -> Texts:
        self.command(node.body, shell.copy(), Io(UNKNOWN))
        shell.variables[node.name] = Array({"0": (NUMBER,), "1": (NUMBER,)})
        shell.variables[f"{node.name}_PID"] = (OWN,)
        return NOTHING


def _surely_succeeds(command: Command) -> bool:
    """A plain assignment always does; what follows it is then no matter of chance."""
    if not isinstance(command, Simple) or command.words or command.redirects:
        return False
    parts = [part for item in command.assignments if item.value is not None for part in item.value.parts]
    return all(isinstance(part, Literal | Parameter) for part in parts)
