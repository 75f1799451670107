"""The other processes of the contract: `python child.py VERB URL ...`, each line printed is a commit made."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
from collections.abc import Callable

from dogwatch.errors import LedgerAwayError, StaleError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Item, Json, Reader, Store, Tx
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock


def record(store: Store, body: Json) -> None:
    """One event."""
    store.run(lambda tx: tx.append(PlainEvent("appended", body)))


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


def exclude(store: Store, holder: str, times: str) -> None:
    """Takes a lease again and again, and finds nobody else inside."""

    def enter(tx: Tx) -> None:
        tx.check(lease)
        document = tx.get("inside")
        assert document is None or document.body == {"holder": ""}, document
        tx.put("inside", {"holder": holder})

    def leave(tx: Tx) -> None:
        tx.check(lease)
        document = tx.get("inside")
        assert document is not None
        assert document.body == {"holder": holder}, document
        tx.put("inside", {"holder": ""})
        tx.release(lease)

    for _ in range(int(times)):
        while (found := store.run(lambda tx: tx.acquire("lease", holder, 600))) is None:
            store.wait(0.05)
        lease = found
        store.run(enter)
        store.run(leave)
        print(lease.fence, flush=True)


def interrupted(store: Store, times: str) -> None:
    """Moves one from a to b, broken off at any instruction; what is read afterwards adds up and is what was asked for.
    Prints how often it was in fact broken off."""
    armed, broken_off = False, 0

    def ring(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    def move(tx: Tx) -> None:
        a, b = tx.get("a"), tx.get("b")
        assert a is not None
        assert b is not None
        tx.append(PlainEvent("moved", {}))
        tx.put("a", {"name": "a", "n": a.body["n"] - 1})
        tx.put("b", {"name": "b", "n": b.body["n"] + 1})

    def look(reader: Reader) -> None:
        found = {key: reader.get(key) for key in ("a", "b")}
        bodies = {key: document.body for key, document in found.items() if document}
        assert [bodies[key]["name"] for key in ("a", "b")] == ["a", "b"]
        moved = len(reader.recent(10_000))
        assert (bodies["a"]["n"], bodies["b"]["n"]) == (1000 - moved, moved)

    signal.signal(signal.SIGALRM, ring)
    store.run(lambda tx: (tx.put("a", {"name": "a", "n": 1000}), tx.put("b", {"name": "b", "n": 0})))
    dice = random.Random(75)
    for turn in range(int(times)):
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0001, 0.006))
            for _ in range(100):
                store.run(move) if turn % 2 else store.read(look)
        except KeyboardInterrupt:
            armed = False
            broken_off += 1
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        store.run(move)
        store.read(look)
    print(broken_off)


def stop_inside(store: Store, ttl_s: str) -> None:
    """Stops itself in the middle of a transaction under a lease; once continued, says what became of it."""
    lease = store.run(lambda tx: tx.acquire("lease", "a", float(ttl_s)))
    assert lease is not None
    stops = iter([signal.SIGSTOP])

    def write(tx: Tx) -> None:
        tx.check(lease)
        for stop in stops:
            print("inside", flush=True)
            os.kill(os.getpid(), stop)
        tx.put("key", {"by": "a"})

    try:
        store.run(write)
    except StaleError:
        print("stale")


def persist(store: Store, writer: str, count: str) -> None:
    """Appends numbered events whatever becomes of the server; those with a question mark may or may not be there."""
    for number in range(1, int(count) + 1):
        try:
            record(store, {"writer": writer, "n": number})
            print(number, flush=True)
        except LedgerAwayError:
            print(f"?{number}", flush=True)


VERBS: dict[str, Callable[..., None]] = {
    "append": append,
    "increment": increment,
    "drain": drain,
    "exclude": exclude,
    "interrupted": interrupted,
    "listen": listen,
    "persist": persist,
    "stop_inside": stop_inside,
}

if __name__ == "__main__":
    verb, url, *arguments = sys.argv[1:]
    opened = open_store(url, SystemClock())
    VERBS[verb](opened, *arguments)
    opened.close()
