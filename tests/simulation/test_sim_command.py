"""`dogwatch sim` as an operator has it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dogwatch.cli import main
from dogwatch.sim import seeds
from dogwatch.sim.invariants import Violation
from dogwatch.sim.scenarios import Setup
from dogwatch.sim.simulation import Result
from support.helpers import wait_for

SHORT = ("--hours", "0.3", "--runs", "1", "--agents", "2")


def test_a_seed_that_holds_is_told_with_its_digest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seed", "3", *SHORT]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^sha256   [0-9a-f]{64}$", told, re.MULTILINE)
    assert "seeds    1, 0 failed" in told
    assert "times real time" in told


def test_the_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seed", "3", "--json", *SHORT]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["seeds"], told["failed"]) == (1, [])
    assert len(told["sha256"]) == 64
    assert told["virtual_s"] > 0


def test_the_trace_is_the_stream_of_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace"
    assert main(["sim", "--seed", "3", "--trace", str(path), *SHORT]) == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {"run_created", "agent_spawned", "run_ended"} <= {line[0] for line in lines}
    assert main(["sim", "--trace", str(tmp_path), *SHORT]) == 64
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["--seeds", "0"], ["--jobs", "0"], ["--runs", "-1"], ["--hours", "0"], ["--seeds", "2", "--trace", "f"]],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", *words]) == 64
    assert "error: --" in capsys.readouterr().err


def broken(setup: Setup) -> Result:
    """What a seed would give that breaks an invariant; 5 does."""
    found = [Violation("no_task_is_lost", "task/sim-1/x is gone", 12.5)] if setup.seed == 5 else []
    counts: Mapping[str, int] = {"hang": 1}
    return Result(
        setup=setup,
        sha256="0" * 64,
        virtual_s=60.0,
        steps=1,
        events=1,
        runs={"sim-1": "COMPLETED"},
        faults=dict(counts),
        violations=found,
    )


def test_a_seed_that_fails_is_one_line_that_does_the_same_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(seeds, "simulate", broken)
    assert main(["sim", "--seed", "4", "--seeds", "3", "--runs", "3", "--hours", "2"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "dogwatch sim --seed 5 --runs 3 --hours 2  # no_task_is_lost at 12.5 s: task/sim-1/x is gone"
    assert told[1] == "seeds    3, 1 failed"
    assert main(["sim", "--seed", "4", "--seeds", "3", "--json"]) == 1
    (failed,) = json.loads(capsys.readouterr().out)["failed"]
    assert failed["command"] == "dogwatch sim --seed 5"
    assert failed["violations"][0]["name"] == "no_task_is_lost"


def test_an_interrupt_ends_it_with_the_summary_so_far() -> None:
    """On a terminal, with a progress bar, in the middle of many seeds on two jobs."""
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "dogwatch", "sim", "--seeds", "100000", "--jobs", "2", *SHORT]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=follower, start_new_session=True)
    os.close(follower)
    try:
        shown = bytearray()

        def is_under_way() -> bool:
            shown.extend(os.read(leader, 4096))
            return re.search(rb"\] [1-9]\d* of 100000 seeds", shown) is not None

        wait_for(is_under_way, 120, "the progress bar")
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
        os.close(leader)
    assert process.returncode == 130
    assert re.search(rb"^seeds    [1-9]\d*, \d+ failed$", told, re.MULTILINE)
