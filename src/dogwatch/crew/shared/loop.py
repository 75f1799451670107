"""The one loop of every crew member: step, then wait for a death, the door, the doorbell or the time."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Protocol, TypeVar

from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.crew.shared.log import Log
from dogwatch.errors import LeaseLostError, LedgerError, StaleError
from dogwatch.ledger.api import START, Store
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.world.tmux import ProbeFailedError

PAUSE_S = 1.0

W = TypeVar("W", contravariant=True)


class Member(Protocol[W]):
    """A crew member: observe, decide, record, act."""

    def step(self, world: W, ledger: Store, now: Moment) -> float | None:
        """One step; returns how long to wait at most before the next, or None when its work is over."""


def serve(
    member: Member[W],
    world: W,
    ledger: Store,
    run: str,
    now: Callable[[], Moment],
    selector: selectors.BaseSelector,
    eyes: MachineEyes,
    log: Log,
) -> int:
    """Steps until the member is done. What fails for want of the machine is waited for; the agents go on meanwhile."""
    selector.register(ledger.fileno(), selectors.EVENT_READ, None)
    news = News(ledger, run)
    while True:
        try:
            eyes.pulse()
            wait_s = member.step(world, ledger, now())
            if wait_s is None:
                return 0
            _wait(selector, wait_s, now, news, eyes)
        except (LeaseLostError, StaleError) as error:
            log.info("place_lost", reason=str(error))
            return 0
        except (LedgerError, OSError, ProbeFailedError) as error:
            # A full disk, a locked ledger, a tmux that does not answer: any step may be broken off and made again.
            log.error("step_failed", error=str(error), kind=type(error).__name__)
            selector.select(PAUSE_S)


class News:
    """Tells whether the doorbell rang for this run: the bell is one for all runs, and most rings are for others."""

    def __init__(self, ledger: Store, run: str) -> None:
        self._ledger = ledger
        self._run = run
        self._cursor: str | None = None

    def any(self) -> bool:
        """Whether something has happened since the last time that this was asked."""
        rung = self._ledger.wait(0)
        if self._cursor is None:
            newest = self._ledger.read(lambda reader: reader.recent(1, self._run))
            self._cursor = newest[0].cursor if newest else START
            return True
        if not rung:
            return False
        found = self._ledger.since(self._cursor, 1000, self._run)
        if found:
            self._cursor = found[-1].cursor
        return bool(found)


def _wait(
    selector: selectors.BaseSelector, wait_s: float, now: Callable[[], Moment], news: News, eyes: MachineEyes
) -> None:
    """Until something happens that concerns this member, or the time is over."""
    until = now().plus(wait_s)
    while True:
        woken = False
        for key, _ in selector.select(max(0.0, until.mono - now().mono)):
            if key.data is None:
                woken = news.any() or woken
            else:
                woken = True
                if isinstance(key.data, ProcessId):
                    eyes.drop_dead(key.data)
                else:
                    key.data()
        if woken or now().mono >= until.mono:
            return
