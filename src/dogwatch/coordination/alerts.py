"""Alerts: each is settled once, in one transaction with what it leads to, or withdrawn; a person is called where only
a person can help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from dogwatch.coordination import recovery
from dogwatch.coordination.decisions import decide
from dogwatch.coordination.holds import account_of, held, hold
from dogwatch.coordination.notices import push_notice
from dogwatch.coordination.queues import settle
from dogwatch.coordination.subagents import note_call
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import change
from dogwatch.model.events.alerts import AlertWithdrawn, PersonCalled, ProviderHeld
from dogwatch.model.events.runs import RunQuiet
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, SettledStall
from dogwatch.model.view import RunView
from dogwatch.policy import ladder
from dogwatch.policy.diagnosis import Diagnosis, Late
from dogwatch.policy.judge import nudges_for


def answer(
    tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, late: tuple[Late, ...], item: Item
) -> ladder.Step:
    """Settles the alert with what is to be done about what is seen now, or withdraws it; returns the step that was
    decided. An interrupt is only recorded here: whoever asked for it sends the key."""
    step = ladder.decide(found, _facts(tx, view, agent, late, item))
    done = _take(tx, view, agent, step, found, item)
    if not done:
        withdraw(tx, agent.run, item, f"now {found.kind}")
    limits = view.limits_of(agent.agent)
    note_settled(tx, agent, item, ladder.again_s(step if done else ladder.LeaveAlone(), limits))
    return step


def _facts(tx: Tx, view: RunView, agent: AgentRecord, late: tuple[Late, ...], item: Item) -> ladder.Facts:
    duty = view.duty_of(agent.agent)
    return ladder.Facts(
        alerted=str(item.body["diagnosis"]),
        nudges_max=view.limits_of(agent.agent).nudges_max,
        nudges=nudges_for(agent, duty),
        duty=duty,
        task=view.task_of(agent.agent),
        late=late,
        is_nudge_queued=any(message.kind == "nudge" for message in view.waiting_messages(agent.agent)),
        is_account_held=held(tx, agent.run, account_of(view, agent), tx.now) is not None,
        is_probed=agent.probed is not None,
    )


def _take(tx: Tx, view: RunView, agent: AgentRecord, step: ladder.Step, found: Diagnosis, item: Item) -> bool:
    """Takes the step; False where nothing was done."""
    match step:
        case ladder.LeaveAlone():
            return False
        case ladder.Rescue():
            return recovery.rescue(tx, view, agent, step.task, found, item)
        case ladder.Nudge():
            return recovery.nudge(tx, view, agent, step.duty, found, item)
        case ladder.NudgeParent():
            return recovery.nudge_parent(tx, view, agent, step.late, found, item)
        case ladder.Probe():
            return recovery.probe(tx, view, agent, found, item)
        case ladder.Interrupt():
            return recovery.interrupt(tx, view, agent, found, item)
        case ladder.HoldAccount():
            return hold_account(tx, view, agent, found, item)
        case ladder.CallPerson():
            return call_person(tx, view, agent, step.late, found, item)
        case ladder.Restart():
            return recovery.restart_for(tx, view, agent, step, found, item)
        case _:
            assert_never(step)


def withdraw(tx: Tx, run: str, item: Item, why: str) -> bool:
    """There is nothing to do about it any more."""
    settle(tx, item)
    event = AlertWithdrawn(
        alert=item.id, action=str(item.body["action"]), why=why, run=run, agent=str(item.body["agent"])
    )
    tx.append(event, f"withdrawn:{item.queue}:{item.id}")
    return True


def note_settled(tx: Tx, agent: AgentRecord, item: Item, again_s: float) -> bool:
    """The same stall may be reported again after a while: what was done may not have helped."""

    def note(record: AgentRecord) -> AgentRecord:
        again = tx.now.plus(again_s)
        settled = SettledStall(stall=str(item.body["stall"]), again=again)
        return replace(record, alerts=record.alerts + 1, settled=settled)

    change(tx, AgentRecord, agent.key, note)
    return True


def call_person(tx: Tx, view: RunView, agent: AgentRecord, late: Sequence[Late], found: Diagnosis, item: Item) -> bool:
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
    text = "\n".join([*found.evidence, found.advice])
    push_notice(
        tx,
        agent.run,
        found.traits.notice,
        f"{agent.agent}{found.stall}",
        f"{agent.agent}: {found.kind}",
        text,
        agent.agent,
    )
    note_call(tx, agent, late)
    decide(tx, view, agent, "ESCALATE", found.kind, found.evidence, item.id)
    return True


def hold_account(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """Nobody on the same account is started for a while. One hold, however many agents met the same refusal."""
    account = account_of(view, agent)
    settle(tx, item)
    if held(tx, agent.run, account, tx.now) is None:
        hold(tx, agent.run, account, view.limits_of(agent.agent).hold_s, found.evidence[0])
        tx.append(ProviderHeld(account=account, evidence=found.evidence, run=agent.run, agent=agent.agent))
        decide(tx, view, agent, "HOLD", found.kind, found.evidence, item.id)
    return True


def warn_of_quiet(tx: Tx, run: str, quiet_s: float, ends_in_s: float, since: Moment) -> bool:
    """Nothing has moved in the run since then: a person is told, once, before it is ended."""
    event = RunQuiet(quiet_s=round(quiet_s, 3), ends_in_s=round(ends_in_s, 3), run=run)
    if tx.append(event, f"quiet:{run}:{since.mono:.3f}"):
        title = f"the run has made no progress for {quiet_s:.0f} s"
        text = f"It will be ended in {ends_in_s:.0f} s unless it moves."
        push_notice(tx, run, "escalation", f"quiet:{since.mono:.3f}", title, text)
    return True
