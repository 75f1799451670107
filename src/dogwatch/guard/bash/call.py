"""One command of the walk, and what the walk asks of the rules about it.

Bash itself has no rules. The walk is given them (`Rules`) and passes them on with each `Call`, so that languages can
ask whether a program may do something without importing the rules.
"""

from dogwatch.guard.bash.files import normal
from dogwatch.guard.bash.holes import shown
from dogwatch.guard.bash.redirects import waiting
from dogwatch.guard.bash.state import Io, Shell, Texts, World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from dogwatch.guard.bash.interfaces import Walker

    Rule = Callable[["Call"], Texts]
    """Judges a command; what it gives back is the command's output, as far as that can be known."""

    class Rules(Protocol):
        """What is asked while a command is walked through. Whatever is not allowed raises `Denied`."""

        def run(self, call: "Call") -> Texts:
            """Judges a command; its output, as far as that can be known."""

        def run_program(self, call: "Call") -> Texts:
            """The same, past functions and aliases."""

        def unknown_program(self, call: "Call") -> Texts:
            """Judges a program that no rule knows: it may still run another one that its arguments name."""

        def knows(self, name: str) -> bool:
            """Whether there is a rule for the program."""

        def may_write(self, world: World, path: str, given: str) -> None:
            """Denies a write to a path that must stay as it is."""

        def may_remove(self, world: World, path: str, given: str, recursive: bool) -> None:
            """Denies the removal of a protected place, of what is in it, and of what it is in."""

        def inside(self, world: World, path: str, given: str) -> None:
            """Denies a change of something within a protected place."""

        def judge_target(self, call: "Call", target: str) -> None:
            """Denies unless the target of a signal is surely the agent's own."""

        def run_module(self, call: "Call", language: str, places: tuple[str, ...]) -> None:
            """Judges a module that a program loads, each once."""

        def written(self, call: "Call", path: str, contents: Texts) -> None:
            """A file was written: was it started before, or does somebody run it by himself later?"""


class Call:
    """One command with its words known: who runs it, where, with what input."""

    __slots__ = ("args", "argv", "io", "name", "rules", "shell", "walker", "world")

    def __init__(self, walker: "Walker", rules: "Rules", shell: Shell, io: Io, argv: list[str]) -> None:
        self.walker = walker
        self.rules = rules
        self.world: World = walker.world
        self.shell = shell
        self.io = io
        self.argv = argv
        self.args = argv[1:]
        self.name = argv[0].rpartition("/")[2]

    @property
    def shown(self) -> str:
        """The command for people."""
        return shown(" ".join(self.argv))

    def with_words(self, argv: list[str]) -> "Call":
        """Another command in the same place."""
        return Call(self.walker, self.rules, self.shell, self.io, argv)

    def stdin(self) -> Texts | None:
        return waiting(self.shell, self.io)

    def run(self, argv: list[str], shell: Shell | None = None, io: Io | None = None) -> Texts:
        """Judges another command that this one runs."""
        return self.walker.run(argv, shell or self.shell, io or self.io)

    def code(self, text: str, shell: Shell | None = None, io: Io | None = None) -> Texts:
        """Judges a text that this command runs as a shell script."""
        return self.walker.code(text, shell or self.shell.copy(), io or self.io)

    def path(self, text: str) -> str:
        return normal(text, self.shell.cwd)
