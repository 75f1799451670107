"""A whole ledger as a sequence of records, out of one engine and into another.

Leases and claims are left behind: whoever held one must ask again. Every fence is raised, so that a holder from before
can never pass for one from after. Events come out of the archive with all others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dogwatch.errors import LedgerError, RefusedError
from dogwatch.ledger.api import START, Reader, Store, StoredEvent, Tx
from dogwatch.ledger.archive import unpack
from dogwatch.ledger.bodies import dump, load
from dogwatch.ledger.facts import COPIER, COPY_OF, TABLES, facts, note, sql
from dogwatch.ledger.migrations import VERSION
from dogwatch.ledger.refusals import UNFINISHED
from dogwatch.ledger.sql_reader import EVENT_COLUMNS, Row, to_event
from dogwatch.ledger.sql_tx import EVENT, SqlTx, columns
from dogwatch.ledger.upgrades import upgrade_documents, working_host
from dogwatch.model.moment import Moment

Record = tuple[str, Mapping[str, Any]]
"""A kind (document, fence, item or event) and its content, in plain JSON values."""
KINDS = ("document", "fence", "item", "event")
PAGE = 500
PAGE_BYTES = 16 * 1024 * 1024
"""How much is written in one transaction, and how many rows are read at once: bodies may be large."""
ROWS = 100


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
    for key, revision, body in paged(tx, "key, revision, body", "documents", ("key",)):
        yield "document", {"key": key, "revision": revision, "body": load(body)}
    for name, fence in paged(tx, "name, fence", "fences", ("name",)):
        yield "fence", {"name": name, "fence": fence}
    names = "queue, id, state, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot, ttl_mono, ttl_wall, body"
    for row in paged(tx, names, "items", ("seq",)):
        queue, identity, state, fence = row[:4]
        ttl = list(row[7:10]) if row[7] is not None else None
        yield (
            "item",
            {"queue": queue, "id": identity, "state": state, "fence": fence, "pushed": list(row[4:7]), "ttl": ttl}
            | {"body": load(row[10])},
        )
    for event in all_events(reader):
        at = [event.at.boot, event.at.mono, event.at.wall]
        known = {"kind": event.kind, "body": event.body, "at": at, "run": event.run, "agent": event.agent}
        yield "event", {**known, "op_id": event.op_id}


def all_events(reader: Reader) -> Iterator[StoredEvent]:
    """All events of this instant, also those that no follower is told yet because a transaction that is still open
    could come before them: documents of this instant may rest on them. They have no cursors."""
    tx = sql(reader)
    number = 0
    while parts := tx.rows("SELECT n, data FROM archives WHERE n > ? ORDER BY n LIMIT 1", (number,)):
        ((number, data),) = parts
        yield from tx.values(lambda row: to_event(row, START), unpack(data))
    names = f"{tx.dialect.pos}, {EVENT_COLUMNS}, {tx.dialect.told}"
    for row in paged(tx, names, "events", tx.dialect.order):
        yield from tx.values(lambda row: to_event(row, START), [row])


def begin(store: Store, source: str, source_id: str, copier: str, *, checking_only: bool, closed: bool = False) -> bool:
    """Prepares an empty ledger to be filled by `copier`, and by nobody who has begun before; True where it is whole
    already. Only of a source that was `closed` for good can that be known: others may have gone on since."""

    def fn(tx: Tx) -> bool:
        known = facts(tx)
        if closed and known.get(COPY_OF) == source_id and UNFINISHED not in known:
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
            note(tx, COPIER, copier)
        return False

    return store.run(fn)


def fill(
    store: Store, content: Iterator[Record], copier: str, tell: Callable[[int], None]
) -> tuple[dict[str, int], str]:
    """Writes all records into a ledger that was prepared; how many of each kind there were, and their checksum."""
    counts = dict.fromkeys(KINDS, 0)
    digest = hashlib.sha256()
    page: list[Record] = []
    size = done = 0
    for done, (kind, body) in enumerate(content, 1):
        text = line(kind, body)
        counts[kind] += 1
        digest.update(text)
        page.append((kind, body))
        size += len(text)
        if len(page) == PAGE or size >= PAGE_BYTES:
            store.run(partial(_write_page, page=page, copier=copier))
            tell(done)
            page, size = [], 0
    store.run(partial(_write_page, page=page, copier=copier))
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
            f"the copy differs from its source: {in_words(found)} instead of {in_words(counts)}",
            hint="the copy is not in use; run the same command again",
        )


def finish(store: Store, copier: str, version: int = VERSION) -> None:
    """Raises every fence and opens the copy. `version` is that of the ledger which the copy was made of."""

    def fn(tx: Tx) -> None:
        _refuse_other(tx, copier)
        if version < VERSION:
            upgrade_documents(sql(tx), version, working_host(sql(tx)) or tx.host)
        sql(tx).change("UPDATE fences SET fence = fence + 1")
        note(tx, UNFINISHED, None)
        note(tx, COPIER, None)

    store.run(fn)


def line(kind: str, body: Mapping[str, Any]) -> bytes:
    """A record as one line, always the same."""
    return json.dumps({kind: body}, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def _refuse_other(tx: Tx, copier: str) -> None:
    if facts(tx).get(COPIER) != copier:
        raise RefusedError(
            "another process has begun to copy into the ledger there", hint="leave it to that one, or run this again"
        )


def _write_page(tx: Tx, page: Sequence[Record], copier: str) -> None:
    _refuse_other(tx, copier)
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
        known = (body[name] for name in ("queue", "id", "state", "fence"))
        later(
            "INSERT INTO items (queue, id, state, holder, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot,"
            " ttl_mono, ttl_wall, ttl_server, body) VALUES (?, ?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*known, *columns(pushed), *columns(ttl), ttl.wall if ttl else 0.0, dump(body["body"])),
        )
    else:
        at = columns(Moment(*body["at"]))
        later(
            f"{EVENT} VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (body["op_id"], body["run"], body["agent"], body["kind"], *at, dump(body["body"])),
        )


def paged(tx: SqlTx, names: str, table: str, order: Sequence[str]) -> Iterator[Row]:
    """The rows of a table in the order of some columns that are unique together."""
    key = ", ".join(order)
    behind = f"WHERE ({key}) > ({', '.join('?' * len(order))})"
    page = tx.rows(f"SELECT {names}, {key} FROM {table} ORDER BY {key} LIMIT {ROWS}")
    while page:
        yield from (row[: -len(order)] for row in page)
        last = page[-1][-len(order) :]
        page = tx.rows(f"SELECT {names}, {key} FROM {table} {behind} ORDER BY {key} LIMIT {ROWS}", last)


def in_words(counts: Mapping[str, int]) -> str:
    """How many of each kind."""
    return ", ".join(f"{number:,} {kind}" + "s" * (number != 1) for kind, number in counts.items())
