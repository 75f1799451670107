"""Alerts and orders become records: the captain looks again at the moment of acting, and then writes what shall be.

Each alert is settled in one transaction with what it leads to, so that a kill loses neither and repeats neither. Each
action is a decision record as well, and its effect is looked for later (`verifying.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dogwatch.crew.helm import Helm, expire, send
from dogwatch.crew.notices import push_notice
from dogwatch.crew.tasks import ask_reviewer, dispatch_text
from dogwatch.ledger.api import Item, Reader, Tx
from dogwatch.ledger.records import change, load_all, save
from dogwatch.model import brief
from dogwatch.model.codec import decode, encode
from dogwatch.model.lifecycle import AGENT, HEALTH, MESSAGE, TASK
from dogwatch.model.moment import Moment
from dogwatch.model.names import incarnation_name
from dogwatch.model.plan import NoticeKind
from dogwatch.model.records import AgentRecord, DecisionRecord, MessageRecord, TaskRecord
from dogwatch.model.view import Duty, RunView
from dogwatch.policy.diagnose import Diagnosis
from dogwatch.policy.judge import judge
from dogwatch.policy.verify import alternatives
from dogwatch.policy.waits import waits

BACKOFF_S_MAX = 60.0
LOOK_AGAIN_S = 5.0
ONCE_S = 7 * 86400.0
"""A person is called once for each stall."""


def settle_alert(helm: Helm, view: RunView, item: Item) -> bool:
    """Acts on what is seen now, or withdraws the alert where there is nothing to do. An `unknown` look leaves it."""
    name, incarnation = str(item.body["agent"]), int(item.body["incarnation"])
    agent = view.agents.get(name)
    if agent is None or agent.incarnation != incarnation or agent.process is None:
        return helm.record(lambda tx: _withdraw(tx, helm.run, item, "that incarnation is gone"))
    found = _diagnosed_again(helm, view, agent, item)
    if found is None:
        return False
    if found.action == "INTERRUPT" and found.kind == item.body["diagnosis"]:
        return _interrupt(helm, view, agent, found, item)

    def settle(tx: Tx) -> bool:
        if _act(tx, view, agent, found, item):
            limits = view.limits_of(name)
            again_s = {"ESCALATE": ONCE_S, "HOLD": limits.hold_s}.get(found.action, limits.nudge_s)
            return _settled(tx, agent, item, again_s)
        _withdraw(tx, helm.run, item, f"now {found.kind}")
        return _settled(tx, agent, item, LOOK_AGAIN_S)

    return helm.record(settle)


def _diagnosed_again(helm: Helm, view: RunView, agent: AgentRecord, item: Item) -> Diagnosis | None:
    """What is seen now, or None where the look says nothing. For the time before it, the watchdog's alert vouches: how
    long a screen has stood there, and how long there was no sign of life."""
    name = agent.agent
    alive = [one.agent for one in view.agents.values() if one.process is not None and one.state != "ERROR"]
    sights = helm.world.eyes.look(view, alive if item.body["diagnosis"] == "deadlock" else [name], screens=True)
    sight = sights[name]
    if sight.process == "alive" and sight.screen == "unknown" != item.body.get("pane", "unknown"):
        return None
    # The step may have begun before the alert was raised; what has lasted long enough then has not lasted shorter now.
    now = item.pushed if helm.now.is_before(item.pushed) else helm.now
    if item.pushed.boot == now.boot:
        before = item.pushed.mono - float(item.body["quiet_s"])
        if sight.screen == item.body.get("pane"):
            shown = item.pushed.mono - float(item.body.get("pane_s", 0.0))
            sight = replace(sight, screen_since=min(sight.screen_since, shown))
        # Whatever changed since a look of its own that is older than the silence proves nothing against it.
        sight = replace(sight, watched_since=min(sight.watched_since, before), life=min(sight.life, before))
    found = judge(view, name, sight, waits(view, sights, now), now)
    return None if found.kind == "unknown" and sight.hooks else found


def obey(helm: Helm, view: RunView, item: Item) -> bool:
    """An operator's order to end an agent's incarnation. One that is just being started is ended once it is there."""
    name = str(item.body["agent"])
    agent = view.agents.get(name)
    if not name or (agent is not None and agent.state != "ERROR" and agent.process is None):
        # An order to end the whole run is obeyed at the beginning of a step: this one came in the middle.
        return False

    def fn(tx: Tx) -> bool:
        _done(tx, item)
        return agent is not None and restart(
            tx, view, agent, "killed by the operator", [f"order {item.id}"], counts=False
        )

    return helm.record(fn)


def _act(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """Does what the diagnosis asks for; False where that is nothing."""
    if not found.action or found.action == "INTERRUPT":
        return False
    if found.action == "RESCUE":
        return _rescue(tx, view, agent, found, item)
    if found.action == "PROBE":
        return _probe(tx, view, agent, found, item)
    if found.action == "HOLD":
        return _hold(tx, view, agent, found, item)
    if found.action == "ESCALATE":
        return _escalate(tx, view, agent, found, item)
    if found.action == "NUDGE":
        duty = view.duty_of(agent.agent)
        if found.kind == "provider_wait" and held(tx, agent.run, _account(view, agent), tx.now) is not None:
            return False
        if duty is None or any(message.kind == "nudge" for message in view.waiting_messages(agent.agent)):
            return False
        if agent.nudges < view.limits_of(agent.agent).nudges_max:
            return _nudge(tx, view, agent, duty, found, item)
        if duty.kind in ("offer", "mail"):
            # Nobody has to take an offer, and a letter may need no answer: that is no failure of the agent.
            return False
    _done(tx, item)
    decide(tx, view, agent, "RESTART", found.kind, found.evidence, item.id)
    return restart(tx, view, agent, found.kind, list(found.evidence), counts=found.own_fault)


def _rescue(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    task = view.task_of(agent.agent)
    if task is None:
        return False
    _done(tx, item)
    save(tx, replace(task, state=TASK.step(task.state, "reported"), rescued=True))
    body = {"task": task.task, "diagnosis": found.kind, "evidence": list(found.evidence)}
    tx.append("task_rescued", body, run=agent.run, agent=agent.agent)
    decide(tx, view, agent, "RESCUE", found.kind, found.evidence, item.id, subject=task.task)
    return True


def _nudge(tx: Tx, view: RunView, agent: AgentRecord, duty: Duty, found: Diagnosis, item: Item) -> bool:
    _done(tx, item)
    why = "\n".join(found.evidence[1:]) if found.kind in ("wrong_path", "deadlock") else ""
    if found.kind == "subagent_overdue":
        why = f"{found.evidence[0]}. Start it again, or write down that it was skipped and why."
    task = view.tasks.get(duty.subject) if duty.kind == "task" else None
    if task is not None and any("context was made shorter" in line for line in found.evidence):
        why = f"Your context was made shorter. This was your task:\n{dispatch_text(view, task, agent)}"
    send(tx, agent, "nudge", duty.subject, brief.nudge(duty.kind, duty.subject, why), key=item.id)
    change(tx, AgentRecord, agent.key, lambda a: replace(a, nudges=a.nudges + 1))
    told = {"diagnosis": found.kind, "subject": duty.subject, "nudges": agent.nudges + 1}
    body = {**told, "evidence": list(found.evidence)}
    tx.append("agent_nudged", body, run=agent.run, agent=agent.agent)
    decide(tx, view, agent, "NUDGE", found.kind, found.evidence, item.id, subject=duty.subject)
    return True


def _probe(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """Asks for a sign of life; what becomes of it is seen by close observation, not by the answer alone."""
    if agent.probed is not None:
        return False
    _done(tx, item)
    send(tx, agent, "health_check", agent.agent, brief.health_check(), key=item.id)
    change(tx, AgentRecord, agent.key, lambda a: replace(a, probed=tx.now))
    body = {"diagnosis": found.kind, "evidence": list(found.evidence)}
    tx.append("agent_probed", body, run=agent.run, agent=agent.agent)
    decide(tx, view, agent, "PROBE", found.kind, found.evidence, item.id)
    return True


def _hold(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """Nobody on the same account is started for a while. One hold, however many agents met the same refusal."""
    account = _account(view, agent)
    _done(tx, item)
    if held(tx, agent.run, account, tx.now) is None:
        until = tx.now.plus(view.limits_of(agent.agent).hold_s)
        tx.put(hold_key(agent.run, account), {"until": encode(until), "why": found.evidence[0]})
        body = {"account": account, "evidence": list(found.evidence)}
        tx.append("provider_held", body, run=agent.run, agent=agent.agent)
        decide(tx, view, agent, "HOLD", found.kind, found.evidence, item.id)
    return True


def _escalate(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """A person is called, once for each stall; the agent is not touched."""
    _done(tx, item)
    body = {"diagnosis": found.kind, "evidence": list(found.evidence), "advice": found.advice, "alert": item.id}
    op_id = f"called:{agent.key}{found.stall}"
    tx.append("person_called", body, op_id, run=agent.run, agent=agent.agent)
    kind: NoticeKind = "permission" if found.kind == "awaiting_permission" else "escalation"
    text = "\n".join([*found.evidence, found.advice])
    push_notice(tx, agent.run, kind, f"{agent.agent}{found.stall}", f"{agent.agent}: {found.kind}", text, agent.agent)
    decide(tx, view, agent, "ESCALATE", found.kind, found.evidence, item.id)
    return True


def _interrupt(helm: Helm, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """The intent first: a captain that is killed in between leaves a decision without effect, which is found out."""

    def fn(tx: Tx) -> bool:
        _done(tx, item)
        decide(tx, view, agent, "INTERRUPT", found.kind, found.evidence, item.id)
        body = {"diagnosis": found.kind, "evidence": list(found.evidence)}
        tx.append("agent_interrupted", body, run=agent.run, agent=agent.agent)
        return _settled(tx, agent, item, view.limits_of(agent.agent).nudge_s)

    helm.record(fn)
    return helm.world.hands.interrupt(agent)


def decide(
    tx: Tx,
    view: RunView,
    agent: AgentRecord,
    action: str,
    diagnosis: str,
    evidence: Sequence[str],
    alert: str,
    subject: str = "",
) -> None:
    """The record of an action: why this one, and until when its effect must show."""
    limits = view.limits_of(agent.agent)
    started_s = limits.startup_s + BACKOFF_S_MAX
    verify_s = {"ESCALATE": ONCE_S, "RESTART": started_s, "REPLACE": started_s, "PROBE": 2 * limits.probe_s}
    decision = DecisionRecord(
        run=agent.run,
        id=alert.replace("/", "."),
        agent=agent.agent,
        incarnation=agent.incarnation,
        action=action,
        diagnosis=diagnosis,
        alert=alert,
        subject=subject,
        evidence=tuple(evidence),
        alternatives=alternatives(action, diagnosis),
        at=tx.now,
        verify_by=tx.now.plus(verify_s.get(action, 2 * limits.nudge_s + limits.receipt_s)),
    )
    save(tx, decision)
    body = {
        "decision": decision.id,
        "action": action,
        "diagnosis": diagnosis,
        "evidence": list(evidence),
        "alternatives": list(decision.alternatives),
        "alert": alert,
    }
    tx.append("action_taken", body, f"action:{decision.run}:{decision.id}", run=agent.run, agent=agent.agent)


def _account(view: RunView, agent: AgentRecord) -> str:
    """What agents share whose provider refuses one of them."""
    role = view.role_of(agent.agent)
    return role.harness if role is not None else agent.role


def hold_key(run: str, account: str) -> str:
    """Where a hold stands."""
    return f"hold/{run}/{account}"


def held(reader: Reader, run: str, account: str, now: Moment) -> str | None:
    """Why nobody on this account may be started now, or None."""
    document = reader.get(hold_key(run, account))
    if document is None or not now.is_before(decode(Moment, document.body["until"])):
        return None
    return str(document.body["why"])


def restart(
    tx: Tx, view: RunView, agent: AgentRecord, reason: str, evidence: list[str], *, counts: bool = True
) -> bool:
    """The agent gets a new incarnation, or is given up where it has failed too often. What it held goes back.

    A reboot, an operator's order or `dogwatch down` is not the agent's failure and does not count.
    """
    if agent.state in AGENT.ends:
        return False
    limits = view.plan.limits
    recent = tuple(moment for moment in agent.restarts if tx.now.since(moment) < limits.restart_period_s)
    _give_back(tx, view, agent)
    if counts and len(recent) >= limits.restarts_max:
        cause = f"{reason}: {agent.agent} failed {len(recent) + 1} times within {limits.restart_period_s:g} s"
        save(tx, replace(agent, state=AGENT.step(agent.state, "ERROR"), cause=cause))
        tx.append("agent_quarantined", {"reason": cause, "evidence": evidence}, run=agent.run, agent=agent.agent)
        title = f"{agent.agent} is not started again"
        push_notice(tx, agent.run, "quarantine", f"{agent.agent}:{agent.incarnation}", title, cause, agent.agent)
        return True
    incarnation = agent.incarnation + 1
    # The first restart is made at once; from the second on the agent seems to fail by itself.
    backoff_s = min(BACKOFF_S_MAX, limits.restart_backoff_s * 2 ** (len(recent) - 1)) if recent and counts else 0.0
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
            probed=None,
            restarts=(*recent, tx.now) if counts else recent,
            not_before=tx.now.plus(backoff_s) if backoff_s else None,
        ),
    )
    body = {"reason": reason, "evidence": evidence, "incarnation": incarnation, "backoff_s": backoff_s}
    tx.append("agent_restarted", body, f"restart:{agent.key}:{incarnation}", run=agent.run, agent=agent.agent)
    _pass_on(tx, view, successor)
    return True


def replace_agent(tx: Tx, view: RunView, agent: AgentRecord, reason: str, evidence: list[str]) -> None:
    """The agent is given up for good; a new one takes its place, its undelivered mail and its work. How often it has
    failed goes along: a new name is no new beginning."""
    _give_back(tx, view, agent)
    name = f"{agent.place[:28]}-r{agent.replacement_count + 1}"
    cause = f"replaced by {name}: {reason}"
    save(
        tx,
        replace(
            agent,
            state=AGENT.step(agent.state, "ERROR"),
            health=HEALTH.step(agent.health, "replaced"),
            successor=name,
            cause=cause,
            probed=None,
        ),
    )
    successor = save(
        tx,
        AgentRecord(
            run=agent.run,
            agent=name,
            role=agent.role,
            incarnation=1,
            name=incarnation_name(agent.run, name, 1),
            restarts=agent.restarts,
            replaces=agent.place,
            replacement_count=agent.replacement_count + 1,
        ),
    )
    body = {"successor": name, "reason": reason, "evidence": evidence}
    tx.append("agent_replaced", body, f"replaced:{agent.key}", run=agent.run, agent=agent.agent)
    for task in load_all(tx, TaskRecord, f"task/{agent.run}/"):
        if task.state not in TASK.ends and task.state != "accepted" and agent.agent in task.holders:
            holders = tuple(name if holder == agent.agent else holder for holder in task.holders)
            save(tx, replace(task, holders=holders, agent=name if task.agent == agent.agent else task.agent))
    for message in load_all(tx, MessageRecord, f"message/{agent.run}/"):
        if message.to == agent.agent and message.kind == "mail":
            state = message.state if message.state == "queued" else MESSAGE.step(message.state, "queued")
            save(tx, replace(message, to=name, incarnation=1, state=state, step="", step_at=None))
        elif message.to == agent.agent:
            expire(tx, message)
    _ask_again(tx, view, successor, agent.agent)


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
        if message.to != successor.agent or message.incarnation == successor.incarnation:
            continue
        if message.kind == "mail":
            state = message.state if message.state == "queued" else MESSAGE.step(message.state, "queued")
            save(tx, replace(message, incarnation=successor.incarnation, state=state, step="", step_at=None))
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


def _withdraw(tx: Tx, run: str, item: Item, why: str) -> bool:
    _done(tx, item)
    body = {"alert": item.id, "action": item.body["action"], "why": why}
    tx.append("alert_withdrawn", body, f"withdrawn:{item.queue}:{item.id}", run=run, agent=str(item.body["agent"]))
    return True


def _settled(tx: Tx, agent: AgentRecord, item: Item, again_s: float) -> bool:
    """The same stall may be reported again after a while: what was done may not have helped."""

    def note(record: AgentRecord) -> AgentRecord:
        again = tx.now.plus(again_s)
        return replace(record, alerts=record.alerts + 1, stall=str(item.body["stall"]), stall_again=again)

    change(tx, AgentRecord, agent.key, note)
    return True


def _done(tx: Tx, item: Item) -> None:
    claimed = tx.claim(item.queue, "captain", 60.0, item.id)
    if claimed is not None:
        tx.ack(claimed)
