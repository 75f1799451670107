"""The queues through which a captain is told: by the watchdog what it saw, by an operator what is wanted."""

from __future__ import annotations

from dogwatch.ledger.api import Item, Tx

RECLAIM = "reclaim"
"""The order that an idle agent rests."""


def alerts_queue(run: str) -> str:
    """The watchdog's alerts."""
    return f"alerts/{run}"


def checkins_queue(run: str) -> str:
    """The questions that agents are asked without being disturbed."""
    return f"checkins/{run}"


def verdicts_queue(run: str) -> str:
    """What sub-agents have said against work in the end."""
    return f"verdicts/{run}"


def orders_queue(run: str) -> str:
    """The operator's orders."""
    return f"orders/{run}"


def settle(tx: Tx, item: Item) -> None:
    """The captain is done with the item."""
    claimed = tx.claim(item.queue, "captain", 60.0, item.id)
    if claimed is not None:
        tx.ack(claimed)
