"""What SQLite and the file system say, as errors that name the ledger's file and what to do."""

from __future__ import annotations

import errno
import os
import sqlite3

from dogwatch.errors import (
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    LedgerLockedError,
    LedgerReadOnlyError,
)
from dogwatch.ledger import refusals

# Less than this and SQLite cannot add the few pages that any transaction needs.
FULL_BYTES = 128 * 1024

SEALED = "sealed"
"""What the triggers of a ledger that was moved say."""
# Raised by Python's module, which gives no code with it.
_UNDECODABLE = "Could not decode to UTF-8"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FORBIDDEN = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)


def is_busy(error: sqlite3.Error) -> bool:
    """Another connection was in the way, and the same may work when tried again."""
    return _primary(error) in _BUSY


def translate(error: sqlite3.Error, path: str) -> LedgerError:
    """The error of ours for an error of SQLite's."""
    code = _primary(error)
    if code in _DAMAGED or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_CORRUPTFS:
        return corrupt(path, str(error))
    if str(error).startswith(_UNDECODABLE):
        return corrupt(path, "a text is not valid Unicode")
    if code in _BUSY:
        return locked(path)
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
        return LedgerError(
            f"the ledger {path} was moved or deleted while it was open", hint="put it back, then start again"
        )
    if code == sqlite3.SQLITE_CONSTRAINT and str(error) == SEALED:
        return refusals.sealed(path, "another place")
    if code in _FORBIDDEN or (code == sqlite3.SQLITE_CANTOPEN and is_read_only(path)):
        return read_only(path)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return full(path)
    return LedgerError(
        f"the ledger {path} cannot be used: {error}",
        hint="check that its folder exists, may be written and lies on a healthy local disk",
    )


def translate_os(error: OSError, path: str) -> LedgerError:
    """The error of ours for an error of the file system's."""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return read_only(path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full(path)
    return LedgerError(
        f"the ledger {path} cannot be used: {error.strerror or error}",
        hint="set DOGWATCH_HOME to a folder that may be written",
    )


def corrupt(path: str, detail: str) -> LedgerCorruptError:
    """The file is damaged, or was never a ledger."""
    return LedgerCorruptError(
        f"the ledger {path} is damaged: {detail}",
        hint=f"nothing was changed; keep the file, save what can be read with `sqlite3 '{path}' .recover`, "
        "and go on with another folder as DOGWATCH_HOME",
    )


def foreign(path: str) -> LedgerError:
    """The file is somebody else's database."""
    return LedgerError(
        f"{path} is the SQLite database of another program, not a ledger",
        hint="nothing was changed; set DOGWATCH_HOME to another folder",
    )


def locked(path: str) -> LedgerLockedError:
    """Somebody does not let go of the write lock."""
    return LedgerLockedError(
        f"another process has kept the ledger {path} locked for too long",
        hint=f"find it with `fuser -v '{path}'`: a stopped process goes on with `kill -CONT`; then try again",
    )


def read_only(path: str) -> LedgerReadOnlyError:
    """The file, its folder or its file system may not be written."""
    return LedgerReadOnlyError(
        f"the ledger {path} may not be written",
        hint="check the owner and mode of the file and its folder, and whether the disk is mounted read-only",
    )


def full(path: str) -> LedgerFullError:
    """There is no space left."""
    return LedgerFullError(
        f"the disk that holds the ledger {path} is full; nothing was written",
        hint=f"make room (`df -h '{os.path.dirname(path) or '.'}'`), then try again: all that was recorded is kept",
    )


def is_read_only(path: str) -> bool:
    """Whether the file or its folder may not be written; for root, whether the disk is mounted so."""
    folder = os.path.dirname(path) or "."
    return not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK))


def _primary(error: sqlite3.Error) -> int:
    """SQLite's result code without the detail in its upper bits; 0 where Python's own module raised."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _is_full(path: str) -> bool:
    try:
        space = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return False
    return space.f_bavail * space.f_frsize < FULL_BYTES
