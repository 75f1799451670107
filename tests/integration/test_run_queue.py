"""A queue of real runs: one at a time, withdrawn, interrupted, and started again with the same prefix."""

from __future__ import annotations

import json
import signal
from typing import Any

from dogwatch.model.records import RunRecord
from support.fleet import Fleet

QUICK: dict[str, Any] = {"work_s": 0.1}
UNTIL_GO = {"tool": {"command": ["sh", "-c", 'until test -e "$DOGWATCH_PROJECT/go"; do sleep 0.1; done']}}
HELD: dict[str, Any] = {**QUICK, "rules": [{"on": "dispatch", "do": [UNTIL_GO, "continue"]}]}


def files(fleet: Fleet) -> list[str]:
    """Two pipelines; the second one's agent waits for a file."""
    paths = []
    for name, scenario in (("swift", QUICK), ("slow", HELD)):
        output = {"path": "draft.md", "kind": "report"}
        dispatch = {"name": "draft", "to": f"{name}-writer", "task": "Write it.", "outputs": [output]}
        text = {
            "name": name,
            "roles": {},
            "phases": [{"name": "draft", "dispatches": [dispatch]}],
            "deliverable": {"path": "draft.md"},
        }
        path = fleet.spec(text, {f"{name}-writer": scenario})
        paths.append(str(path.rename(path.with_name(f"{name}.yaml"))))
    return paths


def run_of(fleet: Fleet, name: str) -> RunRecord:
    return fleet.view(name).run


def test_what_is_delivered_stays_done_when_a_queue_is_interrupted_and_started_again(fleet: Fleet) -> None:
    words = ["run", *files(fleet), "--rounds", "2", "--prefix", "ct", "--parallel", "1"]
    first = fleet.start(*words)
    fleet.wait_event("message_delivered", "slow-writer")
    assert run_of(fleet, "ct-t1-r1").state == "COMPLETED"
    shown = {run["run"]: run for run in json.loads(fleet.cli("status", "--json").stdout)["runs"]}
    assert [shown[name]["queued"] for name in ("ct-t2-r1", "ct-t1-r2", "ct-t2-r2")] == [False, True, True]
    assert shown["ct-t1-r2"]["waits_for"] == "no more than 1 of its group may run at once"
    assert "QUEUED" in fleet.cli("status").stdout
    assert fleet.cli("kill", "ct-t2-r2").stdout == "ct-t2-r2: ended\n"
    assert (run_of(fleet, "ct-t2-r2").cause, run_of(fleet, "ct-t2-r2").admitted) == ("killed by the operator", None)

    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 130
    assert (run_of(fleet, "ct-t2-r1").state, run_of(fleet, "ct-t1-r2").admitted) == ("FAILED", None)
    assert run_of(fleet, "ct-t1-r2").cause == "interrupted by the operator"

    refused = fleet.cli(*words, "--set", "limits.deadline_s=100", check=False)
    assert (refused.returncode, "another --prefix" in refused.stderr) == (77, True), refused.stderr
    names = ["ct-t2-r1-2", "ct-t1-r2-2", "ct-t2-r2-2"]
    assert fleet.cli(*words, "--detach").stdout.split() == names
    (fleet.project / "go").touch()
    again = fleet.cli(*words)
    lines = again.stdout.splitlines()
    assert lines[-1] == "delivered 4/4"
    assert [line.split()[:2] for line in lines[1:8]] == [
        ["ct-t1-r1", "COMPLETED"],
        ["ct-t2-r1", "FAILED"],
        ["ct-t2-r1-2", "COMPLETED"],
        ["ct-t1-r2", "FAILED"],
        ["ct-t1-r2-2", "COMPLETED"],
        ["ct-t2-r2", "FAILED"],
        ["ct-t2-r2-2", "COMPLETED"],
    ]
    assert [line.endswith("done before") for line in lines[1:3]] == [True, False]
    assert all(f"{name}: " in again.stderr for name in names)
    assert len(fleet.events("run_created")) == 7

    told = json.loads(fleet.cli("status", "--prefix", "ct", "--json").stdout)
    assert (told["delivered"], told["of"], len(told["runs"])) == (4, 4, 7)
    assert told["runs"][0]["artifacts"] == {"report": 1}
    assert sum(told["zones"].values()) > 0.99
    going = 0
    for event in fleet.events():
        going += (event.kind == "run_admitted") - (event.kind == "run_cleared" and event.body["processes"] > 0)
        assert going in (0, 1), fleet.tail()
