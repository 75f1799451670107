"""F68: no phase ends without its artifacts, whatever was reported."""

from __future__ import annotations

from faults.pipelines import PLAIN, one_task
from support.fleet import Fleet


def test_f68_an_artifact_that_is_gone_at_the_phase_s_end_is_noticed(fleet: Fleet) -> None:
    spec = one_task(deliverable={"path": "final.md"})
    spec["phases"][0]["gates"] = [{"name": "shredder", "command": ["rm", "draft.md"]}]
    spec["phases"].append(
        {"name": "final", "dispatches": [{"name": "final", "to": "writer", "task": "Finish.", "outputs": ["final.md"]}]}
    )
    run = fleet.launch(fleet.spec(spec, {"writer": PLAIN}))
    view = fleet.wait_over(run)
    assert view.run.state == "FAILED"
    assert view.run.cause == "phase draft cannot end: draft.md does not exist (task draft)"
    assert not fleet.events("phase_ended")
    assert "final" not in view.tasks


def test_f68_a_report_without_the_file_is_returned_and_then_fails(fleet: Fleet) -> None:
    claims = {"work_s": 0.2, "rules": [{"on": "dispatch", "do": [{"report": "done"}]}]}
    run = fleet.launch(fleet.spec(one_task(), {"writer": claims}))
    view = fleet.wait_over(run)
    assert view.run.state == "FAILED"
    assert view.run.cause == "task draft failed: draft.md does not exist"
    assert [event.body["note"] for event in fleet.events("task_returned")] == ["draft.md does not exist"]
    assert not fleet.events("task_accepted")
