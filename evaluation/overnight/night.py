"""The overnight experiment: twelve pipelines on one machine, under three policies and in the same world.

(a) four at once, with zones, but without throttling launches and without bringing back who was reclaimed; (b) a fixed
two at once with zones; (c) the very product. The crew of all three is the product's; in (a) and (b) its dispatcher is
one as the earlier system had it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import IO, Any

from dogwatch.coordination.runs import create_run
from dogwatch.crew.dispatcher.dispatcher import Dispatcher
from dogwatch.crew.shared.log import Log
from dogwatch.ledger.api import Lease, Reader, StoredEvent
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.brief import Header
from dogwatch.model.memory import GB, ZONES, HostRecord, Readings
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord
from dogwatch.policy.zones import ZoneState, next_state
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.berths import Berth
from dogwatch.sim.faults import OUT_OF_MEMORY
from dogwatch.sim.invariants import Invariants
from dogwatch.sim.machine import Witness
from dogwatch.sim.scenarios import Setup
from dogwatch.sim.simulation import Simulation
from evaluation.overnight.former import FormerDispatcher
from evaluation.overnight.parameters import World, world
from evaluation.overnight.scenario import Night

POLICIES = {
    "a": "4 at once, launches not throttled",
    "b": "2 at once",
    "c": "dogwatch's own admission",
}
PIPELINES = 12
SAMPLE_S = 15.0
IDLE_MAX_S = 40.0
"""How long a crew member's wait may become while nothing happens: with half of it the nights are nearly the same,
and take half as long again."""
KEPT_EVERY = 8
"""Of the samples so many are kept for a plot: one in two minutes."""
GIVEN_UP_S = 46 * 60.0
"""So long (a) was left alone."""
HOURS_MAX = 48.0
GROUP = "night"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The machine at one moment: its available memory as a share, and how many agent processes there are."""

    minute: float
    available: float
    processes: int
    zone: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One night. The zones are the shares of time by the table's own lines, as an observer outside has them;
    `own_zones` are those that the product itself has recorded."""

    policy: str
    seed: int
    pipelines: int
    delivered: int
    hours: float
    available_min: float
    used_max_gb: float
    processes_max: int
    zones: dict[str, float]
    own_zones: dict[str, float]
    idle_kills: int
    active_kills: int
    returns: int
    run_minutes: tuple[float, ...]
    violations: tuple[str, ...]
    sha256: str
    by_then: dict[str, float]
    """What there was until the minute in which (a) was given up."""
    samples: tuple[Sample, ...] = field(default=(), repr=False)

    @property
    def has_red(self) -> bool:
        """Whether anybody has seen RED, the observer or the product."""
        return self.zones["RED"] > 0 or self.own_zones.get("RED", 0) > 0

    def plain(self, *, samples: bool = False) -> dict[str, Any]:
        """As JSON has it."""
        found = asdict(self)
        if not samples:
            del found["samples"]
        return found


class Chronicle(Witness):
    """Counts what the experiment asks for, and lets the invariants see everything."""

    def __init__(self, invariants: Invariants) -> None:
        self._invariants = invariants
        self.idle_kills = self.active_kills = self.returns = 0

    def event(self, event: StoredEvent) -> None:
        self._invariants.event(event)

    def prompted(self, agent: VirtualAgent, found: Sequence[Header]) -> None:
        self._invariants.prompted(agent, found)

    def spawned(self, agent: VirtualAgent) -> None:
        self.returns += agent.incarnation > 1
        self._invariants.spawned(agent)

    def ended(self, agent: VirtualAgent, by: str, run: str, way: str) -> None:
        if way != "clear":
            self.count(agent)
        self._invariants.ended(agent, by, run, way)

    def count(self, agent: VirtualAgent) -> None:
        """Somebody ends an agent before its run is over."""
        if agent.turn.state == "working" or agent.running:
            self.active_kills += 1
        else:
            self.idle_kills += 1

    def crew_ended(self, berth: Berth, by: str, run: str) -> None:
        self._invariants.crew_ended(berth, by, run)

    def joined(self, berth: Berth, lease: Lease) -> None:
        self._invariants.joined(berth, lease)

    def stepped(self, berth: Berth) -> None:
        self._invariants.stepped(berth)

    def failed(self, line: str) -> None:
        self._invariants.failed(line)


class NightSimulation(Simulation):
    """One night under one policy."""

    def __init__(
        self, seed: int, policy: str, within: World, pipelines: int = PIPELINES, trace: IO[str] | None = None
    ) -> None:
        self.policy = policy
        number = min(pipelines, int(within["parallel_a"])) if policy == "a" else pipelines
        stagger_s = within["stagger_s"] if policy == "a" else 0.0

        def night(setup: Setup, random: Random) -> Night:
            return Night(seed, within, number, stagger_s)

        super().__init__(Setup(seed=seed, runs=number, hours=HOURS_MAX), night, with_faults=False, trace=trace)
        self._ceiling = int(within["parallel_b"]) if policy == "b" else 0
        self._names = iter(night(self.setup, self.random).pipelines)
        self.idle_max_s = IDLE_MAX_S
        self.chronicle = Chronicle(self.invariants)
        self.witness = self.chronicle
        if policy == "a":
            self.mishap = self._never_again
        self._zone = ZoneState()
        self._zone_s: dict[str, float] = {str(zone): 0.0 for zone in ZONES}
        self._samples: list[Sample] = []
        self._processes_max = 0
        self._by_then: dict[str, float] = {}

    def dispatcher(self, lease: Lease, log: Log) -> Dispatcher:
        if self.policy == "c":
            return super().dispatcher(lease, log)
        return FormerDispatcher(lease, log, self.now, pauses=self.policy == "b")

    def _never_again(self, what: str, present: VirtualAgent | None) -> str:
        """Nobody starts an agent again that was reclaimed."""
        return "unknown" if what == "spawn" and present is not None else ""

    def _create(self, plan: Plan) -> None:
        def make(tx: Any) -> RunRecord:
            where = ("/project", "/out", "/pipeline.yaml")
            return create_run(tx, plan, *where, name=next(self._names), group=GROUP, ceiling=self._ceiling)

        self._add(self.ledger.run(make))

    def begin(self) -> None:
        super().begin()
        self._sample()

    def bound_s(self) -> float:
        return HOURS_MAX * 3600

    def is_over(self) -> bool:
        """When the last run is over: what the crew does afterwards is no part of the night."""
        return not self._waiting and not self.open_runs

    def _sample(self) -> None:
        """Somebody outside looks, with the table's own lines."""
        if self.is_over():
            return
        living = [one for one in self.clients.values() if one.lives]
        used, host = self.used_bytes(), self.host
        processes = host.processes + sum(1 + len(one.running) for one in living)
        self._processes_max = max(self._processes_max, processes)
        readings = Readings(size_bytes=host.size_bytes, left_bytes=host.left_bytes(used), processes=processes)
        self._zone = next_state(self._zone, readings, 0, self.now)
        self._zone_s[self._zone.zone] += SAMPLE_S
        self._samples.append(
            Sample(
                minute=round(self.elapsed_s / 60, 2),
                available=round(host.left_bytes(used) / host.size_bytes, 4),
                processes=processes,
                zone=self._zone.zone,
                runs=len({one.run.run for one in living}),
            )
        )
        if self.elapsed_s <= GIVEN_UP_S:
            self._by_then = {
                "available_min": round(self.lowest_bytes / host.size_bytes, 4),
                "processes_max": self._processes_max,
                "idle_kills": self.chronicle.idle_kills,
            }
        self.at(self.elapsed_s + SAMPLE_S, self._sample)

    def outcome(self) -> Outcome:
        """What came of the night."""
        result = self.result()

        def read(reader: Reader) -> tuple[list[RunRecord], HostRecord | None]:
            runs = [load(reader, RunRecord, f"run/{run}") for run in self.runs]
            return [run for run in runs if run is not None], load(reader, HostRecord, keys.host(reader.host))

        runs, host = self.ledger.read(read)
        delivered = [run for run in runs if run.state == "COMPLETED"]
        minutes = [run.ended.since(run.admitted) / 60 for run in delivered if run.ended and run.admitted]
        own = dict(host.zone_s) if host is not None and self.policy == "c" else {}
        lowest = self.lowest_bytes / self.host.size_bytes
        used = (self.host.size_bytes - self.lowest_bytes) / GB
        return Outcome(
            policy=self.policy,
            seed=self.setup.seed,
            pipelines=len(runs),
            delivered=len(delivered),
            hours=round(max((s.minute for s in self._samples), default=0.0) / 60, 3),
            available_min=round(lowest, 4),
            used_max_gb=round(used, 1),
            processes_max=self._processes_max,
            zones=_shares(self._zone_s),
            own_zones=_shares(own) if own else {},
            idle_kills=self.chronicle.idle_kills,
            active_kills=self.chronicle.active_kills + self.faults.counts[OUT_OF_MEMORY],
            returns=self.chronicle.returns,
            run_minutes=tuple(round(one, 1) for one in minutes),
            violations=tuple(map(str, self.invariants.found)) if self.policy == "c" else (),
            sha256=result.sha256,
            by_then=self._by_then,
            samples=tuple(self._samples[::KEPT_EVERY]),
        )


def _shares(seconds: dict[str, float]) -> dict[str, float]:
    whole = sum(seconds.values()) or 1.0
    return {zone: round(seconds.get(zone, 0.0) / whole, 4) for zone in ZONES}


def night(policy: str, seed: int, within: World | None = None, pipelines: int = PIPELINES) -> Outcome:
    """Simulates it until the last run is over."""
    simulation = NightSimulation(seed, policy, within or world(), pipelines)
    simulation.begin()
    bound_s = simulation.bound_s()
    while not simulation.is_over() and simulation.elapsed_s < bound_s:
        simulation.tick()
    return simulation.outcome()
