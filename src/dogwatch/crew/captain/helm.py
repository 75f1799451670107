"""What a captain holds in its hands during one step: the world, the ledger behind its fence, and the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.worlds import CaptainWorld
from dogwatch.errors import LeaseLostError, StaleError
from dogwatch.ledger.api import Lease, Store, Tx
from dogwatch.ledger.records import load_run
from dogwatch.model.moment import Moment
from dogwatch.model.view import RunView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Helm:
    """One step's context."""

    world: CaptainWorld
    ledger: Store
    lease: Lease
    run: str
    now: Moment
    log: Log
    _seen: list[RunView] = field(default_factory=list, init=False, repr=False, compare=False)
    """The run as it was read last. Nobody else writes its records, so it is so until the next record of this step."""

    def record(self, fn: Callable[[Tx], T]) -> T:
        """`fn` in one transaction that only the holder of the run's lease can commit."""

        def fenced(tx: Tx) -> T:
            try:
                tx.check(self.lease)
            except StaleError as error:
                raise LeaseLostError(f"the captain's place of {self.run} was taken over: {error.message}") from error
            return fn(tx)

        self._seen.clear()
        result = self.ledger.run(fenced)
        self.world.eyes.pulse()  # A slow ledger makes slow steps, and no silent captain.
        return result

    def view(self) -> RunView:
        """The run as the ledger has it now."""
        if not self._seen:
            self._seen.append(self.ledger.read(lambda reader: load_run(reader, self.run)))
        self.world.eyes.pulse()
        return self._seen[0]
