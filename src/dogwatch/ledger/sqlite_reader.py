"""Reading the SQLite ledger: rows to values, as of one instant."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from dogwatch.errors import LedgerError, UsageError
from dogwatch.ledger.api import Document, Event, Item, Lease
from dogwatch.ledger.bodies import load
from dogwatch.ledger.sqlite_errors import corrupt, translate
from dogwatch.model.moment import Moment

EVENT = "SELECT seq, kind, body, boot, mono, wall, run, agent, op_id FROM events"
LEASE = (
    "SELECT name, holder, slot, fence, renewed_boot, renewed_mono, renewed_wall,"
    " expires_boot, expires_mono, expires_wall FROM leases"
)
ITEM = (
    "SELECT seq, queue, id, body, holder, fence, pushed_boot, pushed_mono, pushed_wall,"
    " ttl_boot, ttl_mono, ttl_wall, claim_boot, claim_mono, claim_wall FROM items"
)
T = TypeVar("T")
Row = tuple[Any, ...]


class SqliteReader:
    """What can be read inside an open transaction.

    An error of SQLite's spoils the whole transaction, also where the caller catches it: SQLite may have rolled back
    by itself, and whatever came after would be written alone.
    """

    def __init__(self, connection: sqlite3.Connection, path: str, now: Moment) -> None:
        self.now = now
        self.spoiled: LedgerError | None = None
        self.cause: sqlite3.Error | None = None
        self._connection = connection
        self._path = path

    def get(self, key: str) -> Document | None:
        """The document under `key`, or None."""
        rows = self._rows("SELECT key, body, revision FROM documents WHERE key = ?", (key,))
        return self._values(to_document, rows)[0] if rows else None

    def scan(self, prefix: str) -> Sequence[Document]:
        """All documents whose key begins with `prefix`, ordered by key."""
        statement = "SELECT key, body, revision FROM documents WHERE key >= ? AND key < ? ORDER BY key"
        return self._values(to_document, self._rows(statement, (prefix, behind(prefix))))

    def leases(self, prefix: str) -> Sequence[Lease]:
        """All leases now held whose name begins with `prefix`, ordered by name and slot."""
        rows = self._rows(LEASE + " WHERE name >= ? AND name < ? ORDER BY name, slot", (prefix, behind(prefix)))
        return [held for held in map(to_lease, rows) if holds(held.expires, self.now)]

    def items(self, queue: str) -> Sequence[Item]:
        """What stands in `queue`, ready or claimed, in the order of pushing."""
        rows = self._rows(ITEM + " WHERE queue = ? AND state = 'open' ORDER BY seq", (queue,))
        return [found for found in self._items(rows) if found.state != "expired"]

    def recent(self, n: int, run: str = "", kinds: Sequence[str] = ()) -> Sequence[Event]:
        """The newest `n` events, oldest of them first."""
        limit = count(n)
        of_run, values = (" run = ? AND run <> ''", (run,)) if run else (" TRUE", ())
        if not kinds:
            rows = self._rows(f"{EVENT} WHERE{of_run} ORDER BY seq DESC LIMIT ?", (*values, limit))
            return self._values(to_event, rows[::-1])
        # Kind by kind, because one statement for all of them would have to sort every event of these kinds.
        statement = f"{EVENT} WHERE{of_run} AND kind = ? ORDER BY seq DESC LIMIT ?"
        found = [row for kind in dict.fromkeys(kinds) for row in self._rows(statement, (*values, kind, limit))]
        return self._values(to_event, sorted(found)[max(0, len(found) - limit) :])

    def after(self, position: int, n: int, run: str) -> Sequence[Event]:
        """Up to `n` events behind a position, of all runs or of one."""
        of_run, values = (" run = ? AND run <> '' AND", (run,)) if run else ("", ())
        statement = f"{EVENT} WHERE{of_run} seq > ? ORDER BY seq LIMIT ?"
        return self._values(to_event, self._rows(statement, (*values, position, count(n))))

    def _items(self, rows: Iterable[Row]) -> list[Item]:
        return self._values(lambda row: to_item(row, self.now), rows)

    def _values(self, convert: Callable[[Row], T], rows: Iterable[Row]) -> list[T]:
        """SQLite keeps no checksums, so damage may come to light only in what a row holds."""
        try:
            return [convert(row) for row in rows]
        except ValueError as error:
            self.spoiled = corrupt(self._path, f"a record cannot be read ({error})")
            raise self.spoiled from error

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        if self.spoiled is not None:
            raise self.spoiled
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self.cause = error
            self.spoiled = translate(error, self._path)
            raise self.spoiled from error


def holds(expires: Moment, now: Moment) -> bool:
    """Whether a lease or a claim with this end still stands. A reboot ends every holder, so it ends every holding."""
    return expires.boot == now.boot and now.mono < expires.mono


def behind(prefix: str) -> str | bytes:
    """The first text after all texts that begin with `prefix`; for SQLite, any bytes come after any text."""
    while prefix:
        head, last = prefix[:-1], ord(prefix[-1])
        if last < 0x10FFFF:
            # Surrogates are no characters: the one after U+D7FF is U+E000.
            return head + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = head
    return b""


def count(n: int) -> int:
    """How many are asked for; SQLite takes a negative number for no limit at all."""
    if n < 0:
        raise UsageError(f"the number of events must not be negative, but is {n}")
    return n


def to_event(row: Row) -> Event:
    """The event in a row of EVENT."""
    seq, kind, body, boot, mono, wall, run, agent, op_id = row
    return Event(str(seq), kind, load(body), Moment(boot, mono, wall), run, agent, op_id)


def to_document(row: Row) -> Document:
    """The document in a row of key, body, revision."""
    return Document(row[0], load(row[1]), row[2])


def to_lease(row: Row) -> Lease:
    """The lease in a row of LEASE."""
    name, holder, slot, fence = row[:4]
    return Lease(name, holder, slot, fence, Moment(*row[4:7]), Moment(*row[7:10]))


def to_item(row: Row, now: Moment) -> Item:
    """The item in a row of ITEM as it stands now; its row must be an open one."""
    _, queue, identity, body, holder, fence = row[:6]
    claim = Moment(*row[12:15]) if row[12] is not None else None
    expires = Moment(*row[9:12]) if row[9] is not None else None
    if claim is not None and holds(claim, now):
        state, expires = "claimed", claim
    else:
        state, holder = "expired" if expires is not None and _is_over(expires, now) else "ready", ""
    # Every claim is a delivery and raises the fence by one, so they are one number.
    return Item(queue, identity, load(body), state, holder, fence, fence, Moment(*row[6:9]), expires)


def _is_over(end: Moment, now: Moment) -> bool:
    """Whether an item's own time is over. Unlike a claim it outlives a reboot, by the wall clock."""
    return now.mono >= end.mono if now.boot == end.boot else now.wall >= end.wall
