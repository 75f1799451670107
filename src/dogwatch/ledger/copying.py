"""A whole ledger as a sequence of records, out of one engine and into another.

Leases and claims are left behind: whoever held one must ask again. Every fence is raised, so that a holder from before
can never pass for one from after. Events come out of the archive with all others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from dogwatch.errors import LedgerError, RefusedError
from dogwatch.ledger.api import START, Reader, Store, Tx
from dogwatch.ledger.bodies import dump, load
from dogwatch.ledger.facts import COPY_OF, TABLES, facts, note, sql
from dogwatch.ledger.refusals import UNFINISHED
from dogwatch.ledger.sql_tx import columns
from dogwatch.model.moment import Moment

Record = tuple[str, Mapping[str, Any]]
"""A kind (document, fence, item or event) and its content, in plain JSON values."""
KINDS = ("document", "fence", "item", "event")
PAGE = 500


def counted(reader: Reader) -> dict[str, int]:
    """How many records of each kind a ledger has."""
    rows = sql(reader).rows(
        "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM fences), (SELECT count(*) FROM items),"
        " (SELECT count(*) FROM events) + (SELECT coalesce(sum(events), 0) FROM archives)"
    )
    return dict(zip(KINDS, map(int, rows[0]), strict=True))


def records(reader: Reader) -> Iterator[Record]:
    """All of a ledger, as of one instant, a page at a time."""
    tx = sql(reader)
    for key, revision, body in _paged(tx.rows, "key, revision, body", "documents", ("key",)):
        yield "document", {"key": key, "revision": revision, "body": load(body)}
    for name, fence in _paged(tx.rows, "name, fence", "fences", ("name",)):
        yield "fence", {"name": name, "fence": fence}
    names = "seq, queue, id, state, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot, ttl_mono, ttl_wall, body"
    for row in _paged(tx.rows, names, "items", ("seq",)):
        _, queue, identity, state, fence = row[:5]
        ttl = list(row[8:11]) if row[8] is not None else None
        yield (
            "item",
            {"queue": queue, "id": identity, "state": state, "fence": fence, "pushed": list(row[5:8]), "ttl": ttl}
            | {"body": load(row[11])},
        )
    cursor = START
    while events := tx.after(cursor, PAGE, ""):
        cursor = events[-1].cursor
        for event in events:
            at = [event.at.boot, event.at.mono, event.at.wall]
            known = {"kind": event.kind, "body": event.body, "at": at, "run": event.run, "agent": event.agent}
            yield "event", {**known, "op_id": event.op_id}


def begin(store: Store, source: str, source_id: str, *, checking_only: bool) -> bool:
    """Prepares an empty ledger to be filled; True where an earlier copy of the same source is whole already."""

    def fn(tx: Tx) -> bool:
        known = facts(tx)
        if known.get(COPY_OF) == source_id and UNFINISHED not in known:
            return True
        if UNFINISHED in known and known.get(COPY_OF) != source_id:
            raise RefusedError(
                f"the ledger there holds an unfinished copy of another one, {known[UNFINISHED]}",
                hint="finish that first, or name an empty database",
            )
        if UNFINISHED not in known and any(counted(tx).values()):
            raise RefusedError("the ledger there is not empty", hint="name an empty database; nothing was changed")
        if not checking_only:
            # Whatever an earlier attempt has left; it was never open to anybody.
            for table in TABLES:
                sql(tx).change(f"DELETE FROM {table}")
            note(tx, COPY_OF, source_id)
            note(tx, UNFINISHED, source)
        return False

    return store.run(fn)


def fill(store: Store, content: Iterator[Record], tell: Callable[[int], None]) -> tuple[dict[str, int], str]:
    """Writes all records into a ledger that was prepared; how many of each kind there were, and their checksum."""
    counts = dict.fromkeys(KINDS, 0)
    digest = hashlib.sha256()
    done = 0
    while page := list(islice(content, PAGE)):
        store.run(partial(_write_page, page=page))
        for kind, body in page:
            counts[kind] += 1
            digest.update(line(kind, body))
        done += len(page)
        tell(done)
    return counts, digest.hexdigest()


def verify(store: Store, counts: Mapping[str, int], checksum: str, tell: Callable[[int], None]) -> None:
    """Reads everything back and compares it with what was to be written."""

    def fn(reader: Reader) -> tuple[dict[str, int], str]:
        found = dict.fromkeys(KINDS, 0)
        digest = hashlib.sha256()
        for number, (kind, body) in enumerate(records(reader), 1):
            found[kind] += 1
            digest.update(line(kind, body))
            if number % PAGE == 0:
                tell(number)
        return found, digest.hexdigest()

    found, digest = store.read(fn)
    if found != dict(counts) or digest != checksum:
        raise LedgerError(
            f"the copy differs from its source: {_words(found)} instead of {_words(counts)}",
            hint="nothing was sealed, and the copy is not in use; try again",
        )


def finish(store: Store) -> None:
    """Raises every fence and opens the copy."""

    def fn(tx: Tx) -> None:
        sql(tx).change("UPDATE fences SET fence = fence + 1")
        note(tx, UNFINISHED, None)

    store.run(fn)


def line(kind: str, body: Mapping[str, Any]) -> bytes:
    """A record as one line, always the same."""
    return json.dumps({kind: body}, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def _write_page(tx: Tx, page: Sequence[Record]) -> None:
    for kind, body in page:
        _write(tx, kind, body)


def _write(tx: Tx, kind: str, body: Mapping[str, Any]) -> None:
    later = sql(tx).later
    if kind == "document":
        values: Sequence[Any] = (body["key"], body["revision"], dump(body["body"]))
        later("INSERT INTO documents (key, revision, body) VALUES (?, ?, ?)", values)
    elif kind == "fence":
        later("INSERT INTO fences (name, fence) VALUES (?, ?)", (body["name"], body["fence"]))
    elif kind == "item":
        pushed, ttl = Moment(*body["pushed"]), Moment(*body["ttl"]) if body["ttl"] else None
        content = dump(body["body"])
        later(
            "INSERT INTO items (queue, id, state, holder, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot,"
            " ttl_mono, ttl_wall, body) VALUES (?, ?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?)",
            (*(body[name] for name in ("queue", "id", "state", "fence")), *columns(pushed), *columns(ttl), content),
        )
    else:
        at = columns(Moment(*body["at"]))
        later(
            "INSERT INTO events (op_id, run, agent, kind, boot, mono, wall, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (body["op_id"], body["run"], body["agent"], body["kind"], *at, dump(body["body"])),
        )


def _paged(
    rows: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], names: str, table: str, order: tuple[str]
) -> Iterator[tuple[Any, ...]]:
    """The rows of a table in the order of its first column, which is unique."""
    (key,) = order
    page = rows(f"SELECT {names} FROM {table} ORDER BY {key} LIMIT {PAGE}", ())
    while page:
        yield from page
        page = rows(f"SELECT {names} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT {PAGE}", (page[-1][0],))


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}s" for kind, number in counts.items())
