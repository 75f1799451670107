"""F66: a validator's DISAGREE comes after the step was approved. The step is opened again: the author gets the note,
the reviewers are asked anew, the gates run anew, and the run then goes on to its end."""

from __future__ import annotations

from typing import Any

from dogwatch.world.processes import identify
from support.fleet import Fleet

OBJECTION = "I have added it up again.\nDISAGREE: the second sum is wrong"


def pipeline() -> dict[str, Any]:
    """A draft that judge reviews, its gate, and a final report."""
    draft = {"name": "draft", "to": "writer", "task": "Write it.", "outputs": ["draft.md"]}
    final = {"name": "final", "to": "writer", "task": "Finish it.", "outputs": ["final.md"]}
    review = {"name": "review", "artifact": "draft.md", "reviewers": ["judge"]}
    gate = {"name": "counted", "command": ["sh", "-c", "wc -l draft.md"]}
    return {
        "roles": {"writer": {}, "judge": {}},
        "phases": [
            {"name": "draft", "dispatches": [draft], "checkpoints": [review], "gates": [gate]},
            {"name": "final", "dispatches": [final]},
        ],
        "deliverable": {"path": "final.md"},
    }


def test_f66_a_disagree_after_the_approval_opens_the_step_again(fleet: Fleet) -> None:
    approved = fleet.base / "approved"
    wait = f"until [ -e {approved} ]; do sleep 0.1; done"
    validator = {"type": "cross-validator", "seconds": 600, "says": OBJECTION}
    rules = [
        # Its validator outlives the step: the draft is written, reported and approved meanwhile.
        {"on": "dispatch", "subject": "draft", "times": 1, "do": [{"subagent": validator}, "continue"]},
        {"on": "dispatch", "subject": "final", "do": [{"tool": {"command": ["sh", "-c", wait]}}, "continue"]},
        {"on": "notification", "do": ["silent"]},
    ]
    scenarios = {"writer": {"work_s": 0.3, "rules": rules}, "judge": {"work_s": 0.2}}
    run = fleet.launch(fleet.spec(pipeline(), scenarios))
    fleet.wait_event("phase_ended")
    assert [e.body["state"] for e in fleet.events("checkpoint_closed")] == ["approved"]
    end_subagent(fleet)
    reopened = fleet.wait_event("checkpoint_reopened", timeout_s=60)
    assert (reopened.body["checkpoint"], reopened.body["by"]) == ("review", "writer/cross-validator")
    assert "the second sum is wrong" in reopened.body["note"]
    assert fleet.view(run).run.phase == 0
    approved.touch()
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [(e.body["round"], e.body["state"]) for e in fleet.events("checkpoint_closed")] == [
        (1, "approved"),
        (2, "approved"),
    ]
    told = [deed["text"] for deed in fleet.deeds("writer", "prompt") if " dispatch draft]" in deed["text"]]
    assert ["the second sum is wrong" in text for text in told] == [False, True]
    assert len(fleet.events("checkpoint_reopened")) == 1
    assert len([e for e in fleet.events("gate_passed") if e.body["gate"] == "counted"]) == 2
    assert not fleet.events("agent_restarted"), fleet.tail()
    assert not fleet.events("person_called"), fleet.tail()


def end_subagent(fleet: Fleet) -> None:
    """The validator has made up its mind."""
    child = identify(fleet.deeds("writer", "subagent_start")[0]["child"], fleet.boot)
    assert child is not None
    fleet.kill(child)
