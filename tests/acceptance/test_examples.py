"""The examples run as they are, from the command that their first lines name."""

from __future__ import annotations

import json

import pytest

from support.fleet import ROOT, Fleet


@pytest.mark.parametrize("name", ["analytics", "papers"])
def test_an_example_runs_to_its_deliverable_and_leaves_nothing(fleet: Fleet, name: str) -> None:
    spec = ROOT / "examples" / name / "pipeline.yaml"
    done = fleet.cli("run", str(spec), "--project", str(fleet.project), "--json")
    (run,) = json.loads(done.stdout)
    assert (run["state"], run["cause"]) == ("COMPLETED", "")
    view = fleet.view(run["run"])
    assert all(task.state == "accepted" for task in view.tasks.values())
    assert {task.dispatch for task in view.tasks.values()} == {d.name for p in view.plan.phases for d in p.dispatches}
    assert len(fleet.events("gate_passed")) == sum(len(phase.gates) for phase in view.plan.phases)
    assert len(fleet.events("milestone_reached")) == len(view.plan.milestones)
    assert not fleet.events("agent_restarted")
    assert not fleet.leftovers([run["run"]])
