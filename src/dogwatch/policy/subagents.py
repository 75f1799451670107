"""Sub-agents: which of them an agent waits for, which are late, and how that comes to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, OverdueSubagent
from dogwatch.model.sight import Sight, Subagent, Turn
from dogwatch.model.view import Duty
from dogwatch.policy.diagnoses import Action
from dogwatch.policy.diagnosis import Case, Diagnosis, Late, file_mono
from dogwatch.policy.time_limits import subagent_s
from dogwatch.policy.turns import ANNOUNCED_S


def count(sight: Sight, now: Moment) -> int:
    """How many sub-agents take memory, or will in a moment: those that run, and those whose start was announced."""
    if sight.process == "dead":
        return 0
    coming = (one for one in sight.turn.announced.values() if now.mono - one.since <= ANNOUNCED_S)
    return len(sight.turn.subagents) + sum(1 for _ in coming)


def own_subagents(duty: Duty | None, turn: Turn, overdue: Mapping[str, OverdueSubagent]) -> list[Subagent]:
    """The sub-agents that work for what the agent owes now, the oldest first. Those of earlier work, and those that it
    has given up, are its own affair: nobody waits for them."""
    if duty is None or not turn.subagents:
        return []
    since = duty.asked.mono if duty.asked is not None else 0.0
    given_up = {name for name, one in overdue.items() if one.settled}
    own = (one for one in turn.subagents.values() if one.since >= since and one.id not in given_up)
    return sorted(own, key=lambda one: one.since)


def waiting_for(case: Case, one: Subagent) -> Diagnosis:
    """A sub-agent of its own runs, and has the time: whatever the turn looks like, it has not come to its end."""
    proof = f"hooks: sub-agent {one.type} runs for {case.age(one.since):.0f} s"
    return Diagnosis(kind="waiting", evidence=(proof,), waits_for=f"sub-agent {one.type}")


def late_subagents(case: Case) -> list[Late]:
    """Those that have run past their time without output, the oldest first. One that was started again since is not
    waited for any more."""
    found = []
    limit_of = cache(lambda kind: subagent_s(kind, case.limits, case.time_limits))
    for one in own_subagents(case.duty, case.sight.turn, case.overdue):
        limit_s = limit_of(one.type)
        is_again = case.sight.turn.begun.get(one.type, 0.0) > one.since + limit_s
        if case.age(max(one.since, one.wrote, file_mono(case))) > limit_s and not is_again:
            found.append(Late(one, case.age(one.since), limit_s, case.overdue.get(one.id)))
    return found


def asked_for_with(case: Case, one: Late) -> list[Late]:
    """Those of the same type for which the same is to be done now, the oldest first: one letter is enough for all."""
    action = _asked_for(one, case)
    return [
        late
        for late in late_subagents(case)
        if late.subagent.type == one.subagent.type and _asked_for(late, case) == action
    ]


def subagent_overdue(case: Case) -> Diagnosis | None:
    """A sub-agent has run past its time: its parent is mailed, again after each further time, and then a person is
    called. None where all are in time."""
    late = late_subagents(case)
    if not late:
        return None
    asking = [(one, action) for one in late if (action := _asked_for(one, case))]
    one, action = asking[0] if asking else (late[0], "")
    who = "a person" if one.told is not None and one.told.called else "its parent"
    advice = {
        "NUDGE": "ask its parent to start it again or to document the skip",
        "ESCALATE": "mail has not helped, and a restart would not: look at it",
    }
    proof = f"hooks: sub-agent {one.subagent.type} runs for {one.ran_s:.0f} s without output"
    return Diagnosis(
        kind="subagent_overdue",
        evidence=(f"{proof}, {one.limit_s:g} s are allowed", *_more(asked_for_with(case, one) if action else ())),
        action=action,
        advice=advice.get(action, f"wait: {who} was told"),
        stall=case.stall("subagent", f"{one.subagent.since:.3f}", one.told.mails if one.told is not None else 0),
        waits_for=f"sub-agent {one.subagent.type}",
        late=one,
    )


def _more(group: Sequence[Late]) -> tuple[str, ...]:
    return (f"hooks: {len(group) - 1} more of that type are late as well",) if len(group) > 1 else ()


def _asked_for(one: Late, case: Case) -> Action:
    """What is to be done about it now; nothing while its parent still has time to do something."""
    if one.told is None:
        return "NUDGE" if case.limits.nudges_max else "ESCALATE"
    if one.told.called or case.now.since(one.told.told) < one.limit_s:
        return ""
    return "NUDGE" if one.told.mails < case.limits.nudges_max else "ESCALATE"


def settled_by(known: OverdueSubagent, agent: AgentRecord | None, turn: Turn | None) -> str:
    """What has settled an overdue sub-agent; empty where nothing has, or where nothing can be seen of its parent."""
    if _is_lost(known, agent):
        return "lost"
    if turn is None or turn.state == "none":
        return ""
    if turn.begun.get(known.type, 0.0) > known.opened.mono - known.ran_s + known.limit_s:
        return "started_again"
    return "" if known.id in turn.subagents else "ended"


def is_gone(known: OverdueSubagent, agent: AgentRecord | None, turn: Turn | None) -> bool:
    """Whether an overdue sub-agent runs no more, as far as can be seen: then nothing need be known of it either."""
    if _is_lost(known, agent):
        return True
    return turn is not None and turn.state != "none" and known.id not in turn.subagents


def _is_lost(known: OverdueSubagent, agent: AgentRecord | None) -> bool:
    return agent is None or agent.incarnation != known.incarnation or agent.is_given_up
