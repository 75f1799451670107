"""How long sub-agents and sessions may take, by patterns of their names. The longest pattern that matches counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from dogwatch.model.plan import Limits
from dogwatch.values import dataclass

BUILT_IN: Mapping[str, float] = {
    "aa-data-step*": 600.0,
    "aa-execution-step*": 900.0,
    "aa-framework": 1800.0,
    "aa-data": 1800.0,
    "aa-final": 1800.0,
}
"""Always there; the pipeline file may set another time for the same pattern."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Seconds, and the pattern that they come from."""

    seconds: float
    pattern: str


def time_limit(names: Iterable[str], table: Mapping[str, float]) -> TimeLimit | None:
    """What the longest pattern says that matches one of the names; of two that are as long, the pipeline file's."""
    wanted = tuple(names)
    limits = {**table, **{pattern: seconds for pattern, seconds in BUILT_IN.items() if pattern not in table}}
    for pattern in sorted(limits, key=len, reverse=True):
        if any(fnmatchcase(name, pattern) for name in wanted):
            return TimeLimit(limits[pattern], pattern)
    return None


def subagent_s(kind: str, limits: Limits, table: Mapping[str, float]) -> float:
    """How long a sub-agent of this type may run without output."""
    found = time_limit((kind,), table)
    return found.seconds if found is not None else limits.subagent_s
