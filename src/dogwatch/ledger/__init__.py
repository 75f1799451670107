"""What happened: the durable truth, in one interface for every engine."""

from __future__ import annotations

from dogwatch.errors import UsageError
from dogwatch.ledger.api import Clock, Store

__all__ = ["LOCK_WAIT_S", "open_store"]

POSTGRES = ("postgresql", "postgres")


LOCK_WAIT_S = 30.0
"""How long a command waits for other writers of a file."""


def open_store(
    url_or_path: str,
    clock: Clock,
    *,
    host: str = "",
    bells: str = "",
    maintenance: bool = False,
    lock_wait_s: float = LOCK_WAIT_S,
) -> Store:
    """Opens the ledger at a path, at `sqlite:///PATH` or at `postgresql://…`, and creates it where there is none.

    `host` is the name of this host among all that share a ledger: whatever belongs to one host carries it. `bells` is
    for a ledger on a server; see `PostgresStore`. For `maintenance`, a ledger
    that was moved elsewhere is opened too, and answers may take their time. `lock_wait_s` is how long a file's other
    writers are waited for.
    """
    scheme, separator, rest = url_or_path.partition("://")
    if separator and scheme in POSTGRES:
        # Imported only where it is used: most fleets are on one machine.
        from dogwatch.ledger.postgres import PostgresStore

        return PostgresStore(url_or_path, clock, host=host, bells=bells, maintenance=maintenance)
    from dogwatch.ledger.sqlite import SqliteStore

    if not separator:
        path = url_or_path
    elif scheme == "sqlite" and rest.startswith("/"):
        path = rest[1:]
    else:
        raise UsageError(
            f"{url_or_path!r} names no ledger that dogwatch can open",
            hint="give a path, sqlite:///PATH (four slashes for an absolute path), or postgresql://HOST/DATABASE",
        )
    if not path:
        raise UsageError("the ledger's path is empty", hint="give a path, or sqlite:///PATH")
    return SqliteStore(path, clock, host=host, lock_wait_s=lock_wait_s, maintenance=maintenance)
