"""Whether a ledger's tables agree with one another."""

from __future__ import annotations

from collections.abc import Iterator

from dogwatch.ledger.api import Reader
from dogwatch.ledger.archive import unpack
from dogwatch.ledger.bodies import load
from dogwatch.ledger.copying import paged
from dogwatch.ledger.facts import sql
from dogwatch.ledger.sql_reader import to_event

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
    yield from _bodies(reader)


def _bodies(reader: Reader) -> Iterator[str]:
    """Each is a JSON object."""
    ledger = sql(reader)
    for what, label, order in (
        ("document", "key", ("key",)),
        ("item", "queue || ' ' || id", ("seq",)),
        ("event", "kind", ledger.dialect.order),
    ):
        names = f"{label}, body, {', '.join(order)}"
        for name, body, *place in paged(ledger, names, f"{what}s", order):
            try:
                found = load(body)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                yield f"the body of the {what} {name} cannot be read (at {'-'.join(map(str, place))})"


def _archive(reader: Reader) -> Iterator[str]:
    """Each part holds as many events as it says, in order, before all events that are not archived."""
    ledger = sql(reader)
    before, number = (-1, -1), 0
    while parts := ledger.rows(
        "SELECT n, last_pos, last_seq, events, data FROM archives WHERE n > ? ORDER BY n LIMIT 1", (number,)
    ):
        number, pos, seq, events, data = parts[0]
        try:
            rows = [(row, to_event(row, "")) for row in unpack(data)]
            places = [(int(row[0]), int(row[1])) for row, _ in rows]
        except (ValueError, TypeError) as error:
            yield f"part {number} of the archive cannot be read: {error}"
            continue
        if len(places) != events or places != sorted(set(places)) or places[-1] != (pos, seq) or places[0] <= before:
            yield f"part {number} of the archive does not hold what it says"
        before = places[-1]
        listed = set(ledger.rows("SELECT run, kind FROM archive_index WHERE n = ?", (number,)))
        if listed != {(event.run, event.kind) for _, event in rows}:
            yield f"part {number} of the archive is listed with other runs or kinds than it holds"
        operations = [event.op_id for _, event in rows if event.op_id]
        marks = ", ".join("?" * len(operations))
        known = f"SELECT count(*) FROM archived_op_ids WHERE op_id IN ({marks})"
        if operations and ledger.rows(known, operations) != [(len(operations),)]:
            yield f"part {number} of the archive holds operations that would not be known again"
    first = ledger.rows(f"{ledger.event_rows()} LIMIT 1")
    if first and (first[0][0], first[0][1]) <= before:
        yield "an event is older than the archive"
