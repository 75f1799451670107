"""Memory, its zones, and what may start: runs and launches let in or held back, idle agents stopped to make room."""

from __future__ import annotations

from dogwatch.model.events.base import Event
from dogwatch.model.memory import Zone


class RunAdmitted(Event):
    """The run was let in from the queue after `waited_s`; `peak_bytes` is the memory it is expected to need, `learnt`
    from earlier runs or guessed."""

    waited_s: float
    peak_bytes: int
    learnt: bool


class LaunchHeld(Event):
    """Something may not start yet; `limit` is what stands in the way, `reason` says it in words."""

    holder: str
    limit: str
    reason: str


class ZoneChanged(Event):
    """The memory's zone changed; `sensor` and `why` say what caused it."""

    zone: Zone
    before: Zone
    sensor: str
    why: str
    left_bytes: int | None
    size_bytes: int | None
    processes: int
    largest: str
    leaker: str


class MemoryLow(Event):
    """Memory is YELLOW: nothing new is started."""

    sensor: str
    why: str
    leaker: str


class MemoryCritical(Event):
    """Memory is RED: nothing is started, and idle workers are stopped, one at a time."""

    sensor: str
    why: str
    leaker: str


class AgentReclaimed(Event):
    """An idle agent was stopped to make room; its next `incarnation` starts when there is work for it."""

    reason: str
    evidence: tuple[str, ...]
    incarnation: int
    backoff_s: float


class ReclaimRefused(Event):
    """The captain did not stop the idle agent after all; `why` says what it saw."""

    order: str
    why: str
