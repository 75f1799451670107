"""A clock that is turned by hand, for tests and simulation."""

from __future__ import annotations

from dogwatch.model.moment import Moment

START = Moment("boot-1", 1000.0, 1_700_000_000.0)


class ManualClock:
    """Stands still until it is told otherwise."""

    def __init__(self, start: Moment = START) -> None:
        self._now = start
        self._boots = 0

    def now(self) -> Moment:
        """The present moment."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self._now = self._now.plus(seconds)

    def step_wall(self, seconds: float) -> None:
        """The wall clock is set forward, or back for a negative number, and no time passes."""
        self._now = Moment(self._now.boot, self._now.mono, self._now.wall + seconds)

    def reboot(self) -> None:
        """A new boot: the monotonic clock begins anew, the wall clock goes on."""
        self._boots += 1
        self._now = Moment(f"{self._now.boot.partition('+')[0]}+{self._boots}", 0.0, self._now.wall)
