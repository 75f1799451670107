"""What the past teaches: how long a role's tasks take, once there are enough of them to say so."""

from __future__ import annotations

from collections.abc import Sequence

from dogwatch.policy.time_limits import TimeLimit

DEFAULT_S = 1800.0
SAMPLES_MIN = 10
SAMPLES_MAX = 50
"""The newest count; a role may have got another model or another kind of work since."""


def learnt_s(took_s: Sequence[float]) -> float | None:
    """How long a task may be expected to take: as long as nearly all earlier ones took. None where they are too few."""
    if len(took_s) < SAMPLES_MIN:
        return None
    ordered = sorted(took_s)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


def expectation(
    said_s: float | None, role: str, took_s: Sequence[float], limit: TimeLimit | None = None
) -> tuple[float, str]:
    """How long a dispatch should take, and where that comes from; `limit` is that of its holder's name."""
    if said_s is not None:
        return said_s, "the pipeline file"
    if limit is not None:
        return limit.seconds, f"the time limit of {limit.pattern}"
    learnt = learnt_s(took_s)
    if learnt is not None:
        return learnt, f"learnt from the last {len(took_s)} tasks of {role}"
    return DEFAULT_S, "the default"
