"""Ledgers of every earlier version open for ever, with all that was in them."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from dogwatch.ledger.api import START
from dogwatch.ledger.migrations import VERSION
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.testing.clock import ManualClock

HERE = Path(__file__).parent


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_an_old_ledger_opens_with_everything_in_it_and_goes_on(tmp_path: Path, version: int) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(HERE / f"ledger-v{version}.db", path)
    clock = ManualClock()
    written = clock.now()
    clock.advance(1.5)
    with closing(SqliteStore(str(path), clock)) as store:
        first, second, third = store.since(START, 10)
        assert (first.kind, first.body, first.op_id, first.run) == ("run_started", {"plan": "demo"}, "op-1", "demo")
        assert (second.body["text"], second.agent, second.at) == ("naïve 🐶", "writer", written)
        assert third.at == clock.now()
        assert store.since(second.cursor, 10) == [third]
        documents = store.read(lambda reader: reader.scan(""))
        assert [(d.key, d.body["state"], d.revision) for d in documents] == [
            ("agent/demo/writer", "BUSY", 1),
            ("run/demo", "RUNNING", 2),
        ]
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
        assert store.run(lambda tx: tx.append("again", {}, "op-1")) is False
        assert store.run(lambda tx: tx.push("tasks", {}, "task-0")) is None
        clock.advance(600)
        taken = store.run(lambda tx: tx.acquire("captain/demo", "third", 60))
        assert taken is not None
        assert taken.fence == 3
        assert [item.id for item in store.read(lambda reader: reader.items("tasks"))] == ["task-1", "task-2"]
        assert store.run(lambda tx: tx.append("went_on", {})) is True
