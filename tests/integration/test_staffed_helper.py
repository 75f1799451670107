"""An agent that the plan does not name, on a real machine: in a session of its run, in the registry, and gone after."""

from __future__ import annotations

import json
from pathlib import Path

from dogwatch.coordination.staffing import staff
from dogwatch.ledger.records import load_run
from dogwatch.world.processes import life
from support.fleet import Fleet
from support.helpers import wait_for

UNTIL_GO = {"tool": {"command": ["sh", "-c", 'until test -e "$DOGWATCH_PROJECT/go"; do sleep 0.1; done']}}


def test_a_helper_is_started_and_registered_and_gone_with_its_run(fleet: Fleet) -> None:
    draft = {"name": "draft", "to": "writer", "task": "Write.", "outputs": ["draft.md"]}
    pipeline = {
        "roles": {"writer": {}},
        "phases": [{"name": "draft", "dispatches": [draft]}],
        "deliverable": {"path": "draft.md"},
        "limits": {"nudge_s": 60, "peek_s": 60},
    }
    scenario = {"work_s": 0.3, "rules": [{"on": "dispatch", "do": [UNTIL_GO, "continue"]}]}
    run = fleet.launch(fleet.spec(pipeline, {"writer": scenario}))
    fleet.wait_event("task_dispatched", "writer", 60)
    fleet.ledger.run(lambda tx: staff(tx, load_run(tx, run), "helper", "writer", reason="a second opinion"))
    spawned = fleet.wait_event("agent_spawned", "helper", 60)
    helper = fleet.view(run).agents["helper"]
    assert helper.process is not None
    assert life(helper.process, fleet.boot) == "alive"
    assert spawned.body["session"] == f"{run}-helper"
    entries = [json.loads(line) for line in Path(fleet.home.registry(run)).read_text(encoding="utf-8").splitlines()]
    (entry,) = [entry for entry in entries if entry["agent"] == "helper"]
    assert (entry["role"], entry["pid"], entry["spawned"]) == ("writer", helper.process.pid, f"{run}-helper")
    shown = json.loads(fleet.cli("status", run, "--json").stdout)["runs"][0]["agents"]
    assert sorted(one["agent"] for one in shown) == ["helper", "writer"]
    fleet.cli("kill", f"{run}/helper")
    wait_for(lambda: len(fleet.events("agent_spawned", "helper")) == 2, 60, fleet.tail)
    again = fleet.view(run).agents["helper"].process
    assert again is not None
    (fleet.project / "go").touch()
    over = fleet.wait_over(run)
    assert over.run.state == "COMPLETED", fleet.tail()
    assert life(helper.process, fleet.boot) == "dead"
    assert life(again, fleet.boot) == "dead"
