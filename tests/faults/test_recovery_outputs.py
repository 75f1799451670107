"""An agent dies with its outputs written: half of a turn's work is done again, a whole turn's work is kept."""

from __future__ import annotations

from typing import Any

from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for


def two_tasks() -> dict[str, Any]:
    """A draft and a final text, both by the same writer."""
    phases = [
        {"name": name, "dispatches": [{"name": name, "to": "writer", "task": "Write.", "outputs": [f"{name}.md"]}]}
        for name in ("draft", "final")
    ]
    return {"roles": {"writer": {}}, "phases": phases, "deliverable": {"path": "final.md"}}


def test_a_half_written_output_of_an_agent_that_died_in_its_turn_is_not_rescued(fleet: Fleet) -> None:
    half = [{"write": {"path": "draft.md", "content": "the first half, and th"}}, {"crash": "SIGKILL"}]
    scenario = {"work_s": 0.3, "rules": [{"on": "dispatch", "incarnation": 1, "do": half}], "content": "whole"}
    run = fleet.launch(fleet.spec(one_task(), {"writer": scenario}))
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    assert fleet.deeds("writer", "wrote")[0]["incarnation"] == 1, "the half was really there"
    assert not fleet.events("task_rescued")
    assert [e.body["diagnosis"] for e in fleet.events("alert_raised", "writer")] == ["exited"]
    assert [e.body["incarnation"] for e in fleet.events("agent_restarted", "writer")] == [2]
    assert (fleet.project / "out" / run / "draft.md").read_text() == "whole"
    assert not view.tasks["draft"].rescued


def lose_the_report_and_die(fleet: Fleet, text: dict[str, Any]) -> str:
    """A run whose writer has ended its turn for the draft, reported nothing, and was killed then."""
    scenario = {"work_s": 0.3, "rules": [{"on": "dispatch", "subject": "draft", "do": ["lose_report"]}]}
    # Only the death may bring the rescue, not the peek at the outputs of an idle agent.
    text["limits"] = {"peek_s": 120, "nudge_s": 120}
    run = fleet.launch(fleet.spec(text, {"writer": scenario}))
    wait_for(lambda: fleet.deeds("writer", "report_lost") and fleet.deeds("writer", "turn_end"), 60, fleet.tail)
    process = fleet.view(run).agents["writer"].process
    assert process is not None
    fleet.kill(process)
    return run


def test_the_output_of_an_agent_that_ended_its_turn_before_it_died_is_rescued(fleet: Fleet) -> None:
    run = lose_the_report_and_die(fleet, one_task())
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    (rescued,) = fleet.events("task_rescued", "writer")
    assert rescued.body["task"] == "draft"
    assert "hooks: its turn had ended" in rescued.body["evidence"]
    assert view.tasks["draft"].rescued
    assert not fleet.events("agent_restarted")
    assert len(fleet.deeds("writer", "wrote")) == 1


def test_a_dead_agent_whose_work_was_rescued_is_restarted_for_its_next_task(fleet: Fleet) -> None:
    run = lose_the_report_and_die(fleet, two_tasks())
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", f"{view.run.cause}\n{fleet.tail()}"
    assert len(fleet.events("task_rescued")) == 1
    assert [e.body["incarnation"] for e in fleet.events("agent_restarted")] == [2]
    written = [(deed["incarnation"], deed["path"].rpartition("/")[2]) for deed in fleet.deeds("writer", "wrote")]
    assert written == [(1, "draft.md"), (2, "final.md")], "the draft was not written again"
