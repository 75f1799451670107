"""Reviews that send work back: to an author of an earlier phase, and past a reviewer who had approved already."""

from __future__ import annotations

from typing import Any

from support.fleet import Fleet

QUICK: dict[str, Any] = {"work_s": 0.2}
DRAFT = {"name": "draft", "to": "writer", "task": "Write it.", "outputs": ["draft.md"]}


def revise_once(note: str) -> dict[str, Any]:
    rules = [{"on": "checkpoint", "times": 1, "do": [{"revise": {"note": note}}]}]
    return {**QUICK, "rules": rules}


def rounds(fleet: Fleet, kind: str) -> list[tuple[str, int]]:
    return [(e.body["checkpoint"], e.body["round"]) for e in fleet.events(kind)]


def test_a_phase_of_checkpoints_alone_sends_work_back_to_the_author_of_an_earlier_one(fleet: Fleet) -> None:
    text: dict[str, Any] = {
        "roles": {"writer": {}, "judge": {}},
        "phases": [
            {
                "name": "draft",
                "dispatches": [DRAFT],
                "gates": [
                    {"name": "there", "checks": [{"path": "draft.md"}]},
                    {"name": "counted", "command": ["sh", "-c", "wc -c <draft.md >>../counted"]},
                ],
            },
            {"name": "review", "checkpoints": [{"name": "review", "artifact": "draft.md", "reviewers": ["judge"]}]},
        ],
        "deliverable": {"path": "draft.md"},
    }
    fleet.cli("run", str(fleet.spec(text, {"writer": QUICK, "judge": revise_once("name the sources")})))
    view = fleet.view("t-1")
    assert view.run.state == "COMPLETED", view.run.cause
    closed = [(e.body["round"], e.body["state"]) for e in fleet.events("checkpoint_closed")]
    assert closed == [(1, "revised"), (2, "approved")]
    told = fleet.deeds("writer", "prompt")
    assert len(told) == 2
    assert "name the sources" in told[1]["text"]
    assert len(fleet.deeds("writer", "wrote")) == 2
    # What was written anew went through the gates of its own phase anew.
    assert [e.body["phase"] for e in fleet.events("phase_reopened")] == ["draft"]
    assert [e.body["phase"] for e in fleet.events("phase_ended")] == ["draft", "draft", "review"]
    assert [e.body["gate"] for e in fleet.events("gate_passed")] == ["there", "counted"] * 2
    assert len((fleet.project / "out" / "counted").read_text().splitlines()) == 2


def test_what_is_written_anew_is_approved_anew_by_who_had_approved_before(fleet: Fleet) -> None:
    checkpoints = [
        {"name": name, "artifact": "draft.md", "reviewers": [who]}
        for name, who in (("style", "stylist"), ("facts", "judge"))
    ]
    text: dict[str, Any] = {
        "roles": {"writer": {}, "stylist": {}, "judge": {}},
        "phases": [{"name": "draft", "dispatches": [DRAFT], "checkpoints": checkpoints}],
        "deliverable": {"path": "draft.md"},
    }
    # The stylist has approved before the judge, who takes longer, sends the draft back.
    slow = {"on": "checkpoint", "times": 1, "do": [{"wait": 3}, {"revise": {"note": "wrong year"}}]}
    judge = {**QUICK, "rules": [slow]}
    fleet.cli("run", str(fleet.spec(text, {"writer": QUICK, "stylist": QUICK, "judge": judge})))
    view = fleet.view("t-1")
    assert view.run.state == "COMPLETED", view.run.cause
    answers = [(e.body["checkpoint"], e.body["verdict"], e.body["round"]) for e in fleet.events("checkpoint_answered")]
    assert answers[:2] == [("style", "approve", 1), ("facts", "revise", 1)]
    assert sorted(answers[2:]) == [("facts", "approve", 2), ("style", "approve", 2)]
    assert sorted(rounds(fleet, "checkpoint_asked")) == [("facts", 1), ("facts", 2), ("style", 1), ("style", 2)]
    assert {record.state for record in view.checkpoints.values()} == {"approved"}
    # Nobody approved the new draft before it was written.
    rewritten = fleet.events("task_accepted")[1].cursor
    order = [e.cursor for e in fleet.events()]
    second = [e.cursor for e in fleet.events("checkpoint_asked") if e.body["round"] == 2]
    assert all(order.index(cursor) > order.index(rewritten) for cursor in second)
    assert len(fleet.deeds("writer", "prompt")) == 2
