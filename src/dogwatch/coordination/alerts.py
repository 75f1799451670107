"""Alerts: each is settled once, in one transaction with what it leads to, or withdrawn; a person is called where only
a person can help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from dogwatch.model.plan import NoticeKind
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView
from dogwatch.policy.diagnosis import Diagnosis, Late


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
        return replace(record, alerts=record.alerts + 1, stall=str(item.body["stall"]), stall_again=again)

    change(tx, AgentRecord, agent.key, note)
    return True


def call_person(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item, late: Sequence[Late]) -> bool:
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
    kind: NoticeKind = "permission" if found.kind == "awaiting_permission" else "escalation"
    text = "\n".join([*found.evidence, found.advice])
    push_notice(tx, agent.run, kind, f"{agent.agent}{found.stall}", f"{agent.agent}: {found.kind}", text, agent.agent)
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
