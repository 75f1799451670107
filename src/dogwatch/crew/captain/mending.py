"""Alerts and orders become records: the captain looks again at the moment of acting, and then writes what shall be.

Each alert is settled in one transaction with what it leads to, so that a kill loses neither and repeats neither. Each
action is a decision record as well, and its effect is looked for later (`verifying.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dogwatch.coordination.agents import restart
from dogwatch.coordination.decisions import ONCE_S, decide
from dogwatch.coordination.holds import account_of, held, hold
from dogwatch.coordination.mail import send
from dogwatch.coordination.notices import push_notice
from dogwatch.coordination.queues import RECLAIM, settle
from dogwatch.coordination.tasks import dispatch_text, rescue_task
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.interrupting import press
from dogwatch.crew.captain.reclaiming import obey_reclaim
from dogwatch.crew.captain.subagents import mail_parent, note_call
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import change
from dogwatch.model import brief
from dogwatch.model.events.agents import AgentInterrupted, AgentNudged, AgentProbed
from dogwatch.model.events.alerts import AlertWithdrawn, PersonCalled, ProviderHeld
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, MessageRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import Duty, RunView
from dogwatch.policy.diagnoses import traits_of
from dogwatch.policy.diagnosis import Case, Diagnosis, Late
from dogwatch.policy.judge import judge, nudges_for
from dogwatch.policy.subagents import asked_for_with
from dogwatch.policy.waits import waits

LOOK_AGAIN_S = 5.0


def settle_alert(helm: Helm, view: RunView, item: Item) -> bool:
    """Acts on what is seen now, or withdraws the alert where there is nothing to do. An `unknown` look leaves it."""
    name, incarnation = str(item.body["agent"]), int(item.body["incarnation"])
    agent = view.agents.get(name)
    if agent is None or agent.incarnation != incarnation or agent.process is None:
        return helm.record(lambda tx: _withdraw(tx, helm.run, item, "that incarnation is gone"))
    again = _diagnosed_again(helm, view, agent, item)
    if again is None:
        return False
    found, late = again
    if found.action == "INTERRUPT" and found.kind == item.body["diagnosis"]:
        return _interrupt(helm, view, agent, found, item)

    def fn(tx: Tx) -> bool:
        if _act(tx, view, agent, found, item, late):
            limits = view.limits_of(name)
            again_s = {"ESCALATE": ONCE_S, "HOLD": limits.hold_s}.get(found.action, limits.nudge_s)
            return _settled(tx, agent, item, again_s)
        _withdraw(tx, helm.run, item, f"now {found.kind}")
        return _settled(tx, agent, item, LOOK_AGAIN_S)

    return helm.record(fn)


def _diagnosed_again(
    helm: Helm, view: RunView, agent: AgentRecord, item: Item
) -> tuple[Diagnosis, Sequence[Late]] | None:
    """What is seen now, and the late sub-agents that it is about; None where the look says nothing. For the time before
    it, the watchdog's alert vouches: how long a screen has stood there, and how long there was no sign of life."""
    name = agent.agent
    alive = [one.agent for one in view.agents.values() if one.process is not None and one.state != "ERROR"]
    sights = helm.world.eyes.look(view, alive if traits_of(item.body["diagnosis"]).is_ring else [name], screens=True)
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
    if found.kind == "unknown" and sight.hooks:
        return None
    return found, _late_ones(view, agent, sight, found, now)


def _late_ones(view: RunView, agent: AgentRecord, sight: Sight, found: Diagnosis, now: Moment) -> Sequence[Late]:
    """All sub-agents that the same is to be said of: the diagnosis names one of them."""
    if found.late is None:
        return ()
    duty, limits = view.duty_of(agent.agent), view.limits_of(agent.agent)
    overdue = view.overdue_of(agent.agent)
    case = Case(agent, duty, sight, limits, now, time_limits=view.plan.time_limits, overdue=overdue)
    return asked_for_with(case, found.late) or (found.late,)


def obey(helm: Helm, view: RunView, item: Item) -> bool:
    """An operator's order to end an agent's incarnation. One that is just being started is ended once it is there. The
    dispatcher orders that an idle one rests."""
    if item.body.get("order") == RECLAIM:
        return obey_reclaim(helm, view, item)
    name = str(item.body["agent"])
    agent = view.agents.get(name)
    waits = agent is not None and bool(agent.held or agent.resting)
    if not name or (agent is not None and agent.state != "ERROR" and agent.process is None and not waits):
        # An order to end the whole run is obeyed at the beginning of a step: this one came in the middle.
        return False

    def fn(tx: Tx) -> bool:
        settle(tx, item)
        rests = agent is not None and bool(agent.resting)
        return agent is not None and restart(
            tx, view, agent, "killed by the operator", [f"order {item.id}"], counts=False, rests=rests
        )

    return helm.record(fn)


def _act(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item, late: Sequence[Late]) -> bool:
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
        return _escalate(tx, view, agent, found, item, late)
    if found.action == "NUDGE" and late:
        return _mail(tx, view, agent, found, late, item)
    if found.action == "NUDGE":
        duty = view.duty_of(agent.agent)
        if found.traits.waits_for_account and held(tx, agent.run, account_of(view, agent), tx.now) is not None:
            return False
        if duty is None or any(message.kind == "nudge" for message in view.waiting_messages(agent.agent)):
            return False
        if nudges_for(agent, duty) < view.limits_of(agent.agent).nudges_max:
            return _nudge(tx, view, agent, duty, found, item)
    settle(tx, item)
    decide(tx, view, agent, "RESTART", found.kind, found.evidence, item.id)
    forgets = found.traits.forgets
    return restart(tx, view, agent, found.kind, list(found.evidence), counts=found.own_fault, forgets=forgets)


def _rescue(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    task = view.task_of(agent.agent)
    if task is None:
        return False
    settle(tx, item)
    rescue_task(tx, task, found.kind, found.evidence)
    decide(tx, view, agent, "RESCUE", found.kind, found.evidence, item.id, subject=task.task)
    return True


def _nudge(tx: Tx, view: RunView, agent: AgentRecord, duty: Duty, found: Diagnosis, item: Item) -> bool:
    settle(tx, item)
    why = "\n".join(found.evidence[1:]) if found.traits.nudge_tells_why else ""
    task = view.tasks.get(duty.subject) if duty.kind == "task" else None
    if task is not None and found.retell:
        why = f"Your context was made shorter. This was your task:\n{dispatch_text(view, task, agent)}"
    send(tx, agent, "nudge", duty.subject, brief.nudge(duty.kind, duty.subject, why), key=item.id)
    nudges = nudges_for(agent, duty) + 1
    if duty.message:
        change(tx, MessageRecord, view.messages[duty.message].key, lambda m: replace(m, nudges=nudges))
    else:
        change(tx, AgentRecord, agent.key, lambda a: replace(a, nudges=nudges))
    event = AgentNudged(
        diagnosis=found.kind,
        subject=duty.subject,
        nudges=nudges,
        evidence=found.evidence,
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event)
    decide(tx, view, agent, "NUDGE", found.kind, found.evidence, item.id, subject=duty.subject)
    return True


def _mail(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, late: Sequence[Late], item: Item) -> bool:
    """The parent of sub-agents that are late is asked to do something about them, also in the middle of its turn."""
    settle(tx, item)
    mail_parent(tx, view, agent, late)
    decide(tx, view, agent, "NUDGE", found.kind, found.evidence, item.id)
    return True


def _probe(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """Asks for a sign of life; what becomes of it is seen by close observation, not by the answer alone."""
    if agent.probed is not None:
        return False
    settle(tx, item)
    send(tx, agent, "health_check", agent.agent, brief.health_check(), key=item.id)
    change(tx, AgentRecord, agent.key, lambda a: replace(a, probed=tx.now))
    tx.append(AgentProbed(diagnosis=found.kind, evidence=found.evidence, run=agent.run, agent=agent.agent))
    decide(tx, view, agent, "PROBE", found.kind, found.evidence, item.id)
    return True


def _hold(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """Nobody on the same account is started for a while. One hold, however many agents met the same refusal."""
    account = account_of(view, agent)
    settle(tx, item)
    if held(tx, agent.run, account, tx.now) is None:
        hold(tx, agent.run, account, view.limits_of(agent.agent).hold_s, found.evidence[0])
        tx.append(ProviderHeld(account=account, evidence=found.evidence, run=agent.run, agent=agent.agent))
        decide(tx, view, agent, "HOLD", found.kind, found.evidence, item.id)
    return True


def _escalate(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item, late: Sequence[Late]) -> bool:
    """A person is called, once for each stall; the agent is not touched."""
    settle(tx, item)
    event = PersonCalled(
        diagnosis=found.kind,
        evidence=found.evidence,
        advice=found.advice,
        alert=item.id,
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, f"called:{agent.key}{found.stall}")
    kind, text = found.traits.notice, "\n".join([*found.evidence, found.advice])
    push_notice(tx, agent.run, kind, f"{agent.agent}{found.stall}", f"{agent.agent}: {found.kind}", text, agent.agent)
    note_call(tx, agent, late)
    decide(tx, view, agent, "ESCALATE", found.kind, found.evidence, item.id)
    return True


def _interrupt(helm: Helm, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """The intent first: a captain that is killed in between leaves a decision without effect, which is found out."""

    def fn(tx: Tx) -> bool:
        settle(tx, item)
        decide(tx, view, agent, "INTERRUPT", found.kind, found.evidence, item.id)
        tx.append(AgentInterrupted(diagnosis=found.kind, evidence=found.evidence, run=agent.run, agent=agent.agent))
        change(tx, AgentRecord, agent.key, lambda a: replace(a, interrupts=(tx.now,), interrupted=found.kind))
        return _settled(tx, agent, item, view.limits_of(agent.agent).nudge_s)

    helm.record(fn)
    return press(helm, view, agent)


def _withdraw(tx: Tx, run: str, item: Item, why: str) -> bool:
    settle(tx, item)
    event = AlertWithdrawn(
        alert=item.id, action=str(item.body["action"]), why=why, run=run, agent=str(item.body["agent"])
    )
    tx.append(event, f"withdrawn:{item.queue}:{item.id}")
    return True


def _settled(tx: Tx, agent: AgentRecord, item: Item, again_s: float) -> bool:
    """The same stall may be reported again after a while: what was done may not have helped."""

    def note(record: AgentRecord) -> AgentRecord:
        again = tx.now.plus(again_s)
        return replace(record, alerts=record.alerts + 1, stall=str(item.body["stall"]), stall_again=again)

    change(tx, AgentRecord, agent.key, note)
    return True
