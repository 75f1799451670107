"""How late a machine is that plays a case: whether the case's own times mean anything.

Two things happen at known times in every case. The watchdog looks again after `sweep_s`, and each look begins with a
sign of life. And a process that was meant to start begins at once. Both need the processor, the disk and tmux, as all
else in a run does. A watchdog that hangs looks the same as a busy machine: its case is never judged, and so fails.
"""

from __future__ import annotations


class Lateness:
    """By how much something has come too late so far, at most."""

    def __init__(self, sweep_s: float) -> None:
        self.worst_s = 0.0
        self._sweep_s = sweep_s
        self._intended: float | None = None
        self._beat: float | None = None

    def intend(self, mono: float) -> None:
        """The agent's process is to be started now."""
        self._intended = mono

    def start(self, mono: float) -> None:
        """The agent's process has begun. What it needed for that is missing in the time that its scenario means for
        something else."""
        if self._intended is not None:
            self.worst_s = max(self.worst_s, mono - self._intended)

    def beat(self, mono: float, now: float) -> None:
        """The watchdog's latest sign of life. As long as there is no agent, nobody has to be looked at."""
        if self._intended is not None:
            waits = (mono - (self._beat if self._beat is not None else mono), now - mono)
            self.worst_s = max(self.worst_s, *(wait - self._sweep_s for wait in waits))
        self._beat = mono
