"""The ledger: what a durable append costs, how long a writer waits among others, and how the engines stand among
their rivals: mailboxes of files, and a Redis that syncs each command. What PostgreSQL does without the ledger's code
is measured along."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.bare_postgres import BarePostgresClient
from bench.harness import Figure, Rate, scratch
from bench.ledger_notice import PING, StampedPostgresStore, StampedSqliteStore, notice_times_ms
from bench.ledger_work import BODY, HOST, OPERATIONS, WRITERS, LedgerClient, System, compare, operation_id, record
from bench.rivals import MailboxClient, RedisClient, UnseenRedisClient
from bench.servers import postgres_server, redis_server
from dogwatch.errors import LedgerLockedError
from dogwatch.ledger import open_store
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.ledger.sqlite_tx import SqliteTx
from dogwatch.world.clock import SystemClock

SQLITE, POSTGRES, BARE, MAILBOXES, REDIS = "SQLite", "PostgreSQL", "bare libpq", "mailboxes", "Redis"
UNSEEN = "Redis, unseen"
ROUNDS = 500
ROUND_APPENDS = 10
SATURATION_S = 10.0
START_DELAY_S = 3.0
BUSY_TIMEOUT_S = 30.0


def measure() -> Sequence[Figure]:
    """All figures of the ledger."""
    with scratch() as folder:
        rivals = _rivals(folder)  # First: it ends at once where a server is missing.
        return [_append(folder), *_fairness(folder), *rivals]


def _rivals(folder: Path) -> Sequence[Figure]:
    """The same work on both engines and on their rivals, and how soon another process hears of a commit."""
    clock = SystemClock()
    with redis_server(folder / "redis") as redis, postgres_server() as url:
        path, bells = str(folder / "work.db"), str(folder / "bells")
        systems = [
            System(SQLITE, partial(LedgerClient, partial(open_store, path, clock))),
            System(POSTGRES, partial(LedgerClient, partial(open_store, url, clock, host=HOST, bells=bells))),
            System(BARE, partial(BarePostgresClient, url, partial(open_store, url, clock, host=HOST, bells=bells))),
            System(MAILBOXES, partial(MailboxClient, str(folder / "mail"))),
            System(REDIS, partial(RedisClient, redis)),
            System(UNSEEN, partial(UnseenRedisClient, redis), only="claim + event"),
        ]
        rates = compare(systems)
        times_ms = notice_times_ms(
            folder,
            {
                SQLITE: partial(StampedSqliteStore, path, clock),
                POSTGRES: partial(StampedPostgresStore, url, clock, bells=bells),
            },
        )
    return [
        *(_among(rates, operation, 1, SQLITE, (MAILBOXES, REDIS), 0.9) for operation in OPERATIONS),
        *(_among(rates, operation, WRITERS, POSTGRES, (REDIS,), 0.7) for operation in OPERATIONS),
        *(_notice(times_ms, engine) for engine in (SQLITE, POSTGRES)),
    ]


def _among(
    rates: Sequence[Rate], operation: str, writers: int, engine: str, rivals: Sequence[str], target: float
) -> Figure:
    """An engine against the fastest of its rivals. What comes in variants is carried along, but has no target."""
    mine = [rate for rate in rates if rate.writers == writers and rate.operation.startswith(operation)]
    per_s = {rate.system: rate.per_s for rate in mine if rate.operation == operation}
    return Figure(
        name=f"{operation}, {writers} writer{'s' if writers > 1 else ''}: {engine} against {' and '.join(rivals)}",
        value=per_s[engine] / max(per_s[rival] for rival in rivals),
        unit="x",
        target=target,
        comparison=">=",
        rates=mine,
    )


def _notice(times_ms: Mapping[str, Sequence[float]], engine: str) -> Figure:
    return Figure(
        name=f"commit noticed, {engine} against {PING}, median",
        value=statistics.median(times_ms[engine]) / statistics.median(times_ms[PING]),
        unit="x",
        target=3.0,
        times_ms={engine: times_ms[engine], PING: times_ms[PING]},
    )


def _append(folder: Path) -> Figure:
    """Appends to the ledger and to a bare file in turns, so that both see the same disk."""
    ledger_ms: list[float] = []
    bare_ms: list[float] = []
    clock = SystemClock()
    with closing(SqliteStore(str(folder / "append.db"), clock)) as store, open(folder / "bare", "ab", 0) as file:

        def append_to_file() -> None:
            now = clock.now()
            line = {"boot": now.boot, "mono": now.mono, "wall": now.wall, "kind": "task_reported", "body": BODY}
            file.write(json.dumps({"op_id": operation_id(), "run": "demo", "agent": "writer", **line}).encode() + b"\n")
            os.fdatasync(file.fileno())

        for _ in range(ROUNDS):
            for _ in range(ROUND_APPENDS):
                ledger_ms.append(_timed(lambda: store.run(record)))
            for _ in range(ROUND_APPENDS):
                bare_ms.append(_timed(append_to_file))
    return Figure(
        name="durable append against bare append + fdatasync",
        value=sum(ledger_ms) / sum(bare_ms),
        unit="x",
        target=2.0,
        times_ms={"ledger append": ledger_ms, "bare append + fdatasync": bare_ms},
    )


def _fairness(folder: Path) -> Sequence[Figure]:
    """As many appends as eight writers can make, through the ledger and then with SQLite's own lock alone."""
    ledger = _saturate(_ledger_writer, folder / "queued.db")
    bare = _saturate(_bare_writer, folder / "bare.db")
    return [
        Figure(
            name=f"longest wait among {WRITERS} writers against busy_timeout alone",
            value=max(ledger.times_ms) / max(bare.times_ms),
            unit="x",
            target=0.1,
            times_ms={"ledger append": ledger.times_ms, "busy_timeout alone": bare.times_ms},
        ),
        Figure(name=f"lock errors among {WRITERS} writers", value=ledger.lock_errors, unit="errors", target=0),
    ]


@dataclass(frozen=True)
class Appends:
    """What the writers met with."""

    times_ms: list[float]
    lock_errors: int


def _saturate(writer: Callable[[str, float], Appends], path: Path) -> Appends:
    SqliteStore(str(path), SystemClock()).close()
    with ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        # All begin at one instant, when the slowest process has been started.
        start = time.monotonic() + START_DELAY_S
        done = [future.result() for future in [pool.submit(writer, str(path), start) for _ in range(WRITERS)]]
    times_ms = [time_ms for appends in done for time_ms in appends.times_ms]
    return Appends(times_ms, sum(appends.lock_errors for appends in done))


def _ledger_writer(path: str, start: float) -> Appends:
    with closing(SqliteStore(path, SystemClock())) as store:
        return _write_until_over(lambda: store.run(record), start)


def _bare_writer(path: str, start: float) -> Appends:
    clock = SystemClock()
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")

        def append() -> None:
            connection.execute("BEGIN IMMEDIATE")
            record(SqliteTx(connection, path, clock.now(), ""))
            connection.execute("COMMIT")

        return _write_until_over(append, start)


def _write_until_over(append: Callable[[], object], start: float) -> Appends:
    times_ms: list[float] = []
    lock_errors = 0
    time.sleep(max(0.0, start - time.monotonic()))
    while time.monotonic() < start + SATURATION_S:
        try:
            times_ms.append(_timed(append))
        except (LedgerLockedError, sqlite3.OperationalError):
            lock_errors += 1
    return Appends(times_ms, lock_errors)


def _timed(fn: Callable[[], object]) -> float:
    """How long `fn` takes, in ms."""
    begin = time.perf_counter()
    fn()
    return (time.perf_counter() - begin) * 1000
