"""Gates: their commands, and phases that wait for data."""

from __future__ import annotations

from dogwatch.model.events.base import Event


class GateStarted(Event):
    """A gate's command was started."""

    gate: str
    attempt: int


class PhaseBlocked(Event):
    """A phase cannot begin because data that it needs is empty or stale; it is checked again."""

    phase: str
    gate: str
    reason: str


class GatePassed(Event):
    """A gate passed."""

    gate: str
    attempt: int
    exit_code: int | None
    reason: str


class GateFailed(Event):
    """A gate failed; the run cannot go on."""

    gate: str
    attempt: int
    exit_code: int | None
    reason: str
