"""Sub-agents that run past their time: their parents are mailed, and each stays open until something has settled it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial

from dogwatch.crew.helm import Helm, send
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, save
from dogwatch.model import brief
from dogwatch.model.records import AgentRecord, OverdueSubagent
from dogwatch.model.view import RunView
from dogwatch.policy.diagnosis import Late
from dogwatch.policy.subagents import settled_by


def mail_parent(tx: Tx, view: RunView, agent: AgentRecord, late: Late) -> None:
    """Tells the parent what it can do about it. A letter that has not reached it yet need not be written twice."""
    known = _known(tx, agent, late)
    mailed = save(tx, replace(known, mails=known.mails + 1, told=tx.now))
    subject = f"subagent-{known.key.rpartition('/')[2]}"
    if not any(message.subject == subject for message in view.waiting_messages(agent.agent)):
        kind = late.subagent.type
        text = brief.subagent_overdue(kind, late.ran_s, late.limit_s, shlex.quote(kind))
        send(tx, agent, "mail", subject, text, key=f"{known.key}:{mailed.mails}")


def note_call(tx: Tx, agent: AgentRecord, late: Late) -> None:
    """A person was called for it: nothing more is done by itself."""
    save(tx, replace(_known(tx, agent, late), called=True, told=tx.now))


def _known(tx: Tx, agent: AgentRecord, late: Late) -> OverdueSubagent:
    """What the ledger has of it, or a new record, with the event that it is open."""
    one = late.subagent
    if late.told is not None:
        return late.told
    record = OverdueSubagent(
        run=agent.run,
        agent=agent.agent,
        incarnation=agent.incarnation,
        id=one.id,
        type=one.type,
        limit_s=late.limit_s,
        ran_s=late.ran_s,
        opened=tx.now,
        told=tx.now,
    )
    body = {"id": one.id, "type": one.type, "incarnation": agent.incarnation, "ran_s": round(late.ran_s, 3)}
    body["limit_s"] = late.limit_s
    tx.append("subagent_overdue", body, f"open:{record.key}", run=agent.run, agent=agent.agent)
    return record


def settle(tx: Tx, known: OverdueSubagent, how: str, note: str = "") -> None:
    """It is open no more."""

    def fn(record: OverdueSubagent) -> OverdueSubagent:
        return record if record.settled else replace(record, settled=how, note=note)

    change(tx, OverdueSubagent, known.key, fn)
    body = {"id": known.id, "type": known.type, "incarnation": known.incarnation, "how": how, "note": note}
    body["open_s"] = round(tx.now.since(known.opened), 3)
    tx.append("subagent_settled", body, f"settled:{known.key}", run=known.run, agent=known.agent)


def look_after_overdue(helm: Helm, view: RunView) -> None:
    """Finds out which of the overdue ones were started again, have ended after all, or were lost with their parent."""
    still_open = [known for known in view.overdue if not known.settled]
    if not still_open:
        return
    parents = {known.agent for known in still_open if view.agents[known.agent].incarnation == known.incarnation}
    names = [name for name in parents if view.agents[name].process is not None]
    sights = helm.world.eyes.look(view, names, screens=False) if names else {}
    for known in still_open:
        sight = sights.get(known.agent)
        how = settled_by(known, view.agents.get(known.agent), sight.turn if sight is not None else None)
        if how:
            helm.record(partial(settle, known=known, how=how))


def close_overdue(tx: Tx, view: RunView) -> None:
    """At the end of the run: nobody is waited for any more."""
    for known in view.overdue:
        if not known.settled:
            settle(tx, known, "run_ended")
