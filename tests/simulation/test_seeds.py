"""A few hundred short seeds: whatever goes wrong on the virtual machine, the invariants hold."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dogwatch.sim.faults import FAULTS, OUT_OF_MEMORY
from dogwatch.sim.invariants import INVARIANTS
from dogwatch.sim.scenarios import Setup
from dogwatch.sim.seeds import Summary, simulate, simulate_all
from dogwatch.sim.simulation import Simulation

CHUNK = 20
CHUNKS = 10
HOURS = 0.3


def short(seed: int) -> Setup:
    return Setup(seed=seed, hours=HOURS)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_invariant_holds_for_these_seeds(chunk: int) -> None:
    summary = Summary()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        summary.add(simulate(short(seed)))
    told = [f"{result.setup.command}  # {violation}" for result in summary.failed for violation in result.violations]
    assert not told, "\n".join(told)
    assert summary.runs["COMPLETED"] > CHUNK / 4, "most of what is simulated must come to something"
    assert len(summary.faults) > 10, "a chunk in which hardly anything goes wrong proves nothing"


REGRESSIONS = (
    (
        Setup(seed=390),
        "a reviewer is asked whose start has just failed; a heartbeat of an earlier boot",
    ),
)


@pytest.mark.parametrize("setup", [setup for setup, _ in REGRESSIONS], ids=lambda setup: f"seed-{setup.seed}")
def test_seeds_that_have_failed_once_hold(setup: Setup) -> None:
    assert [str(violation) for violation in simulate(setup).violations] == []


def test_the_same_seed_gives_the_same_events_to_the_byte() -> None:
    setups = [short(seed) for seed in (3, 19)]
    first, again = ([result.sha256 for result in simulate_all(setups)] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(setups), "other seeds give other events"


def test_several_jobs_give_the_same_as_one() -> None:
    setups = [short(seed) for seed in range(40, 44)]
    alone = [(result.setup.seed, result.sha256) for result in simulate_all(setups)]
    shared = [(result.setup.seed, result.sha256) for result in simulate_all(setups, jobs=2)]
    assert shared == alone


def test_the_order_of_sets_changes_nothing() -> None:
    """Python orders sets of text differently in each process, unless it is told not to."""
    program = (
        "from dogwatch.sim.scenarios import Setup\n"
        "from dogwatch.sim.seeds import simulate\n"
        f"print(*(simulate(Setup(seed=seed, hours={HOURS})).sha256 for seed in (5, 19)))\n"
    )
    found = set()
    for number in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": number}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        found.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(found) == 1


def test_without_faults_every_run_is_completed() -> None:
    states: Counter[str] = Counter()
    for seed in range(10):
        result = Simulation(Setup(seed=seed, hours=2), with_faults=False).run()
        assert [str(violation) for violation in result.violations] == []
        assert set(result.faults) <= {OUT_OF_MEMORY}
        states.update(result.runs.values())
    assert set(states) == {"COMPLETED"}


def test_every_fault_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(fault.what and fault.rate > 0 for fault in FAULTS)


def test_the_docs_have_every_fault_and_every_invariant() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    for fault in FAULTS:
        assert re.search(rf"^\| `{fault.name}` \| {fault.rate:g} .*\| {re.escape(fault.what)} \|$", text, re.MULTILINE)
    for name, sentence in INVARIANTS.items():
        assert f"| `{name}` | {sentence} |" in text
