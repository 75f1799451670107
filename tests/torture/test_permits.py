"""F38: permits are free again when their holders are killed, never leaked and never granted twice, on each engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LIMIT = 3

# The permit does not say in the transaction that grants it whose it is.
FORGETFUL = """
import sys
from dataclasses import replace
from dogwatch.coordination import admission
from torture import permits

permits.ask = lambda tx, launch, life: admission.ask(tx, replace(launch, process=None), life)
sys.exit(permits.main(sys.argv[1:]))
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240
    )


@pytest.mark.parametrize(("engine", "kills"), [("sqlite", 75), ("postgresql", 25)])
def test_f38_twice_the_limit_of_claimants_reaches_the_limit_exactly_under_kills(engine: str, kills: int) -> None:
    done = run("-m", "torture.permits", f"--engine={engine}", f"--kills={kills}", f"--limit={LIMIT}")
    assert done.returncode == 0, done.stdout
    seed, line = done.stdout.splitlines()
    assert seed.startswith("seed ")
    figures = json.loads(line)
    assert figures["kills"] >= kills
    assert figures["sweeps"] >= 1
    assert figures["granted"] > kills / 2
    assert figures["most at once"] == LIMIT


def test_a_gate_that_breaks_its_promise_is_found_out() -> None:
    done = run("-c", FORGETFUL, "--kills=50", f"--limit={LIMIT}", "--seed=5")
    assert done.returncode == 1, done.stdout
    assert f"VIOLATED: of {LIMIT} permits: " in done.stdout
    assert "(seed 5)" in done.stdout
