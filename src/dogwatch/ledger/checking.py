"""Whether a ledger's tables agree with one another."""

from __future__ import annotations

from collections.abc import Iterator

from dogwatch.errors import LedgerError
from dogwatch.ledger.api import Reader
from dogwatch.ledger.archive import unpack
from dogwatch.ledger.bodies import load
from dogwatch.ledger.copying import records
from dogwatch.ledger.facts import sql

_RULES = {
    "a lease has a fence that was never granted": (
        "SELECT l.name FROM leases l LEFT JOIN fences f ON f.name = l.name WHERE f.fence IS NULL OR l.fence > f.fence"
    ),
    "an item is in a state that does not exist": (
        "SELECT id FROM items WHERE state NOT IN ('open', 'acked', 'expired') OR fence < 0"
    ),
    "a document has a revision that cannot be": "SELECT key FROM documents WHERE revision < 1",
    "an operation is both in the archive and among the events": (
        "SELECT e.op_id FROM events e JOIN archived_op_ids a ON a.op_id = e.op_id WHERE e.op_id <> ''"
    ),
    "a part of the archive is not listed": "SELECT n FROM archives WHERE n NOT IN (SELECT n FROM archive_index)",
    "a listed part of the archive is missing": "SELECT n FROM archive_index WHERE n NOT IN (SELECT n FROM archives)",
}


def problems(reader: Reader) -> Iterator[str]:
    """What is wrong with it, one line each."""
    ledger = sql(reader)
    for rule, statement in _RULES.items():
        for (found,) in ledger.rows(f"{statement} LIMIT 20"):
            yield f"{rule}: {found}"
    yield from _archive(reader)
    try:
        for _ in records(reader):
            pass
        for (body,) in ledger.rows("SELECT body FROM items"):
            load(body)
    except (LedgerError, ValueError) as error:
        yield str(error).partition("\n")[0]


def _archive(reader: Reader) -> Iterator[str]:
    """Each part holds as many events as it says, in order, before all events that are not archived."""
    ledger = sql(reader)
    before, number = (-1, -1), 0
    while parts := ledger.rows(
        "SELECT n, last_pos, last_seq, events, data FROM archives WHERE n > ? ORDER BY n LIMIT 1", (number,)
    ):
        number, pos, seq, events, data = parts[0]
        try:
            places = [(row[0], row[1]) for row in unpack(data)]
        except ValueError as error:
            yield f"part {number} of the archive: {error}"
            continue
        if len(places) != events or places != sorted(set(places)) or places[-1] != (pos, seq) or places[0] <= before:
            yield f"part {number} of the archive does not hold what it says"
        before = places[-1]
    first = ledger.rows(f"{ledger.event_rows()} LIMIT 1")
    if first and (first[0][0], first[0][1]) <= before:
        yield "an event is older than the archive"
