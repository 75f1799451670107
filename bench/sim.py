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
from dogwatch.crew.log import Log
from dogwatch.crew.queueing import Going, Outlook, admit_runs
from dogwatch.ledger.api import Store, Tx
from dogwatch.ledger.records import load_all, save
from dogwatch.model.admission import Launch, MemoryProfile, PermitRecord, QueuedRun
from dogwatch.model.brief import Header
from dogwatch.model.memory import GB, AgentMemory, HostRecord, HostSettings, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Gate, Limits, Output, Phase, Plan, Role
from dogwatch.model.records import RunRecord
from dogwatch.policy.admission import first
from dogwatch.policy.forecast import ALL, by_key, run_forecast
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

QUEUED, ADMITTED, GROUPS = 1000, 8, 20
COST_MAX = 3.0
ROUNDS = 200
PASSES = 15
NOW = Moment("boot", 100_000.0, 1_700_000_000.0)


def measure() -> Sequence[Figure]:
    """The speed of the simulator, and the cost of admission."""
    return [_simulating(), _admitting()]


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
    writers, reviewer = Role(name="writer", harness="scripted", count=agents - 1), Role(name="judge", harness="scripted")
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


def _admitting() -> Figure:
    """Who of a long queue is next, and whether it fits beside those that were let in: against sorting the queue."""
    queue, going, outlook, host = _situation()
    spent: dict[str, list[float]] = {"decision": [], "sorting": []}
    for _ in range(ROUNDS):
        fresh = replace(outlook, going=list(outlook.going), _made={})
        spent["decision"].append(_time(lambda fresh=fresh: _decide(queue, going, fresh, host)))  # type: ignore[misc]
        spent["sorting"].append(_time(lambda: sorted(queue, key=lambda one: one.number)))
    passes, reads = _passes()
    return Figure(
        name=f"admission with {QUEUED:,} runs in the queue against sorting them",
        value=median(spent["decision"]) / median(spent["sorting"]),
        unit="x",
        target=COST_MAX,
        times_ms={
            "who is next, and does it fit": spent["decision"],
            "sorting the queue": spent["sorting"],
            "a whole pass on the ledger": passes,
            "reading the queue from the ledger and sorting it": reads,
        },
    )
