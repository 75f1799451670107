"""The versions of role instructions, who has been told of which, and how many dispatches each agent was given."""

from __future__ import annotations

from dogwatch.model import keys
from dogwatch.model.moment import Moment
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True)
class Version:
    """A file of instructions as it lies there. `settled` is whether nobody has just been writing it."""

    digest: str
    name: str
    lines: int = 0
    settled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionsRecord:
    """The newest version of a role's instructions, since when it is known, and how many came before it."""

    run: str
    role: str
    path: str
    digest: str
    version: str
    since: Moment
    lines: int = 0
    changes: int = 0

    @property
    def key(self) -> str:
        return keys.instructions(self.run, self.role)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRecord:
    """The newest version that an agent's incarnation has been told of, and what came of it.

    `told`: its brief named it. `asked`: a refresh is on its way to it. `owes`: the refresh was delivered. `read`: its
    client has read the file. `expired`: it has not, in time; `lapses` counts how often that was so. `held` is since
    when what it sends to others is held. `before` is the version that it had, `asked` when it was last asked.
    """

    run: str
    agent: str
    role: str
    incarnation: int
    digest: str
    version: str
    state: str = "told"
    since: Moment
    before: str = ""
    message: str = ""
    held: Moment | None = None
    lapses: int = 0
    asked: Moment | None = None

    @property
    def key(self) -> str:
        return keys.reading(self.run, self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchCount:
    """How many dispatches an agent was given, and how many of them are over: accepted, returned or failed."""

    run: str
    agent: str
    dispatched: int = 0
    finished: int = 0

    @property
    def key(self) -> str:
        return keys.dispatches(self.run, self.agent)
