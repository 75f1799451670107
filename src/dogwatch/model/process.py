"""Who a process is: its pid alone may be reused, so boot and start time belong to its identity."""

from __future__ import annotations

from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Boot id, pid and the start time in clock ticks since that boot."""

    boot: str
    pid: int
    start_ticks: int

    def __str__(self) -> str:
        return f"{self.pid}@{self.start_ticks}"
