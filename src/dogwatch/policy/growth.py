"""How fast the memory of each agent's processes grows, and who is the first to blame for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import field, replace
from statistics import median

from dogwatch.model.memory import GB, GROWTH_S, Readings
from dogwatch.model.process import ProcessId
from dogwatch.values import dataclass

MB = 1024**2
WINDOW_S = 300.0
"""Looks older than this say nothing of how it grows now."""
LOOKS_MIN = 5
LOOKS_MAX = 600
GROWTH_MIN_BYTES = 10 * MB
"""Who grows by less in a minute is not called a leaker."""


@dataclass(slots=True)
class _Seen:
    """The latest looks at one agent's processes, below this root, and since when their size is the same."""

    root: ProcessId | None
    still_since: float
    looks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=LOOKS_MAX))


class Growth:
    """The latest looks at each agent's processes."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def note_all(self, readings: Readings, mono: float, roots: Mapping[str, ProcessId]) -> None:
        """One more look at everybody. Agents that are not in the readings are forgotten."""
        for gone in self._seen.keys() - readings.agents.keys():
            self.forget(gone)
        for agent, memory in readings.agents.items():
            self.note(agent, mono, memory.rss_bytes, roots.get(agent))

    def rated(self, readings: Readings, span_s: float = GROWTH_S) -> Readings:
        """The same readings with the growth of each agent as far as it was noted."""
        agents = {a: replace(memory, growth_bytes_min=self.rate(a, span_s)) for a, memory in readings.agents.items()}
        return replace(readings, agents=agents)

    def note(self, agent: str, mono: float, rss_bytes: int, root: ProcessId | None = None) -> None:
        """One more look. An agent whose `root` is another process than before begins anew."""
        seen = self._seen.get(agent)
        if seen is None or seen.root != root:
            seen = self._seen[agent] = _Seen(root, mono)
        looks = seen.looks
        if looks and mono <= looks[-1][0]:
            return
        if looks and rss_bytes != looks[-1][1]:
            seen.still_since = mono
        looks.append((mono, rss_bytes))
        while looks[0][0] < mono - WINDOW_S:
            looks.popleft()

    def rate(self, agent: str, span_s: float = GROWTH_S) -> float | None:
        """Bytes a minute; None until it was looked at for so long.

        The median of the slopes between each look of the older half and its partner in the younger half (Theil's
        incomplete method): what a tool takes for a moment does not count, and it costs one sort of half the looks.
        """
        seen = self._seen.get(agent)
        if seen is None or len(seen.looks) < LOOKS_MIN or seen.looks[-1][0] - seen.looks[0][0] < span_s:
            return None
        if seen.still_since <= seen.looks[0][0]:
            return 0.0
        looks = list(seen.looks)
        half = len(looks) // 2
        pairs = zip(looks[:half], looks[len(looks) - half :], strict=True)
        return 60 * median([(size - before) / (mono - earlier) for (earlier, before), (mono, size) in pairs])

    def forget(self, agent: str) -> None:
        """The agent is gone."""
        self._seen.pop(agent, None)


def leaker(readings: Readings) -> str:
    """The agent that grows fastest, in a sentence; empty where nobody grows much."""
    known = [(one.growth_bytes_min or 0.0, agent, one.rss_bytes) for agent, one in readings.agents.items()]
    growth, agent, rss_bytes = max(known, default=(0.0, "", 0))
    if growth < GROWTH_MIN_BYTES:
        return ""
    return f"{agent} grows by {_size(growth)} a minute ({_size(rss_bytes)} now)"


def _size(count: float) -> str:
    return f"{count / GB:.1f} GB" if count >= 1000 * MB else f"{count / MB:.0f} MB"
