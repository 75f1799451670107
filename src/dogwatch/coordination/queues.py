"""The queues through which a captain is told: by the watchdog what it saw, by an operator what is wanted."""

from __future__ import annotations

from dogwatch.ledger.api import Item, Tx

RECLAIM = "reclaim"
"""The order that an idle agent rests."""


def settle(tx: Tx, item: Item) -> None:
    """The captain is done with the item."""
    claimed = tx.claim(item.queue, "captain", 60.0, item.id)
    if claimed is not None:
        tx.ack(claimed)
