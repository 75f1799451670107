"""PostgreSQL under the ledger's contract, and what is true of this engine alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.ledger_contract import LedgerContract
from contract.parts.opener import UrlOpener
from support.postgres import clean_database, postgres

__all__ = ["clean_database", "postgres"]


@pytest.fixture
def opener(clean_database: str) -> Iterator[UrlOpener]:
    made = UrlOpener(clean_database)
    yield made
    made.close()


class TestPostgresLedger(LedgerContract):
    """The contract."""
