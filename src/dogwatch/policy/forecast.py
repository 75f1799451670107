"""How much memory is still to come, and whether one more run fits: from the peaks of earlier incarnations.

What is assumed: the peaks of everything admitted coincide, each run being in the heaviest phase that it has still
before it. How far a peak is from its mean is mostly each agent's own affair, and such errors add in squares. A share of
the variance is common to the agents of a role, in all runs: they do work of one kind and are judged by the same few
samples. That share adds up plainly, as if all runs were of one pipeline. Of runs, agents are added up without their
sub-agents, which come and go: who is expected to start many is held by the gate itself until there is room for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import accumulate
from statistics import NormalDist, fmean, median, stdev

from dogwatch.model.admission import Demand, MemoryProfile
from dogwatch.model.memory import GB
from dogwatch.model.plan import Plan
from dogwatch.policy.needs import lives
from dogwatch.values import dataclass

MB = 1024**2
ALL = "all"
"""Where a profile keeps the peaks of whole lives."""
SAMPLES_MIN = 3
"""Two say nothing of their spread: the factor that would make up for that is 7.7. With three it is 3.4, and falls."""
SPREAD_MIN = 0.05
"""Of the mean. Peaks that happen to be alike do not make the next one certain."""
COMMON_LEARNT = 0.1
COMMON_ASSUMED = 0.5
"""The share of the variance that is common, at least. What is assumed is wrong for all roles at once."""

CLIENT = Demand(mean_bytes=2.1 * GB, spread_bytes=0.6 * GB)
SMALL = Demand(mean_bytes=64 * MB, spread_bytes=32 * MB)
ASSUMED: Mapping[str, Demand] = {
    "claude": CLIENT,
    "codex": CLIENT,
    "opencode": CLIENT,
    "gemini": CLIENT,
    "command": SMALL,
    "scripted": SMALL,
}
"""What holds until enough is learnt. 2.1 GB is the public figure for the process of a coding agent, and what an unknown
harness is taken for; the spread is a guess."""

Profiles = Mapping[str, MemoryProfile]
"""Profiles by their key."""
_STANDARD = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDemand:
    """What a run takes in one of its phases, on top of what its agents use already; negative where some will have
    ended by then. `common_bytes` is the part of the spread that is common to other runs, `left_s` how long the phase
    will still take, where that is known."""

    phase: str
    demand: Demand
    common_bytes: float = 0.0
    left_s: float | None = None


NOTHING = PhaseDemand(phase="", demand=Demand(agents=0, learnt=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """What so many earlier incarnations have taken at their peaks."""

    samples: int
    p50_bytes: int
    p90_bytes: int
    p99_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForecast:
    """A run: what it still takes, from the present phase to the last. `used_bytes` and
    `agents` are there now and are given back when it ends."""

    run: str
    phases: tuple[PhaseDemand, ...] = ()
    used_bytes: int = 0
    agents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Whether it fits beside everything admitted. `predicted_bytes` is what they and it still take together, which is
    exceeded with a probability of at most 1 - confidence. `until` is what it waits for; `never` means that it does not
    fit even when all the others have ended."""

    fits: bool
    predicted_bytes: int
    room_bytes: float
    reason: str = ""
    until: str = ""
    never: bool = False


# What one agent takes.


def by_key(profiles: Iterable[MemoryProfile]) -> dict[str, MemoryProfile]:
    """The profiles as everything here takes them."""
    return {profile.key: profile for profile in profiles}


def demand_of(profiles: Profiles, harness: str, pipeline: str, role: str, phase: str = "", *, count: int = 1) -> Demand:
    """What an agent takes at its peak: learnt from its role in this phase, else from its role's whole lives, else from
    all roles of the harness, else assumed. One or two peaks prove nothing, but what was seen can come again. `count` is
    how many of the role there are in a run."""
    each = _estimate(_known(profiles, harness, pipeline, role), harness, phase)[0]
    known = _processes(profiles, harness, pipeline, role, phase, count)
    number = known or 1
    return Demand(
        mean_bytes=number * each.mean_bytes,
        spread_bytes=number * each.spread_bytes,
        agents=number,
        learnt=each.learnt,
        unseen=known is None,
    )


def processes_of(profiles: Profiles, harness: str, pipeline: str, role: str, phase: str = "", *, count: int = 1) -> int:
    """How many processes nine of ten such agents stayed within in this phase, itself and its sub-agents; before one has
    come to its end, the most of those who live. Where nothing is known of a role, its namesakes in other pipelines
    stand for it; one that has none is taken for itself alone."""
    return _processes(profiles, harness, pipeline, role, phase, count) or 1


def _processes(profiles: Profiles, harness: str, pipeline: str, role: str, phase: str, count: int) -> int | None:
    own = profiles.get(MemoryProfile(harness=harness, pipeline=pipeline, role=role).key)
    for same in ([own] if own is not None else [], _namesakes(profiles, harness, role)):
        # Where more namesakes share a run's work, who has fewer at its side may have to do all of it.
        shares = [(profile, 1.0 if profile is own else max(1.0, profile.count / count)) for profile in same]
        ended = sorted(_shared(n, share) for profile, share in shares for n in profile.processes.get(phase, ()))
        if ended:
            return ended[math.ceil(0.9 * len(ended)) - 1]
        if living := [_shared(profile.seen[phase], share) for profile, share in shares if phase in profile.seen]:
            return max(living)
    return None


def _shared(processes: int, share: float) -> int:
    return 1 + math.ceil((processes - 1) * share)


def subagents_max(plan: Plan, profiles: Profiles, from_phase: int = 0) -> int:
    """How many sub-agents a run's agents have at once in the phase that has the most of them."""
    return max(
        (
            sum(
                role.count
                * (processes_of(profiles, role.harness, plan.name, role.name, phase.name, count=role.count) - 1)
                for role in plan.roles
            )
            for phase in plan.phases[from_phase:]
        ),
        default=0,
    )


def _namesakes(profiles: Profiles, harness: str, role: str) -> list[MemoryProfile]:
    return [one for one in profiles.values() if one.role and (one.harness, one.role) == (harness, role)]


def quantiles(profile: MemoryProfile, phase: str = ALL) -> Quantiles | None:
    """What half, nine of ten and all but one of a hundred stayed within, by the nearest rank; None without a peak."""
    ordered = sorted(profile.peaks.get(phase, ()))
    if not ordered:
        return None
    p50, p90, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.9, 0.99))
    return Quantiles(samples=len(ordered), p50_bytes=p50, p90_bytes=p90, p99_bytes=p99)


_Known = tuple[MemoryProfile | None, MemoryProfile | None]
"""The profile of a role, and that of all roles of its harness."""


def agent_bytes(profiles: Profiles) -> int:
    """How large an agent's process usually is on this machine, by its heaviest harness: where sub-agents are counted,
    they have their share of the peak. 0 while none is learnt."""
    sizes = [0.0]
    for profile in profiles.values():
        peaks = profile.peaks.get(ALL, ())
        if not profile.role and len(peaks) >= SAMPLES_MIN:
            sizes.append(median(_apiece(profile, ALL)))
    return int(max(sizes))


def _known(profiles: Profiles, harness: str, pipeline: str, role: str) -> _Known:
    own = profiles.get(MemoryProfile(harness=harness, pipeline=pipeline, role=role).key)
    return own, profiles.get(MemoryProfile(harness=harness).key)


def _apiece(profile: MemoryProfile | None, phase: str) -> tuple[int, ...]:
    """The peaks by process: of an agent with sub-agents, each has its share."""
    if profile is None:
        return ()
    peaks, counts = profile.peaks.get(phase, ()), profile.processes.get(phase, ())
    return _divided(peaks, counts) if len(counts) == len(peaks) else peaks


@lru_cache(maxsize=1024)
def _divided(peaks: tuple[int, ...], counts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(peak // max(1, count) for peak, count in zip(peaks, counts, strict=True))


def _estimate(known: _Known, harness: str, phase: str) -> tuple[Demand, float]:
    """The demand of one process, and the share of its variance that it has in common with others of its role."""
    own, every = known
    in_life = _apiece(own, ALL)
    for peaks in (_apiece(own, phase), in_life, _apiece(every, ALL)):
        if len(peaks) >= SAMPLES_MIN:
            found, common = _learnt(peaks), max(COMMON_LEARNT, 1 / (len(peaks) + 1))
            break
    else:
        found, common = ASSUMED.get(harness, CLIENT), COMMON_ASSUMED
    seen = in_life if 0 < len(in_life) < SAMPLES_MIN else ()
    most = max(seen, default=0)
    return (replace(found, mean_bytes=float(most)) if most > found.mean_bytes else found), common


@lru_cache(maxsize=1024)
def _learnt(peaks: tuple[int, ...]) -> Demand:
    """Mean and spread of the next peak. A normal quantile of the widened spread is about the Student quantile that so
    few samples ask for, at 95 % (a little more: 1 % at three); the root is the doubt about the mean itself."""
    count, mean = len(peaks), fmean(peaks)
    free = count - 1
    widened = (1 + 0.93 / free + 1.3 / free**2) * math.sqrt(1 + 1 / count)
    return Demand(mean_bytes=mean, spread_bytes=max(stdev(peaks), SPREAD_MIN * mean) * widened, learnt=True)


# What a run takes.


def run_demand(
    plan: Plan,
    profiles: Profiles,
    from_phase: int = 0,
    *,
    living: Mapping[str, int] | None = None,
    all_along: bool = False,
) -> tuple[PhaseDemand, ...]:
    """What the run takes in each phase from `from_phase` on.

    An agent lives from the first phase that needs it to the last; one that no phase needs lives always, and with
    `all_along` all do: so it is where a captain starts everybody at the beginning and ends nobody before the end.
    `living` has the memory of those that are there now, by the agent of the plan that each stands for: then it is what
    comes on top of that. Nobody ends before the phase that is under way.
    """
    now = living or {}
    spans = {} if all_along else lives(plan)
    known = {role.name: _known(profiles, role.harness, plan.name, role.name) for role in plan.roles}
    found: list[PhaseDemand] = []
    before: tuple[tuple[Demand, float], ...] = ()
    for number, phase in enumerate(plan.phases[from_phase:], from_phase):
        estimates = tuple(_estimate(known[role.name], role.harness, phase.name) for role in plan.roles)
        if all_along and estimates == before:
            found.append(replace(found[-1], phase=phase.name))
            continue
        before, groups = estimates, []
        for role, (each, common) in zip(plan.roles, estimates, strict=True):
            group = []
            for agent in role.agents():
                first, last = (0, len(plan.phases)) if all_along else spans[agent]
                if agent in now and (number <= last or number == from_phase):
                    group.append(_on_top(each, now[agent]))
                elif agent in now:
                    group.append(Demand(mean_bytes=-now[agent], agents=-1, learnt=True))
                elif first <= number <= last:
                    group.append(each)
            groups.append((group, common))
        found.append(_together(phase.name, groups))
    return tuple(found)


def run_forecast(
    run: str,
    plan: Plan,
    profiles: Profiles,
    phase: int = 0,
    *,
    living: Mapping[str, int] | None = None,
    left_s: Sequence[float | None] = (),
    all_along: bool = False,
) -> RunForecast:
    """A run as `forecast` takes it: one in the queue, or one that is in `phase` with these agents (see `run_demand`).
    `left_s` is how long the phases from this one on still take, as far as that is known."""
    phases = run_demand(plan, profiles, phase, living=living, all_along=all_along)
    timed = tuple(replace(one, left_s=left) for one, left in zip(phases, left_s, strict=False))
    used = living or {}
    return RunForecast(run=run, phases=timed + phases[len(timed) :], used_bytes=sum(used.values()), agents=len(used))


def heaviest(phases: Sequence[PhaseDemand]) -> PhaseDemand:
    """What the run takes at its heaviest: the highest mean, the widest spread and the most agents of its phases. These
    are nearly always of one phase; where they are not, no more demand may ever look like less."""
    if not phases:
        return NOTHING
    mean, spread, common, agents = reduce(_heavier, map(_load, phases))
    learnt = all(one.demand.learnt for one in phases)
    demand = Demand(mean_bytes=mean, spread_bytes=spread, agents=agents, learnt=learnt)
    phase = next(one.phase for one in phases if one.demand.mean_bytes == mean)
    return PhaseDemand(phase=phase, demand=demand, common_bytes=common)


@lru_cache(maxsize=4096)
def _on_top(demand: Demand, used_bytes: int) -> Demand:
    """How much more a living agent takes, given that its peak is no less than what it uses now: the part of the normal
    curve above that. Far below the mean this is the mean less what is used; it is never nothing."""
    spread = demand.spread_bytes
    above = (used_bytes - demand.mean_bytes) / spread if spread else 0.0
    if not spread:
        mean = max(0.0, demand.mean_bytes - used_bytes)
    elif above > 6:
        mean = spread = spread / above
    else:
        hazard = _STANDARD.pdf(above) / _STANDARD.cdf(-above)
        mean = spread * (hazard - above)
        spread *= math.sqrt(max(0.0, 1 + above * hazard - hazard**2))
    return Demand(mean_bytes=mean, spread_bytes=spread, agents=0, learnt=demand.learnt)


def _together(phase: str, groups: Sequence[tuple[Sequence[Demand], float]]) -> PhaseDemand:
    """A phase of its roles' agents, each role with its common share."""
    own = learnt = assumed = mean = 0.0
    agents, is_learnt = 0, True
    for group, common in groups:
        plain = guessed = squares = 0.0
        for one in group:
            spread = one.spread_bytes
            if one.learnt:
                plain += spread
            else:
                guessed, is_learnt = guessed + spread, False
            squares += spread**2
            mean += one.mean_bytes
            agents += one.agents
        learnt += common * plain**2
        assumed += math.sqrt(common) * guessed
        own += (1 - common) * squares
    spread_bytes = math.sqrt(own + learnt + assumed**2)
    demand = Demand(mean_bytes=mean, spread_bytes=spread_bytes, agents=agents, learnt=is_learnt)
    return PhaseDemand(phase=phase, demand=demand, common_bytes=math.sqrt(learnt + assumed**2))


# What everything takes, and whether it fits.


_Load = tuple[float, float, float, int]
"""A demand as plain numbers, because a forecast takes many: its mean, its spread, the common part of it, its agents."""


def _load(one: PhaseDemand) -> _Load:
    return one.demand.mean_bytes, one.demand.spread_bytes, one.common_bytes, one.demand.agents


def _heavier(one: _Load, other: _Load) -> _Load:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


class _Total:
    """Demands added up, so that one more or one less is a few additions."""

    __slots__ = ("agents", "common", "mean", "squares")

    def __init__(self) -> None:
        self.mean = self.common = self.squares = 0.0
        self.agents = 0

    def add(self, load: _Load, times: int = 1) -> None:
        """One more; with -1, one less."""
        mean, spread, common, agents = load
        self.mean += times * mean
        self.common += times * common
        self.squares += times * (spread**2 - common**2)
        self.agents += times * agents

    def swap(self, before: _Load, after: _Load) -> None:
        """One of them takes something else."""
        self.add(before, -1)
        self.add(after)

    def peak(self, confidence: float) -> float:
        """What they stay under together."""
        return self.mean + _quantile(confidence) * math.sqrt(max(0.0, self.common**2 + self.squares))


def forecast(
    new: RunForecast,
    admitted: Sequence[RunForecast],
    room_bytes: float,
    confidence: float,
    room_agents: float = math.inf,
) -> Forecast:
    """Whether `new` fits beside everything admitted: below the YELLOW line of memory, to which `room_bytes` are left
    now, and below that of processes, with `room_agents` to go. Where it does not, what it waits for."""
    paths = [_path(run) for run in admitted]
    total = _Total()
    for path in (*paths, _path(new)):
        total.add(path[0])

    def fits() -> bool:
        return total.agents <= room_agents and total.peak(confidence) <= room_bytes

    predicted_bytes = math.ceil(total.peak(confidence))
    if fits():
        return Forecast(fits=True, predicted_bytes=predicted_bytes, room_bytes=room_bytes)
    if total.peak(confidence) > room_bytes:
        miss = f"predicted peak {_of(predicted_bytes, room_bytes)} free"
    else:
        miss = f"predicted {total.agents} more agents of {max(0, room_agents):g}"
    until = _soonest(total, admitted, paths, fits) or _after_several(total, admitted, paths, fits)
    wait = f"until {until}" if until else "and no run that could end makes enough room"
    return Forecast(
        fits=False,
        predicted_bytes=predicted_bytes,
        room_bytes=room_bytes,
        reason=f"{new.run} waits: {miss} {wait}",
        until=until,
        never=not until,
    )


def _path(run: RunForecast) -> list[_Load]:
    """What the run takes at its heaviest from now on, after the end of its present phase, and so on. When it has ended,
    what it uses now is given back."""
    found: list[_Load] = [(-run.used_bytes, 0.0, 0.0, -run.agents)]
    loads = [_load(one) for one in run.phases] or [_load(NOTHING)]
    for load in reversed(loads):
        found.append(_heavier(found[-1], load) if len(found) > 1 else load)
    return found[::-1]


def _ends_s(run: RunForecast) -> list[float]:
    """In how many seconds each phase ends, endless from the first on of which that is not known."""
    return list(accumulate(math.inf if one.left_s is None else one.left_s for one in run.phases)) or [math.inf]


def _soonest(
    total: _Total, admitted: Sequence[RunForecast], paths: Sequence[list[_Load]], fits: Callable[[], bool]
) -> str:
    """The end of one phase or run that frees enough, the soonest of them; unknown times come last, in their order."""
    found, soonest_s = "", math.inf
    for run, path in zip(admitted, paths, strict=True):
        for number, at_s in enumerate(_ends_s(run), 1):
            if found and at_s >= soonest_s:
                break
            total.swap(path[0], path[number])
            enough = fits()
            total.swap(path[number], path[0])
            if enough:
                is_last = number >= len(run.phases)
                found = f"{run.run} ends" if is_last else f"{run.run}'s {run.phases[number - 1].phase} ends"
                soonest_s = at_s
                break
    return found


def _after_several(
    total: _Total, admitted: Sequence[RunForecast], paths: Sequence[list[_Load]], fits: Callable[[], bool]
) -> str:
    """The runs that must have ended together, in the order of their ends; empty where even all of them do not do."""
    names = []
    for run, path in sorted(zip(admitted, paths, strict=True), key=lambda one: _ends_s(one[0])[-1]):
        total.swap(path[0], path[-1])
        names.append(run.run)
        if fits():
            return f"{' and '.join(names)} have ended"
    return ""


@lru_cache(maxsize=64)
def _quantile(confidence: float) -> float:
    return _STANDARD.inv_cdf(min(max(confidence, 0.5), 0.9999))


def _of(needed_bytes: float, room_bytes: float) -> str:
    """Both in one unit. What does not fit must not look as if it did."""
    unit, name, places = (GB, "GB", 1) if needed_bytes >= GB else (MB, "MB", 0)
    room = round(max(0.0, room_bytes) / unit, places)
    needed = max(needed_bytes / unit, room + 10.0**-places)
    return f"{needed:.{places}f} of {room:.{places}f} {name}"
