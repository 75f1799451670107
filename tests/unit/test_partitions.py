"""What is said of data partitions in files: how many rows there are, and how old the newest is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dogwatch.actions.partitions import trouble
from dogwatch.model.plan import Partition

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp()


def partition(folder: Path, *rows: tuple[Any, Any], **changes: Any) -> Partition:
    """One of a table with these rows."""
    path = folder / "a b?.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute('CREATE TABLE "t ""1""" (day, made)')
        database.executemany('INSERT INTO "t ""1""" VALUES (?, ?)', rows)
    return Partition(**{"database": f"sqlite:{path}", "table": 't "1"', "partition": {"day": 1}, **changes})


def test_rows_of_other_partitions_do_not_count(tmp_path: Path) -> None:
    assert trouble(partition(tmp_path, (2, 0), (3, 0)), NOW) == '(t "1", day = 1) is empty'


def test_too_few_rows_are_counted(tmp_path: Path) -> None:
    one = partition(tmp_path, (1, 0), (1, 0), min_rows=3)
    assert trouble(one, NOW) == '(t "1", day = 1) has 2 of 3 rows'


def test_without_a_partition_the_whole_table_counts(tmp_path: Path) -> None:
    assert trouble(partition(tmp_path, (1, 0), (2, 0), partition={}, min_rows=2), NOW) == ""


@pytest.mark.parametrize(
    "made",
    [
        NOW - 99,
        (NOW - 99) * 1000,
        "2026-03-01T11:59:00",
        "2026-03-01 12:59:00+01:00",
        "2026-03-01T11:58:30Z",
        "2026-03-01",
    ],
)
def test_a_row_that_is_young_enough_is_alive_however_it_is_dated(tmp_path: Path, made: Any) -> None:
    assert trouble(partition(tmp_path, (1, made), dated_by="made", max_age_s=100), NOW) == ""


@pytest.mark.parametrize("made", [NOW - 101, int(NOW - 101) * 1000, "2026-03-01T11:58:00", "2026-02-28"])
def test_a_row_that_is_too_old_is_stale_however_it_is_dated(tmp_path: Path, made: Any) -> None:
    words = trouble(partition(tmp_path, (1, made), dated_by="made", max_age_s=100), NOW)
    assert words.startswith('(t "1", day = 1) is stale: its newest row is of 2026-0')


def test_a_row_that_cannot_be_dated_is_not_taken_for_a_fresh_one(tmp_path: Path) -> None:
    words = trouble(partition(tmp_path, (1, "yesterday"), dated_by="made"), NOW)
    assert words == "(t \"1\", day = 1) cannot be dated: made is 'yesterday'"


def test_a_missing_table_column_or_file_blocks_and_the_file_is_not_made(tmp_path: Path) -> None:
    one = partition(tmp_path, (1, 0), table="other")
    assert trouble(one, NOW) == "(other, day = 1) cannot be read: no such table: other"
    other = replace(one, table='t "1"', partition={"week": 1})
    assert trouble(other, NOW) == '(t "1", week = 1) cannot be read: no such column: week'
    gone = Partition(database=f"sqlite:{tmp_path}/gone.db", table="t")
    assert trouble(gone, NOW) == "(t, all) cannot be read: unable to open database file"
    assert not (tmp_path / "gone.db").exists()


def test_a_server_that_does_not_answer_blocks() -> None:
    one = Partition(database="postgresql://nobody@127.0.0.1:1/none", table="t")
    assert trouble(one, NOW).startswith("(t, all) cannot be read: connection failed")
