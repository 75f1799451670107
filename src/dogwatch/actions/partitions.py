"""Looks at the data that a phase needs, again and again until all of it is there: the program behind such a gate.

It prints one line whenever what is wrong has changed, names each (table, partition) in it, and exits with 0 once all
are alive. Databases are only read.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg

from dogwatch.model.plan import SQLITE, Partition

FIRST_PAUSE_S = 0.5
PAUSE_MAX_S = 10.0
ANSWER_S = 15
_MILLISECONDS = 1e11
"""A number beyond this is no count of seconds since 1970 but of milliseconds."""


class Found(NamedTuple):
    """What a database says of a partition: how many rows, and the greatest value of the column that dates them."""

    rows: int
    newest: Any


def main(argv: Sequence[str]) -> int:
    order = json.loads(argv[0])
    partitions = [Partition(**one) for one in order["partitions"]]
    until = time.monotonic() + order["timeout_s"]
    pause_s, said = FIRST_PAUSE_S, ""
    while True:
        wrong = "; ".join(why for one in partitions if (why := trouble(one, time.time())))
        if not wrong:
            return 0
        if wrong != said:
            print(wrong, flush=True)  # noqa: T201 - the gate's log
            said = wrong
        if time.monotonic() + pause_s > until:
            return 1
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def trouble(partition: Partition, now: float) -> str:
    """Why the partition is not alive, with its name; empty where it is."""
    try:
        found = _look(partition)
    except (sqlite3.Error, psycopg.Error, OSError) as error:
        return f"{partition.shown} cannot be read: {' '.join(str(error).split()) or type(error).__name__}"
    if found.rows < partition.min_rows:
        few = f"has {found.rows} of {partition.min_rows} rows" if found.rows else "is empty"
        return f"{partition.shown} {few}"
    if not partition.dated_by:
        return ""
    at = _instant(found.newest)
    if at is None:
        return f"{partition.shown} cannot be dated: {partition.dated_by} is {str(found.newest)[:60]!r}"
    if now - at > partition.max_age_s:
        newest = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        return (
            f"{partition.shown} is stale: its newest row is of {newest}, at most {partition.max_age_s:g} s are allowed"
        )
    return ""


def _look(partition: Partition) -> Found:
    values = list(partition.partition.values())
    if partition.database.startswith(SQLITE):
        path = quote(partition.database.removeprefix(SQLITE))
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=ANSWER_S)) as database:
            return Found(*database.execute(_query(partition, "?"), values).fetchone())
    options = f"-c statement_timeout={ANSWER_S}s -c default_transaction_read_only=on"
    with psycopg.connect(partition.database, connect_timeout=ANSWER_S, options=options) as connection:
        # As text, which the server takes for whatever the column is.
        cursor = psycopg.RawCursor(connection)
        row = cursor.execute(_query(partition, "$").encode(), [str(value) for value in values]).fetchone()
        return Found(*(row or (0, None)))


def _query(partition: Partition, place: str) -> str:
    # Between double quotes, SQLite takes a column that does not exist for a text.
    mark = "`" if place == "?" else '"'

    def name(identifier: str) -> str:
        return mark + identifier.replace(mark, 2 * mark) + mark

    newest = f"MAX({name(partition.dated_by)})" if partition.dated_by else "NULL"
    table = ".".join(name(part) for part in partition.table.split("."))
    columns = enumerate(partition.partition, 1)
    conditions = " AND ".join(f"{name(column)} = {place}{number}" for number, column in columns)
    where = f" WHERE {conditions}" if conditions else ""
    return f"SELECT COUNT(*), {newest} FROM {table}{where}"  # noqa: S608 - all names are quoted


def _instant(value: Any) -> float | None:
    """A column's value as seconds since 1970; a time without a zone is taken as UTC, a day as its end."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value / 1000 if value > _MILLISECONDS else float(value)
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value) if len(value) == len("2026-01-31") else datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, 23, 59, 59, tzinfo=UTC).timestamp()
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
