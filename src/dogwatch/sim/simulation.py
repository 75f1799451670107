"""One simulation: the crew on a virtual machine with a scenario, faults, and somebody who sees all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import IO, Any

from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Reader, Store, StoredEvent
from dogwatch.ledger.records import load
from dogwatch.model.brief import Header
from dogwatch.model.plan import Plan
from dogwatch.model.records import RunRecord
from dogwatch.model.redact import Redactor
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.berths import Berth
from dogwatch.sim.faults import OUT_OF_MEMORY, Faults
from dogwatch.sim.fragile import FragileStore
from dogwatch.sim.invariants import Invariants, Violation
from dogwatch.sim.ledger import SimLedger, SimStore
from dogwatch.sim.machine import Machine
from dogwatch.sim.memory import Shape
from dogwatch.sim.scenarios import Drawn, Scenario, Setup
from dogwatch.testing.clock import ManualClock

IDLE_MAX_S = 28.0
KERNEL_S = 5.0
"""How often the kernel looks whether memory has run out."""
UNIT_S = 60.0
"""How often the operator's unit looks whether anybody is up, as `dogwatch up` does after a reboot."""
LEAVE_S = 400.0
"""How long it may take after the last run until the whole crew has left."""
VIOLATIONS_MAX = 20
_line = json.JSONEncoder(sort_keys=True).encode


class Telling(Redactor):
    """Takes nothing out: on a machine that is not there nothing is secret, and to look for it takes a third of all
    time."""

    def text(self, text: str) -> str:
        return text

    def value(self, value: Any, depth: int = 0) -> Any:
        return value

    def suspects(self, text: str) -> bool:
        return False


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


class Simulation(Machine):
    """A machine on which things go wrong, as the seed has it."""

    def __init__(
        self,
        setup: Setup,
        scenario: Callable[[Setup, Random], Scenario] = Drawn,
        *,
        with_faults: bool = True,
        trace: IO[str] | None = None,
    ) -> None:
        clock = ManualClock()
        self._memory = SimLedger()
        super().__init__(self._store(clock), clock)
        self.setup = setup
        self.random = Random(setup.seed)  # noqa: S311 - nothing here is secret
        self.scenario = scenario(setup, self.random)
        self.host, self.settings, self.gate_s = self.scenario.host, self.scenario.settings, self.scenario.gate_s
        self.idle_max_s = IDLE_MAX_S
        self.runs: list[str] = []
        self.open_runs: list[str] = []
        self.locked_until_s = 0.0
        self.events_seen = 0
        self.lowest_bytes = self.host.left_bytes(0)
        self._waiting = len(self.scenario.starts())
        self._planned: list[tuple[float, Callable[[], None]]] = []
        self._digest = hashlib.sha256()
        self._trace = trace
        self.invariants = Invariants(self)
        self.witness = self.invariants
        self.faults = Faults(self, self.random, with_faults=with_faults)
        self.script, self.mishap = self.faults.deed, self.faults.mishap

    def _store(self, clock: ManualClock) -> SimStore:
        store = SimStore(clock, self._memory)
        store.redactor = Telling()
        return store

    # What the machine asks.

    def pace(self, agent: VirtualAgent, header: Header) -> float:
        for kind, seconds in self.scenario.subagents(agent, header):
            agent.start_subagent(kind, seconds)
        return self.faults.stretched(agent, self.scenario.pace_s(agent, header))

    def shape(self, agent: VirtualAgent) -> Shape:
        return self.scenario.shape(agent)

    def ledger_for(self, berth: Berth) -> Store:
        return FragileStore(self._store(self.clock), self)

    def crashed(self, berth: Berth, error: Exception) -> None:
        self.invariants.crashed(berth, error)

    def is_locked(self) -> bool:
        """Whether the ledger cannot be written now."""
        return self.elapsed_s < self.locked_until_s

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

    def at(self, elapsed_s: float, deed: Callable[[], None]) -> None:
        """Does it at that time since the beginning, also where the machine boots in between."""
        one = (elapsed_s, deed)
        self._planned.append(one)
        self._arm(one)

    def _arm(self, one: tuple[float, Callable[[], None]]) -> None:
        def fire() -> None:
            self._planned.remove(one)
            one[1]()

        self.later(self.now.mono + max(0.0, one[0] - self.elapsed_s), fire)

    def reboot(self) -> None:
        super().reboot()
        for one in self._planned:
            self._arm(one)

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

    def stop(self, berth: Berth) -> None:
        """The member lives and does nothing from now on."""
        berth.stopped = True
        self.pulses[berth.name, berth.run] = self.now.mono
        self.ring()

    def resume(self, berth: Berth) -> None:
        """It goes on, as if no time had passed."""
        if berth.stopped:
            berth.stopped, berth.due = False, self.now.mono

    def is_over(self) -> bool:
        """Whether all runs are cleared and the whole crew has left."""
        return not self._waiting and not self.open_runs and not self.crew

    def seen(self, event: StoredEvent) -> None:
        self.events_seen += 1
        at = event.at
        told = [event.kind, event.body, at.boot, at.mono, at.wall, event.run, event.agent, event.op_id]
        line = _line(told)
        self._digest.update(line.encode())
        if self._trace is not None:
            self._trace.write(f"{line}\n")
        super().seen(event)
        if event.kind in ("run_cleared", "run_not_cleared") and event.run in self.open_runs:
            self.open_runs.remove(event.run)

    def tell(self, name: str, what: str) -> None:
        """Something that is not recorded in the ledger: a fault, or an invariant that did not hold."""
        line = json.dumps(["fault", name, what, self.elapsed_s])
        self._digest.update(line.encode())
        if self._trace is not None:
            self._trace.write(f"{line}\n")

    def result(self) -> Result:
        """What has come of it so far."""

        def read(reader: Reader) -> list[RunRecord | None]:
            return [load(reader, RunRecord, f"run/{run}") for run in self.runs]

        return Result(
            setup=self.setup,
            sha256=self._digest.hexdigest(),
            virtual_s=self.elapsed_s,
            steps=self.steps,
            events=self.events_seen,
            runs={record.run: record.state for record in self.ledger.read(read) if record is not None},
            faults=dict(sorted(self.faults.counts.items())),
            violations=list(self.invariants.found),
        )
