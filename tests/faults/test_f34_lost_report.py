"""F34: the agent finished but its message was lost; the output is found, the pipeline goes on, nobody is respawned."""

from __future__ import annotations

from faults.pipelines import three_phases
from support.fleet import Fleet


def test_f34_a_finished_output_without_a_report_is_rescued_without_a_respawn(fleet: Fleet) -> None:
    loses = {"work_s": 0.3, "rules": [{"on": "dispatch", "subject": "draft", "do": ["lose_report"]}]}
    scenarios = {"planner": {"work_s": 0.3}, "writer": loses, "judge": {"work_s": 0.3}}
    run = fleet.launch(fleet.spec(three_phases(), scenarios))
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [event.body["task"] for event in fleet.events("task_rescued")] == ["draft"]
    assert view.tasks["draft"].rescued
    assert not view.tasks["final"].rescued
    assert fleet.deeds("writer", "report_lost")
    assert [deed["incarnation"] for deed in fleet.deeds("writer", "started")] == [1]
    assert not fleet.events("agent_restarted")
    assert not fleet.events("agent_nudged")
