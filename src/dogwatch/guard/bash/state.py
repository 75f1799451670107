"""What is known while a command is walked through: of one shell (`Shell`), of what a command
reads (`Io`), and of everything (`World`).

A value is a tuple of the texts that it may have: one where it is known, several where branches differ, a hole where it
cannot be known. The empty tuple is a variable that is surely not set.
"""

from dogwatch.guard.bash.files import Files
from dogwatch.guard.bash.holes import HOME, NUMBER, TAME, WILD, known
from dogwatch.guard.bash.lookahead import SIMPLER
from dogwatch.guard.bash.tree import Command
from dogwatch.guard.verdict import STEPS_MAX, VALUE_CHARS_MAX, WALK_DEPTH_MAX, Caller, Denied, ParseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ALTERNATIVES_MAX = 24

Texts = tuple[str, ...]

UNKNOWN: Texts = (WILD,)
NOTHING: Texts = ("",)


def merged(texts: "Iterable[str]") -> Texts:
    """The different texts; one hole where they are too many or too long."""
    found = tuple(dict.fromkeys(texts))
    if len(found) > ALTERNATIVES_MAX:
        return (NUMBER,) if all(text.isdigit() or text == NUMBER for text in found) else UNKNOWN
    if len(found) == 1:
        return found if len(found[0]) <= VALUE_CHARS_MAX else UNKNOWN
    return UNKNOWN if sum(map(len, found)) > VALUE_CHARS_MAX else found


class Array:
    """An array: its values by index or key; `more` is what others may be that nobody has counted."""

    __slots__ = ("items", "more")

    def __init__(self, items: dict[str, Texts], more: Texts = ()) -> None:
        self.items = items
        self.more = more

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and self.items == other.items and self.more == other.more

    __hash__ = None  # type: ignore[assignment]

    def values(self) -> list[Texts]:
        keys = sorted(self.items, key=lambda key: (0, int(key)) if key.isdigit() and len(key) < 10 else (1, 0))
        return [self.items[key] for key in keys] + ([self.more] if self.more else [])

    def any(self) -> Texts:
        """What one element may be, whichever it is."""
        return merged(text for texts in self.values() for text in texts)

    def next_index(self) -> int:
        return max((int(key) for key in self.items if key.isdigit() and len(key) < 10), default=-1) + 1


Value = Texts | Array


def joined(one: Value, other: Value) -> Value:
    """What a variable may be after either of two ways."""
    if one == other:
        return one
    if isinstance(one, Array) or isinstance(other, Array):
        first = one if isinstance(one, Array) else Array({"0": one} if one else {})
        second = other if isinstance(other, Array) else Array({"0": other} if other else {})
        keys = dict.fromkeys((*first.items, *second.items))
        items = {key: merged((*first.items.get(key, ()), *second.items.get(key, ()))) for key in keys}
        return Array(items, merged((*first.more, *second.more)))
    return merged((*(one or NOTHING), *(other or NOTHING)))


class Shell:
    """The state of one shell; a subshell has a copy."""

    __slots__ = (
        "aliases",
        "cases",
        "cwd",
        "fds",
        "functions",
        "last",
        "locals",
        "name",
        "positional",
        "programs",
        "references",
        "variables",
    )

    def __init__(self, cwd: str) -> None:
        self.variables: dict[str, Value] = {}
        self.functions: dict[str, tuple[Command, ...]] = {}
        self.aliases: dict[str, Texts] = {}
        self.programs: dict[str, str] = {}
        """Names that were made to mean another program, as `hash -p` does."""
        self.references: dict[str, str] = {}
        """Names that stand for another variable: `declare -n`."""
        self.cases: dict[str, str] = {}
        """Names whose values are turned to upper or lower case: `declare -u`, `declare -l`."""
        self.positional: tuple[Texts, ...] = ((),)
        """`$1`, `$2`, …: each entry is one list of them that there may be."""
        self.fds: dict[int, Texts] = {}
        self.locals: dict[str, Value | None] | None = None
        self.name: Texts = ("bash",)
        self.last: Texts = ("",)
        self.cwd = cwd

    def copy(self) -> "Shell":
        other = Shell(self.cwd)
        for slot in ("variables", "functions", "aliases", "programs", "references", "cases", "fds"):
            setattr(other, slot, dict(getattr(self, slot)))
        other.positional, other.locals, other.name, other.last = self.positional, self.locals, self.name, self.last
        return other

    def become(self, other: "Shell") -> None:
        for slot in Shell.__slots__:
            setattr(self, slot, getattr(other, slot))

    def join(self, other: "Shell") -> None:
        """Afterwards either of the two states may be the case."""
        if self.variables != other.variables:
            for name in {*self.variables, *other.variables}:
                self.variables[name] = joined(self.variables.get(name, ()), other.variables.get(name, ()))
        for name, bodies in other.functions.items():
            self.functions[name] = tuple(dict.fromkeys((*self.functions.get(name, ()), *bodies)))
        for name, texts in other.aliases.items():
            self.aliases[name] = merged((*self.aliases.get(name, ()), *texts))
        self.programs.update(other.programs)
        self.references.update(other.references)
        self.cases.update(other.cases)
        self.fds.update(other.fds)
        if self.positional != other.positional:
            ways = tuple(dict.fromkeys((*self.positional, *other.positional)))
            self.positional = ways if len(ways) <= ALTERNATIVES_MAX else ((WILD,) * 9,)
        if self.last != other.last:
            self.last = merged((*self.last, *other.last))
        if self.cwd != other.cwd:
            self.cwd = TAME


class Io:
    """What a command reads (None: nothing is waiting there), and whether its errors flow into its output."""

    __slots__ = ("merged", "stdin")

    def __init__(self, stdin: Texts | None = None, merged: bool = False) -> None:
        self.stdin = stdin
        self.merged = merged


class World:
    """What all shells of one command share: the caller, the files, the work done so far."""

    __slots__ = (
        "active",
        "background",
        "caller",
        "calls",
        "candidates",
        "depth",
        "exits",
        "files",
        "history",
        "home",
        "in_file",
        "iterations",
        "lenient",
        "loops",
        "steps",
        "traps",
    )

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.files = Files(caller, self.spend)
        self.steps = 0
        self.depth = 0
        self.iterations = 1
        self.history: dict[str, Value] = {}
        """Everything that each variable ever was, for code that runs at a time nobody knows."""
        self.traps: list[str] = []
        self.calls: list[str] = []
        """The functions that are being walked through, the innermost last."""
        self.exits: list[list[Shell]] = []
        """States in which each of these functions may end early."""
        self.loops: list[list[Shell]] = []
        """States in which each loop under way may be left early."""
        self.background = 0
        self.lenient = 0
        self.in_file = 0
        self.active: list[str] = []
        """The contents of files that are being walked through."""
        self.candidates: dict[str, list[str]] = {}
        """Which programs a name that is known in part may be: the same names come again and again."""
        home = caller.env.get("HOME", "")
        self.home = home if home.startswith("/") else HOME

    def spend(self, steps: int = 1) -> None:
        """Counts work; whoever asks for too much is refused."""
        self.steps += steps
        if self.steps > STEPS_MAX:
            raise Denied("too-complex", "the command does too much to be followed", SIMPLER)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > WALK_DEPTH_MAX:
            raise Denied("too-complex", "the command is nested too deeply to be followed", SIMPLER)

    def leave(self) -> None:
        self.depth -= 1

    def within(self, content: str, act: "Callable[..., Texts]", *arguments: object) -> Texts:
        """Walks through the content of a file, but not for ever where it runs itself."""
        if self.active.count(content) > 1:
            if self.background:
                raise Denied("fork-bomb", "a script starts itself again in the background", SIMPLER)
            return UNKNOWN
        readable = known(content)
        self.in_file += readable
        self.active.append(content)
        output = act(*arguments)
        self.active.pop()
        self.in_file -= readable
        return output

    def unresolved(self, reason: str, hint: str, rule: str = "unresolved", ends: bool = False) -> None:
        """Something cannot be known: refused, unless a namespace hides all that could be hurt. A program in a file may
        well run what its text does not tell; it is refused only where it surely ends somebody (`ends`). Another rule
        says that somebody else is hit for sure."""
        if self.caller.namespace or (rule == "unresolved" and (self.lenient or (self.in_file and not ends))):
            return
        raise Denied(rule, reason, hint)

    def leniently(self, act: "Callable[..., object]", *arguments: object) -> None:
        """Does what may deny, for a text that is only perhaps code: no code and unknown code are no reason then."""
        before = self.depth, self.iterations, self.background, self.in_file
        stacks = len(self.calls), len(self.exits), len(self.loops), len(self.active)
        self.lenient += 1
        try:
            act(*arguments)
        except ParseError:
            self.depth, self.iterations, self.background, self.in_file = before
            del self.calls[stacks[0] :], self.exits[stacks[1] :], self.loops[stacks[2] :], self.active[stacks[3] :]
        self.lenient -= 1

    def remember(self, name: str, value: Value) -> None:
        before = self.history.get(name)
        self.history[name] = value if before is None else joined(before, value)


def text_of(value: Value) -> Texts:
    """The value as `$name` gives it: of an array its first element."""
    return value.items.get("0", value.more) if isinstance(value, Array) else value


def plain(texts: Texts) -> str | None:
    """The text, if it is one and known."""
    return texts[0] if len(texts) == 1 and known(texts[0]) else None


def followed(one: Texts, other: Texts) -> Texts:
    """What two commands write one after the other."""
    if one == NOTHING:
        return other
    if other == NOTHING or (one == other == UNKNOWN):
        return one
    return merged(first + second for first in one for second in other) if len(one) * len(other) <= 64 else UNKNOWN
