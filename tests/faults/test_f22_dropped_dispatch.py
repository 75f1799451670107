"""F22: a dispatch is dropped, expected 4 and only 3 there; it is named before the phase can end, and made up for."""

from __future__ import annotations

from dogwatch.ledger.records import load
from dogwatch.model.records import TaskRecord
from faults.watching import on_dispatch, until
from support.fleet import Fleet
from support.helpers import wait_for


def test_f22_a_task_that_is_missing_is_named_and_done_before_the_phase_ends(fleet: Fleet) -> None:
    pipeline = {
        "roles": {"auditor": {"count": 4}, "writer": {}},
        "phases": [
            {
                "name": "audit",
                "dispatches": [
                    {"name": "audit", "to": "all auditor", "task": "Audit.", "outputs": ["{agent}.md"]},
                    {"name": "draft", "to": "writer", "task": "Write.", "outputs": ["draft.md"]},
                ],
            }
        ],
        "deliverable": {"path": "draft.md"},
    }
    quick = {"work_s": 0.3}
    slow = on_dispatch(until(fleet.base / "go"), "continue")
    run = fleet.launch(fleet.spec(pipeline, {"auditor": quick, "writer": slow}))
    key = f"task/{run}/audit.auditor-3"

    def is_accepted() -> bool:
        task = fleet.ledger.read(lambda reader: load(reader, TaskRecord, key))
        return task is not None and task.state == "accepted"

    wait_for(is_accepted, 60, fleet.tail)
    # What was written is lost again, however that came about.
    fleet.ledger.run(lambda tx: tx.delete(key))
    dropped = fleet.wait_event("dispatch_dropped")
    (fleet.base / "go").touch()
    assert dropped.body == {"phase": "audit", "tasks": ["audit.auditor-3"], "expected": 5, "found": 4}
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED"
    accepted = [event.body["task"] for event in fleet.events("task_accepted")]
    assert sorted(set(accepted)) == [
        "audit.auditor-1",
        "audit.auditor-2",
        "audit.auditor-3",
        "audit.auditor-4",
        "draft",
    ]
    ended = fleet.events("phase_ended")[0]
    assert ended.at.mono > dropped.at.mono
    assert not fleet.events("agent_restarted")
