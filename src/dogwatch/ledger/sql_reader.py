"""Reading the ledger: rows to values, as of one instant. The same SQL for every engine, but for the few words here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, ClassVar, TypeVar

from dogwatch.errors import LedgerCorruptError, LedgerError, UsageError
from dogwatch.ledger.api import START, Document, Item, Lease, StoredEvent
from dogwatch.ledger.archive import unpack
from dogwatch.ledger.bodies import load
from dogwatch.ledger.plain_records import PlainReading
from dogwatch.model.moment import Moment
from dogwatch.values import dataclass

T = TypeVar("T")
Row = tuple[Any, ...]
Request = tuple[str, Sequence[Any]]
Position = tuple[int, int]
"""Where an event stands in the order of the commits; in SQLite the first number is always 0."""

BEFORE_ALL: Position = (0, 0)
CURSOR_DIGITS_MAX = 18

EVENT_COLUMNS = "seq, kind, body, boot, mono, wall, run, agent, op_id"
DOCUMENT = "SELECT key, body, revision FROM documents"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What an engine says in words of its own."""

    now: str
    """The clock that all hosts of the ledger share, in seconds: the server's; in a file, the machine's own."""
    pos: str
    """The first number of an event's position."""
    order: tuple[str, ...]
    """The columns that put events into the order of the commits; a cursor has one part for each."""
    told: str
    """Whether no event can come before this one any more."""
    seal: tuple[str, ...]
    """The statements after which a table takes no changes, whoever makes them."""
    unseal: tuple[str, ...]
    first_archive: tuple[str, ...] = ()
    """The statements to be made before the first event is archived."""
    skip_locked: str = ""


class SqlReader(PlainReading):
    """What can be read inside an open transaction.

    An error of the engine's spoils the whole transaction, also where the caller catches it: the engine may have
    rolled back by itself, and whatever came after would be written alone.
    """

    dialect: ClassVar[Dialect]

    def __init__(self, now: Moment, host: str, *, clock_of: str) -> None:
        self.now = now
        self.spoiled: LedgerError | None = None
        self._own_host = host
        self._clock_of = clock_of

    @property
    def host(self) -> str:
        """The host that this program runs on."""
        return self._own_host

    def get(self, key: str) -> Document | None:
        """The document under `key`, or None."""
        rows = self.rows(DOCUMENT + " WHERE key = ?", (key,))
        return self.values(to_document, rows)[0] if rows else None

    def scan(self, prefix: str) -> Sequence[Document]:
        """All documents whose key begins with `prefix`, ordered by key."""
        where, values = _begins("key", prefix)
        return self.values(to_document, self.rows(f"{DOCUMENT} WHERE {where} ORDER BY key", values))

    def keys(self, prefix: str) -> Sequence[str]:
        """The keys of these documents."""
        where, values = _begins("key", prefix)
        return [row[0] for row in self.rows(f"SELECT key FROM documents WHERE {where} ORDER BY key", values)]

    def leases(self, prefix: str) -> Sequence[Lease]:
        """All leases now held whose name begins with `prefix`, ordered by name and slot."""
        where, values = _begins("name", prefix)
        rows = self.rows(f"{self._lease()} WHERE {where} ORDER BY name, slot", values)
        return [to_lease(row) for row in rows if self._is_held(row)]

    def items(self, queue: str) -> Sequence[Item]:
        """What stands in `queue`, ready or claimed, in the order of pushing."""
        rows = self.rows(
            f"SELECT {item_columns(self.dialect.now)} FROM items WHERE queue = ? AND state = 'open' ORDER BY seq",
            (queue,),
        )
        return [found for found in self.values(self._to_item, rows) if found.state != "expired"]

    def queues(self, prefix: str) -> Sequence[str]:
        """The queues that something stands in."""
        where, values = _begins("queue", prefix)
        statement = f"SELECT DISTINCT queue FROM items WHERE {where} AND state = 'open' ORDER BY queue"
        return [row[0] for row in self.rows(statement, values)]

    def recent(self, n: int, run: str = "", kinds: Sequence[str] = ()) -> Sequence[StoredEvent]:
        """The newest `n` events, oldest of them first."""
        limit = count(n)
        of_run, values = ("run = ? AND run <> ''", (run,)) if run else ("TRUE", ())
        order = ", ".join(f"{column} DESC" for column in self.dialect.order)
        # Kind by kind, because one statement for all of them would have to sort every event of these kinds.
        rows: list[Row] = []
        for kind in dict.fromkeys(kinds) or [None]:
            of_kind, wanted = ("", values) if kind is None else (" AND kind = ?", (*values, kind))
            rows += self.rows(f"{self._event()} WHERE {of_run}{of_kind} ORDER BY {order} LIMIT ?", (*wanted, limit))
        found = sorted(rows)[max(0, len(rows) - limit) :]
        if len(found) < limit:
            found = self._archived_recent(limit - len(found), run, kinds) + found
        return self._events(found)

    def after(self, cursor: str, n: int, run: str) -> Sequence[StoredEvent]:
        """Up to `n` events behind a cursor, of all runs or of one."""
        position, limit = to_position(cursor, len(self.dialect.order)), count(n)
        of_run, values = ("run = ? AND run <> '' AND ", (run,)) if run else ("", ())
        behind, place = self._behind(position)
        order = ", ".join(self.dialect.order)
        parts, live = self.batch(
            self._parts_after(position, run),
            (f"{self._event()} WHERE {of_run}{behind} ORDER BY {order} LIMIT ?", (*values, *place, limit)),
        )
        archived: list[Row] = []
        while parts and len(archived) < limit:
            last_pos, last_seq, data = parts[0]
            rows = self._unpacked(data)
            archived += [row for row in rows if (row[0], row[1]) > position and run in ("", row[7])]
            position = (last_pos, last_seq)
            parts = self.rows(*self._parts_after(position, run))
        return self._events([*archived, *live][:limit])

    def event_rows(self) -> str:
        """The statement for all events that are not archived, as they are archived, in the order of the commits."""
        return f"{self._event()} ORDER BY {', '.join(self.dialect.order)}"

    def upto(self, position: Position) -> tuple[str, Sequence[int]]:
        """The condition for all events that are not archived, up to a position."""
        return "seq <= ?", (position[1],)

    def batch(self, *requests: Request) -> list[list[Row]]:
        """What several statements return; an engine may ask for all of them at once."""
        return [self.rows(statement, values) for statement, values in requests]

    @abstractmethod
    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """What a statement returns."""

    @abstractmethod
    def corrupt(self, detail: str) -> LedgerCorruptError:
        """The error for content that cannot be read."""

    def values(self, convert: Callable[[Row], T], rows: Iterable[Row]) -> list[T]:
        """Damage may come to light only in what a row holds."""
        try:
            return [convert(row) for row in rows]
        except (ValueError, TypeError) as error:
            self.spoiled = self.corrupt(f"a record cannot be read ({error})")
            raise self.spoiled from error

    def _behind(self, position: Position) -> tuple[str, tuple[int, ...]]:
        """The condition for events after the position that may be told already."""
        return "seq > ?", (position[1],)

    def _cursor(self, row: Row) -> str:
        return str(row[1])

    def _events(self, rows: Sequence[Row]) -> list[StoredEvent]:
        return self.values(lambda row: to_event(row, self._cursor(row)), rows)

    def _event(self) -> str:
        columns = f"{self.dialect.pos}, {EVENT_COLUMNS}, {self.dialect.told}"
        return f"SELECT {columns} FROM events"

    def _lease(self) -> str:
        return (
            "SELECT name, holder, slot, fence, renewed_boot, renewed_mono, renewed_wall,"
            f" expires_boot, expires_mono, expires_wall, host, expires_server > {self.dialect.now} FROM leases"
        )

    def _is_held(self, row: Row) -> bool:
        return self._stands(row[10], row[7], row[8], row[11])

    def _stands(self, host: str, boot: str, mono: float, by_server: object) -> bool:
        """Whether a lease or a claim still stands. Of this host by its own clock, and a reboot ended its holder;
        of another host, whose clock says nothing here, by the server's."""
        return (boot == self.now.boot and self.now.mono < mono) if host == self._clock_of else bool(by_server)

    def _to_item(self, row: Row) -> Item:
        """The item in a row of an open one, as it stands now."""
        queue, identity, body, holder, fence = row[:5]
        expires = Moment(*row[8:11]) if row[8] is not None else None
        if row[11] is not None and self._stands(row[14], row[11], row[12], row[15]):
            state, expires = "claimed", Moment(*row[11:14])
        else:
            over = expires is not None and self._is_over(expires, *row[16:18])
            state, holder = "expired" if over else "ready", ""
        # Every claim is a delivery and raises the fence by one, so they are one number.
        return Item(queue, identity, load(body), state, holder, fence, fence, Moment(*row[5:8]), expires)

    def _is_over(self, end: Moment, host: str, by_server: object) -> bool:
        """Whether an item's own time is over. Unlike a claim it outlives a reboot, by the wall clock."""
        if self.now.boot == end.boot:
            return self.now.mono >= end.mono
        return self.now.wall >= end.wall if host == self._clock_of else bool(by_server)

    def _parts_after(self, position: Position, run: str) -> Request:
        """The request for the first part of the archive, which is older than all events, behind a position."""
        behind = "(last_pos > ? OR (last_pos = ? AND last_seq > ?))"
        statement = f"SELECT last_pos, last_seq, data FROM archives WHERE {self._parts_of(run, ())} AND {behind}"
        values = (*([run] if run else []), position[0], position[0], position[1])
        return f"{statement} ORDER BY n LIMIT 1", values

    def _archived_recent(self, limit: int, run: str, kinds: Sequence[str]) -> list[Row]:
        """The newest events of the archive."""
        found: list[Row] = []
        values = (*([run] if run else []), *kinds)
        numbers = self.rows(f"SELECT n FROM archives WHERE {self._parts_of(run, kinds)} ORDER BY n DESC", values)
        for (number,) in numbers:
            if len(found) >= limit:
                break
            ((data,),) = self.rows("SELECT data FROM archives WHERE n = ?", (number,))
            chunk = [row for row in self._unpacked(data) if run in ("", row[7]) and (not kinds or row[2] in kinds)]
            found = chunk + found
        return found[max(0, len(found) - limit) :]

    def _parts_of(self, run: str, kinds: Sequence[str]) -> str:
        """The condition for the parts of the archive that hold events of the run and the kinds."""
        if not run and not kinds:
            return "TRUE"
        of_run = "run = ?" if run else "TRUE"
        of_kinds = f"kind IN ({', '.join('?' * len(kinds))})" if kinds else "TRUE"
        return f"n IN (SELECT n FROM archive_index WHERE {of_run} AND {of_kinds})"

    def _unpacked(self, data: bytes) -> list[Row]:
        return self.values(lambda row: row, unpack(data))


@cache
def item_columns(now: str) -> str:
    """What `_to_item` makes an item of."""
    return (
        "queue, id, body, holder, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot, ttl_mono, ttl_wall,"
        f" claim_boot, claim_mono, claim_wall, claim_host, claim_server > {now}, host, ttl_server <= {now}"
    )


def _begins(column: str, prefix: str) -> tuple[str, tuple[str, ...]]:
    """The condition that a text begins with `prefix`, as one range of an index."""
    end = behind(prefix)
    return (f"{column} >= ? AND {column} < ?", (prefix, end)) if end else (f"{column} >= ?", (prefix,))


def behind(prefix: str) -> str:
    """The first text after all texts that begin with `prefix`; empty where there is none."""
    while prefix:
        head, last = prefix[:-1], ord(prefix[-1])
        if last < 0x10FFFF:
            # Surrogates are no characters: the one after U+D7FF is U+E000.
            return head + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = head
    return ""


def to_position(cursor: str, length: int) -> Position:
    """The position that a cursor of so many parts stands for."""
    parts = cursor.split("-")
    if cursor == START:
        return BEFORE_ALL
    if len(parts) != length or not all(p.isascii() and p.isdigit() and len(p) <= CURSOR_DIGITS_MAX for p in parts):
        raise UsageError(f"{cursor!r} is no cursor of this ledger", hint="begin again at the start")
    return (int(parts[0]) if length == 2 else 0, int(parts[-1]))


def count(n: int) -> int:
    """How many are asked for; SQLite takes a negative number for no limit at all."""
    if n < 0:
        raise UsageError(f"the number of events must not be negative, but is {n}")
    return n


def to_event(row: Row, cursor: str) -> StoredEvent:
    """The event in a row: position, kind, body, moment, run, agent, op_id, and whether it may be told."""
    _, _, kind, body, boot, mono, wall, run, agent, op_id, _ = row
    return StoredEvent(cursor, kind, load(body), Moment(boot, mono, wall), run, agent, op_id)


def to_document(row: Row) -> Document:
    """The document in a row of key, body, revision."""
    return Document(row[0], load(row[1]), row[2])


def to_lease(row: Row) -> Lease:
    """The lease in a row of the leases."""
    name, holder, slot, fence = row[:4]
    return Lease(name, holder, slot, fence, Moment(*row[4:7]), Moment(*row[7:10]))
