"""How the contract gets at the engine under test."""

from __future__ import annotations

from typing import Protocol

from dogwatch.ledger import open_store
from dogwatch.ledger.api import Clock, Store
from dogwatch.world.clock import SystemClock


class Opener(Protocol):
    """Opens further stores on one and the same ledger; they are closed after the test."""

    url: str
    """What another process passes to `open_store` to get at the same ledger."""

    def __call__(self, clock: Clock | None = None) -> Store:
        """A new store, with the machine's own clock unless another is given."""


class UrlOpener:
    """Opens stores at one address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: list[Store] = []

    def __call__(self, clock: Clock | None = None) -> Store:
        store = open_store(self.url, clock or SystemClock())
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Closes them all."""
        for store in self._opened:
            store.close()
