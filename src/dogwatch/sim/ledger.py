"""The ledger in memory: for the stores of one simulation, in one thread of one process.

It means the same as the SQLite ledger, by the same contract, and is the same to the byte for the same calls: the time
comes from the clock that it is given, and ids are counted instead of drawn. Nothing is kept when the process ends.

A document's body is read once, when it is first asked for, and every reader gets that very object, as it does the
record that was saved or made of it. Nobody may change one: `integrity` tells where somebody did, and where a record is
not what would be read again. Events and items are read anew each time.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from dogwatch.errors import LedgerError, LedgerLockedError
from dogwatch.ledger.api import Clock, Reader, StoredEvent, Tx
from dogwatch.ledger.bodies import load
from dogwatch.model.codec import decode
from dogwatch.model.redact import BY_SHAPE
from dogwatch.sim.tables import Remembered, State
from dogwatch.sim.transactions import HOST, SimReader, SimTx

T = TypeVar("T")


class SimLedger:
    """What is in the memory, for all stores that are open on it."""

    def __init__(self) -> None:
        self.state = State()
        self.remembered = Remembered()
        self.writer: SimTx | None = None
        self.readers = 0
        self.bells: dict[SimStore, int] = {}

    def committed(self) -> State:
        """The state without what a transaction of another store has under way."""
        if self.writer is None:
            return self.state
        state = self.state.copy()
        self.writer.undo(state)
        return state


class SimStore:
    """An open ledger in memory. Several stores may be open on one `ledger`."""

    def __init__(self, clock: Clock, ledger: SimLedger | None = None) -> None:
        self.redactor = BY_SHAPE
        self._clock = clock
        self._ledger = ledger or SimLedger()
        self._is_busy = False
        self._is_closed = False

    @property
    def host(self) -> str:
        """The one machine that there is."""
        return HOST

    def run(self, fn: Callable[[Tx], T]) -> T:
        """`fn` in one transaction."""
        self._refuse()
        ledger = self._ledger
        if ledger.writer is not None:
            raise LedgerLockedError(
                "another store of this ledger is in a transaction",
                hint="let it end first: in one thread nobody can wait for it",
            )
        if ledger.readers:
            # Whoever reads now goes on with the state as it was.
            ledger.state = ledger.state.copy()
        tx = ledger.writer = SimTx(ledger.state, ledger.remembered, self._clock.now(), self.redactor)
        self._is_busy = True
        try:
            result = fn(tx)
        except BaseException:
            tx.undo(ledger.state)
            raise
        finally:
            tx.end()
            ledger.writer = None
            self._is_busy = False
        if tx.news and ledger.bells:
            self._ring()
        return result

    def read(self, fn: Callable[[Reader], T]) -> T:
        """`fn` on one snapshot."""
        return self._read(fn)

    def since(self, cursor: str, n: int, run: str = "") -> Sequence[StoredEvent]:
        """Up to `n` events after `cursor` in the order of their commits."""
        return self._read(lambda reader: reader.after(cursor, n, run))

    def settled(self, run: str = "") -> bool:
        """Always: what is committed is told."""
        return True

    def wait(self, timeout_s: float) -> bool:
        """Waits for the doorbell, in real time: a simulation has no use for it."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        rung = bool(poll.poll(max(0.0, timeout_s) * 1000))
        if rung:
            os.eventfd_read(self.fileno())
        return rung

    def fileno(self) -> int:
        """The doorbell as a file descriptor for `selectors`; it has rung once when it is hung."""
        self._refuse_closed()
        bells = self._ledger.bells
        if self not in bells:
            bells[self] = os.eventfd(1, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        return bells[self]

    def integrity(self) -> Sequence[str]:
        """Documents whose bodies or records somebody has changed after they were written, or that would be read as
        something else than was saved."""
        found = []
        for key, kept in sorted(self._ledger.state.documents.values.items()):
            body = load(kept.text)
            if kept.is_changed(body):
                found.append(f"the body of the document {key} was changed by somebody who has read it")
            if kept.kind is not None and decode(kept.kind, body) != kept.record:
                found.append(f"the record of the document {key} was changed, or is not what would be read")
        return found

    def measures(self) -> Mapping[str, str | int]:
        """What the engine says of itself: the bytes are those of all bodies."""
        state = self._ledger.state
        documents = sum(len(kept.text) for kept in state.documents.values.values())
        items = sum(len(entry.text) for queue in state.queues.values() for entry in queue.known.values())
        return {"engine": "memory", "bytes": documents + items + sum(len(row[3]) for row in state.events)}

    def shrink(self) -> None:
        """Lets go of all records that were made of documents; they are made again when they are asked for."""
        for kept in self._ledger.state.documents.values.values():
            kept.forget()
        self._ledger.remembered.forget()

    def close(self) -> None:
        """Lets go of the doorbell; what was written stays in the ledger. Closing twice is no error."""
        self._is_closed = True
        bell = self._ledger.bells.pop(self, None)
        if bell is not None:
            os.close(bell)

    def _read(self, fn: Callable[[SimReader], T]) -> T:
        if self._is_busy or self._is_closed:
            self._refuse()
        ledger = self._ledger
        reader = SimReader(ledger.committed(), ledger.remembered, self._clock.now())
        self._is_busy = True
        ledger.readers += 1
        try:
            return fn(reader)
        finally:
            reader.end()
            ledger.readers -= 1
            self._is_busy = False

    def _ring(self) -> None:
        """Tells every other store that listens."""
        for store, bell in self._ledger.bells.items():
            if store is not self:
                os.eventfd_write(bell, 1)

    def _refuse(self) -> None:
        self._refuse_closed()
        if self._is_busy:
            raise LedgerError(
                "a transaction of this store is open already", hint="use the one that the function was given"
            )

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise LedgerError("this store is closed", hint="open another one on the same ledger")
