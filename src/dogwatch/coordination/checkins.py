"""Check-ins: each attempt to ask is recorded before it is started, and whatever comes of it is one letter."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dogwatch.coordination.admission import release
from dogwatch.coordination.mail import send
from dogwatch.coordination.queues import settle
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import save
from dogwatch.model.events.operator import CheckInAnswered, CheckInFailed
from dogwatch.model.process import ProcessId
from dogwatch.model.view import RunView

SENDER = "check-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInRecord:
    """A question that is being asked: its latest attempt, with its process once that is known."""

    run: str
    item: str
    attempt: int
    process: ProcessId | None = None

    @property
    def key(self) -> str:
        return f"check-in/{self.run}/{self.item}"


def intend(tx: Tx, record: CheckInRecord) -> None:
    """This attempt is about to be started."""
    save(tx, record)


def confirm(tx: Tx, record: CheckInRecord, process: ProcessId) -> None:
    """The attempt was started as this process."""
    save(tx, replace(record, process=process))


def conclude(tx: Tx, view: RunView, item: Item, attempt: int, text: str, reason: str, code: int | None = None) -> None:
    """The mail, the event and the end of the question are one transaction: all of it, once."""
    run, agent = view.run.run, str(item.body["agent"])
    receiver = view.agents[view.current(str(item.body["to"]))]
    if reason:
        text = f"The check-in of {agent} has no answer: {reason}.\n{text}".rstrip()
    message = send(tx, receiver, "mail", f"check-in-of-{agent}", text, sender=SENDER, key=item.id)
    event = (CheckInFailed if reason else CheckInAnswered)(
        check_in=item.id,
        to=receiver.agent,
        message=message.id,
        attempts=attempt,
        exit_code=code,
        reason=reason,
        run=run,
        agent=agent,
    )
    tx.append(event, f"check-in:{run}:{item.id}")
    tx.delete(f"check-in/{run}/{item.id}")
    release(tx, f"check-in:{run}/{item.id}")
    settle(tx, item)
