"""A process that stops itself at a bad moment: `python f75_holder.py transaction|queue PATH`."""

from __future__ import annotations

import fcntl
import os
import signal
import sys

from dogwatch.ledger import open_store
from dogwatch.ledger.api import Tx
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def in_transaction(path: str) -> None:
    """Stops with the write lock held and an event half recorded."""

    def write(tx: Tx) -> None:
        tx.append(PlainEvent("kind", {"from": "holder"}))
        stop()

    store = open_store(path, SystemClock())
    store.run(write)
    store.close()


def in_queue(path: str) -> None:
    """Stops with the turn in the queue before the write lock."""
    with open(path + ".queue", "ab") as turnstile:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        stop()


if __name__ == "__main__":
    {"transaction": in_transaction, "queue": in_queue}[sys.argv[1]](sys.argv[2])
