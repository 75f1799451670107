"""The order of events in PostgreSQL: held back by what is open, kept over a failover and a restored dump."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from contract.parts.processes import follow
from dogwatch.errors import LedgerReadOnlyError, StaleError
from dogwatch.ledger.api import START, Store
from dogwatch.ledger.postgres import PostgresStore
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.helpers import wait_for
from support.postgres import Server, binaries, database, new_server, postgres, run_tool

__all__ = ["database", "postgres"]

INSERT = (
    "INSERT INTO dogwatch.events (op_id, run, agent, kind, boot, mono, wall, body)"
    " VALUES ('', '', '', 'kind', '', 0, 0, '{\"n\": 0}')"
)


@contextmanager
def opened(url: str, away_s: float = 60) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, SystemClock(), away_s=away_s)) as store:
        yield store


def append(store: Store, n: int) -> None:
    store.run(lambda tx: tx.append(PlainEvent("kind", {"n": n})))


def numbers(store: Store, cursor: str = START) -> list[int]:
    return [event.body["n"] for event in follow(store, cursor)]


def test_a_follower_does_not_pass_an_older_transaction_and_sees_it_in_its_place(database: str) -> None:
    with opened(database) as store, opened(database) as other:
        append(store, -1)
        (first,) = store.since(START, 10)
        with psycopg.connect(database) as foreign:
            foreign.execute(INSERT)
            for n in (1, 2):
                append(other, n)
            assert numbers(store, first.cursor) == []
            newest = store.read(lambda reader: reader.recent(2))
            assert [event.body["n"] for event in newest] == [1, 2]
            foreign.commit()
        assert numbers(store, first.cursor) == [0, 1, 2]
        assert numbers(store) == [-1, 0, 1, 2]
        for event in newest:
            assert numbers(store, event.cursor) == [0, 1, 2]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_long_transaction_in_another_database_delays_events_and_loses_none(
    postgres: Server, database: str, end: str
) -> None:
    with opened(database) as store, opened(database) as other, psycopg.connect(postgres.url()) as foreign:
        foreign.execute("SELECT pg_current_xact_id()")
        for n in range(30):
            append(other, n)
        assert numbers(store) == []
        begun = time.monotonic()
        for _ in range(100):
            assert store.since(START, 10) == []
        # Each would take a tenth of a second if it waited for the foreign transaction.
        assert time.monotonic() - begun < 8
        assert len(store.read(lambda reader: reader.recent(100))) == 30
        wait_for(lambda: not store.wait(1.5), what="an empty doorbell")
        getattr(foreign, end)()
        # Nobody rings for the end of a foreign transaction: who waits must find out.
        wait_for(lambda: store.wait(60) and numbers(store) == list(range(30)), what="the events")


def test_reading_the_newest_events_costs_the_same_while_they_are_held_back(postgres: Server, database: str) -> None:
    with opened(database) as store, psycopg.connect(postgres.url()) as foreign:
        foreign.execute("SELECT pg_current_xact_id()")
        store.run(lambda tx: [tx.append(PlainEvent("kind", {"n": n})) for n in range(500)])
        asked = []
        session = store._connected()
        later = session.later

        def counted(*arguments: object) -> None:
            asked.append(arguments[0])
            later(*arguments)  # type: ignore[arg-type]

        session.later = counted  # type: ignore[method-assign, assignment]
        assert len(store.read(lambda reader: reader.recent(500))) == 500
        assert len(asked) < 10


def test_a_restored_dump_goes_on_behind_its_old_events_in_a_cluster_with_smaller_ids(postgres: Server) -> None:
    with new_server() as old, new_server() as new:
        old.execute("DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
        url = old.new_database("fleet")
        with opened(url) as store:
            for n in range(5):
                append(store, n)
            lease = store.run(lambda tx: tx.acquire("lease", "a", 600))
            assert lease is not None
            events = store.since(START, 10)
        dump = old.folder / "dump.sql"
        place = ("-h", "127.0.0.1", "-U", "dogwatch", "-d", "fleet")
        run_tool(binaries() / "pg_dump", "-p", str(old.port), *place, "-f", dump)
        restored = new.new_database("fleet")
        run_tool(binaries() / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-p", str(new.port), *place, "-f", dump)
        with opened(restored) as store, opened(restored) as other:
            assert store.since(START, 10) == events
            for n in range(5, 8):
                append(other, n)
            assert numbers(store) == list(range(8))
            assert numbers(store, events[2].cursor) == [3, 4, 5, 6, 7]
            assert numbers(store, events[-1].cursor) == [5, 6, 7]
            store.run(lambda tx: tx.release(lease))
            again = store.run(lambda tx: tx.acquire("lease", "b", 600))
            assert again is not None
            assert again.fence > lease.fence
            with psycopg.connect(restored) as foreign:
                foreign.execute(INSERT)
                append(other, 8)
                assert numbers(store, events[-1].cursor) == [5, 6, 7]
            assert numbers(store, events[-1].cursor) == [5, 6, 7, 0, 8]


def test_a_promoted_standby_has_all_that_was_acknowledged_and_is_found_by_itself() -> None:
    with new_server() as primary:
        url = primary.new_database("fleet")
        with opened(url) as store:
            append(store, 0)
        with primary.standby(synchronous=True) as standby:
            hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
            both = f"postgresql://dogwatch@{hosts}/fleet?target_session_attrs=read-write"
            with opened(both) as store, opened(both) as other:
                for n in range(1, 20):
                    append(store, n)
                lease = store.run(lambda tx: tx.acquire("lease", "a", 600))
                assert lease is not None
                store.wait(0)
                cursor = store.since(START, 10)[-1].cursor
                with opened(standby.url("fleet")) as reading:
                    wait_for(lambda: len(numbers(reading)) == 20, what="the standby to have all")
                    with pytest.raises(LedgerReadOnlyError) as caught:
                        append(reading, 99)
                    assert "target_session_attrs=read-write" in caught.value.hint
                    assert len(numbers(reading)) == 20
                primary.kill()
                standby.promote()
                append(other, 20)
                assert numbers(store, cursor) == list(range(10, 21))
                store.run(lambda tx: tx.check(lease))
                store.run(lambda tx: tx.release(lease))
                again = other.run(lambda tx: tx.acquire("lease", "b", 600))
                assert again is not None
                assert again.fence > lease.fence
                with pytest.raises(StaleError):
                    store.run(lambda tx: tx.check(lease))
                wait_for(lambda: not store.wait(0), what="an empty doorbell")
                append(other, 21)
                assert store.wait(60)


def test_an_empty_ledger_on_a_standby_is_refused_as_read_only() -> None:
    with new_server() as primary:
        primary.new_database("fleet")
        with primary.standby(synchronous=False) as standby:
            with pytest.raises(LedgerReadOnlyError) as caught:
                PostgresStore(standby.url("fleet"), SystemClock())
            assert caught.value.hint
