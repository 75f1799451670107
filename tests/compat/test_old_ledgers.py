"""Ledgers of every earlier version open for ever, with all that was in them.

Those of PostgreSQL are dumps, restored into a new cluster. From version 2 on, the first two events are in the archive.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dogwatch.errors import LedgerTooNewError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import START, Store
from dogwatch.ledger.migrations import VERSION
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent
from support.postgres import Server, database, postgres, restore

__all__ = ["database", "postgres"]

HERE = Path(__file__).parent
POSTGRES_FIRST = 2
NEWEST = 2
"""The newest version of which ledgers are kept here."""


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_an_old_file_opens_with_everything_in_it_and_goes_on(tmp_path: Path, version: int) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(HERE / f"ledger-v{version}.db", path)
    clock = ManualClock()
    with closing(open_store(str(path), clock)) as store:
        has_everything_and_goes_on(store, clock)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


@pytest.mark.parametrize("version", range(POSTGRES_FIRST, NEWEST + 1))
def test_an_old_database_opens_with_everything_in_it_and_goes_on(database: str, version: int) -> None:
    restore(database, HERE / f"postgres-v{version}.sql")
    clock = ManualClock()
    with closing(open_store(database, clock)) as store:
        has_everything_and_goes_on(store, clock)


def test_a_newer_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(HERE / f"ledger-v{NEWEST}.db", path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(LedgerTooNewError) as caught:
        open_store(str(path), ManualClock())
    assert f"has version {VERSION + 1}, and this dogwatch knows versions up to {VERSION}" in caught.value.message
    assert "upgrade" in caught.value.hint


def test_a_newer_database_is_refused_with_a_hint(postgres: Server, database: str) -> None:
    restore(database, HERE / f"postgres-v{NEWEST}.sql")
    name = database.rpartition("/")[2]
    postgres.execute(f"UPDATE dogwatch.facts SET value = '{VERSION + 1}' WHERE name = 'version'", name)
    with pytest.raises(LedgerTooNewError) as caught:
        open_store(database, ManualClock())
    assert f"has version {VERSION + 1}, and this dogwatch knows versions up to {VERSION}" in caught.value.message
    assert "upgrade" in caught.value.hint


def has_everything_and_goes_on(store: Store, clock: ManualClock) -> None:
    """What was written into each of them, and that it can be worked with."""
    written = clock.now()
    clock.advance(1.5)
    first, second, third = store.since(START, 10)
    assert (first.kind, first.body, first.op_id, first.run) == ("run_started", {"plan": "demo"}, "op-1", "demo")
    assert (second.body["text"], second.agent, second.at) == ("naïve 🐶", "writer", written)
    assert third.at == clock.now()
    assert store.since(second.cursor, 10) == [third]
    documents = store.read(lambda reader: reader.scan(""))
    agent, run = documents
    assert (agent.key, agent.body["busy"], agent.revision) == ("agent/demo/writer", True, 1)
    assert (run.key, run.body["state"], run.revision) == ("run/demo", "RUNNING", 2)
    leases = store.read(lambda reader: reader.leases(""))
    assert [(lease.name, lease.holder, lease.slot, lease.fence) for lease in leases] == [
        ("captain/demo", "second", 0, 2),
        ("permits", "a", 0, 1),
        ("permits", "b", 1, 2),
    ]
    items = store.read(lambda reader: reader.items("tasks"))
    assert [(item.id, item.state, item.holder, item.deliveries) for item in items] == [
        ("task-1", "claimed", "writer", 1),
        ("task-2", "ready", "", 0),
        ("task-3", "ready", "", 0),
    ]
    assert store.run(lambda tx: tx.append(PlainEvent("again", {}), "op-1")) is False
    assert store.run(lambda tx: tx.push("tasks", {}, "task-0")) is None
    clock.advance(600)
    taken = store.run(lambda tx: tx.acquire("captain/demo", "third", 60))
    assert taken is not None
    assert taken.fence == 3
    assert [item.id for item in store.read(lambda reader: reader.items("tasks"))] == ["task-1", "task-2"]
    assert store.run(lambda tx: tx.append(PlainEvent("went_on", {}))) is True
