"""Whether an action has helped, and what else could have been done instead."""

from __future__ import annotations

from dogwatch.model.moment import Moment
from dogwatch.model.records import DecisionRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy.diagnoses import traits_of
from dogwatch.values import dataclass

LADDER = ("HOLD", "NUDGE", "PROBE", "INTERRUPT", "RESTART", "REPLACE", "ESCALATE")
"""From the gentlest to the last resort; RESCUE comes before all of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action, and what shows it."""

    outcome: str
    seen: str


def alternatives(action: str, diagnosis: str) -> tuple[str, ...]:
    """What else could have been done, and why it was not."""
    found = [f"RESCUE: not possible, outputs are missing ({diagnosis})"] if action != "RESCUE" else []
    for other in LADDER:
        if other == action:
            found.append("anything harsher: not before this has been seen to fail")
            break
        found.append(f"{other}: {traits_of(diagnosis).why_not.get(other, _WHY_NOT[other])}")
    return tuple(found)


_WHY_NOT = {
    "HOLD": "the provider is not what it waits for",
    "NUDGE": "it is not at its prompt, or was nudged without effect",
    "PROBE": "it shows signs of life, or is certainly dead",
    "INTERRUPT": "there is no tool or loop to interrupt",
    "RESTART": "its process is of use still",
    "REPLACE": "it has not failed again after a restart",
    "ESCALATE": "no person is needed for this",
}


def outcome(decision: DecisionRecord, view: RunView, sight: Sight | None, now: Moment) -> Outcome | None:
    """What came of a decision, or None where that cannot be said yet."""
    agent = view.agents.get(view.current(decision.agent))
    if agent is None or agent.is_given_up:
        return Outcome("not_recovered", "the agent was given up")
    if decision.action == "RESCUE":
        return _of_rescue(decision, view)
    is_same = (agent.agent, agent.incarnation) == (decision.agent, decision.incarnation)
    done = _effect(decision, f"incarnation {agent.incarnation} of {agent.agent}", sight, is_same=is_same)
    if done:
        return Outcome("recovered", done)
    if not is_same and decision.action not in ("RESTART", "REPLACE"):
        return Outcome("not_recovered", f"incarnation {agent.incarnation} had to be started")
    if now.is_before(decision.verify_by):
        return None
    if sight is None or sight.process == "unknown" or not sight.hooks:
        return Outcome("unverified", "nothing could be seen of it")
    return Outcome("not_recovered", "no effect was seen in time")


def _effect(decision: DecisionRecord, who: str, sight: Sight | None, *, is_same: bool) -> str:
    """What shows that it has helped; empty where nothing does."""
    if sight is None or sight.process != "alive":
        return ""
    if decision.action in ("RESTART", "REPLACE"):
        if is_same:
            return ""
        if not sight.hooks:
            return f"process: {who} lives"
        return f"hooks: {who} has started" if sight.turn.state != "none" else ""
    if decision.action == "INTERRUPT" and traits_of(decision.diagnosis).interrupts_turn:
        # A loop that goes on is heard of as well.
        return "hooks: the turn has ended" if is_same and not sight.turn.stops else ""
    # A dialog that still stands there is told of again.
    if sight.turn.newest > decision.at.mono and is_same and not sight.turn.dialog:
        return "hooks: it went on afterwards"
    return ""


def _of_rescue(decision: DecisionRecord, view: RunView) -> Outcome | None:
    task = view.tasks.get(decision.subject)
    if task is None or task.state in ("pending", "returned", "failed", "claimed"):
        return Outcome("not_recovered", f"the outputs were not accepted: {task.note if task else ''}")
    return Outcome("recovered", "files: the outputs were accepted") if task.state == "accepted" else None
