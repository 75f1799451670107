"""Delivery: how far a message has come on its way into an agent's client, until the client's own receipt."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination.agents import restart
from dogwatch.coordination.instructions import note_refresh
from dogwatch.coordination.mail import put_away
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change
from dogwatch.model import keys
from dogwatch.model.delivery import Delivered, Queued, Read, Step, Typing
from dogwatch.model.events.agents import GuardProven
from dogwatch.model.events.mail import MessageDelivered, MessageRetried
from dogwatch.model.records import AgentRecord, MessageRecord, TaskRecord
from dogwatch.model.view import RunView

TRIES_MAX = 3
CANARY = "canary"
"""The kind of the message that an agent's guard must refuse before the agent gets work."""


def note_step(tx: Tx, message: MessageRecord, step: Step) -> None:
    """How far the message has come on its way into the client."""
    typing = Typing(step=step, at=tx.now)
    change(tx, MessageRecord, message.key, lambda m: replace(m, typing=typing))


def take_back(tx: Tx, message: MessageRecord, *, tries: int = 0) -> None:
    """The message is not on its way any more, after so many further tries."""
    record = change(tx, MessageRecord, message.key, lambda m: replace(m, typing=None, tries=m.tries + tries))
    if record.is_over:
        put_away(tx, record)  # the agent has read it by itself and acknowledged it


def deliver(tx: Tx, message: MessageRecord) -> None:
    """The client has confirmed the message, and what follows from that for what it was about."""

    def received(m: MessageRecord) -> MessageRecord:
        match m.delivery:
            case Queued():
                m = m.become(Delivered(at=tx.now))
            case Read(at=at):
                # The agent has read it by itself while it was being typed.
                m = replace(m, delivery=Read(at=at, delivered=tx.now))
        return replace(m, typing=None)

    record = change(tx, MessageRecord, message.key, received)
    if record.is_over or message.kind in (CANARY, "refresh"):
        put_away(tx, record)
    if message.kind == "refresh":
        note_refresh(tx, message)
    if message.kind == CANARY:
        key = keys.agent(message.run, message.to)
        change(tx, AgentRecord, key, lambda a: _guarded(a, message.incarnation))
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


def _guarded(agent: AgentRecord, incarnation: int) -> AgentRecord:
    is_same = agent.incarnation == incarnation
    return agent.while_running(lambda life: replace(life, guarded=True)) if is_same else agent


def _holds(task: TaskRecord, message: MessageRecord) -> bool:
    return task.agent == message.to and task.incarnation == message.incarnation


def retry(tx: Tx, view: RunView, message: MessageRecord) -> None:
    """Once more; a client that never confirms what it was told is of no use and gets a new incarnation."""
    if message.tries + 1 >= TRIES_MAX and message.state == "queued":
        give_up(tx, view, message, f"no receipt of {message.id} after {message.tries + 1} tries")
        return
    take_back(tx, message, tries=1)
    event = MessageRetried(
        message=message.id, kind_=message.kind, tries=message.tries + 1, run=message.run, agent=message.to
    )
    tx.append(event)


def give_up(tx: Tx, view: RunView, message: MessageRecord, why: str) -> None:
    """The message cannot be delivered to this incarnation; the next one gets it."""
    reason = "guard_silent" if message.kind == CANARY else "undelivered"
    restart(tx, view, view.agents[message.to], reason, [f"hooks: {why}"])
