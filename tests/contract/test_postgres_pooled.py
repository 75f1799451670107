"""The whole contract once more through a pooler, which lends a server for one transaction at a time."""

from __future__ import annotations

import functools
import select
from collections.abc import Iterator

import psycopg
import pytest

from contract.ledger_contract import LedgerContract
from contract.parts.opener import Opener, UrlOpener
from contract.parts.processes import child, finish
from dogwatch.ledger.api import START
from dogwatch.ledger.postgres import PostgresStore
from dogwatch.testing.events import PlainEvent
from support.helpers import wait_for
from support.postgres import Pooler, Server, clean_database, postgres, shared_server

__all__ = ["clean_database", "postgres"]


@functools.cache
def shared_pooler() -> Pooler:
    pooler = Pooler(shared_server())
    pooler.start()
    return pooler


@pytest.fixture(scope="session")
def pooler(postgres: Server) -> Iterator[Pooler]:
    made = shared_pooler()
    yield made
    made.close()


@pytest.fixture
def opener(pooler: Pooler, clean_database: str) -> Iterator[UrlOpener]:
    made = UrlOpener(pooler.url(clean_database.rpartition("/")[2]))
    yield made
    made.close()


class TestPooledLedger(LedgerContract):
    """The contract, but for a doorbell that rings by itself: no LISTEN outlives a transaction there."""

    def test_a_commit_of_another_process_rings_the_doorbell(self, opener: Opener) -> None:
        """Nothing is told through a pooler, so whoever waits looks now and then; a file descriptor cannot."""
        store = opener()
        assert isinstance(store, PostgresStore)
        assert store.wait(60)
        wait_for(lambda: not store.wait(0), what="an empty doorbell")
        with child(opener, "append", "a", "1") as writer:
            assert store.wait(60)
            wait_for(lambda: len(store.since(START, 10)) == 1, what="the event")
            assert finish(writer) == ["1"]
        assert not select.select([store.fileno()], [], [], 0)[0]


def test_nothing_of_a_transaction_is_left_on_the_servers_connection(
    opener: UrlOpener,
) -> None:
    store = opener()
    store.run(lambda tx: tx.append(PlainEvent("kind", {})))
    store.read(lambda reader: reader.recent(1))
    look = (
        "SELECT current_setting('search_path'), current_setting('enable_seqscan'),"
        " (SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'dw%')"
    )
    with psycopg.connect(opener.url, prepare_threshold=None, autocommit=True) as foreign:
        assert foreign.execute(look).fetchone() == ('"$user", public', "on", 0)
