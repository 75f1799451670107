"""Agents: their restarts and replacements, with which all that the old one held, got and was asked goes along, and the
signs of life that they give at the door."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dogwatch.coordination.admission import Life, ask
from dogwatch.coordination.launches import agent_launch
from dogwatch.coordination.mail import expire, put_away
from dogwatch.coordination.notices import push_notice
from dogwatch.coordination.queues import settle
from dogwatch.coordination.staffing import staff
from dogwatch.coordination.tasks import ask_reviewer, count_dispatch, count_end
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import change, load, load_all, save
from dogwatch.model import keys
from dogwatch.model.delivery import Queued
from dogwatch.model.events.admission import AgentReclaimed, ReclaimRefused
from dogwatch.model.events.agents import AgentQuarantined, AgentReplaced, AgentRestarted, AgentSpawnFailed
from dogwatch.model.events.clients import HeartbeatReceived
from dogwatch.model.events.tasks import TaskReleased
from dogwatch.model.life import GivenUp, NotStarted, Resting, Running
from dogwatch.model.lifecycle import HEALTH, TASK
from dogwatch.model.names import incarnation_name
from dogwatch.model.records import AgentRecord, MessageRecord, TaskRecord
from dogwatch.model.view import RunView
from dogwatch.policy.markers import OPEN

BACKOFF_S_MAX = 60.0
_WAITING = (NotStarted, Resting)


def restart(
    tx: Tx,
    view: RunView,
    agent: AgentRecord,
    reason: str,
    evidence: list[str],
    *,
    counts: bool = True,
    forgets: bool = False,
    rests: bool = False,
) -> bool:
    """The agent gets a new incarnation, or is given up where it has failed too often. What it held goes back.

    A reboot, an operator's order or `dogwatch down` is not the agent's failure and does not count. An incarnation that
    `forgets` begins a conversation of its own; one that `rests` is not started before there is work for it.
    """
    if agent.is_over:
        return False
    limits = view.plan.limits
    recent = tuple(moment for moment in agent.restarts if tx.now.since(moment) < limits.restart_period_s)
    _give_back(tx, view, agent)
    if counts and len(recent) >= limits.restarts_max:
        cause = f"{reason}: {agent.agent} failed {len(recent) + 1} times within {limits.restart_period_s:g} s"
        save(tx, agent.become(GivenUp(cause=cause, last=_without_work(agent))))
        tx.append(AgentQuarantined(reason=cause, evidence=tuple(evidence), run=agent.run, agent=agent.agent))
        title = f"{agent.agent} is not started again"
        push_notice(tx, agent.run, "quarantine", f"{agent.agent}:{agent.incarnation}", title, cause, agent.agent)
        return True
    incarnation = agent.incarnation + 1
    # The first restart is made at once; from the second on the agent seems to fail by itself.
    backoff_s = min(BACKOFF_S_MAX, limits.restart_backoff_s * 2 ** (len(recent) - 1)) if recent and counts else 0.0
    not_before = tx.now.plus(backoff_s) if backoff_s else None
    successor = save(
        tx,
        replace(
            replace(agent, busy=False).become(Resting(reason=reason) if rests else NotStarted(not_before=not_before)),
            incarnation=incarnation,
            name=incarnation_name(agent.run, agent.agent, incarnation),
            conversation=incarnation if forgets else agent.conversation,
            restarts=(*recent, tx.now) if counts else recent,
        ),
    )
    event = (AgentReclaimed if rests else AgentRestarted)(
        reason=reason,
        evidence=tuple(evidence),
        incarnation=incarnation,
        backoff_s=backoff_s,
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, f"restart:{agent.key}:{incarnation}")
    _pass_on(tx, view, successor, rests=rests)
    return True


def replace_agent(tx: Tx, view: RunView, agent: AgentRecord, reason: str, evidence: list[str]) -> None:
    """The agent is given up for good; a new one takes its place, its undelivered mail and its work. How often it has
    failed goes along: a new name is no new beginning."""
    _give_back(tx, view, agent)
    name = _successor_name(tx, agent)
    cause = f"replaced by {name}: {reason}"
    given_up = agent.become(GivenUp(cause=cause, successor=name, last=_without_work(agent)))
    save(tx, replace(given_up, health=HEALTH.step(agent.health, "replaced")))
    successor = staff(tx, view, name, agent.role, predecessor=agent)
    event = AgentReplaced(successor=name, reason=reason, evidence=tuple(evidence), run=agent.run, agent=agent.agent)
    tx.append(event, f"replaced:{agent.key}")
    for task in load_all(tx, TaskRecord, keys.tasks(agent.run)):
        if task.state not in TASK.ends and task.state != "accepted" and agent.agent in task.holders:
            if task.agent == agent.agent and task.state in OPEN:
                count_end(tx, task)  # what it has reported is its successor's from now on
                count_dispatch(tx, agent.run, name)
            holders = tuple(name if holder == agent.agent else holder for holder in task.holders)
            former = name if task.former == agent.agent else task.former
            owner = name if task.agent == agent.agent else task.agent
            save(tx, replace(task, holders=holders, agent=owner, former=former))
    for message in load_all(tx, MessageRecord, keys.messages(agent.run)):
        if message.to == agent.agent and message.is_over:
            put_away(tx, message)
        elif message.to == agent.agent and message.kind == "mail":
            save(tx, replace(message.become(Queued()), to=name, incarnation=1, typing=None, nudges=0))
        elif message.to == agent.agent:
            expire(tx, message)
    _ask_again(tx, view, successor, agent.agent)


def _without_work(agent: AgentRecord) -> Running | None:
    """What is known of the process of an agent that is given up: it owes nothing any more."""
    return replace(agent.running, probed=None, progress_percent=None) if agent.running is not None else None


def _successor_name(tx: Tx, agent: AgentRecord) -> str:
    """The next one that is free: long names are cut, so that two agents may have the same beginning."""
    number = agent.replacement_count + 1
    while load(tx, AgentRecord, replace(agent, agent=f"{agent.place[:28]}-r{number}").key) is not None:
        number += 1
    return f"{agent.place[:28]}-r{number}"


def fail_spawn(tx: Tx, view: RunView, agent: AgentRecord, reason: str) -> bool:
    """A start that failed counts like any other failure of the agent."""
    event = AgentSpawnFailed(incarnation=agent.incarnation, reason=reason, run=agent.run, agent=agent.agent)
    tx.append(event, f"spawn-failed:{agent.key}:{agent.incarnation}")
    return restart(tx, view, agent, f"spawn_failed ({reason})", [reason])


def restart_by_order(tx: Tx, view: RunView, agent: AgentRecord | None, item: Item) -> bool:
    """An operator ends the agent's incarnation. An agent that rests goes on resting."""
    settle(tx, item)
    rests = agent is not None and isinstance(agent.life, Resting)
    return agent is not None and restart(
        tx, view, agent, "killed by the operator", [f"order {item.id}"], counts=False, rests=rests
    )


def reclaim(tx: Tx, view: RunView, agent: AgentRecord, item: Item) -> bool:
    """The dispatcher's order that an idle agent rests was carried out."""
    settle(tx, item)
    cause = str(item.body["cause"])
    return restart(tx, view, agent, cause, [f"order {item.id} of the dispatcher"], counts=False, rests=True)


def refuse_reclaim(tx: Tx, run: str, item: Item, why: str) -> bool:
    """The agent of the dispatcher's order does not rest."""
    settle(tx, item)
    return tx.append(ReclaimRefused(order=item.id, why=why, run=run, agent=str(item.body["agent"])))


def admit(tx: Tx, view: RunView, agent: AgentRecord, life: Life) -> bool:
    """Whether the gate lets the agent's next incarnation start; where not, its record says why."""
    answer = ask(tx, agent_launch(tx, view, agent), life)
    if answer.verdict == "admit":
        return True
    if agent.gate_reason != answer.reason:
        note_gate_reason(tx, agent, answer.reason)
    return False


def note_gate_reason(tx: Tx, agent: AgentRecord, reason: str) -> None:
    """Why the gate does not let the agent start; empty where it does not ask for now."""

    def noted(record: AgentRecord) -> AgentRecord:
        life = record.life
        return replace(record, life=replace(life, gate_reason=reason)) if isinstance(life, _WAITING) else record

    change(tx, AgentRecord, agent.key, noted)


def _give_back(tx: Tx, view: RunView, agent: AgentRecord) -> None:
    """The task that the agent held is open again and nobody's; a death is no attempt of the task."""
    task = view.task_of(agent.agent)
    if task is None:
        return
    count_end(tx, task)
    released = replace(task, state=TASK.step(task.state, "pending"), agent="", incarnation=0, former=agent.agent)
    save(tx, replace(released, attempt=task.attempt - 1))
    note = f"incarnation {agent.incarnation} of {agent.agent} is gone"
    tx.append(TaskReleased(task=task.task, note=note, run=agent.run, agent=agent.agent))


def _pass_on(tx: Tx, view: RunView, successor: AgentRecord, *, rests: bool) -> None:
    """Letters of other agents go on to the new incarnation; the captain's own are written anew for it. What an agent
    got before it was sent to rest it has: its conversation goes on, and the letter must not wake it."""
    for message in load_all(tx, MessageRecord, keys.messages(successor.run)):
        if message.to != successor.agent or message.incarnation == successor.incarnation:
            continue
        if message.is_over:
            put_away(tx, message)
            continue
        if message.kind == "mail":
            is_kept = message.state == "queued" or rests
            kept = message if is_kept else replace(message.become(Queued()), nudges=0)
            save(tx, replace(kept, incarnation=successor.incarnation, typing=None))
            continue
        expire(tx, message)
    _ask_again(tx, view, successor, successor.agent)


def _ask_again(tx: Tx, view: RunView, successor: AgentRecord, asked: str) -> None:
    """Reviews that were asked for and not given are asked for once more."""
    for record in view.checkpoints.values():
        was_asked = any(
            m.kind == "checkpoint" and m.subject == record.checkpoint and m.to == asked for m in view.messages.values()
        )
        if record.state == "asked" and was_asked and not record.has_voted(asked):
            ask_reviewer(tx, view, record.checkpoint, record.round, successor)


def beat(tx: Tx, view: RunView, agent: AgentRecord, progress_percent: float | None, op_id: str) -> None:
    """The agent says that it lives, and perhaps how far it is with what it has to do."""
    held = view.task_of(agent.agent)
    event = HeartbeatReceived(
        task=held.task if held else "", progress_percent=progress_percent, run=agent.run, agent=agent.agent
    )
    is_new = tx.append(event, op_id)
    if is_new and progress_percent is not None and view.duty_of(agent.agent) is not None:
        said = float(progress_percent)
        change_running(tx, agent, lambda life: replace(life, progress_percent=said))


def change_running(tx: Tx, agent: AgentRecord, fn: Callable[[Running], Running]) -> None:
    """Changes the agent's running life; nothing where it does not run any more."""
    change(tx, AgentRecord, agent.key, lambda a: a.while_running(fn))


def note_life(tx: Tx, agent: AgentRecord) -> None:
    """Whatever an agent asks for, it lives."""
    change(tx, AgentRecord, agent.key, lambda a: replace(a, last_heartbeat=tx.now))
