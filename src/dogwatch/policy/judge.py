"""The diagnosis of an agent as a member of its run: with what it owes there, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import Duty, RunView
from dogwatch.policy.diagnose import diagnose, plainly_well
from dogwatch.policy.diagnosis import Diagnosis
from dogwatch.policy.waits import (
    SENT,
    LookedFor,
    WaitGraph,
    coming,
    looked_for,
    waits_for_files,
    waits_for_mail,
    waits_for_tasks,
)


def judge_all(view: RunView, sights: Mapping[str, Sight], now: Moment) -> dict[str, Diagnosis]:
    """What everybody is doing. Only those in long tools are asked what they wait for there."""
    others = [*waits_for_mail(view, sights, now), *waits_for_tasks(view, sights, now)]
    graph = WaitGraph(others)
    found: dict[str, Diagnosis] = {}
    named: list[LookedFor] = []
    for name, sight in sights.items():
        one = found[name] = judge(view, name, sight, graph, now)
        if one.kind == "long_tool":
            # Asked at once, while the processor still has at hand what was seen of this agent.
            named += looked_for(name, sight, view.limits_of(name), now)
    files = waits_for_files(view, sights, named, now)
    if files:
        graph = WaitGraph([*others, *files])
        for name in dict.fromkeys(member for ring in graph.rings() for member in ring):
            found[name] = judge(view, name, sights[name], graph, now)
    return found


def judge(view: RunView, name: str, sight: Sight, graph: WaitGraph, now: Moment) -> Diagnosis:
    """What the agent is doing. Of those that wait for one another in a ring, only the youngest wait is broken."""
    limits, mine = view.limits_of(name), graph.of(name)
    if not mine and name not in view.not_running:
        well = plainly_well(sight, limits, now, owes=sight.turn.state == "idle" and view.owes(name))
        if well is not None:
            return well
    agent = view.agents[name]
    awaited = [wait for wait in mine if wait.what.startswith(("mail ", SENT))]
    members = graph.ring(name, limits.nudge_s) if mine else ()
    # Of mail that is coming it is only asked at a prompt.
    mail = coming(view, name, now) if sight.turn.state == "idle" and view.duty_of(name) is not None else None
    owed, overdue = partial(view.duty_of, name), view.overdue_of(name)
    found = diagnose(agent, owed, sight, limits, now, awaited, members, view.plan.time_limits, overdue, mail)
    if (
        found.action == "NUDGE"
        and found.late is None
        and nudges_for(agent, duty := view.duty_of(name)) >= limits.nudges_max
        and not any(message.kind == "nudge" for message in view.waiting_messages(name))
    ):
        if found.traits.never_restarted:
            advice = "nudges have not helped, and a restart would not: look at it"
            return replace(found, action="ESCALATE", advice=advice)
        if duty is not None and duty.message:
            # Nobody has to take an offer, and a letter may need no answer: that is no failure of the agent.
            return replace(found, action="", advice=f"wait: {duty.kind} {duty.subject} may need no answer")
    if not found.traits.is_ring or (chosen := graph.youngest(members)) == name:
        return found
    return replace(found, action="", advice=f"wait: {chosen}, whose wait is the youngest, is asked to go on")


def nudges_for(agent: AgentRecord, duty: Duty | None) -> int:
    """How often the agent was asked to go on with what it owes."""
    return duty.nudges if duty is not None and duty.message else agent.nudges
