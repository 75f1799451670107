"""`dogwatch events --follow` on a server, where an event may be held back by an older transaction."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing

import psycopg

from dogwatch.ledger import open_store
from dogwatch.ledger.api import Tx
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.fleet import Fleet
from support.postgres import database, postgres

__all__ = ["database", "postgres"]


def test_an_event_that_is_held_back_is_shown_once_and_the_follower_waits_for_it(database: str, fleet: Fleet) -> None:
    environment = {**fleet.environment, "DOGWATCH_LEDGER": database}
    argv = [sys.executable, "-m", "dogwatch", "events", "tide-1", "--follow", "--json"]

    def end(tx: Tx) -> None:
        tx.put("run/tide-1", {"cleared": True})
        tx.append(PlainEvent("run_cleared", {"processes": 0}, run="tide-1"))

    with closing(open_store(database, SystemClock())) as store, psycopg.connect(database) as older:
        store.run(lambda tx: tx.put("run/tide-1", {"cleared": False}))
        older.execute("SELECT pg_current_xact_id()")
        store.run(lambda tx: tx.append(PlainEvent("run_created", {}, run="tide-1")))
        with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as follower:
            assert follower.stdout is not None
            assert json.loads(follower.stdout.readline())["kind"] == "run_created"
            store.run(end)
            assert not store.settled("tide-1")
            assert store.settled("tide-2")
            older.rollback()
            rest = [json.loads(line)["kind"] for line in follower.stdout]
            assert follower.wait(60) == 0
        assert rest == ["run_cleared"]
        assert store.settled("tide-1")
