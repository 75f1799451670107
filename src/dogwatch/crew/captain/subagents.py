"""Sub-agents that run past their time: their parents are mailed, and each stays open until something has settled it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dogwatch.coordination.mail import send
from dogwatch.coordination.subagents import settle
from dogwatch.crew.captain.helm import Helm
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import save
from dogwatch.model import brief
from dogwatch.model.events.subagents import SubagentOverdue
from dogwatch.model.records import AgentRecord, OverdueSubagent
from dogwatch.model.view import RunView
from dogwatch.policy.diagnosis import Late
from dogwatch.policy.subagents import is_gone, settled_by


def mail_parent(tx: Tx, view: RunView, agent: AgentRecord, late: Sequence[Late]) -> None:
    """Tells the parent what it can do about those of one type that are late, the oldest first. A letter about that type
    that has not reached it yet need not be written twice."""
    mailed = [_note_mail(tx, agent, one) for one in late]
    kind, ran_s, limit_s = late[0].subagent.type, late[0].ran_s, late[0].limit_s
    # The client, and so the agent, chooses the type.
    subject = f"subagent-{hashlib.sha256(kind.encode(errors='replace')).hexdigest()[:16]}"
    if not any(message.subject == subject for message in view.waiting_messages(agent.agent)):
        named = f"{kind} (and {len(late) - 1} more of that type)" if len(late) > 1 else kind
        text = brief.subagent_overdue(named, ran_s, limit_s, shlex.quote(kind))
        send(tx, agent, "mail", subject, text, key=f"{mailed[0].key}:{mailed[0].mails}")


def _note_mail(tx: Tx, agent: AgentRecord, late: Late) -> OverdueSubagent:
    known = _known(tx, agent, late)
    return save(tx, replace(known, mails=known.mails + 1, told=tx.now))


def note_call(tx: Tx, agent: AgentRecord, late: Sequence[Late]) -> None:
    """A person was called for them: nothing more is done by itself."""
    for one in late:
        save(tx, replace(_known(tx, agent, one), called=True, told=tx.now))


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
    event = SubagentOverdue(
        id=one.id,
        type=one.type,
        incarnation=agent.incarnation,
        ran_s=round(late.ran_s, 3),
        limit_s=late.limit_s,
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, f"open:{record.key}")
    return record


def look_after_overdue(helm: Helm, view: RunView) -> None:
    """Finds out which of the overdue ones were started again, have ended after all, or were lost with their parent. Of
    one that is settled and runs no more, the events tell all: its record goes."""
    if not view.overdue:
        return
    parents = {known.agent for known in view.overdue if view.agents[known.agent].incarnation == known.incarnation}
    names = [name for name in parents if view.agents[name].process is not None]
    sights = helm.world.eyes.look(view, names, screens=False) if names else {}
    for known in view.overdue:
        sight, agent = sights.get(known.agent), view.agents.get(known.agent)
        turn = sight.turn if sight is not None else None
        how = "" if known.settled else settled_by(known, agent, turn)
        if how:
            helm.record(partial(settle, known=known, how=how))
        if (known.settled or how) and is_gone(known, agent, turn):
            helm.record(partial(_forget, known=known))


def _forget(tx: Tx, known: OverdueSubagent) -> None:
    tx.delete(known.key)


def close_overdue(tx: Tx, view: RunView) -> None:
    """At the end of the run: nobody is waited for any more."""
    for known in view.overdue:
        if not known.settled:
            settle(tx, known, "run_ended")
