"""Steps that cannot be made are tried so many times and no more: every run ends, with a cause that says what it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dogwatch.model.keys import alerts_queue
from faults.pipelines import PLAIN, one_task
from support.fleet import Fleet
from support.helpers import wait_for

LOSE_OUTPUT = {"name": "lose", "command": ["sh", "-c", "folder=$PWD; cd .. && mv $folder gone && touch $folder"]}
KILL_KEEPER = ["sh", "-c", "read -r _ _ _ keeper _ </proc/$PPID/stat; echo ran >>../ran; kill -9 $keeper"]


def gated(*gates: dict[str, Any]) -> dict[str, Any]:
    text = one_task()
    text["phases"][0]["gates"] = list(gates)
    return text


def captain_log(fleet: Fleet, run: str) -> str:
    path = Path(fleet.home.log("captain", run))
    return path.read_text() if path.exists() else ""


def test_a_run_whose_output_folder_became_a_file_ends_with_that_cause(fleet: Fleet) -> None:
    run = fleet.launch(fleet.spec(gated(LOSE_OUTPUT, {"name": "lint", "command": ["true"]}), {"writer": PLAIN}))
    view = fleet.wait_over(run, 120)
    assert view.run.state == "FAILED"
    assert f"out/{run}" in view.run.cause, f"the cause does not say what was wrong: {view.run.cause}"
    assert not fleet.events("crew_lost"), "no crash loop"
    assert len(captain_log(fleet, run).splitlines()) < 100
    wait_for(lambda: not fleet.leftovers([run]), 30, "nothing left of the run")


def test_a_run_whose_steps_cannot_be_made_can_still_be_killed(fleet: Fleet) -> None:
    stays = {"work_s": 0.3, "rules": [{"on": "dispatch", "do": [{"wait": 600}]}]}
    run = fleet.launch(fleet.spec(one_task(), {"writer": stays}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    # An alert that is none: whoever settles it fails, in every step.
    fleet.ledger.run(lambda tx: tx.push(alerts_queue(run), {"agent": "writer"}))
    wait_for(lambda: "step_failed" in captain_log(fleet, run), 60, fleet.tail)
    fleet.cli("kill", run)
    view = fleet.view(run)
    assert (view.run.state, view.run.cause) == ("FAILED", "killed by the operator")
    assert fleet.leftovers([run]) == []


def test_a_run_whose_project_folder_vanished_ends_with_a_cause(fleet: Fleet) -> None:
    elsewhere = fleet.base / "elsewhere"
    elsewhere.mkdir()
    waits = {"work_s": 0.3, "rules": [{"on": "dispatch", "incarnation": 1, "do": [{"wait": 600}]}]}
    spec = fleet.spec(one_task(limits={"restarts_max": 1}), {"writer": waits})
    run = fleet.launch(spec, "--project", str(elsewhere))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    elsewhere.rename(fleet.base / "gone")
    elsewhere.touch()
    process = fleet.view(run).agents["writer"].process
    assert process is not None
    fleet.kill(process)
    view = fleet.wait_over(run, 120)
    assert view.run.state == "FAILED"
    assert view.run.cause
    assert not fleet.events("crew_lost")
    wait_for(lambda: not fleet.leftovers([run]), 30, "nothing left of the run")


def test_a_gate_whose_keeper_is_killed_again_and_again_fails_with_that_reason(fleet: Fleet) -> None:
    run = fleet.launch(fleet.spec(gated({"name": "lint", "command": KILL_KEEPER}), {"writer": PLAIN}))
    view = fleet.wait_over(run, 120)
    assert view.run.state == "FAILED"
    assert view.run.cause == "gate lint failed: it did not come to an end in 10 attempts"
    assert len((fleet.project / "out" / "ran").read_text().splitlines()) == 10
    assert [e.body["attempt"] for e in fleet.events("gate_started")] == list(range(1, 11))
    assert not fleet.events("gate_passed")
    assert not fleet.events("phase_ended")


def test_a_gate_whose_keeper_is_killed_once_is_run_again_and_counts(fleet: Fleet) -> None:
    once = ["sh", "-c", f"test -e ../ran || {{ {KILL_KEEPER[2]}; }}"]
    run = fleet.launch(fleet.spec(gated({"name": "lint", "command": once}), {"writer": PLAIN}))
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [(e.body["attempt"], e.body["exit_code"]) for e in fleet.events("gate_passed")] == [(2, 0)]


def test_a_run_whose_outputs_can_go_nowhere_is_refused_and_nothing_is_made(fleet: Fleet) -> None:
    (fleet.project / "out").write_text("a file of the user's")
    done = fleet.cli("run", str(fleet.spec(one_task(), {"writer": PLAIN})), check=False)
    assert done.returncode == 64
    assert "out" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not os.path.exists(fleet.home.path)
    assert (fleet.project / "out").read_text() == "a file of the user's"


@pytest.mark.parametrize("command", [["run", "pipeline.yaml"], ["run", "pipeline.yaml", "--detach"]])
def test_without_tmux_a_run_is_refused_before_anything_is_started(fleet: Fleet, command: list[str]) -> None:
    fleet.spec(one_task(), {"writer": PLAIN})
    empty = fleet.base / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "dogwatch", *command],
        env={**fleet.environment, "PATH": str(empty)},
        cwd=fleet.project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 69
    assert "tmux" in done.stderr
    assert "hint: " in done.stderr
    assert not os.path.exists(fleet.home.path)
    assert not (fleet.project / "out").exists()
