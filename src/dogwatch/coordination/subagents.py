"""Sub-agents that run past their time: their parents are mailed, and each stays open until something has settled it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import replace

from dogwatch.coordination.mail import send
from dogwatch.errors import RefusedError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, save
from dogwatch.model import brief
from dogwatch.model.events.subagents import SubagentOverdue, SubagentSettled
from dogwatch.model.records import AgentRecord, OverdueSubagent
from dogwatch.model.view import RunView
from dogwatch.policy.diagnosis import Late


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


def settle(tx: Tx, known: OverdueSubagent, how: str, note: str = "") -> None:
    """It is open no more."""

    def fn(record: OverdueSubagent) -> OverdueSubagent:
        return record if record.settled else replace(record, settled=how, note=note)

    change(tx, OverdueSubagent, known.key, fn)
    event = SubagentSettled(
        id=known.id,
        type=known.type,
        incarnation=known.incarnation,
        how=how,
        note=note,
        open_s=round(tx.now.since(known.opened), 3),
        run=known.run,
        agent=known.agent,
    )
    tx.append(event, f"settled:{known.key}")


def forget(tx: Tx, known: OverdueSubagent) -> None:
    """Nothing need be known of it any more: the events tell all."""
    tx.delete(known.key)


def close_overdue(tx: Tx, view: RunView) -> None:
    """At the end of the run: nobody is waited for any more."""
    for known in view.overdue:
        if not known.settled:
            settle(tx, known, "run_ended")


def skip(tx: Tx, view: RunView, agent: AgentRecord, kind: str, note: str) -> int:
    """The parent goes on without its overdue sub-agents of that type or id, and says why. Returns how many they are."""
    own = view.overdue_of(agent.agent).values()
    found = [one for one in own if kind in (one.type, one.id)]
    if not found:
        open_ones = ", ".join(one.type for one in own if not one.settled)
        raise RefusedError(f"no sub-agent {kind!r} of {agent.agent} is overdue", hint=f"overdue: {open_ones or 'none'}")
    for one in found:
        if not one.settled:
            settle(tx, one, "skipped", note)
    return len(found)
