"""A point in time that survives reboots: boot id, monotonic clock and wall clock together."""

from __future__ import annotations

from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happened. `mono` counts only within one boot; `wall` may step, so it is for people."""

    boot: str
    mono: float
    wall: float

    def since(self, earlier: Moment) -> float:
        """Seconds from `earlier` to this moment, never negative.

        Within one boot the monotonic clock decides, so a step of the wall clock changes nothing; across a
        reboot only the wall clock is left.
        """
        if self.boot == earlier.boot:
            return max(0.0, self.mono - earlier.mono)
        return max(0.0, self.wall - earlier.wall)

    def is_before(self, deadline: Moment) -> bool:
        """Whether the deadline is still to come. One that was set before a reboot is over: there is no waiting left."""
        return self.boot == deadline.boot and self.mono < deadline.mono

    def plus(self, seconds: float) -> Moment:
        """This moment moved by `seconds`."""
        return Moment(self.boot, self.mono + seconds, self.wall + seconds)
