"""What a PostgreSQL server says, as errors that name the ledger and what to do."""

from __future__ import annotations

from psycopg import conninfo

from dogwatch.errors import (
    LedgerAwayError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    LedgerLockedError,
    LedgerReadOnlyError,
    UsageError,
)
from dogwatch.ledger import refusals
from dogwatch.ledger.postgres_session import ServerError

ADDRESS = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
SEALED = "DW001"
"""Raised by the triggers of a ledger that was moved."""
_AGAIN = ("40001", "40P01")
_DAMAGED = ("XX001", "XX002")


def is_busy(error: ServerError) -> bool:
    """Another transaction was in the way, and the same may work when tried again."""
    return error.state in _AGAIN


def shown(url: str) -> str:
    """The ledger's address without its password; UsageError, which does not show it either, where it is none."""
    before, _, behind = url.partition("?")[0].partition("://")[2].partition("/")
    try:
        known = conninfo.conninfo_to_dict(url)
    except Exception as error:
        # What libpq quotes may be the password, or hold it.
        said = str(error).partition('"')[0].strip(" :\n")
        raise UsageError(f"the ledger's address cannot be read: {said}", hint=ADDRESS) from None
    if before.count("@") > 1 or "@" in behind or "\0" in url:
        # Read as it stands, a part of the password would be the host, and shown.
        raise UsageError(
            "the ledger's address cannot be read: there is an @, a / or a NUL too many in it",
            hint=f"{ADDRESS}, with %40 for an @ and %2F for a / in the password",
        )
    user = f"{known['user']}@" if known.get("user") else ""
    port = f":{known['port']}" if known.get("port") else ""
    return f"postgresql://{user}{known.get('host') or ''}{port}/{known.get('dbname') or ''}"


def translate(error: ServerError, name: str) -> LedgerError:
    """The error of ours for a server's refusal."""
    state, said = error.state, str(error)
    if state == SEALED:
        return refusals.sealed(name, said)
    if state in _DAMAGED:
        return corrupt(name, said)
    if state in (*_AGAIN, "55P03"):
        return locked(name)
    # On a standby, a serializable transaction is refused as such, before anything is written in it.
    if state in ("25006", "0A000"):
        return LedgerReadOnlyError(
            f"the ledger {name} is on a server that takes no writes ({said})",
            hint="name all servers in the address and add target_session_attrs=read-write",
        )
    if state in ("53100", "53200"):
        what = "disk" if state == "53100" else "memory"
        return LedgerFullError(
            f"the server of the ledger {name} has no {what} left ({said}); nothing was written",
            hint="make room on the server, then try again: all that was recorded is kept",
        )
    if state == "42501":
        return LedgerReadOnlyError(
            f"the ledger {name} may not be written: {said}",
            hint="the user needs CREATE on the database, or to own the schema dogwatch",
        )
    return LedgerError(
        f"the ledger {name} cannot be used: {said} ({state})", hint="look into the server's log for more"
    )


def away(name: str, said: str) -> LedgerAwayError:
    """The server cannot be reached; nothing was changed."""
    return LedgerAwayError(
        f"the server of the ledger {name} cannot be reached: {said}",
        hint="nothing was changed; see that the server runs and that DOGWATCH_LEDGER is right. The crew goes on when "
        "it is back",
    )


def in_doubt(name: str, said: str) -> LedgerAwayError:
    """The connection was lost in the very moment of committing, and the server cannot be asked."""
    return LedgerAwayError(
        f"the server of the ledger {name} was lost in the middle of a commit: {said}",
        hint="whether this last change was recorded is not known; when the server is back, look before trying again",
    )


def corrupt(name: str, detail: str) -> LedgerCorruptError:
    """Something in it cannot be read."""
    return LedgerCorruptError(
        f"the ledger {name} is damaged: {detail}",
        hint="nothing was changed; look into the server's log, and restore a backup into another database",
    )


def locked(name: str) -> LedgerLockedError:
    """Others do not let go."""
    return LedgerLockedError(
        f"other transactions have kept the ledger {name} busy for too long",
        hint="SELECT * FROM pg_stat_activity on the server shows who holds what; then try again",
    )


def too_old(name: str, version: int) -> LedgerError:
    """The server lacks what commit-ordered events need."""
    return LedgerError(
        f"the server of the ledger {name} is PostgreSQL {version // 10000}, and 13 or newer is needed",
        hint="upgrade the server",
    )
