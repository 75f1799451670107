"""Delivery: how far a message has come on its way into an agent's client, until the client's own receipt."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination.agents import restart
from dogwatch.coordination.instructions import note_refresh
from dogwatch.coordination.mail import put_away
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change
from dogwatch.model import keys
from dogwatch.model.events.agents import GuardProven
from dogwatch.model.events.mail import MessageDelivered, MessageRetried
from dogwatch.model.lifecycle import MESSAGE
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, MessageRecord, TaskRecord
from dogwatch.model.view import RunView

TRIES_MAX = 3
CANARY = "canary"
"""The kind of the message that an agent's guard must refuse before the agent gets work."""


def note_step(tx: Tx, message: MessageRecord, step: str) -> None:
    """How far the typing of the message has come; empty where it is not being typed."""
    _note(tx, message, step, tx.now, message.tries)


def _note(tx: Tx, message: MessageRecord, step: str, at: Moment | None, tries: int) -> None:
    record = change(tx, MessageRecord, message.key, lambda m: replace(m, step=step, step_at=at, tries=tries))
    if not step and record.state in MESSAGE.ends:
        put_away(tx, record)  # the agent has read it by itself and acknowledged it: it is on no way any more


def deliver(tx: Tx, message: MessageRecord) -> None:
    """The client has confirmed the message, and what follows from that for what it was about."""

    def received(m: MessageRecord) -> MessageRecord:
        # The agent may have read it by itself while it was being typed.
        state = MESSAGE.step(m.state, "delivered") if m.state == "queued" else m.state
        return replace(m, state=state, delivered=tx.now, step="")

    record = change(tx, MessageRecord, message.key, received)
    if record.state in MESSAGE.ends or message.kind in (CANARY, "refresh"):
        put_away(tx, record)
    if message.kind == "refresh":
        note_refresh(tx, message)
    if message.kind == CANARY:
        key = keys.agent(message.run, message.to)
        change(tx, AgentRecord, key, lambda a: replace(a, guarded=message.incarnation))
        tx.append(GuardProven(incarnation=message.incarnation, run=message.run, agent=message.to))
    if message.kind == "dispatch":
        key = keys.task(message.run, message.subject)
        change(tx, TaskRecord, key, lambda t: replace(t, delivered=tx.now) if _holds(t, message) else t)
    event = MessageDelivered(
        message=message.id,
        kind_=message.kind,
        subject=message.subject,
        tries=message.tries + 1,
        run=message.run,
        agent=message.to,
    )
    tx.append(event, f"delivered:{message.key}")


def _holds(task: TaskRecord, message: MessageRecord) -> bool:
    return task.agent == message.to and task.incarnation == message.incarnation


def retry(tx: Tx, view: RunView, message: MessageRecord) -> None:
    """Once more; a client that never confirms what it was told is of no use and gets a new incarnation."""
    if message.tries + 1 >= TRIES_MAX and message.state == "queued":
        give_up(tx, view, message, f"no receipt of {message.id} after {message.tries + 1} tries")
        return
    _note(tx, message, "", None, message.tries + 1)
    event = MessageRetried(
        message=message.id, kind_=message.kind, tries=message.tries + 1, run=message.run, agent=message.to
    )
    tx.append(event)


def give_up(tx: Tx, view: RunView, message: MessageRecord, why: str) -> None:
    """The message cannot be delivered to this incarnation; the next one gets it."""
    reason = "guard_silent" if message.kind == CANARY else "undelivered"
    restart(tx, view, view.agents[message.to], reason, [f"hooks: {why}"])
