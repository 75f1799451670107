"""Mail: every message to an agent, from the moment it is queued until it is acknowledged or has expired, and the
letters of one agent to another: how many an inbox takes, and which wait until their sender has read its
instructions."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from dogwatch.coordination.instructions import debt, keep_back
from dogwatch.errors import RefusedError, UnmarkedError, UsageError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, load, load_all, save
from dogwatch.model import keys
from dogwatch.model.brief import Header
from dogwatch.model.codec import encode
from dogwatch.model.delivery import Acknowledged, Expired, Queued, Read
from dogwatch.model.events.mail import MessageAcknowledged, MessageExpired, MessageRead, MessageSent
from dogwatch.model.records import AgentRecord, MessageRecord
from dogwatch.model.view import RunView
from dogwatch.policy.markers import HINT, claims_to_be_a_task

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
        delivery=Queued(),
    )


def read(tx: Tx, view: RunView, reader: AgentRecord) -> list[MessageRecord]:
    """All mail of the agent that is not acknowledged yet; reading marks it read, wherever it was on its way."""
    found = []
    for message in sorted(view.messages.values(), key=lambda m: (m.queued.wall, m.id)):
        if message.to != reader.agent or message.kind != "mail" or message.is_over:
            continue
        if message.state != "read":
            save(tx, message.become(Read(at=tx.now, delivered=message.told)))
            tx.append(MessageRead(message=message.id, run=reader.run, agent=reader.agent), f"read:{message.key}")
        found.append(message)
    return found


def acknowledge(tx: Tx, view: RunView, reader: AgentRecord, name: str) -> None:
    """The agent has dealt with the message."""
    message = view.messages.get(name)
    if message is None:
        message = load(tx, MessageRecord, keys.past_message(reader.run, name))
    if message is None or message.to != reader.agent:
        raise RefusedError(f"there is no message {name!r} for {reader.agent}", hint="dogwatch mail read lists them")
    if message.state == "acknowledged":
        return
    if message.state not in ("delivered", "read"):
        raise RefusedError(f"{message.id} is {message.state}", hint="read it first: dogwatch mail read")
    done = message.become(Acknowledged(at=tx.now))
    if message.typing:
        # It stands in the composer: it stays at hand until it is submitted, or nothing else could be typed.
        save(tx, done)
    else:
        put_away(tx, done)
    if message.sender in view.agents:
        sender = view.agents[view.current(message.sender)]
        change(tx, AgentRecord, sender.key, lambda a: replace(a, answered=tx.now))
    event = MessageAcknowledged(message=message.id, run=reader.run, agent=reader.agent)
    tx.append(event, f"acknowledged:{message.key}")


def expire(tx: Tx, message: MessageRecord) -> None:
    """The message will not be delivered any more: its incarnation is gone, or it was overtaken."""
    put_away(tx, message.become(Expired()))
    event = MessageExpired(
        message=message.id, kind_=message.kind, incarnation=message.incarnation, run=message.run, agent=message.to
    )
    tx.append(event, f"expired:{message.key}")


def put_away(tx: Tx, message: MessageRecord) -> None:
    """A message that has come to its end is kept where nobody reads it in every step."""
    tx.delete(message.key)
    tx.put(keys.past_message(message.run, message.id), encode(message))


def text_of(message: MessageRecord) -> str:
    """The message as it is, below its header."""
    return f"{Header(message.id, message.kind, message.subject)}\n{message.body}"


def typed_text(message: MessageRecord) -> str:
    """What is put into the agent's composer. Control characters would be keystrokes there: they are left out."""
    return _CONTROL.sub("", text_of(message)).rstrip("\n")


MAIL_BYTES_MAX = 256 * 1024
INBOX_MAX = 100
INBOX_BYTES_MAX = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A letter that was taken: it has gone out, or is kept back; `held` says why, where its sender should know."""

    letter: MessageRecord
    has_gone: bool = False
    held: str = ""


def post(tx: Tx, view: RunView, sender: AgentRecord, to: str, text: str, key: str) -> Posted:
    """Takes a letter of one agent to another. `key` names the call: the same call is one letter."""
    receiver = view.agents.get(view.current(to))
    if receiver is None:
        raise RefusedError(f"there is no agent {to!r} in {view.run.run}", hint=f"agents: {', '.join(view.agents)}")
    if len(text.encode()) > MAIL_BYTES_MAX:
        raise UsageError(f"the mail is larger than {MAIL_BYTES_MAX} bytes", hint="write a file and mail its path")
    if claims_to_be_a_task(text):
        raise UnmarkedError("a task does not go as plain mail: it needs a marker", hint=HINT)
    owed = debt(tx, sender)
    kept_back = load_all(tx, MessageRecord, keys.held_messages(view.run.run)) if view.instructions else []
    _refuse_when_full(view, receiver, kept_back)
    message = letter(tx, receiver, "mail", f"from-{sender.agent}", text, sender=sender.agent, key=key)
    if owed is not None:
        keep_back(tx, message, owed.version)
        return Posted(letter=message, held=f"held until you have read {view.instructions[sender.role].path}")
    if any(one.sender == sender.agent for one in kept_back):
        keep_back(tx, message, view.instructions[sender.role].version)  # in a moment, after those before it
        return Posted(letter=message)
    send(tx, receiver, "mail", f"from-{sender.agent}", text, sender=sender.agent, key=key)
    return Posted(letter=message, has_gone=True)


def _refuse_when_full(view: RunView, receiver: AgentRecord, kept_back: list[MessageRecord]) -> None:
    letters = [one for one in (*view.messages.values(), *kept_back) if one.kind == "mail"]
    # A letter that is kept back may still name the agent that the receiver has replaced.
    inbox = [one for one in letters if view.current(one.to) == receiver.agent]
    if len(inbox) >= INBOX_MAX or sum(len(one.body) for one in inbox) > INBOX_BYTES_MAX:
        full = f"the inbox of {receiver.agent} is full: {len(inbox)} letters wait"
        raise RefusedError(full, hint=f"{receiver.agent} must acknowledge some first")
