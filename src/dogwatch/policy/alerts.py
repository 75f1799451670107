"""What the watchdog tells of a stall: one body for the captain, for people and for programs, and the same in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dogwatch.model.events.alerts import AlertRaised
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import OutputSight, Sight, Wait
from dogwatch.policy.diagnosis import Diagnosis
from dogwatch.policy.thresholds import tier

TIERS = ("", "TIER_1", "STALL_ALERT", "STALL_CRITICAL")


def tier_of(found: Diagnosis, limits: Limits) -> int:
    """How serious a silence is under this diagnosis; 0 where it does not count."""
    return tier(found.quiet_s, limits) if found.traits.silence_counts else 0


def threshold_s(level: int, limits: Limits) -> float:
    """The silence at which a tier begins; where there is none, that at which an agent is nudged."""
    return (limits.nudge_s, limits.tier1_s, limits.tier2_s, limits.tier3_s)[level]


def raised(
    agent: AgentRecord, found: Diagnosis, sight: Sight, chain: Sequence[Wait], level: int, limits: Limits, now: Moment
) -> AlertRaised:
    """The alert as it is kept; its body is what is passed on."""
    return AlertRaised(
        incarnation=agent.incarnation,
        diagnosis=found.kind,
        confidence=found.confidence,
        tier=level,
        quiet_s=round(found.quiet_s, 3),
        threshold_s=threshold_s(level, limits),
        pane=sight.screen,
        pane_s=round(max(0.0, now.mono - sight.screen_since), 3),
        output=tuple(_partial(output, now) for output in sight.outputs),
        evidence=found.evidence,
        waits=tuple(str(wait) for wait in chain),
        action=found.action,
        advice=found.advice,
        stall=found.stall,
        run=agent.run,
        agent=agent.agent,
    )


def words(alert: Mapping[str, Any]) -> list[str]:
    """The alert as lines for people: agent, silence, pane, partial output, diagnosis, wait chain, recommendation."""
    label = TIERS[int(alert.get("tier", 0))]
    lines = [
        f"{alert['agent']} (incarnation {alert['incarnation']})" + (f": {label}" if label else ""),
        f"quiet for {alert['quiet_s']:.0f} s (threshold {alert.get('threshold_s', 0):g} s)",
        f"pane: {alert.get('pane', 'unknown')}",
        f"output: {'; '.join(alert.get('output') or ['none expected'])}",
        f"diagnosis: {alert['diagnosis']} (confidence {alert.get('confidence', 0):.2f})",
    ]
    lines += [f"  {line}" for line in alert.get("evidence", ())]
    if alert.get("waits"):
        lines.append("waits: " + " → ".join(alert["waits"]))
    lines.append(f"recommended: {alert.get('action') or 'WAIT'}: {alert.get('advice', '')}")
    return lines


def _partial(output: OutputSight, now: Moment) -> str:
    if not output.changed:
        return f"{output.path}: missing"
    age = f"{max(0.0, now.wall - output.changed):.0f} s ago"
    return f"{output.path}: {output.size} bytes, {age}" + ("" if output.is_new else ", older than the dispatch")
