"""What was refused at the door: an event, and nothing else."""

from __future__ import annotations

from dogwatch.ledger.api import Tx
from dogwatch.model.events.clients import RequestRefused
from dogwatch.model.events.tasks import TaskRefused


def note_refusal(tx: Tx, refusal: RequestRefused | TaskRefused) -> None:
    """Somebody asked for something that it did not get."""
    tx.append(refusal)
