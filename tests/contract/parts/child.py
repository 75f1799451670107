"""The other processes of the contract: `python child.py VERB URL ...`, each line printed is a commit made."""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import Callable

from dogwatch.ledger import open_store
from dogwatch.ledger.api import Item, Json, Store, Tx
from dogwatch.world.clock import SystemClock


def record(store: Store, body: Json) -> None:
    """One event."""
    store.run(lambda tx: tx.append("appended", body))


def finish(store: Store, item: Item) -> None:
    """One item done."""
    store.run(lambda tx: tx.ack(item))


def append(store: Store, writer: str, count: str) -> None:
    """Appends numbered events; endlessly where the count is 0."""
    for number in itertools.count(1) if count == "0" else range(1, int(count) + 1):
        record(store, {"writer": writer, "n": number})
        print(number, flush=True)


def increment(store: Store, key: str, times: str) -> None:
    """Reads a number and writes the next one."""

    def step(tx: Tx) -> None:
        document = tx.get(key)
        tx.put(key, {"n": document.body["n"] + 1 if document else 1})

    for _ in range(int(times)):
        store.run(step)


def drain(store: Store, queue: str, holder: str) -> None:
    """Claims and acks until nothing is left."""
    while item := store.run(lambda tx: tx.claim(queue, holder, 60)):
        finish(store, item)
        print(item.id, flush=True)


def listen(store: Store) -> None:
    """Hangs up a doorbell and waits to be killed."""
    store.fileno()
    print("listening", flush=True)
    signal.pause()


VERBS: dict[str, Callable[..., None]] = {"append": append, "increment": increment, "drain": drain, "listen": listen}

if __name__ == "__main__":
    verb, url, *arguments = sys.argv[1:]
    opened = open_store(url, SystemClock())
    VERBS[verb](opened, *arguments)
    opened.close()
