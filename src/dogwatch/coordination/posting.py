"""Letters from agent to agent: how many an inbox takes, and which wait until their sender has read its instructions."""

from __future__ import annotations

from dataclasses import dataclass

from dogwatch.coordination.instructions import HELD, debt, keep_back
from dogwatch.coordination.mail import letter, send
from dogwatch.errors import RefusedError, UnmarkedError, UsageError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load_all
from dogwatch.model.records import AgentRecord, MessageRecord
from dogwatch.model.view import RunView
from dogwatch.policy.markers import HINT, claims_to_be_a_task

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
    kept_back = load_all(tx, MessageRecord, f"{HELD}/{view.run.run}/") if view.instructions else []
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
