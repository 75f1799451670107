"""F13: an approval was given, and who should go on writes nothing. It is named, told so, and goes on."""

from __future__ import annotations

from typing import Any

from faults.watching import assert_unnoticed, assert_untouched, decisions, on_dispatch
from support.fleet import Fleet

CHECKPOINT_S, NUDGE_S = 2.0, 3.0


def approved_then_more() -> dict[str, Any]:
    """A draft that the clerk approves, and then work for everybody. The printer may take an hour before it writes."""
    return {
        "roles": {"writer": {}, "editor": {}, "printer": {}, "clerk": {}},
        "phases": [
            {
                "name": "draft",
                "dispatches": [{"name": "draft", "to": "writer", "task": "Write it.", "outputs": ["draft.md"]}],
                "checkpoints": [{"name": "review", "artifact": "draft.md", "reviewers": ["clerk"]}],
            },
            {
                "name": "final",
                "dispatches": [
                    {"name": "finish", "to": "editor", "task": "Finish it.", "outputs": ["final.md"]},
                    {"name": "bind", "to": "writer", "task": "Bind it.", "outputs": ["cover.md", "bound.md"]},
                    {
                        "name": "print",
                        "to": "printer",
                        "task": "Print it.",
                        "outputs": ["print.md"],
                        "limits": {"checkpoint_s": 3600},
                    },
                    {"name": "file", "to": "clerk", "task": "File it.", "outputs": ["filed.md"]},
                ],
            },
        ],
        "deliverable": {"path": "final.md"},
        "limits": {"nudge_s": NUDGE_S, "checkpoint_s": CHECKPOINT_S},
    }


def test_f13_who_writes_nothing_after_an_approval_is_named_and_asked_to_go_on(fleet: Fleet) -> None:
    begun = {
        "on": "dispatch",
        "subject": "bind",
        "do": [{"write": {"path": "cover.md", "content": "A cover"}}, "silent"],
    }
    scenarios = {
        "writer": {"work_s": 0.3, "rules": [begun]},
        "editor": on_dispatch("silent"),
        "printer": on_dispatch("silent"),
        # It approves at once, and then works for longer than nothing may be written.
        "clerk": {"work_s": 3 * CHECKPOINT_S},
    }
    run = fleet.launch(fleet.spec(approved_then_more(), scenarios))
    view = fleet.wait_over(run, 90)
    assert view.run.state == "COMPLETED", view.run.cause
    (approved,) = fleet.events("checkpoint_closed")
    assert (approved.body["checkpoint"], approved.body["state"]) == ("review", "approved")
    alert = fleet.events("alert_raised", "editor")[0]
    assert (alert.body["diagnosis"], alert.body["action"]) == ("checkpoint_deadlock", "NUDGE"), alert.body
    assert alert.at.since(approved.at) >= CHECKPOINT_S
    assert "review was approved, and nothing of finish is written since" in "\n".join(alert.body["evidence"])
    assert alert.body["advice"].startswith("editor should have acted")
    # An approval of a moment ago is no deadlock, nor is work that has begun; these are silent, and no more than that.
    expected = {"editor": "checkpoint_deadlock", "writer": "silent_turn", "printer": "silent_turn"}
    for agent, diagnosis in expected.items():
        nudged = fleet.events("agent_nudged", agent)
        assert [event.body["diagnosis"] for event in nudged] == [diagnosis], fleet.tail()
        assert decisions(fleet, run, agent) == [("NUDGE", "recovered")]
    assert_untouched(fleet, *expected, but=["agent_nudged"])
    assert_unnoticed(fleet, "clerk")
