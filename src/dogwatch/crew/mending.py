"""Alerts and orders become records: the captain looks again at the moment of acting, and then writes what shall be.

Each alert is settled in one transaction with what it leads to, so that a kill loses neither and repeats neither.
"""

from __future__ import annotations

from dataclasses import replace

from dogwatch.crew.helm import Helm, expire, send
from dogwatch.crew.tasks import ask_reviewer
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import change, load_all, save
from dogwatch.model import brief
from dogwatch.model.lifecycle import AGENT, MESSAGE, TASK
from dogwatch.model.names import incarnation_name
from dogwatch.model.records import AgentRecord, MessageRecord
from dogwatch.model.view import RunView
from dogwatch.policy.diagnose import Diagnosis, diagnose

BACKOFF_S_MAX = 60.0


def settle_alert(helm: Helm, view: RunView, item: Item) -> bool:
    """Acts on one alert, or withdraws it where the evidence is gone. An `unknown` look leaves it for later."""
    name, incarnation = str(item.body["agent"]), int(item.body["incarnation"])
    agent = view.agents.get(name)
    if agent is None or agent.incarnation != incarnation:
        return helm.record(lambda tx: _withdraw(tx, helm.run, item, "that incarnation is gone"))
    sight = helm.world.eyes.look(view, [name], screens=True)[name]
    again = diagnose(agent, view.duty_of(name), sight, view.plan.limits, helm.now)
    if again.kind == "unknown":
        return False
    if again.action != item.body["action"]:
        return helm.record(lambda tx: _withdraw(tx, helm.run, item, f"now {again.kind}"))
    return helm.record(lambda tx: _act(tx, view, agent, again, item))


def _act(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    _done(tx, item)
    if found.action == "RESCUE":
        task = view.task_of(agent.agent)
        if task is not None:
            save(tx, replace(task, state=TASK.step(task.state, "reported"), rescued=True))
            body = {"task": task.task, "diagnosis": found.kind, "evidence": list(found.evidence)}
            tx.append("task_rescued", body, run=agent.run, agent=agent.agent)
        return True
    if found.action == "NUDGE" and agent.nudges < view.plan.limits.nudges_max:
        duty = view.duty_of(agent.agent)
        if duty is not None:
            send(tx, agent, "nudge", duty.subject, brief.nudge(duty.kind, duty.subject), key=item.id)
            change(tx, AgentRecord, agent.key, lambda a: replace(a, nudges=a.nudges + 1))
            nudged = {"diagnosis": found.kind, "evidence": list(found.evidence), "nudges": agent.nudges + 1}
            tx.append("agent_nudged", nudged, run=agent.run, agent=agent.agent)
        return True
    return restart(tx, view, agent, found.kind, list(found.evidence))


def restart(tx: Tx, view: RunView, agent: AgentRecord, reason: str, evidence: list[str]) -> bool:
    """The agent gets a new incarnation, or is given up where it has failed too often. What it held goes back."""
    limits = view.plan.limits
    recent = tuple(moment for moment in agent.restarts if tx.now.since(moment) < limits.restart_period_s)
    _give_back(tx, view, agent)
    if len(recent) >= limits.restarts_max:
        cause = f"{reason}: {agent.agent} failed {len(recent) + 1} times within {limits.restart_period_s:g} s"
        save(tx, replace(agent, state=AGENT.step(agent.state, "ERROR"), health="unresponsive", cause=cause))
        tx.append("agent_quarantined", {"reason": cause, "evidence": evidence}, run=agent.run, agent=agent.agent)
        return True
    incarnation = agent.incarnation + 1
    backoff_s = min(BACKOFF_S_MAX, limits.restart_backoff_s * 2 ** len(recent)) if recent else 0.0
    successor = save(
        tx,
        replace(
            agent,
            state=agent.state if agent.state == "CREATED" else AGENT.step(agent.state, "CREATED"),
            incarnation=incarnation,
            name=incarnation_name(agent.run, agent.agent, incarnation),
            intended=None,
            process=None,
            pane="",
            confirmed=None,
            nudges=0,
            restarts=(*recent, tx.now),
            not_before=tx.now.plus(backoff_s),
        ),
    )
    body = {"reason": reason, "evidence": evidence, "incarnation": incarnation, "backoff_s": backoff_s}
    tx.append("agent_restarted", body, f"restart:{agent.key}:{incarnation}", run=agent.run, agent=agent.agent)
    _pass_on(tx, view, successor)
    return True


def fail_spawn(tx: Tx, view: RunView, agent: AgentRecord, reason: str) -> bool:
    """A start that failed counts like any other failure of the agent."""
    body = {"incarnation": agent.incarnation, "reason": reason}
    tx.append(
        "agent_spawn_failed", body, f"spawn-failed:{agent.key}:{agent.incarnation}", run=agent.run, agent=agent.agent
    )
    return restart(tx, view, agent, f"spawn_failed ({reason})", [reason])


def _give_back(tx: Tx, view: RunView, agent: AgentRecord) -> None:
    """The task that the agent held is open again; a death is no attempt of the task."""
    task = view.task_of(agent.agent)
    if task is not None:
        save(tx, replace(task, state=TASK.step(task.state, "returned"), attempt=task.attempt - 1))
        body = {"task": task.task, "note": f"incarnation {agent.incarnation} of {agent.agent} is gone"}
        tx.append("task_returned", body, run=agent.run, agent=agent.agent)


def _pass_on(tx: Tx, view: RunView, successor: AgentRecord) -> None:
    """Letters of other agents go on to the new incarnation; the captain's own are written anew for it."""
    for message in load_all(tx, MessageRecord, f"message/{successor.run}/"):
        if (
            message.to != successor.agent
            or message.incarnation == successor.incarnation
            or message.state in MESSAGE.ends
        ):
            continue
        if message.kind == "mail":
            state = message.state if message.state == "queued" else MESSAGE.step(message.state, "queued")
            save(tx, replace(message, incarnation=successor.incarnation, state=state, step="", step_at=None))
            continue
        expire(tx, message)
    for record in view.checkpoints.values():
        asked = any(
            m.kind == "checkpoint" and m.subject == record.checkpoint and m.to == successor.agent
            for m in view.messages.values()
        )
        if record.state == "asked" and asked and not record.has_voted(successor.agent):
            ask_reviewer(tx, view, record.checkpoint, record.round, successor)


def _withdraw(tx: Tx, run: str, item: Item, why: str) -> bool:
    _done(tx, item)
    body = {"alert": item.id, "action": item.body["action"], "why": why}
    tx.append("alert_withdrawn", body, f"withdrawn:{item.queue}:{item.id}", run=run, agent=str(item.body["agent"]))
    return True


def _done(tx: Tx, item: Item) -> None:
    claimed = tx.claim(item.queue, "captain", 60.0, item.id)
    if claimed is not None:
        tx.ack(claimed)
