"""PostgreSQL under the ledger's contract, and what is true of this engine alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.ledger_contract import LedgerContract
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Clock, Store
from dogwatch.world.clock import SystemClock
from postgres import database, postgres

__all__ = ["database", "postgres"]


class PostgresOpener:
    """Opens stores on one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: list[Store] = []

    def __call__(self, clock: Clock | None = None) -> Store:
        store = open_store(self.url, clock or SystemClock())
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture
def opener(database: str) -> Iterator[PostgresOpener]:
    made = PostgresOpener(database)
    yield made
    made.close()


class TestPostgresLedger(LedgerContract):
    """The contract."""
