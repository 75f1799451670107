"""Who may start: permits, those who wait for one, the queue of runs, and what each role's memory was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from dogwatch.model import keys
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.values import dataclass

Verdict = Literal["admit", "hold", "refuse"]
Starting = Literal["run", "agent", "gate", "check-in", "process"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How much memory something will take at its peak: the mean and the spread of what was learnt. `agents` is how many
    processes that are; of a single agent's launch, itself and its sub-agents."""

    mean_bytes: float = 0.0
    spread_bytes: float = 0.0
    agents: int = 1
    learnt: bool = False
    """Whether it rests on enough peaks of earlier incarnations; else on what is assumed of the harness."""
    unseen: bool = False
    """Whether nobody has seen yet how many sub-agents such an agent starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What wants to be started. `holder` is who the permit is for: `run:R`, `agent:R/A`, `gate:R/P/G`, `check-in:R/I`,
    or `process:PID@TICKS` for a program of its own, which is then the `process`.

    `again` is an agent that had run before, `needed` one that has work now. `group` and `ceiling` belong to a run that
    was started together with others of which only so many may run at once; `places` is how many a run takes under each
    cap, at most at once.
    """

    kind: Starting
    holder: str
    run: str = ""
    agent: str = ""
    role: str = ""
    harness: str = ""
    credential: str = ""
    heavy: bool = True
    again: bool = False
    needed: bool = True
    demand: Demand = Demand()
    group: str = ""
    ceiling: int = 0
    places: Mapping[str, int] = field(default_factory=dict)
    process: ProcessId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the gate says. `limit` names what is in the way: a cap, the zone, the forecast."""

    verdict: Verdict
    reason: str = ""
    limit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRecord:
    """A place that is taken on a host, by which process as soon as there is one. It is given back on evidence alone:
    that process is dead, and its holder is not just being started."""

    host: str
    launch: Launch
    granted: Moment
    process: ProcessId | None = None

    @property
    def key(self) -> str:
        return keys.permit(self.host, self.launch.holder)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRecord:
    """Something that waits for a permit of a host, since when, and for what."""

    host: str
    launch: Launch
    since: Moment
    answer: Answer

    @property
    def key(self) -> str:
        return keys.wait(self.host, self.launch.holder)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run that was made and not yet admitted; the queue is in the order of `number`."""

    run: str
    number: int
    group: str = ""
    ceiling: int = 0

    @property
    def key(self) -> str:
        return keys.queued(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProfile:
    """What the agents of a role have taken: the newest peaks of its incarnations, in bytes, by phase; `all` has the
    peaks of whole lives. `processes` has how many there were of each at most, itself and its sub-agents, and `seen` the
    most of anybody, also of those who live. `count` is how many of the role there are in a run. An empty pipeline and
    role stand for all roles of the harness."""

    harness: str
    pipeline: str = ""
    role: str = ""
    peaks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    processes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)
    count: int = 1

    @property
    def key(self) -> str:
        return keys.profile(self.harness, self.pipeline, self.role)
