"""A task that one agent sends to another without a marker is refused; with one it is a task of the run."""

from __future__ import annotations

from faults.watching import on_dispatch, until
from support.fleet import Fleet


def test_a_task_between_agents_needs_its_marker_and_is_then_done(fleet: Fleet) -> None:
    pipeline = {
        "roles": {"writer": {}, "judge": {}},
        "phases": [
            {
                "name": "draft",
                "dispatches": [{"name": "draft", "to": "writer", "task": "Write.", "outputs": ["draft.md"]}],
            }
        ],
        "deliverable": {"path": "draft.md"},
    }
    order = ["dogwatch", "task", "send", "judge", "Check the sums."]
    writer = on_dispatch(
        {"tool": {"command": ["dogwatch", "mail", "send", "judge", "TASK: check the sums"]}},
        {"tool": {"command": order}},
        {"tool": {"command": [*order, "--expect", "10m", "--output", "sums.md"]}},
        until(fleet.base / "go"),
        "continue",
    )
    run = fleet.launch(fleet.spec(pipeline, {"writer": writer, "judge": {"work_s": 0.3}}))
    accepted = fleet.wait_event("task_accepted", "judge")
    assert accepted.body["task"] == "writer.1"
    refused = fleet.events("task_refused", "writer")
    assert [e.body["code"] for e in refused] == ["unmarked", "unmarked"]
    assert "from writer" in fleet.cli("status", run).stdout
    (fleet.base / "go").touch()
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED"
    assert {task.task: task.state for task in view.tasks.values()} == {"draft": "accepted", "writer.1": "accepted"}
    result = [e for e in fleet.events("message_sent", "writer") if e.body["kind"] == "mail"]
    assert [e.body["sender"] for e in result] == ["captain"]
    assert not fleet.events("dispatch_miscounted")
    assert not fleet.events("agent_restarted")
