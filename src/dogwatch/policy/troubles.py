"""Which of an agent's errors and denials are told, and when a person is: a flood of them is counted, not repeated.

Identical ones (same type or rule, tool and words) make a streak, which ends when none has come for `STREAK_S`. Of a
streak the 1st, the 10th, the 100th and so on are told, each with the count so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from dogwatch.model.tally import CRITICAL, Denial, Failure
from dogwatch.values import dataclass

STREAK_S = 600.0
STREAKS_MAX = 20
"""More kinds than these at a time are told apart by their type or rule alone."""
REPEATS = 3
REPEATS_S = 3600.0
"""So many critical denials within this time call a person, once in the same time."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One that is told. `number` is its place among those of its agent's incarnation, `count` the place in its streak;
    with `alarm` a person is told of it."""

    number: int
    count: int
    found: Failure | Denial
    alarm: bool = False


@dataclass(frozen=True, slots=True)
class Troubles:
    """What is remembered of an incarnation's errors and denials: streaks with their count and latest time, how many
    were told, the times of the latest critical denials, and of the latest alarm. The time base is any, but one."""

    streaks: Mapping[tuple[str, ...], tuple[int, float]] = field(default_factory=dict)
    told: int = 0
    critical: tuple[float, ...] = ()
    alarmed: float | None = None


def note(troubles: Troubles, found: Failure | Denial, at: float) -> tuple[Troubles, Trouble | None]:
    """One more error or denial, and what is to be told of it, if anything."""
    streaks = {key: streak for key, streak in troubles.streaks.items() if at - streak[1] < STREAK_S}
    key = _key(found)
    if key not in streaks and len(streaks) >= STREAKS_MAX:
        key = key[:1]
    count = streaks.get(key, (0, at))[0] + 1
    streaks[key] = (count, at)
    after = replace(troubles, streaks=streaks)
    alarm = False
    if isinstance(found, Denial) and found.severity == CRITICAL:
        times = (*(one for one in troubles.critical if at - one < REPEATS_S), at)[-REPEATS:]
        is_again = troubles.alarmed is not None and at - troubles.alarmed < REPEATS_S
        alarm = len(times) == REPEATS and not is_again
        after = replace(after, critical=times, alarmed=at if alarm else troubles.alarmed)
    if not alarm and not _is_told(count):
        return after, None
    return replace(after, told=troubles.told + 1), Trouble(troubles.told + 1, count, found, alarm)


def _key(found: Failure | Denial) -> tuple[str, ...]:
    if isinstance(found, Denial):
        return f"guard {found.rule}", found.tool, found.command
    return found.type, found.tool, found.message


def _is_told(count: int) -> bool:
    """1, 10, 100 …"""
    return str(count).strip("0") == "1"
