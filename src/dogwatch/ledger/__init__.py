"""What happened: the durable truth, in one interface for every engine."""

from __future__ import annotations

from dogwatch.errors import UsageError
from dogwatch.ledger.api import Clock, Store
from dogwatch.ledger.sqlite import SqliteStore

__all__ = ["open_store"]


def open_store(url_or_path: str, clock: Clock) -> Store:
    """Opens the ledger at a path, or at `sqlite:///PATH`, and creates it where there is none."""
    scheme, separator, rest = url_or_path.partition("://")
    if not separator:
        path = url_or_path
    elif scheme == "sqlite" and rest.startswith("/"):
        path = rest[1:]
    else:
        raise UsageError(
            f"{url_or_path!r} names no ledger that dogwatch can open",
            hint="give a path, or sqlite:///PATH (four slashes for an absolute path)",
        )
    if not path:
        raise UsageError("the ledger's path is empty", hint="give a path, or sqlite:///PATH")
    return SqliteStore(path, clock)
