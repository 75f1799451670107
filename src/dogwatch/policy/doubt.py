"""When what is seen cannot be trusted: most of a fleet dead at one instant, or a clock that has jumped.

Then nothing is done but to look again. What is still so after a while is believed: the kernel does not err for long.
"""

from __future__ import annotations

from collections.abc import Mapping

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.sight import Sight

DEAD_MIN = 5
TOGETHER_S = 1.0
"""What dies within this time dies at one instant: a server needs a moment to take all of its panes along."""
JUMP_S = 30.0


class Doubt:
    """Remembers the looks of one watchdog. A new watchdog has no memory, and no doubt about what was before it."""

    def __init__(self) -> None:
        self.number = ""
        """A name for the present doubt: one alert each."""
        self._why = ""
        self._since: Moment | None = None
        self._latest: Moment | None = None
        self._dead: dict[str, float] = {}

    def about(self, sights: Mapping[str, Sight], limits: Limits, now: Moment) -> str:
        """Why nothing should be done now; empty where there is no doubt."""
        dead = {name: self._dead.get(name, now.mono) for name, sight in sights.items() if sight.process == "dead"}
        fresh = sum(now.mono - since <= TOGETHER_S for since in dead.values())
        blind = bool(sights) and all(sight.process == "unknown" for sight in sights.values())
        jump_s = self._jump_s(now)
        why = ""
        if fresh >= DEAD_MIN and 2 * fresh > len(sights):
            why = f"{fresh} of {len(sights)} agents seem dead at one instant"
        elif abs(jump_s) >= JUMP_S:
            why = f"the clock jumped by {jump_s:.0f} s"
        elif blind:
            why = "no process could be looked at"
        self._dead, self._latest = dead, now
        if why:
            if self._since is None:
                self._why, self.number = why, f"{now.boot}:{now.mono:.3f}"
            self._since = now
        elif self._since is None or now.since(self._since) >= limits.mass_hold_s:
            self._why, self._since = "", None
        return self._why

    def _jump_s(self, now: Moment) -> float:
        """How far the wall clock has moved beyond the monotonic one since the last look: a step, or a suspension."""
        if self._latest is None or self._latest.boot != now.boot:
            return 0.0
        return (now.wall - self._latest.wall) - (now.mono - self._latest.mono)
