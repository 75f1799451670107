"""The one loop of every crew member: step, then wait for a death, the door, the doorbell or the time."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Protocol, TypeVar

from dogwatch.crew.eyes import MachineEyes
from dogwatch.crew.log import Log
from dogwatch.errors import LeaseLostError, LedgerError, StaleError
from dogwatch.ledger.api import Store
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId

LEDGER_PAUSE_S = 1.0

W = TypeVar("W", contravariant=True)


class Member(Protocol[W]):
    """A crew member: observe, decide, record, act."""

    def step(self, world: W, ledger: Store, now: Moment) -> float | None:
        """One step; returns how long to wait at most before the next, or None when its work is over."""


def serve(
    member: Member[W],
    world: W,
    ledger: Store,
    now: Callable[[], Moment],
    selector: selectors.BaseSelector,
    eyes: MachineEyes,
    log: Log,
    reap: Callable[[], None] = lambda: None,
) -> int:
    """Steps until the member is done. A ledger that fails is waited for: agents go on meanwhile, nothing is decided."""
    selector.register(ledger.fileno(), selectors.EVENT_READ, None)
    while True:
        try:
            wait_s = member.step(world, ledger, now())
        except (LeaseLostError, StaleError) as error:
            log.info("place_lost", reason=str(error))
            return 0
        except LedgerError as error:
            log.error("ledger_failed", error=error.message, hint=error.hint, code=error.code)
            wait_s = LEDGER_PAUSE_S
        if wait_s is None:
            return 0
        _wait(selector, ledger, wait_s, eyes)
        reap()


def _wait(selector: selectors.BaseSelector, ledger: Store, wait_s: float, eyes: MachineEyes) -> None:
    for key, _ in selector.select(wait_s):
        if key.data is None:
            ledger.wait(0)
        elif isinstance(key.data, ProcessId):
            eyes.drop_dead(key.data)
        else:
            key.data()
