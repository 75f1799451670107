"""Who waits for whom and for what, since when: the wait-for graph of a run, down to the processes.

Its edges come from the ledger (mail, tasks, reviews) and from what was seen (sub-agents, tools). An agent that works
waits for nobody, whatever it has asked others for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dogwatch.model.moment import Moment
from dogwatch.model.sight import Sight, Wait
from dogwatch.model.view import RunView


def waits(view: RunView, sights: Mapping[str, Sight], now: Moment) -> tuple[Wait, ...]:
    """All waits of the run, the oldest first."""
    found = [*_of_the_phase(view, now), *_for_mail(view, sights, now)]
    for agent, sight in sights.items():
        found += _for_own(agent, sight, now)
    return tuple(sorted(found, key=lambda wait: -wait.age_s))


def _of_the_phase(view: RunView, now: Moment) -> list[Wait]:
    phase = view.phase
    if phase is None or view.run.over:
        return []
    found = []
    for task in view.phase_tasks():
        if task.state == "claimed" and task.dispatched is not None:
            found.append(Wait(phase.name, task.agent, f"task {task.task}", now.since(task.dispatched)))
    for message in view.messages.values():
        record = view.checkpoints.get(message.subject) if message.kind == "checkpoint" else None
        if record is not None and record.state == "asked" and not record.has_voted(message.to):
            found.append(Wait(phase.name, message.to, f"checkpoint {message.subject}", now.since(message.queued)))
    return found


def _for_mail(view: RunView, sights: Mapping[str, Sight], now: Moment) -> list[Wait]:
    """An agent at its prompt, with work open, whose mail another has not acknowledged."""
    found = []
    for message in view.messages.values():
        sight = sights.get(message.sender)
        if message.kind != "mail" or message.sender == message.to or message.state == "acknowledged":
            continue
        if (
            sight is None
            or sight.process != "alive"
            or sight.turn.state != "idle"
            or view.duty_of(message.sender) is None
        ):
            continue
        found.append(Wait(message.sender, message.to, f"mail {message.id}", now.since(message.queued)))
    return found


def _for_own(agent: str, sight: Sight, now: Moment) -> list[Wait]:
    """What an agent has started itself: sub-agents, and the process of a tool."""
    turn = sight.turn
    if sight.process != "alive":
        return []
    found = [
        Wait(agent, f"sub-agent {one.type}", "its result", now.mono - one.since) for one in turn.subagents.values()
    ]
    for tool in turn.tools.values():
        age_s = now.mono - tool.since
        children = sight.tree.children if sight.tree else ()
        child = next((child for child in children if child.age_s <= age_s + 1.0), None)
        if child is not None:
            found.append(Wait(agent, f"{child.name} (pid {child.pid})", str(tool), age_s))
    return found


def chain(agent: str, found: Sequence[Wait]) -> tuple[Wait, ...]:
    """From the agent down to whoever waits for nobody, along the oldest waits; a ring is gone round once."""
    links: list[Wait] = []
    seen = {agent}
    while (link := next((wait for wait in found if wait.waiter == agent), None)) is not None:
        links.append(link)
        if link.target in seen:
            break
        seen.add(link.target)
        agent = link.target
    return tuple(links)


def ring(agent: str, found: Sequence[Wait]) -> tuple[str, ...]:
    """The agents that wait for one another in a ring, beginning with this one; empty where it is in none."""
    links = chain(agent, found)
    return tuple(link.waiter for link in links) if links and links[-1].target == agent else ()


def youngest(members: Sequence[str], found: Sequence[Wait]) -> str:
    """The member of a ring that began to wait last: its wait is the one to break."""
    ages = {wait.waiter: wait.age_s for wait in reversed(found) if wait.waiter in members and wait.target in members}
    return min(members, key=lambda member: (ages.get(member, 0.0), member))
