"""How soon another process hears of a commit, against one byte over a Unix datagram socket between the same two.

The time runs from the instant after the commit, when the writer's store begins to ring, until the other process has
come back from `wait`. For the bare ping the writer syncs a file first, as a commit does, and the time runs from the
instant before it sends.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from bench.ledger_work import record
from dogwatch.ledger.api import START, Store
from dogwatch.ledger.postgres import PostgresStore
from dogwatch.ledger.postgres_tx import PostgresTx
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.ledger.sqlite_tx import SqliteTx

PING = "socket ping"
SAMPLES = 400
WARM_UP = 20
PAUSE_S = 0.003
WAIT_S_MAX = 20.0


class Stamped(Store, Protocol):
    """A store that notes when its latest commit has returned."""

    committed_ns: int


class StampedSqliteStore(SqliteStore):
    """SQLite; its bell is rung when the writers' queue has moved on."""

    committed_ns = 0

    def _commit(self, tx: SqliteTx) -> None:
        super()._commit(tx)
        self.committed_ns = time.monotonic_ns()


class StampedPostgresStore(PostgresStore):
    """PostgreSQL; what has been committed, or has failed, is ended, and then the bell is rung."""

    committed_ns = 0

    def _end(self, tx: PostgresTx) -> None:
        self.committed_ns = time.monotonic_ns()
        super()._end(tx)


def notice_times_ms(folder: Path, ledgers: Mapping[str, Callable[[], Stamped]]) -> Mapping[str, Sequence[float]]:
    """The times of the bare ping and of each of the ledgers, in turns."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    address = str(folder / "ping")
    waiter = context.Process(target=_wait, args=(theirs, address, list(ledgers.values())), daemon=True)
    waiter.start()
    theirs.close()
    times_ms: dict[str, list[float]] = {PING: [], **{name: [] for name in ledgers}}
    try:
        with ExitStack() as opened:
            ours.recv()  # It listens everywhere.
            tellers = {PING: _ping_teller(opened, folder, address)}
            tellers |= {name: _commit_teller(opened, open_ledger) for name, open_ledger in ledgers.items()}
            for number in range(WARM_UP + SAMPLES):
                for name, tell in tellers.items():
                    time.sleep(PAUSE_S)  # The other process has gone back to waiting.
                    told_ns = tell()
                    assert ours.poll(WAIT_S_MAX), f"nobody heard of {name}"
                    heard_ns = ours.recv()
                    if number >= WARM_UP:
                        times_ms[name].append((heard_ns - told_ns) / 1e6)
    finally:
        waiter.kill()
        waiter.join()
    return times_ms


def _ping_teller(opened: ExitStack, folder: Path, address: str) -> Callable[[], int]:
    ping = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    ping.connect(address)
    file = os.open(folder / "synced", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    opened.callback(os.close, file)

    def tell() -> int:
        os.write(file, b"x" * 400)
        os.fdatasync(file)
        told_ns = time.monotonic_ns()
        ping.send(b"!")
        return told_ns

    return tell


def _commit_teller(opened: ExitStack, open_ledger: Callable[[], Stamped]) -> Callable[[], int]:
    store = opened.enter_context(closing(open_ledger()))

    def tell() -> int:
        store.run(record)
        return store.committed_ns

    return tell


def _wait(connection: Connection[int, None], address: str, ledgers: Sequence[Callable[[], Store]]) -> None:
    """The other process: it waits where it will be told next, and says when it heard."""
    with ExitStack() as opened:
        ping = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        ping.bind(address)
        hearers: list[Callable[[], int]] = [lambda: _heard_ping(ping)]
        hearers += [_Hearer(opened.enter_context(closing(open_ledger()))) for open_ledger in ledgers]
        connection.send(0)
        while True:
            for hear in hearers:
                connection.send(hear())


def _heard_ping(ping: socket.socket) -> int:
    ping.recv(1)
    return time.monotonic_ns()


class _Hearer:
    """Waits for a commit. A ring that brings nothing new was a false one and does not count."""

    def __init__(self, store: Store) -> None:
        self._store = store
        newest = store.read(lambda reader: reader.recent(1))
        self._cursor = newest[0].cursor if newest else START
        store.wait(0)

    def __call__(self) -> int:
        while True:
            self._store.wait(WAIT_S_MAX)
            heard_ns = time.monotonic_ns()
            if events := self._store.since(self._cursor, 10):
                self._cursor = events[-1].cursor
                self._store.wait(0)
                return heard_ns
