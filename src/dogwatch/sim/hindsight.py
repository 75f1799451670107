"""Two replays of one run side by side: what other thresholds would have changed, and whether that would have been good.

After the first difference of a stall nothing is known any more: an agent that was nudged earlier would have done
something else. So only that one is judged, by what the record shows of the agent afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dogwatch.policy.alerts import TIERS
from dogwatch.sim.aftermath import Change, Verdict, aftermath, span
from dogwatch.sim.recording import Recording
from dogwatch.sim.refold import Records
from dogwatch.sim.replay import (
    RUN_ENDED,
    RUN_QUIET,
    UNANSWERED,
    Key,
    Raised,
    changed_plan,
    later,
    replay,
)

TOUCHING = frozenset({"NUDGE", "RESCUE", "PROBE", "RESTART", "INTERRUPT", RUN_ENDED})
"""What changes the agent or the run; all else is said to people, and the world goes on as it was."""
UNREPLAYED = {
    "screens, cpu time and processes": "taken from alerts where there are any, else inferred from the hooks",
    "outputs that no tool of the client's wrote": "known only where they were rescued",
    "what a client's transcript alone tells": "errors that ended a turn without a hook, the used context",
}
"""What the record does not hold, and what is done instead."""
NOT_REPLAYED = {
    "restarts_max": "it counts what would have followed",
    "restart_period_s": "it counts what would have followed",
    "restart_backoff_s": "it delays what would have followed",
    "unresponsive_s": "nothing is done when it has passed",
    "receipt_s": "how a message was typed is not recorded",
    "context_max": "the used context is not recorded",
    "refresh_s": "nobody is judged by it",
    "refresh_wave": "nobody is judged by it",
}
"""The limits that no decision on the record depends on, and why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that would have come at another time, or not at all. Times are seconds since the run was made;
    `recorded_s` is None where it is not in the record. `lasting` where the stall would have had to last for longer than
    it did. `assumed` where it rests on the assumption that nothing but hooks showed life."""

    agent: str
    what: str
    diagnosis: str
    stall: str
    change: Change
    recorded_s: float | None
    baseline_s: float | None
    changed_s: float | None
    lasting: bool
    verdict: Verdict
    why: str
    assumed: bool

    @property
    def difference_s(self) -> float | None:
        """How much later it would have come; negative for earlier."""
        if self.baseline_s is None or self.changed_s is None:
            return None
        return self.changed_s - self.baseline_s

    @property
    def at_s(self) -> float:
        return min(t for t in (self.baseline_s, self.changed_s) if t is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """How much of what was really recorded the replay with the recorded thresholds finds again; `unaided` is how much
    of it without what those alerts themselves have seen, by events and spools alone."""

    recorded: int
    reproduced: int
    unaided: int
    within_s: float
    missing: Sequence[str]
    extra: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """What came of it. `following` counts differences that follow from others and cannot be known."""

    run: str
    changes: Mapping[str, tuple[float, float]]
    fidelity: Fidelity
    differences: Sequence[Difference]
    following: int
    notes: Sequence[str]


def backtest(recording: Recording, changes: Mapping[str, float]) -> Backtest:
    """The run under its own thresholds and under the changed ones."""
    final = recording.final
    plan = changed_plan(final.plan, changes)
    baseline = replay(recording, final.plan)
    other = replay(recording, plan) if plan != final.plan else baseline
    recorded = _recorded(recording)
    found, following = [], 0
    stalls: dict[tuple[str, str], list[Key]] = {}
    for key in dict.fromkeys([*baseline, *other]):
        stalls.setdefault(key[:2], []).append(key)
    for keys in stalls.values():
        keys.sort(key=lambda key: min(one.t for one in (baseline.get(key), other.get(key)) if one is not None))
        touched = False
        for key in keys:
            before, after = baseline.get(key), other.get(key)
            if _is_same(before, after):
                continue
            if touched:
                following += 1
                continue
            projected = later(recording, before, plan) if before is not None and after is None else None
            found.append(_difference(recording, key, before, after, projected, recorded.get(key)))
            touched = key[2] in TOUCHING
    limits = final.plan.limits
    return Backtest(
        run=final.run.run,
        changes={name: (getattr(limits, name), value) for name, value in changes.items()},
        fidelity=_fidelity(recording, baseline, recorded),
        differences=sorted(found, key=lambda one: (one.at_s, one.agent, one.what)),
        following=following,
        notes=list(_notes(recording, changes)),
    )


def _is_same(before: Raised | None, after: Raised | None) -> bool:
    return before is not None and after is not None and (before.t, before.tier) == (after.t, after.tier)


def _difference(
    recording: Recording,
    key: Key,
    before: Raised | None,
    after: Raised | None,
    projected: float | None,
    at: float | None,
) -> Difference:
    one = before or after
    assert one is not None  # noqa: S101 - it is in one of the two
    changed = after.t if after is not None else None
    past = aftermath(recording, one.agent, one.kind, min(r.t for r in (before, after) if r is not None))
    lasting = False
    change: Change
    if before is None:
        change = "new"
    elif after is not None and after.t == before.t:
        change = "graver" if after.tier > before.tier else "milder"
    elif after is not None:
        change = "earlier" if after.t < before.t else "later"
    elif projected is not None and not past.by_itself:
        change, changed, lasting = "later", projected, True
    else:
        change = "never"
    verdict, why = past.judge(change)
    return Difference(
        agent=one.agent,
        what=one.what,
        diagnosis=one.kind,
        stall=key[1],
        change=change,
        recorded_s=at,
        baseline_s=before.t if before is not None else None,
        changed_s=changed,
        lasting=lasting,
        verdict=verdict,
        why=why,
        assumed=(after or one).assumed,
    )


def _recorded(recording: Recording) -> dict[Key, float]:
    """What was really said and done, as the replays name it; the first time for each stall."""
    found: dict[Key, float] = {}
    for alert in recording.alerts:
        stall, item = str(alert.body.get("stall", "")), str(alert.body.get("alert", ""))
        occasion = item.removeprefix(alert.agent)
        level = int(alert.body.get("tier", 0))
        if occasion.startswith(f"#{alert.incarnation}:overdue:"):
            key = (alert.agent, occasion, "OVERDUE")
        elif level and occasion == f"{stall}:{level}":
            key = (alert.agent, stall, TIERS[level])
        else:
            key = (alert.agent, stall, str(alert.body.get("action", "")))
        found.setdefault(key, alert.t)
    for past in recording.events:
        event = past.event
        if event.kind == "action_taken" and str(event.body.get("alert", "")).endswith(f":{UNANSWERED}"):
            stall = str(event.body["alert"]).removeprefix(event.agent)
            found.setdefault((event.agent, stall, "RESTART"), past.t)
        elif event.kind == "run_quiet":
            stall = event.op_id.removeprefix(f"quiet:{event.run}:")
            found.setdefault(("", f"quiet:{stall}", RUN_QUIET), past.t)
    return found


def _fidelity(recording: Recording, baseline: Mapping[Key, Raised], recorded: Mapping[Key, float]) -> Fidelity:
    within_s = 2 * recording.final.plan.limits.sweep_s
    alone = replay(recording, recording.final.plan, aided=False) if recorded else {}
    unaided = sum(key in alone and abs(alone[key].t - t) <= within_s for key, t in recorded.items())
    missing, extra = [], []
    for key, t in recorded.items():
        twin = baseline.get(key)
        if twin is None:
            missing.append(f"{_named(key)} at {span(t)}: the replay has none")
        elif abs(twin.t - t) > within_s:
            missing.append(f"{_named(key)} at {span(t)}: the replay has it at {span(twin.t)}")
    for key, one in baseline.items():
        if key not in recorded and one.what not in (RUN_ENDED, RUN_QUIET):
            extra.append(f"{_named(key)} at {span(one.t)}: not in the record")
    return Fidelity(
        recorded=len(recorded),
        reproduced=len(recorded) - len(missing),
        unaided=unaided,
        within_s=within_s,
        missing=missing,
        extra=extra,
    )


def _named(key: Key) -> str:
    return f"{key[2]} of {key[0]}" if key[0] else key[2]


def _notes(recording: Recording, changes: Mapping[str, float]) -> Iterable[str]:
    plan, records = recording.final.plan, Records(recording.final)
    for past in recording.events:
        records.fold(past.event)
    if records.unread:
        yield f"{records.unread} events of an older dogwatch tell too little to be replayed"
    for agent in sorted(recording.blind):
        yield f"the spool of {agent} is not there any more: its silences cannot be replayed"
    quiet = sorted(
        {agent for agent, _ in recording.voices if agent not in recording.blind and _is_mute(recording, agent)}
    )
    if quiet:
        yield f"no hooks tell what these did: {', '.join(quiet)}"
    for name in changes:
        own = [role.name for role in plan.roles if name in role.limits]
        own += [one.name for phase in plan.phases for one in phase.dispatches if name in one.limits]
        if own:
            yield f"{name} is set for {', '.join(own)} itself, and was left there"
        if getattr(plan.limits, name) == changes[name]:
            yield f"{name} was {changes[name]:g} already"


def _is_mute(recording: Recording, agent: str) -> bool:
    return not any(voice.said for (name, _), voice in recording.voices.items() if name == agent)
