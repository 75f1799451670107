"""Check-ins: jobs that ask an agent's copy a question, and whatever comes of one is one letter."""

from __future__ import annotations

from dogwatch.coordination import jobs
from dogwatch.coordination.admission import release
from dogwatch.coordination.mail import send
from dogwatch.ledger.api import Item, Tx
from dogwatch.model.events.operator import CheckInAnswered, CheckInFailed
from dogwatch.model.jobs import CheckInRecord
from dogwatch.model.view import RunView

SENDER = "check-in"


def conclude(
    tx: Tx, view: RunView, item: Item, record: CheckInRecord, text: str, reason: str, code: int | None
) -> None:
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
        attempts=record.attempt,
        exit_code=code,
        reason=reason,
        run=run,
        agent=agent,
    )
    tx.append(event, f"check-in:{run}:{item.id}")
    release(tx, f"check-in:{run}/{item.id}")
    jobs.close(tx, record, item)
