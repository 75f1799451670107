"""Moves old events into the ledger's own archive, compressed, a part at a time; whoever reads notices nothing."""

from __future__ import annotations

from itertools import takewhile

from dogwatch.ledger.api import Reader, Tx
from dogwatch.ledger.archive import PART_BYTES_MAX, PART_EVENTS_MAX, pack
from dogwatch.ledger.facts import sql
from dogwatch.ledger.sql_reader import Row
from dogwatch.ledger.sql_tx import SqlTx


def old_events(reader: Reader, before: float) -> int:
    """How many events are older than a time by the wall clock, or nearly: clocks step."""
    return int(sql(reader).rows("SELECT count(*) FROM events WHERE wall < ?", (before,))[0][0])


def compact_part(tx: Tx, before: float) -> tuple[int, int, int]:
    """Archives the oldest events, up to the first that is not older than `before`; how many, and their size before and
    after. All in one transaction: an event is in the one place or in the other."""
    ledger = sql(tx)
    part = _oldest(ledger.rows(f"{ledger.event_rows()} LIMIT ?", (_fitting(ledger),)), before)
    if not part:
        return 0, 0, 0
    if not ledger.rows("SELECT 1 FROM archives LIMIT 1"):
        for statement in ledger.dialect.first_archive:
            ledger.rows(statement)
    # Read by their ids, so that whoever appends one of them at this very time is found to be in the way.
    ids = [row[9] for row in part if row[9]]
    if ids:
        marks = ", ".join("?" * len(ids))
        ledger.rows(f"SELECT count(*) FROM events WHERE op_id <> '' AND op_id IN ({marks})", ids)
    data = pack(part)
    pos, seq = part[-1][0], part[-1][1]
    ((number,),) = ledger.rows(
        "INSERT INTO archives (last_pos, last_seq, events, data) VALUES (?, ?, ?, ?) RETURNING n",
        (pos, seq, len(part), data),
    )
    for run, kind in sorted({(row[7], row[2]) for row in part}):
        ledger.later("INSERT INTO archive_index (run, kind, n) VALUES (?, ?, ?)", (run, kind, number))
    upto, values = ledger.upto((pos, seq))
    ledger.change(f"INSERT INTO archived_op_ids (op_id) SELECT op_id FROM events WHERE op_id <> '' AND {upto}", values)
    ledger.change(f"DELETE FROM events WHERE {upto}", values)
    return len(part), sum(len(row[3]) for row in part), len(data)


def _fitting(ledger: SqlTx) -> int:
    """How many of the oldest events go into one part: looked at before they are read."""
    sizes = f"SELECT length(body) FROM events ORDER BY {', '.join(ledger.dialect.order)} LIMIT ?"
    total = fitting = 0
    for (size,) in ledger.rows(sizes, (PART_EVENTS_MAX,)):
        total += size
        if fitting and total > PART_BYTES_MAX:
            break
        fitting += 1
    return fitting


def _oldest(rows: list[Row], before: float) -> list[Row]:
    """Those before the first that is too young, or that others may still come before."""
    return list(takewhile(lambda row: row[6] < before and row[-1], rows))
