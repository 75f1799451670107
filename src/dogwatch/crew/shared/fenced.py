"""A transaction of a crew member's, which only the holder of its place can commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dogwatch.ledger.api import Lease, Store, Tx

T = TypeVar("T")


def fenced(ledger: Store, lease: Lease, fn: Callable[[Tx], T]) -> T:
    """`fn` in one transaction. StaleError, and nothing is written, where somebody else has taken the place."""

    def checked(tx: Tx) -> T:
        tx.check(lease)
        return fn(tx)

    return ledger.run(checked)
