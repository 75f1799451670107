"""Simulating and admitting: how much faster than the real time a fleet is simulated, and what a long queue costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from random import Random
from statistics import median

from bench.harness import Figure, scratch
from dogwatch.coordination.ledgers import open_home_ledger
from dogwatch.coordination.runs import create_run
from dogwatch.crew.dispatcher.queueing import admit_runs
from dogwatch.crew.shared.log import Log
from dogwatch.ledger.api import Store, Tx
from dogwatch.ledger.records import load_all, save
from dogwatch.model import keys
from dogwatch.model.admission import Launch, MemoryProfile, PermitRecord, QueuedRun
from dogwatch.model.brief import Header
from dogwatch.model.memory import GB, HostRecord, HostSettings, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Gate, Limits, Output, Phase, Plan, Role
from dogwatch.policy.admission import first
from dogwatch.policy.forecast import ALL
from dogwatch.policy.zones import room_bytes
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.memory import Host, Shape
from dogwatch.sim.scenarios import NOTIFY, Scenario, Setup, Start
from dogwatch.sim.simulation import Simulation
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home

RUNS, AGENTS = 10, 10
SPEED_MIN = 1000.0
SEEDS = (1, 2, 3)
PHASES = 4
TASK_S = 450.0
"""With this a run takes two and a half hours, as pipelines of that size are known to."""
HOUR_S = 3600.0

QUEUED, ADMITTED = 1000, 8
COST_MAX = 3.0
ROUNDS = 200
PASSES = 15
NOW = Moment("boot", 100_000.0, 1_700_000_000.0)


def measure() -> Sequence[Figure]:
    """The speed of the simulator, and the cost of admission."""
    return [_simulating(), _next(), _passes()]


def _simulating() -> Figure:
    calm = [_simulate(seed, with_faults=False) for seed in SEEDS]
    faulty = [_simulate(seed, with_faults=True) for seed in SEEDS]
    return Figure(
        name=f"{RUNS * AGENTS} agents in {RUNS} runs: virtual time against the time of one core",
        value=HOUR_S * 1000 / median(calm),
        unit="x",
        target=SPEED_MIN,
        comparison=">=",
        times_ms={"one virtual hour": calm, "one virtual hour with faults": faulty},
    )


def _simulate(seed: int, *, with_faults: bool) -> float:
    """The milliseconds of one core that a virtual hour takes, from the first run to the end of the last."""
    setup = Setup(seed=seed, runs=RUNS, agents=AGENTS, hours=12)
    simulation = Simulation(setup, Pipelines, with_faults=with_faults)
    begin = time.process_time()
    result = simulation.run()
    spent_ms = (time.process_time() - begin) * 1000
    assert not result.violations, result.violations
    assert len(result.runs) == RUNS
    assert with_faults or set(result.runs.values()) == {"COMPLETED"}
    assert result.virtual_s >= HOUR_S
    return spent_ms / (result.virtual_s / HOUR_S)


class Pipelines(Scenario):
    """Pipelines in which everybody but the reviewer writes a part, one of them makes a whole of these, that is reviewed
    and goes through a gate; and the same in the next phase. Some start sub-agents."""

    host = Host(size_bytes=512 * GB)
    settings = HostSettings(parallel=0, wave=0)

    def __init__(self, setup: Setup, random: Random) -> None:
        self._random = random
        self._starts = [Start(after_s=20.0 * number, plan=pipeline(setup.agents)) for number in range(setup.runs)]

    def starts(self) -> Sequence[Start]:
        return self._starts

    def pace_s(self, agent: VirtualAgent, header: Header) -> float:
        usual_s = TASK_S if header.kind in ("dispatch", "nudge", "offer") else TASK_S / 3
        return usual_s * self._random.lognormvariate(0.0, 0.5)

    def shape(self, agent: VirtualAgent) -> Shape:
        return Shape(full_bytes=int(GB * self._random.uniform(1.5, 2.5)))

    def subagents(self, agent: VirtualAgent, header: Header) -> Sequence[tuple[str, float]]:
        if header.kind != "dispatch" or self._random.random() > 0.3:
            return ()
        number = self._random.randint(1, 3)
        return [(self._random.choice(("explorer", "tester")), self._random.uniform(10, 60)) for _ in range(number)]


def pipeline(agents: int) -> Plan:
    """A pipeline of so many agents, one of them a reviewer."""
    writers, reviewer = (
        Role(name="writer", harness="scripted", count=agents - 1),
        Role(name="judge", harness="scripted"),
    )
    return Plan(
        name="bench",
        roles=(writers, reviewer),
        phases=tuple(_phase(f"p{number}") for number in range(PHASES)),
        deliverable=ByteCheck(path=f"p{PHASES - 1}.md"),
        notify=NOTIFY,
        limits=Limits(deadline_s=12 * HOUR_S, run_quiet_s=3 * HOUR_S),
    )


def _phase(name: str) -> Phase:
    parts = Dispatch(
        name=f"{name}-parts",
        to="writer",
        address="all",
        task="Write.",
        outputs=(Output(path=f"{name}-{{agent}}.md"),),
        expect_s=4 * TASK_S,
    )
    whole = replace(
        parts, name=f"{name}-whole", address="any", outputs=(Output(path=f"{name}.md"),), after=(parts.name,)
    )
    review = Checkpoint(
        name=f"{name}-review", artifact=f"{name}.md", author=whole.name, reviewers=("judge",), rounds_max=3
    )
    gate = Gate(name=f"{name}-gate", command=("make", "check"))
    return Phase(name=name, dispatches=(parts, whole), checkpoints=(review,), gates=(gate,))


def _next() -> Figure:
    """Who of a long queue is next, by what was read already."""
    queue = sorted((_queued(number) for number in range(1, QUEUED + 1)), key=lambda one: one.key)
    launches = [Launch(kind="run", holder=f"run:g{number}", group=f"g{number % 4}") for number in range(ADMITTED)]
    going = [PermitRecord(host="", launch=launch, granted=NOW) for launch in launches]
    spent: dict[str, list[float]] = {"next": [], "sorted": []}
    for _ in range(ROUNDS):
        spent["next"].append(_time(lambda: first(queue, going)))
        spent["sorted"].append(_time(lambda: sorted(queue, key=lambda one: one.number)))
    found = first(queue, going)
    # Those of the first groups have to wait for their own.
    assert found is not None
    assert found.number == 5
    return Figure(
        name=f"which of {QUEUED:,} queued runs is next, against sorting them",
        value=median(spent["next"]) / median(spent["sorted"]),
        unit="x",
        target=COST_MAX,
        times_ms={"the next": spent["next"], "sorting": spent["sorted"]},
    )


def _queued(number: int) -> QueuedRun:
    return QueuedRun(run=f"bench-{number}", number=number, group=f"g{number - 1}" if number <= 4 else "", ceiling=2)


def _passes() -> Figure:
    """The dispatcher's whole pass, with the forecast of all that were let in: it looks, the next one does not fit, and
    nothing changes."""
    clock = SystemClock()
    spent: dict[str, list[float]] = {"pass": [], "sorted": []}
    with scratch() as folder, closing(open_home_ledger(Home(f"{folder}/h"), clock)) as ledger:
        host = ledger.run(_fill)
        lease = ledger.run(lambda tx: tx.acquire("dispatcher/", "bench", HOUR_S))
        assert lease is not None
        log = Log("dispatcher", "", write=lambda line: None)

        def look() -> None:
            admit_runs(ledger, lease, lambda process: "alive", host, clock.now(), log)

        look()
        for _ in range(PASSES):
            spent["pass"].append(_time(look))
            spent["sorted"].append(_time(lambda: _read_sorted(ledger)))
        permits = ledger.read(lambda reader: reader.keys(keys.permits(reader.host, "run")))
        assert len(permits) == ADMITTED, permits
        assert len(_read_sorted(ledger)) == QUEUED
    return Figure(
        name=f"a whole pass of admission with {QUEUED:,} runs in the queue, against reading and sorting them",
        value=median(spent["pass"]) / median(spent["sorted"]),
        unit="x",
        target=COST_MAX,
        times_ms={"one pass": spent["pass"], "reading and sorting": spent["sorted"]},
    )


def _fill(tx: Tx) -> HostRecord:
    """Runs in the queue on a machine that has room for some of them, by what was learnt."""
    plan = pipeline(AGENTS)
    for _ in range(ADMITTED + QUEUED):
        create_run(tx, plan, "/project", "/out", "/pipeline.yaml")
    each = 2 * GB
    for role in plan.roles:
        save(tx, MemoryProfile(harness=role.harness, pipeline=plan.name, role=role.name, peaks={ALL: (each,) * 20}))
    host = HostRecord(
        host=tx.host, at=tx.now, since=tx.now, readings=Readings(size_bytes=1024 * GB, left_bytes=1024 * GB)
    )
    too_much = room_bytes(host) - (ADMITTED + 0.8) * AGENTS * each
    return save(tx, replace(host, readings=replace(host.readings, left_bytes=int(1024 * GB - too_much))))


def _read_sorted(ledger: Store) -> list[QueuedRun]:
    return sorted(ledger.read(lambda reader: load_all(reader, QueuedRun, "queued/")), key=lambda one: one.number)


def _time(deed: Callable[[], object]) -> float:
    begin = time.perf_counter()
    deed()
    return (time.perf_counter() - begin) * 1000
