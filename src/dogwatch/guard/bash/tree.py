"""The tree of a shell command, as the parser makes it and the walker reads it."""


class Part:
    """A part of a word."""

    __slots__ = ()


class Word:
    """One word of the source, before it is expanded."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts

    def bare(self) -> str:
        """The text of a word without quotes and expansions; empty for any other."""
        texts = [part.text for part in self.parts if isinstance(part, Literal) and not part.quoted]
        return "".join(texts) if len(texts) == len(self.parts) else ""


class Literal(Part):
    __slots__ = ("quoted", "text")

    def __init__(self, text: str, quoted: bool) -> None:
        self.text = text
        self.quoted = quoted


class Double(Part):
    """Text in double quotes."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts


class Parameter(Part):
    """`$name` (`bare`) and `${name…}`: `mark` is "" or "#" (length) or "!" (indirect)."""

    __slots__ = ("bare", "index", "mark", "name", "op", "words")

    def __init__(
        self,
        name: str,
        mark: str = "",
        index: Word | None = None,
        op: str = "",
        words: tuple[Word, ...] = (),
        bare: bool = False,
    ) -> None:
        self.bare = bare
        self.name = name
        self.mark = mark
        self.index = index
        self.op = op
        self.words = words


class Substitution(Part):
    """`$(…)` and backquotes."""

    __slots__ = ("body",)

    def __init__(self, body: "Script") -> None:
        self.body = body


class Arithmetic(Part):
    """`$((…))`."""

    __slots__ = ("word",)

    def __init__(self, word: Word) -> None:
        self.word = word


class Process(Part):
    """`<(…)` and `>(…)`."""

    __slots__ = ("body", "reads")

    def __init__(self, body: "Script", reads: bool) -> None:
        self.body = body
        self.reads = reads


class Assignment:
    """`name=word`, `name[index]+=word`, `name=(words)`."""

    __slots__ = ("appends", "index", "items", "name", "value")

    def __init__(
        self,
        name: str,
        index: Word | None,
        appends: bool,
        value: Word | None,
        items: "tuple[Word | Assignment, ...] | None",
    ) -> None:
        self.name = name
        self.index = index
        self.appends = appends
        self.value = value
        self.items = items


class Redirect:
    """`op` is the operator; a here-document has its body as the target."""

    __slots__ = ("fd", "op", "target", "variable")

    def __init__(self, fd: int, op: str, target: Word, variable: str = "") -> None:
        self.fd = fd
        self.op = op
        self.target = target
        self.variable = variable


class Command:
    """A node that can be run; compound commands carry their redirections in `redirects`."""

    __slots__ = ("redirects",)

    def __init__(self, redirects: tuple[Redirect, ...] = ()) -> None:
        self.redirects = redirects


class Simple(Command):
    __slots__ = ("assignments", "words")

    def __init__(
        self,
        assignments: tuple[Assignment, ...],
        words: tuple[Word | Assignment, ...],
        redirects: tuple[Redirect, ...],
    ) -> None:
        super().__init__(redirects)
        self.assignments = assignments
        self.words = words


class Pipeline(Command):
    """Commands with `|` between them."""

    __slots__ = ("commands", "merged")

    def __init__(self, commands: tuple[Command, ...], merged: tuple[bool, ...]) -> None:
        super().__init__()
        self.commands = commands
        self.merged = merged


class AndOr(Command):
    """Commands with `&&` and `||` between them."""

    __slots__ = ("commands", "ops")

    def __init__(self, commands: tuple[Command, ...], ops: tuple[str, ...]) -> None:
        super().__init__()
        self.commands = commands
        self.ops = ops


class Script(Command):
    """Commands one after the other; `background` says of each whether `&` ends it."""

    __slots__ = ("background", "commands")

    def __init__(self, commands: tuple[Command, ...], background: tuple[bool, ...]) -> None:
        super().__init__()
        self.commands = commands
        self.background = background


class Group(Command):
    """`{ …; }`, or `( … )` where `subshell` is set."""

    __slots__ = ("body", "subshell")

    def __init__(self, body: Script, subshell: bool) -> None:
        super().__init__()
        self.body = body
        self.subshell = subshell


class If(Command):
    """Conditions with their bodies; `otherwise` is the `else`."""

    __slots__ = ("branches", "otherwise")

    def __init__(self, branches: tuple[tuple[Script, Script], ...], otherwise: Script | None) -> None:
        super().__init__()
        self.branches = branches
        self.otherwise = otherwise


class While(Command):
    """`while` and `until`; `for ((…))` too, with its three expressions in `head`."""

    __slots__ = ("body", "condition", "head")

    def __init__(self, condition: Script, body: Script, head: tuple[Word, ...] = ()) -> None:
        super().__init__()
        self.condition = condition
        self.body = body
        self.head = head


class For(Command):
    """`for` and `select`; no words means the positional parameters."""

    __slots__ = ("body", "name", "words")

    def __init__(self, name: str, words: tuple[Word, ...] | None, body: Script) -> None:
        super().__init__()
        self.name = name
        self.words = words
        self.body = body


class Case(Command):
    """Each clause: its patterns, its body and its end (`;;`, `;&`, `;;&`)."""

    __slots__ = ("clauses", "word")

    def __init__(self, word: Word, clauses: tuple[tuple[tuple[Word, ...], Script, str], ...]) -> None:
        super().__init__()
        self.word = word
        self.clauses = clauses


class Function(Command):
    __slots__ = ("body", "name")

    def __init__(self, name: str, body: Command) -> None:
        super().__init__()
        self.name = name
        self.body = body


class Test(Command):
    """`[[ … ]]`: its words, operators among them."""

    __slots__ = ("words",)

    def __init__(self, words: tuple[Word, ...]) -> None:
        super().__init__()
        self.words = words


class Calculation(Command):
    """`((…))`."""

    __slots__ = ("word",)

    def __init__(self, word: Word) -> None:
        super().__init__()
        self.word = word


class Coprocess(Command):
    __slots__ = ("body", "name")

    def __init__(self, name: str, body: Command) -> None:
        super().__init__()
        self.name = name
        self.body = body
