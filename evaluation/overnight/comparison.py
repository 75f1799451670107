"""Many nights: over seeds, and over worlds in which one parameter is another; and what is told of them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import active_children
from statistics import median
from typing import Any

from dogwatch.sim.seeds import leave_interrupts_alone
from evaluation.overnight.night import POLICIES, Outcome, night
from evaluation.overnight.parameters import ASSUMED, NEEDS, PARAMETERS, World, world
from evaluation.overnight.plots import bars_plot, hours_plot, night_plot

GOAL = 1.3
"""So many times faster than (b) dogwatch's admission is to be."""
VARIED = 0.25

Task = tuple[str, int, World, int]


def nights(tasks: Sequence[Task], jobs: int = 1) -> Generator[Outcome]:
    """All of them, in their order. Closing it ends those that are still going: each takes many seconds."""
    if jobs <= 1:
        yield from map(_one, tasks)
        return
    with ProcessPoolExecutor(jobs, initializer=leave_interrupts_alone) as pool:
        try:
            yield from pool.map(_one, tasks)
        except BaseException:
            for worker in active_children():
                worker.kill()
            raise


def _one(task: Task) -> Outcome:
    policy, seed, within, pipelines = task
    return night(policy, seed, within, pipelines)


def meets_goal(ours: Outcome, fixed: Outcome) -> bool:
    """Whether (c) has delivered everything, without RED, without ending anybody at work, and so much faster."""
    is_whole = ours.delivered == ours.pipelines and not ours.has_red and not ours.active_kills and not ours.violations
    return is_whole and fixed.hours >= GOAL * ours.hours


@dataclass
class Comparison:
    """The nights of several seeds, by policy."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=lambda: {policy: [] for policy in POLICIES})

    def add(self, *outcomes: Outcome) -> None:
        """One more seed under every policy."""
        for outcome in outcomes:
            self.outcomes[outcome.policy].append(outcome)

    @property
    def ratios(self) -> list[float]:
        """How many times as long as (c) each night of (b) was."""
        pairs = zip(self.outcomes["b"], self.outcomes["c"], strict=True)
        return [fixed.hours / ours.hours for fixed, ours in pairs]

    @property
    def met(self) -> int:
        """On how many seeds (c) meets its goal."""
        return sum(meets_goal(*pair) for pair in zip(self.outcomes["c"], self.outcomes["b"], strict=True))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """What is told of each policy: the median over the seeds, and the lowest and highest where these differ."""
        for policy, name in POLICIES.items():
            found = self.outcomes[policy]
            if not found:
                continue
            zones = "/".join(f"{100 * median(one.zones[zone] for one in found):.0f}" for zone in found[0].zones)
            yield (
                f"({policy}) {name}",
                f"{_range([one.delivered for one in found], 0)} of {found[0].pipelines}",
                _range([one.hours for one in found], 1) if policy != "a" else "-",
                _range([100 * one.available_min for one in found], 0) + " %",
                f"{zones} %",
                f"{sum(one.has_red for one in found)} of {len(found)}",
                _range([one.idle_kills for one in found], 0),
                _range([one.returns for one in found], 0),
                _range([one.active_kills for one in found], 0),
                _range([minutes for one in found for minutes in one.run_minutes] or [0], 0),
            )

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "seeds": [one.seed for one in self.outcomes["c"]],
            "goal": {"times_faster": GOAL, "met": self.met},
            "ratio": {"median": round(median(self.ratios), 3), "all": [round(one, 3) for one in self.ratios]},
            "nights": {policy: [one.plain() for one in found] for policy, found in self.outcomes.items()},
        }

    def plots(self) -> dict[str, str]:
        """The files that show it, by name."""
        names = {policy: f"({policy}) {name}" for policy, name in POLICIES.items()}
        first = {
            policy: [(one.minute / 60, one.available, one.processes) for one in found[0].samples]
            for policy, found in self.outcomes.items()
        }
        hours = {policy: [one.hours for one in found] for policy, found in self.outcomes.items()}
        return {"overnight.svg": night_plot(first, names), "overnight-hours.svg": hours_plot(hours, names, GOAL)}


HEADING = (
    "policy",
    "delivered",
    "hours",
    "lowest RAM",
    "G/Y/R",
    "RED in",
    "idle ended",
    "came back",
    "active",
    "runs, min",
)


def _range(values: Sequence[float], places: int) -> str:
    middle, least, most = (f"{one:.{places}f}" for one in (median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least}-{most})"


def variations() -> dict[str, World]:
    """The worlds in which one assumed or calibrated parameter is lower or higher, and the other kinds of need."""
    fixed = world()
    found = {"as fixed": fixed}
    for one in PARAMETERS:
        if not one.source.startswith((ASSUMED, "calibrated")) or one.name == "rounds":
            continue
        for sign in (-1, 1):
            value = one.value * (1 + sign * VARIED)
            if one.unit in ("sub-agents", "processes"):
                value = round(value)
            value = min(value, 0.97) if one.name in ("early", "subagent_early") else value
            if value != one.value:
                found[f"{one.name} {value:g}"] = World({**fixed.values, one.name: value})
    found |= {f"need: {kind}": world(kind) for kind in NEEDS[1:]}
    return found


@dataclass(frozen=True, slots=True)
class Effect:
    """What a varied world does to the comparison."""

    name: str
    ratios: tuple[float, ...]
    delivered: int
    red: int

    def row(self) -> tuple[str, ...]:
        """What is told of it."""
        return (self.name, _range(self.ratios, 2), str(self.delivered), f"{self.red} of {len(self.ratios)}")


def effect(name: str, found: Sequence[tuple[Outcome, Outcome]]) -> Effect:
    """What (b) and (c) of each seed say of a varied world."""
    return Effect(
        name,
        tuple(fixed.hours / ours.hours for fixed, ours in found),
        min(ours.delivered for _, ours in found),
        sum(ours.has_red for _, ours in found),
    )


def sensitivity_plot(effects: Sequence[Effect]) -> str:
    """How many times faster (c) is in each of them."""
    rows = [(one.name, min(one.ratios), median(one.ratios), max(one.ratios)) for one in effects]
    return bars_plot("(b) / (c) in hours where one parameter is another", rows, GOAL)


def effects_plain(effects: Sequence[Effect]) -> list[Mapping[str, Any]]:
    """As JSON has it."""
    return [
        {"world": one.name, "ratios": [round(r, 3) for r in one.ratios], "delivered_min": one.delivered, "red": one.red}
        for one in effects
    ]
