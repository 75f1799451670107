"""The ledger in one SQLite file, for all processes of one machine."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from dogwatch.errors import LedgerCorruptError, LedgerError
from dogwatch.ledger import sqlite_errors
from dogwatch.ledger.api import Clock, Reader, StoredEvent, Tx
from dogwatch.ledger.doorbell import Doorbell
from dogwatch.ledger.sqlite_file import open_connection
from dogwatch.ledger.sqlite_tx import SqliteTx
from dogwatch.ledger.writer_queue import WriterQueue
from dogwatch.model.redact import BY_SHAPE

T = TypeVar("T")

ATTEMPTS_MAX = 5
QUEUE_WAIT_S_MAX = 2.0
POLL_S = 0.25
SHRINK_SHARE = 4
"""The file is made smaller where more than one in so many of its pages is free."""


class SqliteStore:
    """An open SQLite ledger; to be used by one thread.

    Beside the file `PATH` there are SQLite's own `PATH-wal` and `PATH-shm`, the writers' queue `PATH.queue` and
    `PATH.lock`, and the doorbells in `PATH.bells/`.
    """

    def __init__(
        self, path: str, clock: Clock, *, host: str = "", lock_wait_s: float = 30.0, maintenance: bool = False
    ) -> None:
        self.redactor = BY_SHAPE
        self._host = host
        self._path = os.path.abspath(path)
        self._clock = clock
        self._queue_wait_s = min(QUEUE_WAIT_S_MAX, lock_wait_s)
        self._queue = WriterQueue(self._path)
        self._bell = Doorbell(self._path + ".bells")
        self._damage: LedgerCorruptError | None = None
        self._version_seen = -1
        self._is_busy = False
        try:
            self._connection = open_connection(self._path, self._turn, lock_wait_s, host=host, maintenance=maintenance)
        except BaseException:
            self._queue.close()
            raise

    @property
    def host(self) -> str:
        """The host that this program runs on."""
        return self._host

    def run(self, fn: Callable[[Tx], T]) -> T:
        """`fn` in one durable transaction, again from the start where another writer was in the way."""
        self._refuse_nested()
        try:
            self._is_busy = True
            return self._run(fn)
        finally:
            self._is_busy = False

    def _run(self, fn: Callable[[Tx], T]) -> T:
        if self._damage is not None:
            raise self._damage
        for attempt in range(1, ATTEMPTS_MAX + 1):
            with self._turn():
                self._begin("BEGIN IMMEDIATE")
                tx = SqliteTx(self._connection, self._path, self._clock.now(), self._host)
                tx.redactor = self.redactor
                try:
                    result = fn(tx)
                    self._commit(tx)
                    break
                except BaseException:
                    self._end(tx)
                    if attempt == ATTEMPTS_MAX or tx.cause is None or not sqlite_errors.is_busy(tx.cause):
                        raise
        if tx.news:
            self._bell.ring()
        return result

    def read(self, fn: Callable[[Reader], T]) -> T:
        """`fn` on one snapshot; never waits for writers."""
        return self._read(fn)

    def since(self, cursor: str, n: int, run: str = "") -> Sequence[StoredEvent]:
        """Up to `n` events after `cursor` in the order of their commits.

        Writers take turns, so the sequence number grows in the order of the commits.
        """
        return self._read(lambda reader: reader.after(cursor, n, run))

    def settled(self, run: str = "") -> bool:
        """Always: what is committed is told."""
        return True

    def wait(self, timeout_s: float) -> bool:
        """Waits for the doorbell, and polls for the commits of whoever rings none."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            rung = self._bell.wait(min(left, POLL_S))
            # Asked for in any case, so that a commit that has rung is not found a second time by polling.
            if self._has_moved() or rung:
                return True
            if left <= 0:
                return False

    def fileno(self) -> int:
        """The doorbell as a file descriptor for `selectors`."""
        return self._bell.fileno()

    def integrity(self) -> Sequence[str]:
        """What SQLite finds wrong with its file."""
        try:
            found = [str(row[0]) for row in self._connection.execute("PRAGMA integrity_check(20)")]
        except sqlite3.Error as error:
            raise self._translated(error) from error
        return [] if found == ["ok"] else found

    def measures(self) -> Mapping[str, str | int]:
        """What the engine says of itself."""
        log = self._path + "-wal"
        return {
            "engine": f"SQLite {sqlite3.sqlite_version}",
            "bytes": os.path.getsize(self._path),
            "log_bytes": os.path.getsize(log) if os.path.exists(log) else 0,
            "free_bytes": self._pragma("freelist_count") * self._pragma("page_size"),
        }

    def shrink(self) -> None:
        """Gives back what the file does not need any more, where that is worth the while."""
        if self._pragma("freelist_count") * SHRINK_SHARE > self._pragma("page_count"):
            with self._turn():
                try:
                    self._connection.execute("VACUUM")
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                except sqlite3.Error as error:
                    raise self._translated(error) from error

    def close(self) -> None:
        """Lets go of everything. Closing twice is no error."""
        self._bell.close()
        self._queue.close()
        self._connection.close()

    def _pragma(self, name: str) -> int:
        value: int = self._connection.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def _has_moved(self) -> bool:
        """Whether another connection has committed since the last look, or nobody has looked yet."""
        before = self._version_seen
        try:
            (self._version_seen,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise self._translated(error) from error
        return before != self._version_seen

    def _read(self, fn: Callable[[SqliteTx], T]) -> T:
        self._refuse_nested()
        try:
            self._is_busy = True
            self._begin("BEGIN")
            reader = SqliteTx(self._connection, self._path, self._clock.now(), self._host)
            try:
                return fn(reader)
            finally:
                self._end(reader)
        finally:
            self._is_busy = False

    def _refuse_nested(self) -> None:
        if self._is_busy:
            raise LedgerError(
                "a transaction of this store is open already", hint="use the one that the function was given"
            )

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        self._queue.enter(self._queue_wait_s)
        try:
            yield
        finally:
            self._queue.leave()

    def _begin(self, statement: str) -> None:
        try:
            if self._connection.in_transaction:
                # The one before was interrupted before it could be undone: nothing may be added to it.
                self._connection.execute("ROLLBACK")
            self._connection.execute(statement)
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _commit(self, tx: SqliteTx) -> None:
        if tx.spoiled is not None:
            raise tx.spoiled
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            tx.cause = error
            raise self._translated(error) from error
        tx.spoiled = LedgerError("this transaction is over")

    def _end(self, reader: SqliteTx) -> None:
        """Leaves nothing open, whatever happened; SQLite may have rolled back by itself."""
        if isinstance(reader.spoiled, LedgerCorruptError):
            self._damage = reader.spoiled
        reader.spoiled = LedgerError("this transaction is over")
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error) -> LedgerError:
        translated = sqlite_errors.translate(error, self._path)
        if isinstance(translated, LedgerCorruptError):
            # Writing into a damaged file can only spread the damage.
            self._damage = translated
        return translated
