"""A crew member's ledger on a machine where things go wrong: it may be locked, and a kill may come at any commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from dogwatch.errors import LedgerLockedError
from dogwatch.ledger.api import Reader, Store, StoredEvent, Tx
from dogwatch.sim.berths import KilledInStepError

T = TypeVar("T")


class FragileStore:
    """Passes everything on to the ledger, unless it is told otherwise.

    With `kill_in` the member is killed at that commit from now on: before it with `unwritten`, when what it records was
    done already, else right after it, when nothing of what follows was.
    """

    def __init__(self, store: Store, is_locked: Callable[[], bool]) -> None:
        self.redactor = store.redactor
        self.kill_in = 0
        self.unwritten = False
        self._store = store
        self._is_locked = is_locked

    @property
    def host(self) -> str:
        """The host that this program runs on."""
        return self._store.host

    def run(self, fn: Callable[[Tx], T]) -> T:
        """`fn` in one transaction, where the ledger can be written and the member lives to see it."""
        if self._is_locked():
            raise LedgerLockedError("the ledger is locked by another process", hint="it is tried again")
        if self.kill_in:
            self.kill_in -= 1
            if not self.kill_in and self.unwritten:
                raise KilledInStepError
            result = self._store.run(fn)
            if not self.kill_in:
                raise KilledInStepError
            return result
        return self._store.run(fn)

    def read(self, fn: Callable[[Reader], T]) -> T:
        """`fn` on one snapshot."""
        return self._store.read(fn)

    def since(self, cursor: str, n: int, run: str = "") -> Sequence[StoredEvent]:
        """Events after a cursor."""
        return self._store.since(cursor, n, run)

    def settled(self, run: str = "") -> bool:
        """Whether `since` tells everything."""
        return self._store.settled(run)

    def wait(self, timeout_s: float) -> bool:
        """Nobody waits here: the machine wakes its members."""
        return self._store.wait(timeout_s)

    def fileno(self) -> int:
        """The doorbell, which nobody listens to here."""
        return self._store.fileno()

    def integrity(self) -> Sequence[str]:
        """What is wrong with the ledger."""
        return self._store.integrity()

    def measures(self) -> Mapping[str, str | int]:
        """What the engine says of itself."""
        return self._store.measures()

    def shrink(self) -> None:
        """Gives back space."""
        self._store.shrink()

    def close(self) -> None:
        """Lets go of everything."""
        self._store.close()
