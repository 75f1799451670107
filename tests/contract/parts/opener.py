"""How the contract gets at the engine under test."""

from __future__ import annotations

from typing import Protocol

from dogwatch.ledger.api import Clock, Store


class Opener(Protocol):
    """Opens further stores on one and the same ledger; they are closed after the test."""

    url: str
    """What another process passes to `open_store` to get at the same ledger."""

    def __call__(self, clock: Clock | None = None) -> Store:
        """A new store, with the machine's own clock unless another is given."""
