"""The queue before the ledger's write lock, so that writers take turns instead of starving one another.

SQLite's own lock decides who writes; a process that waits for it sleeps and looks again, and whoever looks at the
right instant wins, again and again. So writers first stand in a queue of two `flock`s: the turnstile lets one
through, who waits for the writer lock and opens the turnstile when it has it. With the writer lock alone, the
process that lets go would take it again before the next in line has woken up.

The queue is a courtesy, not the law: when it does not move, because somebody in it was stopped, or when there can
be no lock file, the caller goes on without it, and SQLite's lock still guards the ledger.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading


class WriterQueue:
    """A store's place in the queue. Killed processes leave it by themselves: the kernel lets go of their locks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._turnstile = -1
        self._writer = -1
        self._waiter: _Waiter | None = None
        self._held = False

    def enter(self, wait_s: float) -> None:
        """Waits for this store's turn, at most `wait_s`, and then goes on without it."""
        if self._waiter is not None and not self._waiter.passed.is_set():
            return  # The queue did not move last time and has not moved since.
        try:
            self._open()
        except OSError:
            return
        if _try(self._turnstile):
            self._held = _try(self._writer)
            if self._held:
                fcntl.flock(self._turnstile, fcntl.LOCK_UN)
                return
        self._waiter = _Waiter(self._turnstile, self._writer)
        self._waiter.start()
        try:
            self._held = self._waiter.wait(wait_s)
        except BaseException:
            self._waiter.leave()
            raise

    def leave(self) -> None:
        """Lets the next one in."""
        if self._held:
            self._held = False
            fcntl.flock(self._writer, fcntl.LOCK_UN)

    def close(self) -> None:
        """Lets go of the lock files. Closing twice is no error."""
        self.leave()
        waiter, self._waiter = self._waiter, None
        descriptors = [descriptor for descriptor in (self._turnstile, self._writer) if descriptor >= 0]
        self._turnstile = self._writer = -1
        if waiter is not None and waiter.close_later(descriptors):
            return
        for descriptor in descriptors:
            os.close(descriptor)

    def _open(self) -> None:
        if self._writer < 0:
            self._turnstile = os.open(self._path + ".queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._writer = os.open(self._path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                os.close(self._turnstile)
                raise


class _Waiter(threading.Thread):
    """Stands in the queue for a store, because a thread can be left waiting and a call of `flock` cannot.

    When its store has gone on without it, it lets the next one in as soon as its turn comes, and ends.
    """

    def __init__(self, turnstile: int, writer: int) -> None:
        super().__init__(name="ledger-queue", daemon=True)
        self._turnstile = turnstile
        self._writer = writer
        self._decision = threading.Lock()
        self.passed = threading.Event()
        self._wanted = True
        self._descriptors: list[int] = []

    def run(self) -> None:
        fcntl.flock(self._turnstile, fcntl.LOCK_EX)
        fcntl.flock(self._writer, fcntl.LOCK_EX)
        fcntl.flock(self._turnstile, fcntl.LOCK_UN)
        with self._decision:
            self.passed.set()
            if not self._wanted:
                fcntl.flock(self._writer, fcntl.LOCK_UN)
            for descriptor in self._descriptors:
                os.close(descriptor)

    def wait(self, wait_s: float) -> bool:
        """True when it is the store's turn; False when the store goes on without."""
        if self.passed.wait(wait_s):
            return True
        with self._decision:
            self._wanted = self.passed.is_set()
            return self._wanted

    def leave(self) -> None:
        """The store was interrupted while it waited."""
        with self._decision:
            self._wanted = False
            if self.passed.is_set():
                fcntl.flock(self._writer, fcntl.LOCK_UN)

    def close_later(self, descriptors: list[int]) -> bool:
        """True where it still needs the lock files, and closes them at its end."""
        with self._decision:
            if self.passed.is_set():
                return False
            self._wanted = False
            self._descriptors = descriptors
            return True


def _try(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
