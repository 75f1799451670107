"""A transaction on the PostgreSQL ledger; for readers, one that writes nothing.

It is sent in as few round trips as there are answers that somebody waits for. Most writes have an answer that is known
beforehand: an operation's id is new, a claim that was just granted stands. Such a write is sent along with what comes
next, at the latest with the commit, in words that make the server refuse the whole transaction where the guess was
wrong; then the function is run again, without guessing.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from dogwatch.errors import LedgerCorruptError, LedgerError
from dogwatch.ledger.api import Item
from dogwatch.ledger.bodies import load, required, seconds
from dogwatch.ledger.postgres_errors import away, corrupt, translate
from dogwatch.ledger.postgres_schema import XID
from dogwatch.ledger.postgres_session import Answer, ConnectionLostError, ServerError, Session
from dogwatch.ledger.sql_reader import Dialect, Position, Request, Row
from dogwatch.ledger.sql_tx import EVENT, SqlTx, claim_stands, columns
from dogwatch.model.moment import Moment

HORIZON = (
    "pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (SELECT value::bigint FROM facts WHERE name = 'offset')"
)
"""The first position at which an event may still appear: that of the oldest transaction that is open."""
NOW = "extract(epoch FROM clock_timestamp())::float8"
WRITING = "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE"
READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
SETTINGS = {
    "search_path": "dogwatch",
    # Row by row, through an index: a scan of a table counts as having read all of it, and every writer of it as being
    # in the way.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    # What is looked for outside of a transaction sees what was committed before it.
    "default_transaction_isolation": "read committed",
    # A process that was stopped in the middle must not hold up all others.
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "4s",
    # How numbers and archives are written, whatever the server's own settings say.
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
# Marks are locks of the server's that are no rows: taking one changes nothing. The number tells ours from others'.
_MARK = f"{0x4447 << 48} + seq"
_PICKED = "ctid = ?::tid AND queue = ? AND state = 'open' AND fence = ?"
_NEW_CLAIM = (
    "holder = ?, fence = fence + 1, claim_boot = ?, claim_mono = ?, claim_wall = ?, claim_host = ?,"
    f" claim_server = {NOW} + ?"
)
CLAIM = f"UPDATE items SET {_NEW_CLAIM} WHERE {_PICKED} AND NOT {claim_stands(NOW)}"
CLAIM_AND_ACK = f"UPDATE items SET state = 'acked', {_NEW_CLAIM} WHERE {_PICKED} AND NOT {claim_stands(NOW)}"
_READY = (
    f"SELECT ctid, * FROM items WHERE queue = ? AND state = 'open' AND NOT {claim_stands(NOW)} ORDER BY seq OFFSET 0"
)
PICK = (
    f"SELECT ctid, {_MARK}, pg_advisory_unlock(?), id, body, fence, pushed_boot, pushed_mono, pushed_wall, ttl_boot"
    f" FROM ({_READY}) AS ready WHERE pg_try_advisory_lock({_MARK}) LIMIT 1"
)
"""Marks an item, and takes the mark of an earlier one away."""
NEW_EVENT = f"{EVENT} VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
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

    def __init__(self, session: Session, name: str, now: Moment, host: str, begin: str, *, guessing: bool) -> None:
        super().__init__(now, host)
        self.cause: ServerError | ConnectionLostError | None = None
        self.transaction: int | None = None
        """The id that the server gave to this transaction, once that is known; 0 where it needed none."""
        self.witness: Sequence[Any] | None = None
        """The values of an event of this transaction, which is there if and only if it was committed."""
        self.committing = False
        self._session = session
        self._name = name
        self._begin = begin
        self._is_begun = False
        self._is_sent = False
        self._is_closed = False
        self._guessing = guessing
        self._guessed = False
        self._held: tuple[str, Sequence[Any]] | None = None
        """The first change, while nothing has followed it."""
        self._has_missed = False
        self._has_mark = False
        self._is_acked = False
        self._horizon = 0

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
            self._held = (statement, values)

    def commit(self) -> None:
        """Sends what is left and commits."""
        if self.spoiled is not None:
            raise self.spoiled
        if self._held is not None:
            # Where nothing else is changed, there is nothing that the server would have to undo.
            (statement, values), self._held = self._held, None
            self._add(_with_id(statement), values, self._note_alone)
        if not self._is_begun:
            return
        # The transaction's id must be here before the commit begins: should the connection break in the middle of it,
        # the server can be asked what became of it.
        if not self.transaction and not self._guessed:
            self._add("SELECT pg_current_xact_id_if_assigned()::text::bigint", (), self._note)
        self._session.flush_before_more()
        self._add("COMMIT", ())
        self.committing = True
        self._finish()
        self._is_sent = self.committing = False
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
        self._session.forget()
        if isinstance(self.cause, ConnectionLostError):
            return
        if self._is_sent:
            self._session.post("ROLLBACK")
        if self._has_mark:
            self._session.post("SELECT pg_advisory_unlock(?)", (self._session.mark,))
            self._session.mark = None
            # Whoever hears that the claim has failed, and looks again, shall find the item first in its queue.
            self._session.settle()

    def claim(self, queue: str, holder: str, ttl_s: float, item_id: str = "") -> Item | None:
        """The first ready item (or the one named), now claimed by `holder` with a new fence, or None.

        Where a transaction begins with a claim, the item is picked before it begins, and marked in the server's memory,
        where other claimers see it and go on to the next. Within the transaction, all claimers of a queue would read
        what the others change, and most of them would be sent back to the start. The pick is a guess like any other:
        whether it can be claimed is decided by the write.
        """
        is_first = self._guessing and not (self._is_begun or self._held)
        picked = self._pick(queue) if is_first and not item_id and not self._session.pooled else None
        if picked is None:
            return super().claim(queue, holder, ttl_s, item_id)
        place, item = picked
        expires = self.now.plus(seconds(ttl_s, "a claim's time"))
        new = (required(holder, "a holder"), *columns(expires), self._host, ttl_s)
        self._guessed = self.news = True
        self._held = (CLAIM, (*new, place, item.queue, item.fence, *self._here()))
        fence = item.fence + 1
        self._fresh = dataclasses.replace(
            item, state="claimed", holder=holder, fence=fence, deliveries=fence, expires=expires
        )
        return self._fresh

    def ack(self, item: Item) -> None:
        """The item is done, for good."""
        if self._held is None or self._held[0] is not CLAIM or item != self._fresh:
            super().ack(item)
        else:
            self._held, self._fresh = (CLAIM_AND_ACK, self._held[1]), None
            self._is_acked = True

    def _pick(self, queue: str) -> tuple[str, Item] | None:
        """A ready item that no other claimer has marked, and its place in the table; None also where the first one
        needs more than to be claimed."""
        found: list[Row] = []
        session = self._session
        session.later(PICK, (session.mark, queue, *self._here()), found.extend)
        self._finish()
        self._is_sent = False
        if not found:
            return None
        place, session.mark, _, identity, body, fence, *pushed, ends = found[0]
        self._has_mark = True
        if ends is not None:
            return None
        (content,) = self.values(lambda row: load(row[0]), [(body,)])
        return place, Item(queue, identity, content, "ready", "", fence, fence, Moment(*pushed), None)

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
            self.later(NEW_EVENT, values)
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

    def _note(self, rows: Sequence[Row]) -> None:
        if rows:
            self.transaction = rows[0][0] or 0

    def _note_alone(self, rows: Sequence[Row]) -> None:
        self._note(rows)
        self._has_missed = not rows

    def _add(self, statement: str, values: Sequence[Any], answer: Answer | None = None) -> None:
        if self.spoiled is not None:
            raise self.spoiled
        if self._is_closed:
            raise LedgerError("this transaction is over")
        self._send_held()
        if not self._is_begun:
            self._is_begun = True
            self._session.later(self._begin)
            if self._session.pooled:
                self._session.later(settings(self._session, of_transaction=True))
        self._session.later(statement, values, answer)

    def _send_held(self) -> None:
        if self._held is not None:
            (statement, values), self._held = self._held, None
            self._add(_refused_if_none(statement), values, self._note)

    def _finish(self) -> None:
        self._is_sent = True
        try:
            self._session.finish()
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


def settings(session: Session, *, of_transaction: bool) -> str:
    """The statement that makes the session's settings, for the present transaction or for good."""
    wanted = {**SETTINGS, **session.settings}
    calls = [f"set_config('{name}', '{value}', {str(of_transaction).lower()})" for name, value in wanted.items()]
    return f"SELECT {', '.join(calls)}"
