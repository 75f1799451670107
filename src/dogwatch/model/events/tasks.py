"""Tasks: sent, claimed, reported, accepted or returned, and the count of them."""

from __future__ import annotations

from typing import Literal

from dogwatch.model.events.base import Event


class DispatchDropped(Event):
    """Tasks of the phase were missing from the ledger; `tasks` names them, and they are created again."""

    phase: str
    tasks: tuple[str, ...]
    expected: int
    found: int


class DispatchMiscounted(Event):
    """Some dispatches are neither finished nor open; `figures` says whose, with all three numbers."""

    figures: tuple[str, ...]


class TaskSent(Event):
    """An agent gave another agent a task, with a deadline and outputs; it is a task of the run from now on."""

    task: str
    to: str
    expect_s: float
    outputs: tuple[str, ...]


class TaskRefused(Event):
    """A task of one agent for another was refused: it had no marker, or was against the rules."""

    op: str
    incarnation: str
    code: str
    message: str


class TaskDispatched(Event):
    """A task was sent to an agent, with its marker; `sender` is the agent that gave the task, if one did."""

    task: str
    attempt: int
    incarnation: int
    message: str
    expect_s: float
    expect_from: str
    outputs: tuple[str, ...]
    sender: str = ""


class TaskOffered(Event):
    """A task was offered to an agent; the first to claim it gets it."""

    task: str
    message: str


class TaskClaimed(Event):
    """An agent took an offered task."""

    task: str


class TaskReported(Event):
    """An agent reported its task as done or failed."""

    task: str
    result: Literal["done", "failed"]
    note: str


class TaskRescued(Event):
    """The outputs were written but the report was lost: the task counts as reported."""

    task: str
    diagnosis: str
    evidence: tuple[str, ...]


class TaskAccepted(Event):
    """Each output is there, changed since the dispatch and large enough. Its content was not read."""

    task: str
    attempt: int
    rescued: bool
    took_s: float


class TaskReturned(Event):
    """The task goes back to be done again; `note` says why."""

    task: str
    note: str


class TaskReleased(Event):
    """The task is open again, because its holder died or stalled; this counts as no attempt."""

    task: str
    note: str


class TaskFailed(Event):
    """The task is given up; `note` says why."""

    task: str
    note: str
