"""What several test files need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from dogwatch.ledger.api import START, Store, StoredEvent
from dogwatch.ledger.records import save
from dogwatch.model.memory import HostRecord

T = TypeVar("T")

POLL_S = 0.02


def wait_for(fn: Callable[[], T], timeout_s: float = 60, what: str | Callable[[], str] = "") -> T:
    """The first true value of `fn`, asked again and again; AssertionError naming `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (value := fn()):
        if time.monotonic() > deadline:
            name = what() if callable(what) else what
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {name or fn}")
        time.sleep(POLL_S)
    return value


def events_of(ledger: Store, kind: str = "", agent: str = "") -> list[StoredEvent]:
    """All events, in the order of their commits; of `kind` and `agent` only where these are given."""
    found = events_since(ledger, START)
    return [e for e in found if (not kind or e.kind == kind) and (not agent or e.agent == agent)]


def events_since(ledger: Store, cursor: str) -> list[StoredEvent]:
    """The events after the one with this cursor."""
    found: list[StoredEvent] = []
    while page := ledger.since(cursor, 500):
        found += page
        cursor = page[-1].cursor
    return found


def open_gate(ledger: Store) -> None:
    """What a dispatcher would have written: memory is GREEN. For captains that are stepped without one."""
    ledger.run(lambda tx: save(tx, HostRecord(host=tx.host, at=tx.now, since=tx.now)))
