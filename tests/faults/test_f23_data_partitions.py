"""F23: a data partition is empty or stale. The phase that needs it is blocked, with the (table, partition) pair."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dogwatch.model.records import CheckResult
from faults.pipelines import PLAIN, one_task
from faults.watching import self_check
from support.fleet import Fleet
from support.helpers import wait_for
from support.postgres import Server, postgres

__all__ = ["postgres"]

TABLE = "CREATE TABLE prices (day TEXT, price INTEGER, made_at DOUBLE PRECISION)"
Execute = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgresql"])
def market(request: pytest.FixtureRequest, fleet: Fleet) -> tuple[str, Execute]:
    """A database with an empty table, and a way to change it."""
    if request.param == "sqlite":
        path = fleet.project / "market.db"
        url, execute = "sqlite:market.db", _in_file(path)
    else:
        server: Server = request.getfixturevalue("postgres")
        url = server.new_database()
        execute = _on_server(url)
    execute(TABLE)
    return url, execute


def _in_file(path: Path) -> Execute:
    def execute(sql: str) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(sql)

    return execute


def _on_server(url: str) -> Execute:
    def execute(sql: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(sql.encode())

    return execute


def pipeline(gate: dict[str, Any]) -> dict[str, Any]:
    spec = one_task()
    spec["phases"][0]["gates"] = [gate]
    return spec


def partition_check(fleet: Fleet, run: str) -> CheckResult | None:
    return self_check(fleet, run, "PARTITION_LIVENESS")


def test_f23_a_phase_waits_for_an_empty_partition_and_goes_on_when_it_is_filled(
    fleet: Fleet, market: tuple[str, Execute]
) -> None:
    url, execute = market
    execute("INSERT INTO prices VALUES ('monday', 1, 0)")
    data = [
        {"database": url, "table": "prices", "partition": {"day": "monday"}},
        {"database": url, "table": "prices", "partition": {"day": "tuesday", "price": 7}, "min_rows": 2},
    ]
    run = fleet.launch(fleet.spec(pipeline({"name": "market", "partitions": data}), {"writer": PLAIN}))

    def failed() -> CheckResult | None:
        check = partition_check(fleet, run)
        return check if check is not None and check.result == "failed" else None

    check = wait_for(failed, 60, fleet.tail)
    assert check is not None
    assert check.detail == "(prices, day = tuesday, price = 7) is empty"
    (blocked,) = fleet.events("phase_blocked")
    assert blocked.body == {"phase": "draft", "gate": "market", "reason": check.detail}
    assert not fleet.events("task_dispatched"), "no work may begin without its data"
    execute("INSERT INTO prices VALUES ('tuesday', 7, 0), ('tuesday', 7, 1)")
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [event.kind for event in fleet.events() if event.kind in ("gate_passed", "task_dispatched")] == [
        "gate_passed",
        "task_dispatched",
    ]


def test_f23_a_partition_that_stays_stale_ends_the_run_with_the_pair_as_its_cause(
    fleet: Fleet, market: tuple[str, Execute]
) -> None:
    url, execute = market
    execute(f"INSERT INTO prices VALUES ('monday', 1, {time.time() - 7200})")
    data = [
        {"database": url, "table": "prices", "partition": {"day": "monday"}, "dated_by": "made_at", "max_age_s": 3600}
    ]
    gate = {"name": "market", "partitions": data, "timeout_s": 2}
    run = fleet.launch(fleet.spec(pipeline(gate), {"writer": PLAIN}))
    view = fleet.wait_over(run)
    assert view.run.state == "FAILED"
    assert view.run.cause.startswith("gate market failed: (prices, day = monday) is stale: its newest row is of ")
    assert view.run.cause.endswith("at most 3600 s are allowed, for 2 s")
    assert not fleet.events("task_dispatched")
    assert not fleet.events("phase_ended")
