"""The same work on every system: the ledger's engines and their rivals, by one writer and by eight, in turns.

The systems take turns in short rounds, so that a slow minute of the machine or its disk hits all of them, and the
medians of their rounds are compared. Each round has another order: what one leaves to the disk is not always the same
next one's burden. Each system has writers of its own, as it would have where it is used.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from multiprocessing.connection import Connection
from typing import Protocol, TypeAlias

from bench.harness import Rate
from dogwatch.ledger.api import Lease, Store, Tx
from dogwatch.testing.events import PlainEvent

BODY = {"task": "analysis", "outputs": ["analysis/report.md"], "note": "x" * 160}
KIND = "task_reported"
HOLDER = "writer"
HOST = "bench"
TTL_S = 60.0

WRITERS = 8
ROUNDS = 15
ROUND_S = 0.5
WARM_UP_S = 0.1
START_DELAY_S = 0.03
FILL_MIN = 2000
FILL_BATCH = 500


class Client(Protocol):
    """One writer's connection to a system."""

    def append(self) -> None:
        """Records an event, durably, and once for each operation id."""

    def fill(self, queue: str, n: int) -> None:
        """Puts `n` items or a few more into a queue; this is not measured."""

    def take(self, queue: str) -> bool:
        """Claims the first item of a queue, reads it, marks it as done and records an event; False where there is
        none."""

    def acquire(self, name: str) -> None:
        """Gets a lease that nobody holds."""

    def renew(self) -> None:
        """Renews that lease, where it still stands."""

    def close(self) -> None:
        """Lets go of everything."""


@dataclass(frozen=True)
class System:
    """Something that can do the work, or one operation `only`; `connect` is called in the writer's process."""

    name: str
    connect: Callable[[], Client]
    only: str = ""


class LedgerClient:
    """The ledger, on either engine."""

    def __init__(self, open_ledger: Callable[[], Store]) -> None:
        self._store = open_ledger()
        self.lease: Lease | None = None

    def append(self) -> None:
        self._store.run(record)

    def fill(self, queue: str, n: int) -> None:
        for _ in range(0, n, FILL_BATCH):
            self._store.run(lambda tx: _push(tx, queue))

    def take(self, queue: str) -> bool:
        return self._store.run(lambda tx: _take(tx, queue))

    def acquire(self, name: str) -> None:
        self.lease = self._store.run(lambda tx: tx.acquire(name, HOLDER, TTL_S))
        assert self.lease is not None

    def renew(self) -> None:
        lease = self.lease
        assert lease is not None
        self.lease = self._store.run(lambda tx: tx.renew(lease, TTL_S))

    def close(self) -> None:
        self._store.close()


def record(tx: Tx) -> None:
    """The event that is appended everywhere."""
    tx.append(PlainEvent(KIND, BODY, run="demo", agent=HOLDER), operation_id())


def _push(tx: Tx, queue: str) -> None:
    for _ in range(FILL_BATCH):
        tx.push(queue, BODY)


def _take(tx: Tx, queue: str) -> bool:
    item = tx.claim(queue, HOLDER, TTL_S)
    if item is None:
        return False
    tx.ack(item)
    record(tx)
    return True


def operation_id() -> str:
    """A new one each time."""
    return os.urandom(8).hex()


@dataclass(frozen=True)
class Order:
    """What a writer is to do from `start` on for `seconds`; `target` is the queue, or the lease's name."""

    operation: str
    target: str
    start: float
    seconds: float


@dataclass(frozen=True)
class Done:
    """How often a writer did it, and how often in a second."""

    count: int
    per_s: float


def append(client: Client, order: Order) -> Done:
    """Events only."""
    return _repeat(lambda: _always(client.append), order)


def take(client: Client, order: Order) -> Done:
    """A queue's items, for as long as there are some."""
    return _repeat(lambda: client.take(order.target), order)


def lease(client: Client, order: Order) -> Done:
    """A new lease, and then its renewals."""
    steps: Iterator[Callable[[], None]] = chain([partial(client.acquire, order.target)], repeat(client.renew))
    return _repeat(lambda: _always(next(steps)), order)


OPERATIONS = {"append": append, "claim + event": take, "lease": lease}


def _always(step: Callable[[], None]) -> bool:
    step()
    return True


def _repeat(step: Callable[[], bool], order: Order) -> Done:
    time.sleep(max(0.0, order.start - time.monotonic()))
    count = 0
    while time.monotonic() < order.start + order.seconds and step():
        count += 1
    return Done(count, count / (time.monotonic() - order.start))


def _serve(connection: Connection[Done, Order | None], system: System) -> None:
    """A writer's process: it stays connected to its system and does what it is told."""
    client = system.connect()
    while (order := connection.recv()) is not None:
        connection.send(OPERATIONS[order.operation](client, order))
    client.close()


Ends: TypeAlias = "Mapping[str, Sequence[Connection[Order | None, Done]]]"
"""How the writers of each system are told what to do."""


@contextmanager
def writers(systems: Sequence[System]) -> Iterator[Ends]:
    """The writers' processes, for as long as they are needed."""
    context = multiprocessing.get_context("spawn")
    ends: dict[str, list[Connection[Order | None, Done]]] = {system.name: [] for system in systems}
    processes = []
    try:
        for system in systems:
            for _ in range(WRITERS):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, system), daemon=True)
                process.start()
                theirs.close()
                ends[system.name].append(ours)
                processes.append(process)
        yield ends
        for end in chain(*ends.values()):
            end.send(None)
        for process in processes:
            process.join(10)
    finally:
        for process in processes:
            process.kill()


@dataclass(frozen=True)
class Workload:
    """One operation by a number of writers; `shared`: all of them take from one queue."""

    operation: str
    count: int
    shared: bool = True

    @property
    def name(self) -> str:
        return self.operation if self.shared else f"{self.operation}, own queues"


WORKLOADS = [
    Workload("append", 1),
    Workload("claim + event", 1),
    Workload("lease", 1),
    Workload("append", WRITERS),
    Workload("claim + event", WRITERS),
    Workload("claim + event", WRITERS, shared=False),
    Workload("lease", WRITERS),
]


def compare(systems: Sequence[System], workloads: Sequence[Workload] = WORKLOADS) -> Sequence[Rate]:
    """How often in a second each system does each piece of work: the median of its rounds."""
    rates = []
    with writers(systems) as ends:
        fillers = {system.name: system.connect() for system in systems}
        try:
            for workload in workloads:
                able = [system for system in systems if system.only in ("", workload.operation)]
                rounds = _rounds(workload, ends, able, fillers)
                rates += [
                    Rate(system, workload.name, workload.count, statistics.median(per_s), tuple(per_s))
                    for system, per_s in rounds.items()
                ]
        finally:
            for client in fillers.values():
                client.close()
    return rates


def _rounds(
    workload: Workload,
    ends: Ends,
    systems: Sequence[System],
    fillers: Mapping[str, Client],
) -> Mapping[str, Sequence[float]]:
    """The operations in a second of each system in each of its rounds."""
    stocks = {system.name: Stock(workload, fillers[system.name]) for system in systems}
    per_s: dict[str, list[float]] = {system.name: [] for system in systems}
    turns = random.Random(workload.name)
    for number in range(ROUNDS + 1):
        seconds = ROUND_S if number else WARM_UP_S
        for system in turns.sample(systems, len(systems)):
            stocks[system.name].fill()
            done = _round(workload, ends[system.name], stocks[system.name].targets(number), seconds)
            stocks[system.name].used([each.count for each in done], seconds)
            if number:
                per_s[system.name].append(sum(each.per_s for each in done))
    return per_s


def _round(
    workload: Workload,
    ends: Sequence[Connection[Order | None, Done]],
    targets: Sequence[str],
    seconds: float,
) -> Sequence[Done]:
    """One round: all writers begin at one instant."""
    start = time.monotonic() + START_DELAY_S
    for end, target in zip(ends, targets, strict=False):
        end.send(Order(workload.operation, target, start, seconds))
    return [end.recv() for end, _ in zip(ends, targets, strict=False)]


class Stock:
    """A system's queues, kept filled for the next round, and the names that its writers work on."""

    def __init__(self, workload: Workload, client: Client) -> None:
        self._workload = workload
        self._client = client
        self._queues: dict[str, int] = {}
        self._per_round = 0.0
        if workload.operation == "claim + event":
            shared = [f"queue-{workload.count}"] * workload.count
            own = [f"queue-of-{writer}" for writer in range(workload.count)]
            self._names = shared if workload.shared else own
            self._queues = dict.fromkeys(self._names, 0)

    def fill(self) -> None:
        """Enough for twice as many as ever, and for several rounds at once."""
        for queue, left in self._queues.items():
            if left < max(2 * self._per_round, FILL_MIN / len(self._queues)):
                more = int(max(6 * self._per_round, 2 * FILL_MIN / len(self._queues)))
                self._client.fill(queue, more)
                self._queues[queue] += more

    def used(self, counts: Sequence[int], seconds: float) -> None:
        """What the writers have taken."""
        if self._queues:
            for name, count in zip(self._names, counts, strict=True):
                self._queues[name] -= count
            used = sum(counts) / len(self._queues) * ROUND_S / seconds
            self._per_round = max(self._per_round, used)

    def targets(self, number: int) -> Sequence[str]:
        """A queue or a new lease for each writer."""
        if self._queues:
            return self._names
        return [f"lease-{self._workload.count}-{number}-{writer}" for writer in range(self._workload.count)]
