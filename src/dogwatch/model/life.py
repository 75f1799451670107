"""An agent's life, from its record to its end. Each stage carries exactly what is known in it, so that nothing of an
earlier incarnation can be mistaken for the current one's."""

from __future__ import annotations

from typing import Literal

from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """It has no process yet. Its start may be put off until `not_before`; `gate_reason` is why the gate does not admit
    it, where it has asked."""

    kind: Literal["not_started"] = "not_started"
    not_before: Moment | None = None
    gate_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """It was reclaimed for this reason and is not started before there is work for it."""

    kind: Literal["resting"] = "resting"
    reason: str
    gate_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """Its start is intended and may have been made, but is not confirmed."""

    kind: Literal["starting"] = "starting"
    since: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """Its open turn was interrupted for this diagnosis; the key was pressed at each of `presses`."""

    diagnosis: str
    presses: tuple[Moment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Its start was confirmed with this process in this pane. Whether the process still lives is for the eyes to say.

    `guarded` is whether its guard was seen to fire, `probed` since when it owes a sign of life, `interrupt` is there
    until the interrupted turn has ended, and `progress_percent` is how far it last said it was with its work.
    """

    kind: Literal["running"] = "running"
    since: Moment
    process: ProcessId
    pane: str = ""
    sandboxed: bool = False
    guarded: bool = False
    nudges: int = 0
    probed: Moment | None = None
    interrupt: Interrupt | None = None
    progress_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """It is not started again, for this cause; `successor` is the agent that took its place. What it was last may still
    have a process until it is dismissed."""

    kind: Literal["given_up"] = "given_up"
    cause: str
    successor: str = ""
    last: Running | None = None
    dismissed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Its run is over. What it was last may still have a process until the run is cleared."""

    kind: Literal["finished"] = "finished"
    last: Running | None = None


Life = NotStarted | Resting | Starting | Running | GivenUp | Finished
