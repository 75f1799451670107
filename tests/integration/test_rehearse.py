"""A rehearsal as a run: its model lives as long as it, whoever is killed, and the user's project is left alone."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from dogwatch.model.process import ProcessId
from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for


def answers(port: int) -> bool:
    """Whether somebody serves there."""
    with socket.socket() as client:
        client.settimeout(10)
        return client.connect_ex(("127.0.0.1", port)) == 0


def models(fleet: Fleet, run: str) -> list[ProcessId]:
    """The scripted models that were started for the run, oldest first."""
    path = Path(fleet.home.model(run), "starts")
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [ProcessId(row[0], int(row[1]), int(row[2])) for row in rows]


def test_the_model_lives_as_long_as_the_run_and_a_rehearsal_leaves_no_trace_in_the_project(fleet: Fleet) -> None:
    go = fleet.base / "go"
    text = one_task()
    text["phases"][0]["gates"] = [{"name": "go", "command": ["sh", "-c", f"until test -e {go}; do sleep 0.05; done"]}]
    spec = fleet.spec(text, {"writer": {"work_s": 0.1}})
    before = sorted(os.listdir(fleet.project))
    run = fleet.launch(spec, "--rehearse")
    stage = fleet.view(run).run.stage
    assert stage is not None
    fleet.wait_event("gate_started")
    (first,) = wait_for(lambda: models(fleet, run), 60, "the model")
    wait_for(lambda: answers(stage.port), 60, "the model's port")
    captain = fleet.crew("captain", run)
    assert captain is not None
    fleet.kill(captain)
    fleet.kill(first)
    wait_for(lambda: len(models(fleet, run)) > 1 and answers(stage.port), 60, fleet.tail)
    assert "(a rehearsal)" in fleet.cli("status", run).stdout
    go.touch()
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    assert not answers(stage.port)
    assert not fleet.leftovers([run])
    assert sorted(os.listdir(fleet.project)) == before
    assert Path(view.run.output).is_relative_to(stage.folder)
    assert fleet.ledger.read(lambda reader: reader.get("history/t/writer")) is None
    assert fleet.wait_event("run_created").body["rehearsal"] is True


def test_a_program_that_is_no_client_holds_nothing_and_leaves_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fleet.base / "claude"
    program.write_text("#!/bin/sh\necho 9.9.9\n")
    program.chmod(stat.S_IRWXU)
    temporary = fleet.base / "t"
    temporary.mkdir()
    words = ("harness", "check", "claude", "--program", str(program), "--json")
    monkeypatch.setenv("TMPDIR", str(temporary))
    done = fleet.cli(*words, check=False)
    (verdict,) = json.loads(done.stdout)
    assert done.returncode == 1
    assert (verdict["version"], verdict["differs"], verdict["holds"]) == ("9.9.9", "newer", False)
    assert [check["result"] for check in verdict["checks"]][:2] == ["does not hold", "not tried"]
    assert os.listdir(temporary) == []
