"""A transaction on the PostgreSQL ledger; for readers, one that writes nothing.

It is sent in as few round trips as there are answers that somebody waits for. Most writes have an answer that is known
beforehand: an operation's id is new, a claim that was just granted stands. Such a write is sent along with what comes
next, at the latest with the commit, in words that make the server refuse the whole transaction where the guess was
wrong; then the function is run again, without guessing.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from dogwatch.errors import LedgerCorruptError, LedgerError
from dogwatch.ledger.api import Item, Json
from dogwatch.ledger.bodies import load, required, seconds
from dogwatch.ledger.postgres_errors import away, corrupt, translate
from dogwatch.ledger.postgres_schema import XID
from dogwatch.ledger.postgres_session import LOOKING, Answer, ConnectionLostError, ServerError, Session
from dogwatch.ledger.sql_reader import Dialect, Position, Request, Row
from dogwatch.ledger.sql_tx import EVENT, SqlTx, claim_stands
from dogwatch.model.moment import Moment

HORIZON = (
    "pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (SELECT value::bigint FROM facts WHERE name = 'offset')"
)
"""The first position at which an event may still appear: that of the oldest transaction that is open."""
NOW = "date_part('epoch', clock_timestamp())"
WRITING = "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE"
READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
SETTINGS = {
    "search_path": "dogwatch",
    # Row by row, through an index: a scan of a table counts as having read all of it, and every writer of it as being
    # in the way.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    # A batch that is a transaction by itself has no BEGIN to say how.
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "off",
    # A process that was stopped in the middle must not hold up all others.
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "4s",
    # How numbers and archives are written, whatever the server's own settings say.
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
# Marks are locks of the server's that are no rows: taking one changes nothing. The number tells ours from others'.
_MARK = f"{0x4447 << 48} + seq"
# Of ?1 … ?10: the values of `_here`, the wall clock's time, the claim's seconds, holder, place, queue, id, fence. The
# place alone would not do: once an item is done and cleaned up, another one may stand there.
_NEW_CLAIM = (
    "holder = ?6, fence = fence + 1, claim_boot = ?2, claim_mono = ?3 + ?5, claim_wall = ?4 + ?5, claim_host = ?1,"
    f" claim_server = {NOW} + ?5 WHERE ctid = ?7::tid AND queue = ?8 AND id = ?9 AND state = 'open'"
    " AND fence = ?10"
    f" AND NOT {claim_stands(NOW, '?1', '?2', '?3')}"
)
CLAIM = f"UPDATE items SET {_NEW_CLAIM}"
CLAIM_AND_ACK = f"UPDATE items SET state = 'acked', {_NEW_CLAIM}"
_NEEDED = "ctid, seq, id, body, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot"
_READY = (
    f"SELECT {_NEEDED} FROM items WHERE queue = ? AND seq >= ? AND state = 'open' AND NOT {claim_stands(NOW)}"
    " ORDER BY seq OFFSET 0"
)
PICK = (
    f"SELECT ctid, {_MARK}, pg_advisory_unlock(?), id, body, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot"
    f" FROM ({_READY}) AS ready WHERE pg_try_advisory_lock({_MARK}) LIMIT 1"
)
"""Marks an item, and takes the mark of an earlier one away."""
FLOOR = "SELECT seq FROM items WHERE queue = ? AND state = 'open' ORDER BY seq LIMIT 1"
FLOOR_S = 0.2
"""For how long items are looked for only from the first open one on. What is done stays in the index until the server
cleans it up, and would be gone through for every claim. A push that is committed late may come before that place: it is
found when the time is over, or nothing else is."""
NEW_EVENT = f"{EVENT} VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
POSITION_S = 1.0
LAST_SEQ = 10**18 - 1
_WRONG_GUESS = ("23505", "22012")


class PostgresTx(SqlTx):
    """The SQL of the ledger on a session with a PostgreSQL server."""

    dialect = Dialect(
        now=NOW,
        pos="pos",
        order=("pos", "seq"),
        told=f"pos < {HORIZON}",
        seal=("CREATE TRIGGER sealed BEFORE INSERT OR UPDATE OR DELETE ON {table} EXECUTE FUNCTION refuse()",),
        unseal=("DROP TRIGGER sealed ON {table}",),
        first_archive=(
            "DROP TRIGGER IF EXISTS archived ON events",
            "CREATE TRIGGER archived BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse_archived()",
        ),
        skip_locked="FOR UPDATE SKIP LOCKED",
    )

    cause: ServerError | ConnectionLostError | None = None
    transaction: int | None = None
    """The id that the server gave to this transaction, once that is known; 0 where it needed none."""
    witness: Sequence[Any] | None = None
    """The values of an event of this transaction, which is there if and only if it was committed."""
    needs_no_id = False
    """Whether it is enough to know that the session has ended: then the witness tells all."""
    committing = False
    _is_begun = False
    _is_open = False
    """Whether the server was sent its BEGIN."""
    _is_committed = False
    _is_closed = False
    _guessed = False
    _held: tuple[str, Sequence[Any], Sequence[Any] | None] | None = None
    """The first change, and the event after it, while nothing else has followed."""
    _has_missed = False
    _has_mark = False
    _is_picking = False
    _is_acked = False
    _horizon = 0

    def __init__(self, session: Session, name: str, now: Moment, host: str, begin: str, *, guessing: bool) -> None:
        super().__init__(now, host, clock_of=host)
        self.session = session
        self._name = name
        self._begin = begin
        self._guessing = guessing

    @property
    def first_position(self) -> int:
        """No event of this transaction has a position before it. Its own id, where that is known: what the session knew
        before may be too much, where a pooler has led it to a server that has lost the last ids in a crash."""
        return self.transaction + self.session.offset if self.transaction else self.session.first_position

    @property
    def guessed_wrong(self) -> bool:
        """Whether the transaction was refused for a guess."""
        return self._guessed and isinstance(self.cause, ServerError) and self.cause.state in _WRONG_GUESS

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """What a statement returns."""
        return self.batch((statement, values))[0]

    def batch(self, *requests: Request) -> list[list[Row]]:
        """What several statements return, asked for at once."""
        found: list[list[Row]] = []
        for statement, values in requests:
            self._add(statement, values, lambda rows: found.append(list(rows)))
        self._finish()
        return found

    def change(self, statement: str, values: Sequence[Any] = (), *, news: bool = True) -> int:
        """How many rows the statement changed."""
        changed: list[int] = []
        self._write(statement, values, lambda rows: changed.append(len(rows)))
        self._finish()
        self.news = self.news or (news and changed[0] > 0)
        return changed[0]

    def insert(self, statement: str, values: Sequence[Any], unless: str = "") -> bool:
        """Whether a new row was made."""
        if not self._guessing:
            return super().insert(statement, values, unless)
        self.later(statement, values)
        return True

    def later(self, statement: str, values: Sequence[Any]) -> None:
        """A change whose outcome is known beforehand."""
        self._guessed = self.news = True
        self._write(statement, values)

    def must(
        self, statement: str, values: Sequence[Any], failure: Callable[[], Exception], *, news: bool = True
    ) -> None:
        """Changes one row; the `failure` where there is none such."""
        if not self._guessing:
            super().must(statement, values, failure, news=news)
            return
        self._guessed = True
        self.news = self.news or news
        if self._is_begun or self._held is not None:
            self._add(_refused_if_none(statement), values, self._note)
        else:
            self._held = (statement, values, None)

    def commit(self) -> None:
        """Sends what is left and commits."""
        if self.spoiled is not None:
            raise self.spoiled
        if self._held is not None:
            # Where nothing else is changed, there is nothing that the server would have to undo.
            (statement, values, event), self._held = self._held, None
            if event is not None:
                told = _with_event(statement)
                self._add(_with_id(told) if self._wants_id() else told, (*values, *event), self._note_alone)
            elif self.news or self.session.pooled:
                self._add(_with_id(statement), values, self._note_alone)
            else:
                # A mere renewal, which may be made again.
                self._add(statement, values, self._note_alone)
                self.needs_no_id = True
        if not self._is_begun:
            return
        # Should the connection break in the middle of the commit, its event tells what became of it. Without one, the
        # id must be here before the commit begins, for the server to be asked; and through a pooler, because nobody
        # knows when the session has ended. That wakes this process once more.
        self.needs_no_id = self.needs_no_id or (self.witness is not None and not self.session.pooled)
        if not self.needs_no_id:
            if not self.transaction and not self._guessed:
                self._add("SELECT pg_current_xact_id_if_assigned()::text::bigint", (), self._note)
            self.session.flush_before_more()
        at_once = not (self._is_open or self.session.is_framed)
        if not at_once:
            self._add("COMMIT", ())
        self.committing = True
        self._finish(at_once=at_once)
        self.committing, self._is_committed = False, True
        if self.transaction:
            self.session.first_position = self.first_position
            self.session.positioned = time.monotonic()
        if self._is_acked:
            # Nobody will ever pick that item again: its mark is taken away when the next one is made.
            self._has_mark = False
        if self._has_missed:
            self._spoil(ServerError(_WRONG_GUESS[1], "there is no such row"))

    def settle(self) -> ServerError | ConnectionLostError | None:
        """What has spoiled the transaction, also where that comes to light only now: who was given a guess for an
        answer may have failed because of it."""
        if self._guessed and self.spoiled is None:
            with contextlib.suppress(LedgerError):
                self._send_held()
                self._finish()
        return self.cause

    def end(self) -> None:
        """Nothing more goes through this; what it had open is undone, without waiting."""
        self._is_closed = True
        if isinstance(self.cause, ConnectionLostError):
            return
        if self._is_picking:
            raise ConnectionLostError("it was interrupted before it was known which item is marked")
        if not self._is_committed:
            self.session.forget()
            if self.session.may_be_open:
                self.session.post("ROLLBACK")
        if self._has_mark:
            self.session.post("SELECT pg_advisory_unlock(?)", (self.session.mark,))
            self.session.mark = None
            # Whoever hears that the claim has failed, and looks again, shall find the item first in its queue.
            self.session.settle()

    def claim(self, queue: str, holder: str, ttl_s: float, item_id: str = "") -> Item | None:
        """The first ready item (or the one named), now claimed by `holder` with a new fence, or None.

        Where a transaction begins with a claim, the item is picked before it begins, and marked in the server's memory,
        where other claimers see it and go on to the next. Within the transaction, all claimers of a queue would read
        what the others change, and most of them would be sent back to the start. The pick is a guess like any other:
        whether it can be claimed is decided by the write.
        """
        is_first = self._guessing and not (self._is_begun or self._held)
        picked = self._pick(queue) if is_first and not item_id and not self.session.pooled else None
        if picked is None:
            return super().claim(queue, holder, ttl_s, item_id)
        place, identity, body, fence, pushed = picked
        expires = self.now.plus(seconds(ttl_s, "a claim's time"))
        values = (*self._here(), self.now.wall, ttl_s, required(holder, "a holder"), place, queue, identity, fence)
        self._guessed = self.news = True
        self._held = (CLAIM, values, None)
        self._fresh = Item(queue, identity, body, "claimed", holder, fence + 1, fence + 1, pushed, expires)
        return self._fresh

    def ack(self, item: Item) -> None:
        """The item is done, for good."""
        if self._held is None or self._held[0] is not CLAIM or item != self._fresh:
            super().ack(item)
        else:
            self._held, self._fresh = (CLAIM_AND_ACK, *self._held[1:]), None
            self._is_acked = True

    def _pick(self, queue: str) -> tuple[str, str, Json, int, Moment] | None:
        """The place in the table, id, body, fence and moment of a ready item that no other claimer has marked; None
        also where the first one needs more than to be claimed."""
        found: list[Row] = []
        session = self.session
        known, floor, until = session.floor
        if queue != known or time.monotonic() >= until:
            floor = 0
            session.later(FLOOR, (queue,), lambda rows: self._note_floor(queue, rows))
        session.later(PICK, (session.mark, queue, floor, *self._here()), found.extend)
        session.later("COMMIT")
        self._is_picking = True
        try:
            session.finish(LOOKING)
        except (ServerError, ConnectionLostError) as error:
            self._is_picking = False
            self._spoil(error)
        if not found:
            self._is_picking = False
            return None
        place, session.mark, _, identity, body, fence, *pushed, ends = found[0]
        self._has_mark, self._is_picking = True, False
        if ends is not None:
            return None
        (content,) = self.values(lambda row: load(row[0]), [(body,)])
        return place, identity, content, fence, Moment(*pushed)

    def _note_floor(self, queue: str, rows: Sequence[Row]) -> None:
        if rows:
            self.session.floor = (queue, rows[0][0], time.monotonic() + FLOOR_S)

    def corrupt(self, detail: str) -> LedgerCorruptError:
        """The error for content that cannot be read."""
        return corrupt(self._name, detail)

    def horizon(self) -> int:
        """The first position that readers do not go to yet; it stays the same within a transaction."""
        self._horizon = self._horizon or int(self.rows(f"SELECT {HORIZON}")[0][0])
        return self._horizon

    def is_held_back(self, run: str) -> bool:
        """Whether there are events (of the run) that cannot be told yet."""
        of_run, values = ("run = ? AND run <> '' AND ", (run,)) if run else ("", ())
        return bool(self.rows(f"SELECT 1 FROM events WHERE {of_run}pos >= {HORIZON} LIMIT 1", values))

    def _append(self, values: Sequence[Any]) -> bool:
        if self._guessing:
            # The unique index refuses an id that was used before, and a trigger one that is in the archive.
            self._guessed = self.news = True
            if self._held is not None and self._held[2] is None:
                self._held = (*self._held[:2], values)
            else:
                self._add_event(values)
        elif not super()._append(values):
            return False
        self.witness = values
        return True

    def _behind(self, position: Position) -> tuple[str, tuple[int, ...]]:
        return f"(pos, seq) > (?, ?) AND pos < {HORIZON}", position

    def upto(self, position: Position) -> tuple[str, Sequence[int]]:
        """The condition for all events that are not archived, up to a position."""
        return "(pos, seq) <= (?, ?)", position

    def _cursor(self, row: Row) -> str:
        """The event's own place; where others may still come before it, the last place where none can."""
        pos, seq = (row[0], row[1]) if row[-1] else (self.horizon() - 1, LAST_SEQ)
        return f"{pos}-{seq}"

    def _write(self, statement: str, values: Sequence[Any], answer: Answer | None = None) -> None:
        def take(rows: Sequence[Row]) -> None:
            self._note(rows)
            if answer is not None:
                answer(rows)

        self._add(_with_id(statement), values, self._note if answer is None else take)

    def _add_event(self, values: Sequence[Any]) -> None:
        self._add(_with_id(NEW_EVENT) if self._wants_id() else NEW_EVENT, values, self._note)

    def _wants_id(self) -> bool:
        """Whether the id is of use although there is an event for a witness: to poolers, and now and then to know from
        where on such an event would have to be looked for."""
        return self.session.pooled or time.monotonic() >= self.session.positioned + POSITION_S

    def _note(self, rows: Sequence[Row]) -> None:
        if rows and rows[0]:
            self.transaction = rows[0][0] or 0

    def _note_alone(self, rows: Sequence[Row]) -> None:
        if rows:
            self._note(rows)
        else:
            self._has_missed = True

    def _add(self, statement: str, values: Sequence[Any], answer: Answer | None = None) -> None:
        if self.spoiled is not None:
            raise self.spoiled
        if self._is_closed:
            raise LedgerError("this transaction is over")
        if self._held is not None:
            self._send_held()
        if not self._is_begun:
            self._is_begun = True
            if self.session.pooled:
                self.session.later(settings(self.session, of_transaction=True))
        self.session.later(statement, values, answer)

    def _send_held(self) -> None:
        if self._held is not None:
            (statement, values, event), self._held = self._held, None
            self._add(_refused_if_none(statement), values, self._note)
            if event is not None:
                self._add_event(event)

    def _finish(self, *, at_once: bool = False) -> None:
        """Sends what there is and takes the answers. Without a BEGIN, the server commits it `at_once`."""
        begin = "" if at_once or self._is_open else self._begin
        self._is_open = self._is_open or not at_once
        try:
            self.session.finish(begin)
        except (ServerError, ConnectionLostError) as error:
            self._spoil(error)

    def _spoil(self, error: ServerError | ConnectionLostError) -> None:
        self.cause = error
        if isinstance(error, ConnectionLostError):
            self.spoiled = away(self._name, str(error))
        else:
            self.committing = False
            self.spoiled = translate(error, self._name)
        raise self.spoiled from error


@cache
def _with_id(statement: str) -> str:
    """The statement that also tells the transaction's id."""
    return f"{statement} RETURNING {XID}"


@cache
def _refused_if_none(statement: str) -> str:
    """The statement that is refused where it changes nothing: that is a division by zero."""
    return f"WITH done AS ({statement} RETURNING 1) SELECT {XID} / count(*) FROM done"


@cache
def _with_event(statement: str) -> str:
    """The statement that also records an event, where it changes anything."""
    last = max(map(int, re.findall(r"\?(\d+)", statement)), default=0)
    values = ", ".join(f"?{last + number}" if last else "?" for number in range(1, 9))
    return f"WITH done AS ({statement} RETURNING 1) {EVENT} SELECT {values} FROM done"


def settings(session: Session, *, of_transaction: bool) -> str:
    """The statement that makes the session's settings, for the present transaction or for good."""
    wanted = {**SETTINGS, **session.settings}
    calls = [f"set_config('{name}', '{value}', {str(of_transaction).lower()})" for name, value in wanted.items()]
    return f"SELECT {', '.join(calls)}"
