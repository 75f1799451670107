"""What the guard is asked with and what it answers."""

TYPE_CHECKING = False  # `typing` takes longer to import than most commands take to judge
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import NoReturn, Protocol

    class Lookup(Protocol):
        def get(self, path: str, /) -> str | None: ...


COMMAND_CHARS_MAX = 131_072
"""A longer command is refused: no program could be given it as one argument anyway."""
STEPS_MAX = 60_000
DEPTH_MAX = 36
"""How deep brackets may be nested in the text."""
WALK_DEPTH_MAX = 72
"""How deep commands may be nested in one another while they are followed."""
VALUE_CHARS_MAX = 65_536
OWN_JOBS = (
    "start it with `&` in the same command and use `kill $!` (or `kill %1`, `kill $(jobs -p)`);"
    " for a process that you started earlier give its pid as a plain number"
)
"""The hint of whatever would end a process that may be another's."""


class Verdict:
    """Allowed or not; if not, by which rule, why, and what to do instead. `wrote`: what it leaves in files."""

    __slots__ = ("allowed", "hint", "reason", "rule", "wrote")

    def __init__(
        self, allowed: bool, rule: str = "", reason: str = "", hint: str = "", wrote: "Mapping[str, str] | None" = None
    ) -> None:
        self.allowed = allowed
        self.rule = rule
        self.reason = reason
        self.hint = hint
        self.wrote = wrote or {}

    def said(self) -> str:
        """What the agent is told of a denial."""
        return f"dogwatch: denied by {self.rule}: {self.reason}\nhint: {self.hint}\n"

    def __repr__(self) -> str:
        return "Verdict(allowed)" if self.allowed else f"Verdict(denied by {self.rule}: {self.reason})"


class Caller:
    """Who wants to run the command, and what is known of it."""

    __slots__ = ("ancestors", "cwd", "env", "files", "home", "namespace", "own_pids", "protected", "spawned")

    def __init__(
        self,
        *,
        namespace: bool = False,
        own_pids: "Collection[int] | Callable[[], Collection[int]]" = (),
        ancestors: "Collection[int]" = (),
        spawned: "Collection[str]" = (),
        files: "Mapping[str, str] | Lookup | None" = None,
        home: str = "",
        protected: "Collection[str]" = (),
        cwd: str = "",
        env: "Mapping[str, str] | None" = None,
    ) -> None:
        """
        namespace  foreign processes are hidden from it: what cannot be resolved may pass
        own_pids   the living processes with its incarnation's mark; a callable is asked only when a kill is judged
        ancestors  the client that it runs in, and what that was started by
        spawned    the tmux sessions that the registry says it has started
        files      what was changed since the agent was started, by absolute path; asked with `get` only
        home       DOGWATCH_HOME
        protected  further paths that must stay as they are: settings, sockets
        cwd, env   where the command starts, and with which variables, as far as that is known
        """
        self.namespace = namespace
        self.own_pids = own_pids
        self.ancestors = ancestors
        self.spawned = spawned
        self.files = files or {}
        self.home = home
        self.protected = protected
        self.cwd = cwd
        self.env = env or {}

    def owns(self, pid: int) -> bool:
        pids = self.own_pids() if callable(self.own_pids) else self.own_pids
        return pid in pids


class Denied(Exception):  # noqa: N818 - it is an answer, not an error
    """The command is not allowed."""

    def __init__(self, rule: str, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason
        self.hint = hint


def deny(rule: str, reason: str, hint: str) -> "NoReturn":
    """Ends the walk with a denial."""
    raise Denied(rule, reason, hint)


class ParseError(Exception):
    """The text is no bash that the guard can read."""
