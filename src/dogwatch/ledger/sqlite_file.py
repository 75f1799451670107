"""Opening the ledger's file: made whole or not at all, refused untouched where it is not ours, brought up to date."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dogwatch.ledger import sqlite_errors
from dogwatch.ledger.migrations import APPLICATION_ID, MIGRATIONS, VERSION
from dogwatch.ledger.refusals import refuse_moved, too_new
from dogwatch.ledger.upgrades import fence_out, upgrade_documents

WAL_BYTES_KEPT_MAX = 64 * 1024 * 1024
UNLOCKED = "mode=ro&immutable=1"

Turn = Callable[[], AbstractContextManager[None]]


def open_connection(path: str, turn: Turn, lock_wait_s: float, *, host: str, maintenance: bool) -> sqlite3.Connection:
    """A connection to the ledger at `path`, which is created or migrated as needed, in this writer's `turn`.

    `host` is whose records are in it. One that was moved elsewhere is refused, but for `maintenance`.
    """
    try:
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with turn():
                if not os.path.exists(path):
                    _create(path)
        _check(path)
        connection = _open(path, turn, lock_wait_s, host)
        if not maintenance:
            try:
                refuse_moved(path, dict(connection.execute("SELECT name, value FROM facts")))
            except BaseException:
                connection.close()
                raise
        return connection
    except sqlite3.Error as error:
        raise sqlite_errors.translate(error, path) from error
    except OSError as error:
        raise sqlite_errors.translate_os(error, path) from error


def _create(path: str) -> None:
    """Makes the file under another name and moves it into place: a ledger that is there is a whole one."""
    making = path + ".new"
    _remove(making)  # Left behind by a process that was killed at this point.
    try:
        os.close(os.open(making, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with contextlib.closing(_connect(making, "mode=rw", 0.0)) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            _migrate(connection, "")
            # Last, and on the only connection: closing it leaves one file, without a log beside it.
            connection.execute("PRAGMA journal_mode = WAL")
        os.rename(making, path)
    except BaseException:
        _remove(making)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(making: str) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(making + suffix)


def _check(path: str) -> None:
    """Looks at the file without any lock, log or change, and refuses what is not a ledger that this version knows.

    SQLite must do it: closing a descriptor of our own on that file would drop the locks of every other store in
    this process.
    """
    if os.path.getsize(path) == 0:
        raise sqlite_errors.corrupt(path, "it is empty")
    try:
        with contextlib.closing(_connect(path, UNLOCKED, 0.0)) as connection:
            _refuse(path, connection)
    except sqlite3.DatabaseError as error:
        # While a log is moved into the file, the file alone does not add up; together with its log it must.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise


def _open(path: str, turn: Turn, lock_wait_s: float, host: str) -> sqlite3.Connection:
    connection = _connect(path, "mode=rw", lock_wait_s)
    try:
        try:
            _refuse(path, connection)
        except sqlite3.OperationalError:
            if _has_log(path) or not sqlite_errors.is_read_only(path):
                raise
            # On a read-only medium no log can be made; where there is none either, the file alone is all there is.
            connection.close()
            connection = _connect(path, UNLOCKED, lock_wait_s)
        if _pragma(connection, "user_version") < VERSION:
            with turn():
                _migrate(connection, host)
                # So that an older dogwatch sees the new version in the file itself.
                connection.execute("PRAGMA wal_checkpoint")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT_MAX}")
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, host: str) -> None:
    """All missing steps in one transaction; another process may have made them meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _pragma(connection, "user_version")
        for step in MIGRATIONS[version:]:
            for statement in step:
                connection.execute(statement)
        if version < VERSION:
            _upgrade(connection, version, host)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _upgrade(connection: sqlite3.Connection, version: int, host: str) -> None:
    """Also in a ledger that was moved away: where the move is given up, it is worked with again."""
    sealing = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'documents'"
    ).fetchall()
    for name, _ in sealing:
        connection.execute(f"DROP TRIGGER {name}")
    documents = _Documents(connection)
    if not sealing:
        fence_out(documents)
    upgrade_documents(documents, version, host)
    for _, statement in sealing:
        connection.execute(statement)


class _Documents:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a statement returns."""
        return self._connection.execute(statement, values).fetchall()


def _refuse(path: str, connection: sqlite3.Connection) -> None:
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise sqlite_errors.foreign(path)
    version = _pragma(connection, "user_version")
    if version > VERSION:
        raise too_new(path, version, VERSION)


def _connect(path: str, options: str, lock_wait_s: float) -> sqlite3.Connection:
    address = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(f"file:{address}?{options}", uri=True, isolation_level=None, timeout=lock_wait_s)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _has_log(path: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.getsize(path + "-wal") > 0
    return False
