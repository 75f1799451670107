"""Who waits for whom and for what, since when: the wait-for graph of a run, down to the processes.

Its edges come from the ledger (mail, tasks, reviews) and from what was seen (sub-agents, tools). An agent that works
waits for nobody, whatever it has asked others for, unless its tool has long been looking for what another should write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.sight import Sight, ToolCall, Wait
from dogwatch.model.view import RunView

SENT = "sent task "
OF_PHASE = ("task ", "checkpoint ")
"""How what a phase waits for begins."""
_FILE = re.compile(r"[\w-][\w.-]*\.\w+")
"""What may be the name of a file in a command: a word with an ending."""
LookedFor = tuple[str, ToolCall, str]
"""An agent, its tool, and a file that the tool names."""


class WaitGraph:
    """All waits of a run, the oldest first."""

    def __init__(self, found: Iterable[Wait]) -> None:
        self.waits = tuple(sorted(found, key=lambda wait: -wait.age_s))
        self._of: dict[str, list[Wait]] = {}
        for wait in self.waits:
            self._of.setdefault(wait.waiter, []).append(wait)

    def of(self, waiter: str) -> Sequence[Wait]:
        """What it waits for, the oldest wait first."""
        return self._of.get(waiter, ())

    def chain(self, waiter: str) -> tuple[Wait, ...]:
        """From it down to whoever waits for nobody, along the oldest waits; a ring is gone round once."""
        links: list[Wait] = []
        seen = {waiter}
        while below := self._of.get(waiter):
            links.append(below[0])
            waiter = below[0].target
            if waiter in seen:
                break
            seen.add(waiter)
        return tuple(links)

    def ring(self, waiter: str, min_s: float = 0.0) -> tuple[str, ...]:
        """Those that wait for one another in a ring, beginning with this one; empty where it is in none, or where one
        of them has waited for less than `min_s`: what it waits for may be on its way."""
        links = self.chain(waiter)
        closed = bool(links) and links[-1].target == waiter and all(link.age_s >= min_s for link in links)
        return tuple(link.waiter for link in links) if closed else ()

    def rings(self) -> list[tuple[str, ...]]:
        """Each ring once."""
        found: dict[frozenset[str], tuple[str, ...]] = {}
        for waiter in self._of:
            if members := self.ring(waiter):
                found.setdefault(frozenset(members), members)
        return list(found.values())

    def youngest(self, members: Sequence[str]) -> str:
        """The member of a ring that began to wait last: its wait is the one to break."""
        return min(members, key=lambda member: (self._of[member][0].age_s, member))


def waits(view: RunView, sights: Mapping[str, Sight], now: Moment) -> WaitGraph:
    """Who waits for whom."""
    found = [*_of_the_phase(view, now), *waits_for_mail(view, sights, now), *waits_for_tasks(view, sights, now)]
    files = [one for name, sight in sights.items() for one in looked_for(name, sight, view.limits_of(name), now)]
    found += waits_for_files(view, sights, files, now)
    for agent, sight in sights.items():
        found += _for_own(agent, sight, now)
    return WaitGraph(found)


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


def looked_for(name: str, sight: Sight, limits: Limits, now: Moment) -> list[LookedFor]:
    """The files that a tool of this agent's names which has run for long: it may be waiting for one of them."""
    return [
        (name, tool, word)
        for tool in (sight.turn.tools.values() if sight.process == "alive" else ())
        if "." in tool.what and now.mono - tool.since >= limits.long_tool_s
        for word in dict.fromkeys(_FILE.findall(tool.what))
    ]


def waits_for_files(view: RunView, sights: Mapping[str, Sight], files: Iterable[LookedFor], now: Moment) -> list[Wait]:
    """Agents whose tool names a file that another should write and has not written."""
    named = tuple(files)
    if not named:
        return []
    unwritten: dict[str, list[tuple[str, str]]] = {}
    for task in view.tasks.values():
        for output in sights[task.agent].outputs if task.state == "claimed" and task.agent in sights else ():
            if not output.is_new:
                unwritten.setdefault(output.path.rpartition("/")[2], []).append((task.agent, output.path))
    return [
        Wait(name, agent, f"file {path}", now.mono - tool.since)
        for name, tool, word in named
        for agent, path in unwritten.get(word, ())
        if agent != name
    ]


def waits_for_mail(view: RunView, sights: Mapping[str, Sight], now: Moment) -> list[Wait]:
    """An agent with work open whose mail another has not acknowledged, at its prompt or in a tool that has long been
    looking for mail."""
    found = []
    for message in view.messages.values():
        sight = sights.get(message.sender)
        if message.kind != "mail" or message.sender == message.to or message.state == "acknowledged":
            continue
        if sight is None or sight.process != "alive" or view.duty_of(message.sender) is None:
            continue
        if sight.turn.state != "idle" and not _looks_for_mail(sight, view.limits_of(message.sender), now):
            continue
        found.append(Wait(message.sender, message.to, f"mail {message.id}", now.since(message.queued)))
    return found


def coming(view: RunView, agent: str, now: Moment) -> Wait | None:
    """The newest sign that mail for the agent is coming: a letter that is queued for it, or another agent that has
    acknowledged its letter and may be writing the answer. None where there is no such sign. Of several letters the
    oldest counts: where that does not arrive, further ones do not either."""
    letters = [message for message in view.waiting_messages(agent) if message.kind == "mail"]
    waits = [Wait(agent, one.sender, f"mail {one.id} is on its way", now.since(one.queued)) for one in letters]
    found = [max(waits, key=lambda wait: wait.age_s)] if waits else []
    answered = view.agents[agent].answered
    if answered is not None:
        found.append(Wait(agent, "an answer", "its letter was acknowledged", now.since(answered)))
    return min(found, key=lambda wait: wait.age_s, default=None)


def waits_for_tasks(view: RunView, sights: Mapping[str, Sight], now: Moment) -> list[Wait]:
    """An agent at its prompt, with work open, that has given a part of it to another: it gets mail when that is
    settled."""
    found = []
    for task in view.sent_tasks():
        sender = view.current(task.sender)
        sight = sights.get(sender)
        if sight is None or sight.process != "alive" or sight.turn.state != "idle" or view.task_of(sender) is None:
            continue
        holder = view.current(task.agent or task.holders[0])
        found.append(Wait(sender, holder, f"{SENT}{task.task}", now.mono - sight.turn.since))
    return found


def waiters(view: RunView, agent: str, seen: Iterable[Wait] = ()) -> tuple[str, ...]:
    """The agents that this one holds up: it owes them an answer, a task or a verdict, or their own work comes after its
    own. `seen` is what the watchdog has found of the graph; an agent at work is not in there, and may still need it."""
    # The phase under way waits too, and may be called like an agent.
    found = {wait.waiter for wait in seen if wait.target == agent and not wait.what.startswith(OF_PHASE)}
    for message in view.messages.values():
        if message.to == agent and message.kind == "mail" and message.state != "acknowledged":
            found.add(message.sender)
    found |= {task.sender for task in view.sent_tasks() if (task.agent or task.holders[0]) == agent}
    held = view.task_of(agent)
    if held is not None:
        found |= _after(view, held.dispatch)
    for record in view.checkpoints.values():
        plan = next(one for phase in view.plan.phases for one in phase.checkpoints if one.name == record.checkpoint)
        reviewers = {view.current(one) for one in plan.reviewers}
        if record.state == "asked" and agent in reviewers and not record.has_voted(agent):
            found |= {task.agent for task in view.tasks.values() if task.dispatch == plan.author}
        elif record.state in ("open", "revised") and held is not None and held.dispatch == plan.author:
            found |= reviewers
    current = {view.current(name) for name in found if name in view.agents}
    return tuple(sorted(current - {agent}))


def _after(view: RunView, dispatch: str) -> set[str]:
    """Those whose own task comes after the dispatch. One for any of a role is nobody's yet."""
    found = set()
    for task in view.tasks.values():
        if task.sender or task.state not in ("pending", "returned"):
            continue
        planned = next(one for one in view.plan.phases[task.phase].dispatches if one.name == task.dispatch)
        if dispatch in planned.after and (task.agent or len(task.holders) == 1):
            found.add(task.agent or task.holders[0])
    return found


def _looks_for_mail(sight: Sight, limits: Limits, now: Moment) -> bool:
    tools = sight.turn.tools.values()
    return any("dogwatch mail" in tool.what and now.mono - tool.since >= limits.long_tool_s for tool in tools)


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
        child = next((c for c in children if c.age_s <= age_s + 1.0 and c.pid != turn.pid), None)
        if child is not None:
            found.append(Wait(agent, f"{child.name} (pid {child.pid})", str(tool), age_s))
    return found
