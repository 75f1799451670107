"""What a fresh reading found: moves that cross, an id that is archived while it is used again, a read that is broken
off, and two homes on one ledger."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from dogwatch.cli.ledger_files import write_lines
from dogwatch.coordination.ledgers import bind, open_home_ledger
from dogwatch.errors import LedgerAwayError, RefusedError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import START, Store, Tx
from dogwatch.ledger.checking import problems
from dogwatch.ledger.compaction import compact_part
from dogwatch.ledger.facts import close_for_good, seal, unseal
from dogwatch.model import keys
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from dogwatch.world.processes import crew_processes
from support.fleet import Fleet
from support.helpers import wait_for
from support.postgres import Server, database, postgres

__all__ = ["database", "postgres"]


@contextmanager
def opened(url: str, *, maintenance: bool = False) -> Iterator[Store]:
    with closing(open_store(url, SystemClock(), maintenance=maintenance)) as store:
        yield store


def test_an_imported_copy_does_not_pass_for_a_move_of_what_was_written_since(database: str, fleet: Fleet) -> None:
    with closing(open_store(fleet.home.ledger_file, SystemClock())) as store:
        store.run(lambda tx: tx.append(PlainEvent("run_created", {}), "one"))
        fleet.cli("ledger", "export", "copy.jsonl")
        other = Fleet(database)
        other.cli("ledger", "import", str(fleet.project / "copy.jsonl"))
        other.close()
        store.run(lambda tx: tx.append(PlainEvent("run_created", {}), "two"))
        refused = fleet.cli("ledger", "migrate", "--to", database, check=False)
        assert refused.returncode == RefusedError.exit_code
        assert "not empty" in refused.stderr
        store.run(lambda tx: tx.append(PlainEvent("run_created", {}), "three"))


def test_a_move_that_was_given_up_meanwhile_cannot_be_finished(database: str) -> None:
    with opened(database, maintenance=True) as store:
        seal(store, "there", "first")
        unseal(store)
        with pytest.raises(RefusedError):
            close_for_good(store, "first")
        seal(store, "there", "second")
        with pytest.raises(RefusedError):
            seal(store, "elsewhere", "third")
        seal(store, "there", "fourth")
        with pytest.raises(RefusedError):
            close_for_good(store, "second")
        close_for_good(store, "fourth")


@pytest.mark.parametrize("known", [False, True], ids=["first-archive", "later-archive"])
def test_an_id_that_is_archived_at_this_very_time_is_not_used_again(database: str, known: bool) -> None:
    clock = ManualClock()
    with closing(open_store(database, clock)) as compactor, closing(open_store(database, clock)) as writer:

        def fill(tx: Tx, name: str, count: int) -> None:
            for number in range(count):
                tx.append(PlainEvent("noted", {}), f"{name}-{number}")

        compactor.run(lambda tx: fill(tx, "old", 150))
        if known:
            compactor.run(lambda tx: compact_part(tx, clock.now().wall + 1))
            compactor.run(lambda tx: fill(tx, "old-again", 150))
        clock.advance(1000)
        for part in range(10):
            compactor.run(lambda tx, part=part: fill(tx, f"new-{part}", 1000))  # type: ignore[misc]
        used = "old-again-7" if known else "old-7"
        calls = 0

        def write(tx: Tx) -> bool:
            nonlocal calls
            calls += 1
            tx.get("key")
            if calls == 1:
                assert compactor.run(lambda tx: compact_part(tx, clock.now().wall - 500))[0] == 150
            return tx.append(PlainEvent("noted", {}), used)

        assert writer.run(write) is False
        assert [event.op_id for event in writer.since(START, 100_000)].count(used) == 1
        assert list(writer.read(lambda reader: list(problems(reader)))) == []


def test_an_export_that_is_broken_off_is_an_error_and_not_a_file_of_two_halves(postgres: Server, database: str) -> None:
    file = io.BytesIO()
    with opened(database) as store, opened(database, maintenance=True) as exporter:
        store.run(lambda tx: [tx.append(PlainEvent("noted", {"n": n})) for n in range(2000)] and None)

        def tell(done: int) -> None:
            if done == 700:
                name = database.rpartition("/")[2]
                postgres.execute(
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
                    " AND pid <> pg_backend_pid()"
                )

        with pytest.raises(LedgerAwayError):
            exporter.read(lambda reader: write_lines(reader, file, tell))
    assert file.getvalue().count(b'{"ledger":') == 1


def test_a_home_that_comes_after_another_is_not_left_to_the_others_dispatcher(database: str) -> None:
    first, second = Fleet(database), Fleet(database)
    try:
        with closing(open_home_ledger(first.home, SystemClock())) as one:
            bind(first.home, one)
            first.cli("up")
            assert one.read(lambda reader: reader.get(keys.dispatcher(reader.host))) is not None
            second.cli("up")
            listed = second.cli("status", "--json").stdout
            assert '"alive": true' in listed
            wait_for(lambda: not crew_processes(first.home.path), what="the first home's dispatcher to leave")
            for command in ("down", "kill"):
                words = [command] if command == "down" else [command, "tide-1"]
                refused = first.cli(*words, check=False)
                assert refused.returncode == RefusedError.exit_code, refused.stderr
    finally:
        second.close()
        first.close()


def test_a_standby_is_followed_by_looking(postgres: Server) -> None:
    url = postgres.new_database()
    with opened(url) as store:
        store.run(lambda tx: tx.append(PlainEvent("noted", {})))
        standby = postgres.standby(synchronous=False)
        try:
            with opened(standby.url(url.rpartition("/")[2])) as reader:
                assert reader.wait(60)
                deadline = time.monotonic() + 60
                while len(reader.since(START, 10)) < 1 and time.monotonic() < deadline:
                    reader.wait(0.1)
                store.run(lambda tx: tx.append(PlainEvent("noted", {})))
                while len(found := reader.since(START, 10)) < 2 and time.monotonic() < deadline:
                    reader.wait(1)
                assert len(found) == 2
        finally:
            standby.close()
