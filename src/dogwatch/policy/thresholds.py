"""The one table of how long an agent may be quiet before something is done about it, and by whom.

`quiet_s` is the age of the newest evidence of progress from any source. It stands still while an agent works, waits for
a tool, for its provider or for a person. Deadlines of dispatches and of the whole run go by the plain clock instead.
"""

from __future__ import annotations

from dogwatch.model.plan import Limits, Risk
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """One row: the limit that holds the seconds, who acts when it has passed, and how."""

    limit: str
    who: str
    what: str


TABLE = (
    Threshold("nudge_s", "captain", "an agent at its prompt with open work is nudged"),
    Threshold("claim_s", "captain", "the holder of a task with normal risk is asked for a sign of life"),
    Threshold("claim_high_s", "captain", "the same at high risk"),
    Threshold("claim_critical_s", "captain", "the same at critical risk"),
    Threshold("tier1_s", "watchdog", "TIER_1: the alert is logged"),
    Threshold("tier2_s", "watchdog", "TIER_2, STALL_ALERT: the alert is sent"),
    Threshold("tier3_s", "watchdog", "TIER_3, STALL_CRITICAL: outputs are looked for, a person is called"),
    Threshold("run_quiet_s", "captain", "the whole run: a person is called, then it ends with a named cause"),
)

OVERDUE_FACTOR = 1.5
"""A dispatch is overdue when it takes this much longer than expected."""
OVERDUE_AGAIN_S = (0.0, 300.0, 600.0)
"""When an overdue dispatch is spoken of: at once, and twice more."""


def tier(quiet_s: float, limits: Limits) -> int:
    """How serious a silence is: 0 not yet, 1 logged, 2 sent, 3 critical."""
    return sum(quiet_s >= limit for limit in (limits.tier1_s, limits.tier2_s, limits.tier3_s))


def claim_s(risk: Risk | str, limits: Limits) -> float:
    """How long a claim stands without any evidence of life."""
    return {"high": limits.claim_high_s, "critical": limits.claim_critical_s}.get(risk, limits.claim_s)


def retry_s(limits: Limits) -> float:
    """How long a client may try again by itself before its provider counts as one that refuses work."""
    return 3 * limits.nudge_s


def overdue(late_s: float, expect_s: float) -> int:
    """How often a dispatch that was sent so long ago is to be spoken of by now."""
    beyond_s = late_s - OVERDUE_FACTOR * expect_s
    return sum(beyond_s >= again_s for again_s in OVERDUE_AGAIN_S)
