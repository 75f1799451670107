"""SQLite under the ledger's contract, and what is true of this engine alone."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from contract.ledger_contract import LedgerContract
from contract.parts.opener import UrlOpener
from contract.parts.processes import child
from dogwatch.errors import UsageError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import START
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock


class SqliteOpener(UrlOpener):
    """Opens stores on one file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self.path = path


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[SqliteOpener]:
    made = SqliteOpener(tmp_path / "home" / "ledger.db")
    yield made
    made.close()


class TestSqliteLedger(LedgerContract):
    """The contract."""


def test_the_folder_and_the_file_are_the_owners_alone(opener: SqliteOpener) -> None:
    old = os.umask(0)
    try:
        store = opener()
        store.run(lambda tx: tx.append(PlainEvent("kind", {})))
        store.wait(0)
    finally:
        os.umask(old)
    assert stat.S_IMODE(opener.path.parent.stat().st_mode) == 0o700
    for path in opener.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_grant_in_a_file_stands_for_whoever_opens_it_by_whichever_name(tmp_path: Path) -> None:
    """All of them are on this machine: a home that was given a name by an upgrade goes on with its leases."""
    path, clock = str(tmp_path / "ledger.db"), ManualClock()
    with closing(SqliteStore(path, clock)) as old, closing(SqliteStore(path, clock, host="here")) as new:
        lease = old.run(lambda tx: tx.acquire("captain/r-1", "captain", 30.0))
        assert lease is not None
        old.run(lambda tx: tx.push("queue", {}, "item", ttl_s=60.0))
        item = old.run(lambda tx: tx.claim("queue", "captain", 30.0))
        assert item is not None
        new.run(lambda tx: tx.check(lease))
        assert new.run(lambda tx: tx.acquire("captain/r-1", "other", 30.0)) is None
        renewed = new.run(lambda tx: tx.renew(lease, 30.0))
        old.run(lambda tx: tx.check(renewed))
        clock.advance(31.0)
        assert new.read(lambda reader: reader.leases("")) == []
        assert [one.state for one in new.read(lambda reader: reader.items("queue"))] == ["ready"]
        clock.advance(30.0)
        assert new.read(lambda reader: reader.items("queue")) == []


def test_a_path_of_any_characters_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a b?c=d#e%20f&mode=memory" / "ledger.db"
    store = open_store(str(path), SystemClock())
    store.run(lambda tx: tx.append(PlainEvent("kind", {})))
    store.close()
    assert path.is_file()
    store = open_store(str(path), SystemClock())
    assert len(store.since(START, 10)) == 1
    store.close()


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "sqlite://host/path"])
def test_an_address_that_is_no_ledgers_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url, SystemClock())
    assert caught.value.hint


def test_a_commit_is_synced_to_the_disk_before_it_is_acknowledged(opener: SqliteOpener) -> None:
    store = opener()
    assert isinstance(store, SqliteStore)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_short_command_leaves_no_doorbell_behind(opener: SqliteOpener) -> None:
    store = opener()
    store.run(lambda tx: tx.append(PlainEvent("kind", {})))
    assert not Path(f"{opener.path}.bells").exists()


def test_the_doorbell_of_a_killed_listener_is_taken_off(opener: SqliteOpener) -> None:
    store = opener()
    with child(opener, "listen") as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listening\n"
    (bell,) = Path(f"{opener.path}.bells").iterdir()
    store.run(lambda tx: tx.append(PlainEvent("kind", {})))
    assert not bell.exists()


def test_where_no_doorbell_can_be_hung_a_waiter_polls(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40) / "ledger.db"
    store, other = open_store(str(path), SystemClock()), open_store(str(path), SystemClock())
    assert store.wait(60)
    assert not store.wait(0)
    other.run(lambda tx: tx.append(PlainEvent("kind", {})))
    assert store.wait(60)
    assert not store.wait(0)
    store.close()
    other.close()


def test_a_commit_of_a_program_that_rings_no_bell_is_found_by_polling(opener: SqliteOpener) -> None:
    store = opener()
    assert store.wait(60)
    foreign = sqlite3.connect(opener.path, isolation_level=None)
    foreign.execute("INSERT INTO documents (key, revision, body) VALUES ('key', 1, '{}')")
    foreign.close()
    assert store.wait(60)


def test_reading_by_run_kind_and_prefix_uses_an_index(opener: SqliteOpener) -> None:
    store = opener()
    assert isinstance(store, SqliteStore)
    plans: list[str] = []

    def explain(statement: str) -> None:
        if statement.startswith("SELECT"):
            plans.append(statement)

    store._connection.set_trace_callback(explain)
    store.since("5", 10, run="run")
    store.since("5", 10)
    store.read(lambda r: [r.recent(5), r.recent(5, "run"), r.recent(5, kinds=["a"]), r.recent(5, "run", ["a"])])
    store.read(lambda r: [r.get("key"), r.scan("key"), r.leases("lease"), r.items("queue")])
    store._connection.set_trace_callback(None)
    assert len(plans) == 16
    for statement in plans:
        details = [row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert not any("TEMP B-TREE" in detail for detail in details), (statement, details)
        scans = [detail for detail in details if detail.startswith("SCAN")]
        whole = re.search(r"FROM (events|archives) WHERE TRUE (ORDER BY|AND \(last)", statement)
        assert scans == ([f"SCAN {whole[1]}"] if whole else []), (statement, details)
