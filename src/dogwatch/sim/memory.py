"""Virtual memory: how much the machine has, and how much an agent's processes take over its life."""

from __future__ import annotations

from dataclasses import dataclass, field

from dogwatch.model.memory import GB

MB = 1024**2
PRESSED_SHARE = 0.1
"""Below this share of free memory, processes begin to wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine's memory. `base_bytes` is in use by other things before anything is started."""

    size_bytes: int = 64 * GB
    base_bytes: int = 4 * GB
    swap_bytes: int = 0
    processes: int = 0
    """Agents of somebody else, which the sensor counts too."""

    def left_bytes(self, used_bytes: int) -> int:
        """What is left in memory when agents use so much; below nothing is what has gone to the swap space."""
        return self.size_bytes - self.base_bytes - used_bytes

    def swap_free_bytes(self, used_bytes: int) -> int:
        """What is left of the swap space; below nothing the machine is out of memory."""
        return self.swap_bytes + min(0, self.left_bytes(used_bytes))

    def pressure_percent(self, used_bytes: int) -> float:
        """How much of the time something waits for memory."""
        share = self.left_bytes(used_bytes) / self.size_bytes
        return 0.0 if share >= PRESSED_SHARE else round(min(60.0, 60.0 * (1 - max(0.0, share) / PRESSED_SHARE)), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the memory of an agent's processes grows: from its start with the time that it works up to its full size;
    each sub-agent takes its own on top."""

    start_bytes: int = 400 * MB
    full_bytes: int = 2 * GB
    grow_s: float = 1200.0
    """The time at work until it has its full size."""
    subagent_bytes: int = 300 * MB


@dataclass(slots=True)
class Body:
    """One incarnation's memory: its shape, the time it has worked, tools that take much for a while, and a leak."""

    shape: Shape
    worked_s: float = 0.0
    spikes: list[tuple[float, float, int]] = field(default_factory=list)
    """From when, until when, and how much."""
    leak_bytes_s: float = 0.0
    leaks_since: float = 0.0

    def rss_bytes(self, mono: float, working_since: float | None, subagents: int) -> int:
        """How much it takes at that time."""
        total = self._own_bytes(mono, working_since)
        if subagents:
            total += subagents * self.shape.subagent_bytes
        if self.spikes:
            total += sum(size for since, until, size in self.spikes if since <= mono < until)
        return int(total)

    def largest_bytes(self, mono: float, working_since: float | None, subagents: int) -> int:
        """The same for the largest of its processes: its client, a sub-agent or a tool."""
        tools = [size for since, until, size in self.spikes if since <= mono < until]
        below = [self.shape.subagent_bytes] if subagents else []
        return int(max([self._own_bytes(mono, working_since), *below, *tools]))

    def _own_bytes(self, mono: float, working_since: float | None) -> float:
        shape = self.shape
        worked_s = self.worked_s if working_since is None else self.worked_s + (mono - working_since)
        share = worked_s / shape.grow_s
        grown = (shape.full_bytes - shape.start_bytes) * (share if share < 1.0 else 1.0)
        leaked = self.leak_bytes_s * max(0.0, mono - self.leaks_since) if self.leak_bytes_s else 0.0
        return shape.start_bytes + grown + leaked
