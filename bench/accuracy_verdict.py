"""What is right and what is wrong about a diagnosis: one set of rules for real screens and for the virtual clock.

A trace is what happened in one run of a case: the ground truth, what dogwatch said of the judged agent and when, and
what it did. The label of the case holds from `since` to `until` (`bench/accuracy_form.py`). On top of its words:

- What was said counts from one look after the label begins: nobody sees before looking (`late_s`). It no longer
  counts just before the label ends: a hook is seen before the agent writes down that it has run (`early_s`).
- A label that begins with the end of a turn means the rest after it: it pauses from the start of the next turn to that
  one's end, and begins anew.
- What dogwatch does to the agent changes the facts. For `settle_s` from then on, `before`, `starting`, `working` and
  `idle` are right as well.
- The label ends where dogwatch has mended the fault: with a task of the agent that is accepted, or with the end of the
  turn that dogwatch has interrupted. Who was interrupted sits at its prompt with its work undone, so it may be nudged.
- A fault is missed where no right word came although the label held for `settle_s`, or where dogwatch acted on
  something else first. Where neither is so the trace is void: the label never had to be seen.
- A trace is void as well where the machine was so busy that the watchdog looked later than these rules allow for.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.accuracy_form import Case
from dogwatch.model.plan import Limits

TOUCHES = frozenset({"NUDGE", "INTERRUPT", "RESTART", "REPLACE", "RESCUE"})
"""Actions after which the agent is not in the state that the label was given for."""
AFTERWARDS = ("starting", "working", "idle")
DEAD = ("exited", "session_dead")
NOT_A_LIMIT = ("mail_s", "expect_s")
"""What the corpus supposes and dogwatch has no limit for: the first is told by nobody, the second by the dispatch."""
REPEATS_MAX = 8
"""The corpus leaves open how many equal calls are a loop. Its labels need a number between four (three looks at a build
are none) and twelve (which come in the time that the slowest loop is given)."""


@dataclass(frozen=True, slots=True)
class Deed:
    """A line of the ground truth: the word, and everything else that stands in the line."""

    mono: float
    did: str
    rest: str = ""

    def matches(self, pattern: str) -> bool:
        """Whether it is what `since`, `until` or `outside_after` of a case ask for."""
        word, _, text = pattern.partition(" ")
        return self.did == word and text in self.rest


@dataclass(frozen=True, slots=True)
class Said:
    """What dogwatch has taken the agent for from this moment on, and what that rested on."""

    mono: float
    kind: str
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Act:
    """Something that was done to the agent, and why."""

    mono: float
    action: str
    because: str = ""


@dataclass(kw_only=True)
class Trace:
    """One run of a case."""

    case: Case
    unit: float
    late_s: float
    early_s: float
    deeds: list[Deed] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    """When tasks of the agent were accepted."""
    end: float = 0.0
    problem: str = ""
    """Why the trace says nothing."""
    late: str = ""
    """How late the machine was, where it was later than the rules allow for: then its times mean nothing."""

    def add(self, said: Said) -> None:
        """Notes a diagnosis where it is another one than before."""
        if not self.said or self.said[-1].kind != said.kind:
            self.said.append(said)

    @property
    def begin(self) -> float | None:
        """When the label begins to hold, or None where that has not come."""
        return next((deed.mono for deed in self.deeds if deed.matches(self.case.since)), None)

    @property
    def until(self) -> float | None:
        """When the label no longer holds because of what the agent did, or None where it has not come so far."""
        begin = self.begin
        if begin is None or not self.case.until:
            return None
        return next((d.mono for d in self.deeds if d.mono > begin and d.matches(self.case.until)), None)

    def window(self) -> tuple[float, float] | None:
        """From when to when the label holds."""
        if self.begin is None:
            return None
        ends = [self.begin + self.case.watch_s * self.unit, self.end]
        if self.until is not None:
            ends.append(self.until)
        if not self.case.healthy:
            ends += [mono for mono in self.accepted if mono > self.begin]
            ends += [act.mono for act in self.acts if act.action == "INTERRUPT" and act.mono > self.begin]
        return self.begin, min(ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a trace. Times are in seconds after the label began."""

    case: Case
    void: str = ""
    noticed_s: float | None = None
    wrong: tuple[tuple[float, float, str], ...] = ()
    """From when to when, and what was said."""
    actions: tuple[tuple[float, str, str], ...] = ()
    false_actions: tuple[tuple[float, str, str], ...] = ()
    mended_s: float | None = None

    @property
    def missed(self) -> bool:
        return not self.case.healthy and not self.void and self.noticed_s is None

    def as_json(self) -> dict[str, Any]:
        """Everything that is worth keeping of it."""
        return {
            "case": self.case.name,
            "truth": list(self.case.truth),
            "healthy": self.case.healthy,
            "final": self.case.final,
            "void": self.void,
            "missed": self.missed,
            "noticed_s": _rounded(self.noticed_s),
            "mended_s": _rounded(self.mended_s),
            "wrong": [[round(since, 3), round(until, 3), kind] for since, until, kind in self.wrong],
            "actions": [[round(at, 3), action, because] for at, action, because in self.actions],
            "false_actions": [[round(at, 3), action, because] for at, action, because in self.false_actions],
        }


def judge_trace(trace: Trace) -> Verdict:
    """What the rules say of a trace."""
    case, window = trace.case, trace.window()
    false = _false_actions(trace)
    if trace.problem or trace.late or window is None:
        why = trace.problem or trace.late or f"{case.since!r} never came"
        return Verdict(case=case, void=why, false_actions=tuple((act.mono, act.action, act.because) for act in false))
    begin, end = window
    noticed = _noticed(trace, begin, end)
    void = ""
    if noticed is None and not case.healthy:
        acted = any(begin <= act.mono <= end + trace.late_s for act in trace.acts)
        void = "" if acted or end - begin >= case.settle_s * trace.unit else "the label held for too short a time"
    return Verdict(
        case=case,
        void=void,
        noticed_s=noticed,
        wrong=tuple((since - begin, until - begin, kind) for since, until, kind in _wrong(trace, begin, end)),
        actions=tuple((act.mono - begin, act.action, act.because) for act in trace.acts),
        false_actions=tuple((act.mono - begin, act.action, act.because) for act in false),
        mended_s=_mended(trace, begin, end),
    )


def _false_actions(trace: Trace) -> list[Act]:
    case, found, allowed = trace.case, [], set(trace.case.allowed)
    for act in trace.acts:
        if case.healthy or act.action not in allowed:
            found.append(act)
        elif act.action == "INTERRUPT":
            allowed.add("NUDGE")
    return found


def _spans(trace: Trace) -> Iterator[tuple[float, float, str]]:
    """What was said, from when to when."""
    ends = [said.mono for said in trace.said[1:]] + [trace.end]
    for said, end in zip(trace.said, ends, strict=False):
        yield said.mono, end, said.kind


def _noticed(trace: Trace, begin: float, end: float) -> float | None:
    """How long after the label began the first right word was there."""
    right = [since for since, until, kind in _spans(trace) if kind in trace.case.truth and until > begin]
    # What was seen just before an action is written down just after the action's effect was.
    found = [since for since in right if since <= end + trace.late_s]
    return max(0.0, min(found) - begin) if found else None


def _wrong(trace: Trace, begin: float, end: float) -> Iterator[tuple[float, float, str]]:
    case, settle_s = trace.case, trace.case.settle_s * trace.unit
    allowances = [(begin, begin + settle_s, frozenset(case.before))]
    if case.since == "turn_end":
        for start in (deed.mono for deed in trace.deeds if deed.did == "turn_start" and begin < deed.mono <= end):
            stop = next((d.mono for d in trace.deeds if d.did == "turn_end" and d.mono > start), end)
            allowances.append((start - trace.early_s, stop + settle_s, frozenset((*case.before, "working"))))
    for act in trace.acts:
        if act.action in TOUCHES:
            until = act.mono + max(settle_s, trace.unit)
            allowances.append((act.mono - trace.late_s, until, frozenset((*case.before, *AFTERWARDS))))
    last_s = end - trace.early_s if end == trace.until else end
    for since, until, kind in _spans(trace):
        first, last = max(since, begin + trace.late_s), min(until, last_s)
        if first >= last or kind in case.truth or kind == "unknown":
            continue
        right_until = first
        for opens, closes, kinds in sorted(allowances):
            if kind in kinds and opens <= right_until:
                right_until = max(right_until, closes + trace.late_s)
        if last > right_until:
            yield max(first, right_until if right_until > first else first), last, kind


def _mended(trace: Trace, begin: float, end: float) -> float | None:
    """How long after the fault the agent went on, where dogwatch has made it do so while the label held."""
    if trace.case.healthy:
        return None
    touched = [act.mono for act in trace.acts if act.action in TOUCHES]
    first = next((mono for mono in touched if begin - trace.late_s <= mono <= end + trace.late_s), None)
    if first is None:
        return None
    signs = [d.mono for d in trace.deeds if d.did in ("ready", "turn_start") and d.mono >= first]
    signs += [mono for mono in trace.accepted if mono >= first]
    return min(signs) - begin if signs else None


def product_limits(limits: Mapping[str, float], unit: float) -> dict[str, float]:
    """The corpus's limits as dogwatch names them, in seconds; those that it does not know keep the proportions of the
    defaults, where one unit is ten seconds."""
    named = {name.replace("tier_", "tier"): value * unit for name, value in limits.items() if name not in NOT_A_LIMIT}
    defaults = Limits()
    for name in ("long_tool_s", "hold_s", "unresponsive_s", "dialog_s", "mass_hold_s", "restart_backoff_s"):
        named[name] = getattr(defaults, name) / 10 * unit
    for name in ("restart_period_s", "run_quiet_s", "run_grace_s", "deadline_s"):
        named[name] = getattr(defaults, name)
    named["claim_high_s"], named["claim_critical_s"] = 2 * named["claim_s"], 3 * named["claim_s"]
    return {**named, "repeats_max": REPEATS_MAX}


@dataclass(frozen=True, kw_only=True)
class Score:
    """Figures over some verdicts."""

    name: str
    count: int
    void: int
    faults: int
    noticed: int
    wrong: int
    false_actions: int
    mended: int
    notice_s: Sequence[float]
    mend_s: Sequence[float]

    @property
    def recall(self) -> float:
        return self.noticed / self.faults if self.faults else 1.0

    @property
    def wrong_share(self) -> float:
        judged = self.count - self.void
        return self.wrong / judged if judged else 0.0

    def as_json(self) -> dict[str, Any]:
        """The figures."""
        return {
            "name": self.name,
            "count": self.count,
            "void": self.void,
            "faults": self.faults,
            "recall": round(self.recall, 4),
            "wrong": self.wrong,
            "false_actions": self.false_actions,
            "mended": self.mended,
            "notice_s": [_rounded(percentile(self.notice_s, share)) for share in (50, 95)],
            "mend_s": [_rounded(percentile(self.mend_s, share)) for share in (50, 95)],
        }


def score(name: str, verdicts: Sequence[Verdict]) -> Score:
    """All figures of these verdicts."""
    faults = [one for one in verdicts if not one.case.healthy and not one.void]
    notice_s = [one.noticed_s for one in faults if one.noticed_s is not None]
    mend_s = [one.mended_s for one in faults if one.mended_s is not None]
    return Score(
        name=name,
        count=len(verdicts),
        void=sum(bool(one.void) for one in verdicts),
        faults=len(faults),
        noticed=len(notice_s),
        wrong=sum(bool(one.wrong) for one in verdicts),
        false_actions=sum(len(one.false_actions) for one in verdicts),
        mended=len(mend_s),
        notice_s=notice_s,
        mend_s=mend_s,
    )


def by_class(verdicts: Sequence[Verdict]) -> list[Score]:
    """One score for each label (the first one of a case), the healthy ones apart."""
    names = dict.fromkeys(_class(verdict.case) for verdict in verdicts)
    return [score(name, [one for one in verdicts if _class(one.case) == name]) for name in sorted(names)]


def _class(case: Case) -> str:
    return f"{'healthy: ' if case.healthy else ''}{case.truth[0]}"


def percentile(values: Sequence[float], share: int) -> float | None:
    """That share of the values is not larger; None where there are none."""
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(sorted(values), n=100, method="inclusive")[share - 1]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
