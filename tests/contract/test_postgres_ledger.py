"""PostgreSQL under the ledger's contract, and what is true of this engine alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.ledger_contract import LedgerContract
from contract.parts.opener import UrlOpener
from postgres import database, postgres

__all__ = ["database", "postgres"]


@pytest.fixture
def opener(database: str) -> Iterator[UrlOpener]:
    made = UrlOpener(database)
    yield made
    made.close()


class TestPostgresLedger(LedgerContract):
    """The contract."""
