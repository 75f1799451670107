"""Runs, their phases and their milestones."""

from __future__ import annotations

from dogwatch.model.events.base import Event
from dogwatch.model.lifecycle import RunEnd


class RunCreated(Event):
    """A run was created from a pipeline file."""

    spec: str
    agents: tuple[str, ...]
    phases: tuple[str, ...]
    output: str
    rehearsal: bool


class RunStarted(Event):
    """The agents of the first phase are running, and the phase begins."""


class PhaseOpened(Event):
    """A phase began: its tasks and checkpoints are on the ledger."""

    phase: str
    number: int
    of: int


class PhaseEnded(Event):
    """A phase ended: its tasks are accepted, its checkpoints approved, its gates passed."""

    phase: str


class PhaseReopened(Event):
    """A review asked for changes to the work of an earlier phase: the run goes back to it and repeats its gates."""

    phase: str
    because: str


class MilestoneReached(Event):
    """All dispatches of a named milestone are accepted."""

    milestone: str


class RunEnded(Event):
    """The run is over; `state` and `cause` say how, `sha256` is the checksum of the deliverable."""

    state: RunEnd
    cause: str
    sha256: str


class RunCleared(Event):
    """Nothing of the run is left on the machine; `processes` were ended for that."""

    processes: int


class RunNotCleared(Event):
    """What is left of the run could not be ended; `reason` says why. `dogwatch down` tries again."""

    reason: str


class RunQuiet(Event):
    """The run has made no progress for `quiet_s`: a person is called, and in `ends_in_s` the run is ended."""

    quiet_s: float
    ends_in_s: float
