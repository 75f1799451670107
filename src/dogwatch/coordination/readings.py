"""Who has read which version of its instructions: changes, refreshes, readings, and readings that never came."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination.instructions import let_go
from dogwatch.coordination.mail import expire, send
from dogwatch.coordination.reviews import hear_mail
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, load_all, load_run, save
from dogwatch.model import brief, keys
from dogwatch.model.events.instructions import InstructionsChanged, InstructionsRead, RefreshExpired
from dogwatch.model.records import MessageRecord
from dogwatch.model.redact import Redactor
from dogwatch.model.versions import InstructionsRecord, ReadingRecord
from dogwatch.model.view import RunView
from dogwatch.policy import versions


def note_change(tx: Tx, view: RunView, record: InstructionsRecord) -> None:
    """The instructions of a role are others than before, or were seen for the first time."""
    save(tx, record)
    if not record.changes:
        return
    before = view.instructions[record.role].version
    event = InstructionsChanged(role=record.role, path=record.path, from_=before, to=record.version, run=record.run)
    tx.append(event, f"instructions:{record.key}:{record.changes}")


def ask_to_read(tx: Tx, view: RunView, decision: versions.Ask) -> None:
    """The agent is told at its prompt; an earlier refresh that has not reached it is overtaken."""
    agent, reading = view.agents[decision.agent], view.readings[decision.agent]
    newest = view.instructions[agent.role]
    for message in view.waiting_messages(agent.agent):
        if message.kind == "refresh" and not message.step:
            expire(tx, message)
    hold_s = view.limits_of(agent.agent).refresh_s if decision.holds else 0.0
    text = brief.refresh(newest.path, reading.version, newest.version, hold_s)
    message = send(tx, agent, "refresh", agent.role, text, key=f"{newest.digest}:{newest.changes}")
    save(
        tx,
        replace(
            reading,
            digest=newest.digest,
            version=newest.version,
            before=reading.version,
            state="asked" if decision.holds else "told",
            since=tx.now,
            asked=tx.now,
            message=message.id,
        ),
    )


def note_read(tx: Tx, view: RunView, agent: str) -> None:
    """The agent's client has read the newest version; a refresh that is still on its way is overtaken."""
    reading, newest = view.readings[agent], view.instructions[view.agents[agent].role]
    for message in view.waiting_messages(agent):
        if message.kind == "refresh" and not message.step:
            expire(tx, message)
    event = InstructionsRead(
        version=newest.version,
        message=reading.message,
        seconds=round(tx.now.since(reading.since), 3),
        late=reading.state == "expired",
        run=reading.run,
        agent=agent,
    )
    tx.append(event)
    done = replace(reading, digest=newest.digest, version=newest.version, state="read", since=tx.now, held=None)
    save(tx, replace(done, message="", before=""))


def lapse(tx: Tx, view: RunView, agent: str) -> None:
    """What was held goes out; that the agent has not read is held against it."""

    def expire_reading(reading: ReadingRecord) -> ReadingRecord:
        state = "expired" if reading.state == "owes" else reading.state
        return replace(reading, state=state, since=tx.now, held=None, lapses=reading.lapses + 1)

    reading = change(tx, ReadingRecord, view.readings[agent].key, expire_reading)
    held = [one for one in load_all(tx, MessageRecord, keys.held_messages(reading.run)) if one.sender == agent]
    event = RefreshExpired(
        version=reading.version,
        message=reading.message,
        held=len(held),
        count=reading.lapses,
        run=reading.run,
        agent=agent,
    )
    tx.append(event)


def send_on(tx: Tx, message: MessageRecord, redactor: Redactor) -> None:
    """A letter that was held back goes out: its sender owes no reading any more."""
    view = load_run(tx, message.run)
    receiver = view.agents[view.current(message.to)]
    if let_go(tx, message, receiver):
        hear_mail(tx, view, message, redactor)
