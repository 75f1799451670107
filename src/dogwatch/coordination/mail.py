"""Mail: every message to an agent, from the moment it is queued until it is acknowledged or has expired."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import save
from dogwatch.model.brief import Header
from dogwatch.model.codec import encode
from dogwatch.model.events.mail import MessageExpired, MessageSent
from dogwatch.model.lifecycle import MESSAGE
from dogwatch.model.records import AgentRecord, MessageRecord

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def send(
    tx: Tx, agent: AgentRecord, kind: str, subject: str, body: str, *, sender: str = "captain", key: str
) -> MessageRecord:
    """Queues a message for the agent's current incarnation. `key` names its occasion: the same occasion gives the
    same message, however often it is sent."""
    message = letter(tx, agent, kind, subject, body, sender=sender, key=key)
    event = MessageSent(
        message=message.id,
        kind_=kind,
        subject=subject,
        sender=sender,
        bytes=len(body.encode()),
        run=agent.run,
        agent=agent.agent,
    )
    if tx.append(event, f"message:{message.key}"):
        save(tx, message)
    return message


def letter(
    tx: Tx, agent: AgentRecord, kind: str, subject: str, body: str, *, sender: str = "captain", key: str
) -> MessageRecord:
    """The message, not sent yet."""
    # Mail outlives the incarnation it was sent to; whatever the captain says is for one incarnation.
    receiver = agent.key if kind == "mail" else f"{agent.key}:{agent.incarnation}"
    digest = hashlib.sha256(f"{receiver}:{kind}:{key}".encode()).hexdigest()
    return MessageRecord(
        run=agent.run,
        id=f"m{digest[:10]}",
        to=agent.agent,
        sender=sender,
        kind=kind,
        subject=subject,
        body=body,
        queued=tx.now,
        incarnation=agent.incarnation,
    )


def expire(tx: Tx, message: MessageRecord) -> None:
    """The message will not be delivered any more: its incarnation is gone, or it was overtaken."""
    put_away(tx, replace(message, state=MESSAGE.step(message.state, "expired")))
    event = MessageExpired(
        message=message.id, kind_=message.kind, incarnation=message.incarnation, run=message.run, agent=message.to
    )
    tx.append(event, f"expired:{message.key}")


def put_away(tx: Tx, message: MessageRecord) -> None:
    """A message that has come to its end is kept where nobody reads it in every step."""
    tx.delete(message.key)
    tx.put(f"past-{message.key}", encode(message))


def text_of(message: MessageRecord) -> str:
    """The message as it is, below its header."""
    return f"{Header(message.id, message.kind, message.subject)}\n{message.body}"


def typed_text(message: MessageRecord) -> str:
    """What is put into the agent's composer. Control characters would be keystrokes there: they are left out."""
    return _CONTROL.sub("", text_of(message)).rstrip("\n")
