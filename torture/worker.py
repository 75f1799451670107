"""What all workers have in common: a seat, a journal, an open store, and patience with a server that is away."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dogwatch.errors import ConflictError, LedgerError, StaleError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Reader, Store, Tx
from dogwatch.world.clock import SystemClock
from torture.journal import Board, Journal

T = TypeVar("T")

TTL_S = 0.3
"""How long a lease or a claim stands."""
WORK_S_MAX = 0.01
PAUSE_S = 0.03
PATIENCE_S = 60.0
REOPEN_SHARE = 1 / 300
PACE_S_MAX = 0.004
LATE_SHARE = 0.3
LATE_S_MAX = 0.003


class BrokenError(Exception):
    """A worker saw for itself that the ledger broke its word."""


@dataclass(frozen=True)
class Post:
    """Where a worker stands: successors on the same seat have the same journal and a higher incarnation."""

    seat: str
    number: int
    incarnation: int
    folder: Path
    url: str
    seed: int
    board: Board


class Worker:
    """Does its role's `step` again and again until it is killed, or until the work is done after the chaos."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.seat = post.seat
        self.name = f"{post.seat}.{post.incarnation}"
        self.random = random.Random(f"{post.seed}/{self.name}")
        self.journal = Journal(post.folder / "journals" / post.seat)
        self._store: Store | None = None
        self._well_since = time.monotonic()
        self._failures = 0
        self._numbers = 0

    def work(self) -> None:
        """The whole life of a worker that nobody kills."""
        self.begin()
        while not self.is_finished():
            self.step()
            time.sleep(self.random.uniform(0, PACE_S_MAX))
            if self.random.random() < REOPEN_SHARE:
                self._close()
        self._close()

    def begin(self) -> None:
        """Takes up what the predecessor left."""

    def step(self) -> None:
        """One piece of work."""
        raise NotImplementedError

    def is_finished(self) -> bool:
        """Whether there is nothing left to do; asked between steps."""
        raise NotImplementedError

    def next_number(self) -> int:
        """Grows with every call in this process."""
        self._numbers += 1
        return self._numbers

    def commit(self, op: str, fn: Callable[[Tx, bool], T]) -> T:
        """`fn` in one transaction under the name `op`. Its second argument says whether an earlier try may have
        been committed: the server went away in the middle of it."""
        self.journal.write(f"try {op}")
        failures = self._failures
        try:
            return self.ask(lambda store: store.run(lambda tx: fn(tx, self._failures > failures)))
        except StaleError:
            if self._failures == failures:
                self.journal.write(f"refused {op}")
            raise

    def read(self, fn: Callable[[Reader], T]) -> T:
        """`fn` on a snapshot."""
        return self.ask(lambda store: store.read(fn))

    def ask(self, fn: Callable[[Store], T]) -> T:
        """`fn` with the open store, again while the server is away."""
        while True:
            began = time.monotonic()
            try:
                if self._store is None:
                    self._store = open_store(self.post.url, SystemClock())
                answer = fn(self._store)
            except ConflictError:
                raise
            except LedgerError as error:
                now = time.monotonic()
                self._failures += 1
                self.journal.write(f"error {self._well_since:.6f} {now:.6f} {type(error).__name__} {error.message}")
                if now - self._well_since > PATIENCE_S:
                    raise
                time.sleep(PAUSE_S)
            else:
                self._well_since = began
                return answer

    def ack(self, op: str) -> None:
        """The ledger has said that `op` is done, so it must be there. Written down a little late at times: a successor
        must also get over a kill between the two."""
        if self.random.random() < LATE_SHARE:
            time.sleep(self.random.uniform(0, LATE_S_MAX))
        self.journal.write(f"ack {op}")
        self.post.board.add(self.post.number)

    def unacknowledged(self, prefix: str) -> str:
        """The operation that the predecessor tried last among those that begin with `prefix`, if it was not told
        that it is done."""
        for line in reversed(self.journal.tail):
            verb, _, op = line.partition(" ")
            if verb in ("try", "ack") and op.startswith(prefix):
                return op if verb == "try" else ""
        return ""

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
