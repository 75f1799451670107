"""Many seeds, on one core or several: each is a simulation of its own, and gives the same wherever it runs."""

from __future__ import annotations

import ctypes
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from dogwatch.sim.scenarios import Setup
from dogwatch.sim.simulation import Result, Simulation

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
AHEAD = 4
"""How many seeds wait for each job: results come one by one, and nothing is planned that may never be needed."""


def simulate(setup: Setup) -> Result:
    """One seed."""
    return Simulation(setup).run()


def simulate_all(setups: Sequence[Setup], jobs: int = 1) -> Iterator[Result]:
    """All of them, in their order. Who stops asking stops the simulations too."""
    if jobs <= 1:
        yield from map(simulate, setups)
        return
    with ProcessPoolExecutor(jobs, initializer=leave_interrupts_alone) as pool:
        left = iter(setups)
        going: list[Future[Result]] = []
        try:
            while True:
                with suppress(StopIteration):
                    while len(going) < jobs * AHEAD:
                        going.append(pool.submit(simulate, next(left)))
                if not going:
                    return
                yield going.pop(0).result()
        finally:
            for one in going:
                one.cancel()


def leave_interrupts_alone() -> None:
    """Ctrl-C is for the process that has started the jobs; when that is killed, so is this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


@dataclass
class Summary:
    """What came of many seeds."""

    seeds: int = 0
    virtual_s: float = 0.0
    steps: int = 0
    events: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """One more."""
        self.seeds += 1
        self.virtual_s += result.virtual_s
        self.steps += result.steps
        self.events += result.events
        self.runs.update(result.runs.values())
        self.faults.update(result.faults)
        if result.violations:
            self.failed.append(result)
