"""The one clock: only here is the time read, everything else is handed a moment."""

from __future__ import annotations

import time
from typing import Protocol

from dogwatch.model.moment import Moment
from dogwatch.world.processes import boot_id


class Clock(Protocol):
    """Whatever tells the time: the machine's clock, or one that a test or the simulator turns by hand."""

    def now(self) -> Moment:
        """The present moment."""


class SystemClock:
    """The clock of this machine. The boot id cannot change while a process lives, so it is read once."""

    def __init__(self) -> None:
        self._boot = boot_id()

    def now(self) -> Moment:
        """The present moment."""
        return Moment(self._boot, time.monotonic(), time.time())
