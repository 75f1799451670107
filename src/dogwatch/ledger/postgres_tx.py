"""A transaction on the PostgreSQL ledger; for readers, one that writes nothing.

It is sent in as few round trips as there are answers that somebody waits for. Most writes have an answer that is known
beforehand: an operation's id is new, a claim that was just granted stands. Such a write is sent along with what comes
next, at the latest with the commit, in words that make the server refuse the whole transaction where the guess was
wrong; then the function is run again, without guessing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from dogwatch.errors import LedgerCorruptError, LedgerError
from dogwatch.ledger.postgres_errors import away, corrupt, translate
from dogwatch.ledger.postgres_schema import XID
from dogwatch.ledger.postgres_session import Answer, ConnectionLostError, ServerError, Session
from dogwatch.ledger.sql_reader import Dialect, Position, Request, Row
from dogwatch.ledger.sql_tx import EVENT, SqlTx
from dogwatch.model.moment import Moment

HORIZON = (
    "pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (SELECT value::bigint FROM facts WHERE name = 'offset')"
)
"""The first position at which an event may still appear: that of the oldest transaction that is open."""
WRITING = "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE"
READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
SETTINGS = {
    "search_path": "dogwatch",
    # Row by row, through an index: a scan of a table counts as having read all of it, and every writer of it as being
    # in the way.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    # A process that was stopped in the middle must not hold up all others.
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "4s",
    # How numbers and archives are written, whatever the server's own settings say.
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
LAST_SEQ = 10**18 - 1
_WRONG_GUESS = ("23505", "22012")


class PostgresTx(SqlTx):
    """The SQL of the ledger on a session with a PostgreSQL server."""

    dialect = Dialect(
        now="extract(epoch FROM clock_timestamp())::float8",
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
        self._begun = False
        self._guessing = guessing
        self._guessed = False
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
        # No row is a division by zero, which the server refuses.
        self._add(f"WITH done AS ({statement} RETURNING 1) SELECT {XID} / count(*) FROM done", values, self._note)

    def commit(self) -> None:
        """Sends what is left and commits."""
        if self.spoiled is not None:
            raise self.spoiled
        if not self._begun:
            return
        # The transaction's id must be here before the commit begins: should the connection break in the middle of it,
        # the server can be asked what became of it.
        if not self.transaction and not self._guessed:
            self._add("SELECT pg_current_xact_id_if_assigned()::text::bigint", (), self._note)
        self._session.flush_before_more()
        self._add("COMMIT", ())
        self.committing = True
        self._finish()
        self._begun = self.committing = False

    def settle(self) -> ServerError | ConnectionLostError | None:
        """What has spoiled the transaction, also where that comes to light only now: who was given a guess for an
        answer may have failed because of it."""
        if self._guessed and self.spoiled is None:
            with contextlib.suppress(LedgerError):
                self._finish()
        return self.cause

    def end(self) -> None:
        """Nothing more goes through this; what it had open is undone, without waiting."""
        self.spoiled = LedgerError("this transaction is over")
        if self._begun and not isinstance(self.cause, ConnectionLostError):
            self._session.post("ROLLBACK")

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
            self.later(f"{EVENT} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
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

        self._add(f"{statement} RETURNING {XID}", values, take)

    def _note(self, rows: Sequence[Row]) -> None:
        if rows:
            self.transaction = rows[0][0] or 0

    def _add(self, statement: str, values: Sequence[Any], answer: Answer | None = None) -> None:
        if self.spoiled is not None:
            raise self.spoiled
        try:
            if not self._begun:
                self._begun = True
                self._session.later(self._begin)
                if self._session.pooled:
                    self._session.later(settings(self._session, of_transaction=True))
            self._session.later(statement, values, answer)
        except ConnectionLostError as error:
            self._spoil(error)

    def _finish(self) -> None:
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


def settings(session: Session, *, of_transaction: bool) -> str:
    """The statement that makes the session's settings, for the present transaction or for good."""
    wanted = {**SETTINGS, **session.settings}
    calls = [f"set_config('{name}', '{value}', {str(of_transaction).lower()})" for name, value in wanted.items()]
    return f"SELECT {', '.join(calls)}"
