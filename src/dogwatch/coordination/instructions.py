"""Which version of its instructions each agent has, as one transaction each: briefs, refreshes, and held mail."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load, save
from dogwatch.model import brief, keys
from dogwatch.model.codec import encode
from dogwatch.model.events.mail import MessageHeld, MessageSent
from dogwatch.model.records import AgentRecord, MessageRecord
from dogwatch.model.versions import ReadingRecord
from dogwatch.model.view import RunView
from dogwatch.policy.versions import told_by_brief


def brief_line(view: RunView, agent: AgentRecord) -> str:
    """What a brief says of the role's instructions; empty where it has none."""
    role = view.role_of(agent.agent)
    newest = view.instructions.get(agent.role)
    return brief.instructions(role.instructions, newest.version if newest else "") if role and role.instructions else ""


def note_brief(tx: Tx, view: RunView, agent: AgentRecord) -> None:
    """The incarnation's first brief names the newest version."""
    if not view.instructions:
        return
    known = load(tx, ReadingRecord, keys.reading(agent.run, agent.agent))
    if known is not None and known.incarnation == agent.incarnation:
        return
    told = told_by_brief(view, agent.agent, tx.now)
    if told is not None:
        save(tx, told)


def note_refresh(tx: Tx, message: MessageRecord) -> None:
    """The refresh was delivered: from now on what the agent sends is held."""
    reading = load(tx, ReadingRecord, keys.reading(message.run, message.to))
    if reading is not None and reading.state == "asked" and reading.message == message.id:
        save(tx, replace(reading, state="owes", since=tx.now, held=reading.held or tx.now))


def debt(tx: Tx, agent: AgentRecord) -> ReadingRecord | None:
    """The reading that the agent owes, where what it sends is held for it."""
    reading = load(tx, ReadingRecord, keys.reading(agent.run, agent.agent))
    return reading if reading and reading.held and reading.incarnation == agent.incarnation else None


def keep_back(tx: Tx, message: MessageRecord, version: str) -> None:
    """The letter waits, where nobody reads it, until its sender has read its instructions."""
    event = MessageHeld(message=message.id, to=message.to, version=version, run=message.run, agent=message.sender)
    if tx.append(event, f"held:{message.key}"):
        tx.put(keys.held_message(message.run, message.id), encode(message))


def let_go(tx: Tx, message: MessageRecord, receiver: AgentRecord) -> bool:
    """The letter goes on its way, as if it had been sent now; False where it has gone before."""
    tx.delete(keys.held_message(message.run, message.id))
    sent = replace(message, to=receiver.agent, incarnation=receiver.incarnation, queued=tx.now)
    event = MessageSent(
        message=sent.id,
        kind_=sent.kind,
        subject=sent.subject,
        sender=sent.sender,
        bytes=len(sent.body.encode()),
        run=sent.run,
        agent=sent.to,
    )
    is_new = tx.append(event, f"message:{sent.key}")
    if is_new:
        save(tx, sent)
    return is_new
