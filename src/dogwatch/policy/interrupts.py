"""Whether an interrupt has ended the turn that it was meant for."""

from __future__ import annotations

from typing import Literal

from dogwatch.model.life import Interrupt
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.sight import Sight
from dogwatch.policy.diagnoses import traits_of

QUIET_S = 1.0
"""How long the prompt must stand there with no word from the hooks: then the rest of the turn has run dry."""
AT_THE_PROMPT = ("idle", "error")

Effect = Literal["waiting", "ended", "drained", "again", "ignored"]


def effect(interrupt: Interrupt, sight: Sight, limits: Limits, now: Moment) -> Effect:
    """What has come of the interrupt of a turn.

    `ended`: the turn is over, and the hooks say so. `drained`: it is over, and nobody says so. `again`: the key may
    have been lost. `ignored`: the turn goes on. A look that says nothing never makes it `ignored`.
    """
    if sight.process != "alive":
        return "waiting"
    if not (sight.turn.stops if traits_of(interrupt.diagnosis).interrupts_turn else sight.turn.tools):
        return "ended"
    first = interrupt.presses[0]
    quiet_s = now.mono - max(sight.turn.own, sight.screen_since, first.mono)
    if sight.screen in AT_THE_PROMPT and quiet_s >= QUIET_S:
        return "drained"
    age_s = now.since(first)
    if age_s >= limits.probe_s:
        return "ignored" if _goes_on(sight, first) else "drained"
    is_late = age_s >= limits.probe_s / 2 and len(interrupt.presses) == 1
    return "again" if is_late and _goes_on(sight, first) else "waiting"


def _goes_on(sight: Sight, since: Moment) -> bool:
    """Whether the turn is still open after that: by the hooks, or by a screen that is busy with the agent itself."""
    heard_later = sight.turn.own > since.mono + QUIET_S
    return heard_later or (sight.screen in ("busy", "retry") and not sight.turn.subagents)
