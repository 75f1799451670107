"""The ladder: from a diagnosis to the one step that is taken about it now, or none.

The table of diagnoses lists what may be done about each. Whatever it does not list leaves the agent alone: the harshest
act is never what remains when nothing else fits.
"""

from __future__ import annotations

from typing import assert_never

from dogwatch.model.plan import Limits
from dogwatch.model.records import TaskRecord
from dogwatch.model.view import Duty
from dogwatch.policy.diagnosis import Diagnosis, Late
from dogwatch.values import dataclass

ONCE_S = 7 * 86400.0
"""A person is called once for each stall."""
LOOK_AGAIN_S = 5.0
"""A stall that was nothing to act on may be reported again so soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the ledger says of the agent at the moment of acting. `alerted` is the diagnosis that the alert was about,
    `late` are the late sub-agents that the diagnosis is about."""

    alerted: str
    nudges_max: int
    nudges: int = 0
    duty: Duty | None = None
    task: TaskRecord | None = None
    late: tuple[Late, ...] = ()
    is_nudge_queued: bool = False
    is_account_held: bool = False
    is_probed: bool = False


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """There is nothing to do: the alert is withdrawn."""


@dataclass(frozen=True, slots=True)
class Rescue:
    """The outputs of this task are taken as its report."""

    task: TaskRecord


@dataclass(frozen=True, slots=True)
class Nudge:
    """The agent is asked to go on with this."""

    duty: Duty


@dataclass(frozen=True, slots=True)
class NudgeParent:
    """The agent is asked to do something about its late sub-agents."""

    late: tuple[Late, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """The agent is asked for a sign of life."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The agent's turn is interrupted."""


@dataclass(frozen=True, slots=True)
class HoldAccount:
    """Nobody on the agent's account is started for a while."""


@dataclass(frozen=True, slots=True)
class CallPerson:
    """A person is called; the agent is not touched. `late` are the sub-agents that the call is about."""

    late: tuple[Late, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The agent gets a new incarnation. `counts` where the agent itself has failed; one that `forgets` begins a new
    conversation."""

    counts: bool
    forgets: bool


Step = LeaveAlone | Rescue | Nudge | NudgeParent | Probe | Interrupt | HoldAccount | CallPerson | Restart


def decide(found: Diagnosis, facts: Facts) -> Step:
    """The step that is taken about the diagnosis now."""
    action = found.action
    if action not in found.traits.actions:
        return LeaveAlone()
    match action:
        case "":
            return LeaveAlone()
        case "RESCUE":
            return Rescue(facts.task) if facts.task is not None else LeaveAlone()
        case "NUDGE":
            return _nudge(found, facts)
        case "PROBE":
            return LeaveAlone() if facts.is_probed else Probe()
        case "INTERRUPT":
            # It ends a turn: only what was reported, and not what has come in its place.
            return Interrupt() if found.kind == facts.alerted else LeaveAlone()
        case "HOLD":
            return HoldAccount()
        case "ESCALATE":
            return CallPerson(facts.late)
        case "RESTART":
            return _restart(found)
        case _:
            assert_never(action)


def _nudge(found: Diagnosis, facts: Facts) -> Step:
    if facts.late:
        return NudgeParent(facts.late)
    if found.traits.waits_for_account and facts.is_account_held:
        return LeaveAlone()
    if facts.duty is None or facts.is_nudge_queued:
        return LeaveAlone()
    if facts.nudges < facts.nudges_max:
        return Nudge(facts.duty)
    return _restart(found) if "RESTART" in found.traits.actions else LeaveAlone()


def _restart(found: Diagnosis) -> Restart:
    return Restart(counts=found.own_fault, forgets=found.traits.forgets)


def again_s(step: Step, limits: Limits) -> float:
    """After how long the same stall may be reported again: what was done may not have helped."""
    match step:
        case LeaveAlone():
            return LOOK_AGAIN_S
        case CallPerson():
            return ONCE_S
        case HoldAccount():
            return limits.hold_s
        case Rescue() | Nudge() | NudgeParent() | Probe() | Interrupt() | Restart():
            return limits.nudge_s
        case _:
            assert_never(step)
