"""Jobs: each attempt is recorded before it is started, and gets its process as soon as that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dogwatch.coordination.admission import Life, ask
from dogwatch.coordination.queues import settle
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import save
from dogwatch.model.admission import Launch
from dogwatch.model.jobs import JobRecord
from dogwatch.model.process import ProcessId

J = TypeVar("J", bound=JobRecord)


def begin(tx: Tx, record: J, launch: Launch | None, life: Life, note: Callable[[Tx, J], None]) -> bool:
    """The attempt is noted where the gate lets it in; without a launch it need not be asked."""
    if launch is not None and ask(tx, launch, life).verdict != "admit":
        return False
    note(tx, record)
    return True


def intend(tx: Tx, record: JobRecord) -> None:
    """This attempt is about to be started."""
    save(tx, record)


def confirm(tx: Tx, record: JobRecord, process: ProcessId) -> None:
    """The attempt was started as this process."""
    save(tx, replace(record, process=process, host=tx.host))


def pause(tx: Tx, record: JobRecord, seconds: float) -> None:
    """The attempt has failed; the next one is not made before this time is over."""
    save(tx, replace(record, process=None, host="", not_before=tx.now.plus(seconds)))


def close(tx: Tx, record: JobRecord, item: Item) -> None:
    """The job is done, for good, and so is the item of the queue that it was about."""
    settle(tx, item)
    tx.delete(record.key)
