"""One simulation: the crew on a virtual machine with a scenario, faults, and somebody who sees all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import IO

from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Reader
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.brief import Header
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.berths import Berth
from dogwatch.sim.faults import OUT_OF_MEMORY, Faults
from dogwatch.sim.faulty import FaultyMachine
from dogwatch.sim.invariants import Invariants, Violation
from dogwatch.sim.memory import Shape
from dogwatch.sim.scenarios import Drawn, Scenario, Setup

IDLE_MAX_S = 28.0
KERNEL_S = 5.0
"""How often the kernel looks whether memory has run out."""
UNIT_S = 60.0
"""How often the operator's unit looks whether anybody is up, as `dogwatch up` does after a reboot."""
LEAVE_S = 400.0
"""How long it may take after the last run until the whole crew has left."""
VIOLATIONS_MAX = 20


@dataclass(kw_only=True)
class Result:
    """What came of one simulation."""

    setup: Setup
    sha256: str
    virtual_s: float
    steps: int
    events: int
    runs: dict[str, str]
    faults: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)


class Simulation(FaultyMachine):
    """A machine on which things go wrong as the seed has it, and somebody who sees all of it."""

    def __init__(
        self,
        setup: Setup,
        scenario: Callable[[Setup, Random], Scenario] = Drawn,
        *,
        with_faults: bool = True,
        trace: IO[str] | None = None,
    ) -> None:
        super().__init__(setup, trace)
        self.random = Random(setup.seed)  # noqa: S311 - nothing here is secret
        self.scenario = scenario(setup, self.random)
        self.host, self.settings, self.gate_s = self.scenario.host, self.scenario.settings, self.scenario.gate_s
        self.idle_max_s = IDLE_MAX_S
        self.lowest_bytes = self.host.left_bytes(0)
        self._waiting = len(self.scenario.starts())
        self.invariants = Invariants(self)
        self.witness = self.invariants
        self.faults = Faults(self, self.random, self.invariants.ordered, with_faults=with_faults)
        self.script, self.mishap = self.faults.deed, self.faults.mishap

    # What the machine asks.

    def pace(self, agent: VirtualAgent, header: Header) -> float:
        for kind, seconds in self.scenario.subagents(agent, header):
            agent.start_subagent(kind, seconds)
        return self.faults.stretched(agent, self.scenario.pace_s(agent, header))

    def shape(self, agent: VirtualAgent) -> Shape:
        return self.scenario.shape(agent)

    def crashed(self, berth: Berth, error: Exception) -> None:
        self.invariants.crashed(berth, error)

    # What happens.

    def run(self) -> Result:
        """Everything, until nothing is left or the time is over."""
        self.begin()
        while not self.is_over() and self.elapsed_s < self.bound_s() and len(self.invariants.found) < VIOLATIONS_MAX:
            self.tick()
        if self.is_over() and self.invariants.leftovers():
            # A dispatcher that was killed after the last run could not tidy up: the next one does.
            self.man("dispatcher", "")
            while self.crew and self.elapsed_s < self.bound_s() + LEAVE_S:
                self.tick()
        self.invariants.finish()
        return self.result()

    def bound_s(self) -> float:
        """When everything must be over: each run may wait for all before it. After a reboot only the wall clock tells
        how old a run is, and that may have been set back."""
        starts = self.scenario.starts()
        return starts[-1].after_s + (len(starts) + 1) * (self.setup.hours * 3600 + LEAVE_S) + self.faults.set_back_s

    def begin(self) -> None:
        """Makes the runs, and lets the faults come."""
        for start in self.scenario.starts():
            self.at(start.after_s, partial(self._create, start.plan))
        self._keep_up()
        self._reap()
        self.faults.begin()

    def _create(self, plan: Plan) -> None:
        self._add(self.ledger.run(lambda tx: create_run(tx, plan, "/project", "/out", "/pipeline.yaml")))

    def _add(self, run: RunRecord) -> None:
        """One more run was made."""
        self.runs.append(run.run)
        self.open_runs.append(run.run)
        self._waiting -= 1
        self._rise()
        self.ring()

    def _keep_up(self) -> None:
        """The operator's unit, which starts a dispatcher where nobody is up and something is to be done."""
        self._rise()
        self.at(self.elapsed_s + UNIT_S, self._keep_up)

    def _rise(self) -> None:
        if self.open_runs and not any(berth.name in ("dispatcher", "captain") for berth in self.crew):
            self.man("dispatcher", "")

    def _reap(self) -> None:
        """The kernel: where memory has run out, it takes the largest agent."""
        used = self.used_bytes()
        self.lowest_bytes = min(self.lowest_bytes, self.host.left_bytes(used))
        while self.host.swap_free_bytes(used) < 0:
            living = [one for one in self.clients.values() if one.lives]
            if not living:
                break
            largest = max(living, key=lambda one: one.rss_bytes())
            self.faults.count(OUT_OF_MEMORY, largest.key)
            self.kill(largest.process)
            used = self.used_bytes()
        self.at(self.elapsed_s + KERNEL_S, self._reap)

    def is_over(self) -> bool:
        """Whether all runs are cleared and the whole crew has left."""
        return not self._waiting and not self.open_runs and not self.crew

    def result(self) -> Result:
        """What has come of it so far."""

        def read(reader: Reader) -> list[RunRecord | None]:
            return [load(reader, RunRecord, keys.run(run)) for run in self.runs]

        return Result(
            setup=self.setup,
            sha256=self.sha256,
            virtual_s=self.elapsed_s,
            steps=self.steps,
            events=self.events_seen,
            runs={record.run: record.state for record in self.ledger.read(read) if record is not None},
            faults=dict(sorted(self.faults.counts.items())),
            violations=list(self.invariants.found),
        )
