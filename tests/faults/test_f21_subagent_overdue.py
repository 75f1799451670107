"""F21: a sub-agent runs past its time. Its parent is asked to start it again or to document the skip, and it stays
noticed until that is done; the parent is never started again for it. A sub-agent within its time is left alone."""

from __future__ import annotations

from dogwatch.model.records import CheckResult
from faults.watching import (
    assert_unnoticed,
    assert_untouched,
    beside,
    on_dispatch,
    press,
    process_of,
    self_check,
    wait_seen,
    watch,
)
from fleet import Fleet
from helpers import wait_for

SUBAGENT_S = 2.0
NEVER_BACK = ({"subagent": {"type": "researcher", "never": True, "output": "notes.md"}}, "silent")
ASKED = "Start it again, or write down that it was skipped and why."


def nudges_read(fleet: Fleet, agent: str) -> list[str]:
    """The nudges that reached the agent."""
    return [deed["text"] for deed in fleet.deeds(agent, "prompt") if " nudge " in deed["text"].splitlines()[0]]


def subagents_in_time(fleet: Fleet, run: str) -> CheckResult | None:
    """What the captain's own check says of the sub-agents."""
    return self_check(fleet, run, "SUBAGENTS_IN_TIME")


def test_f21_the_parent_is_asked_to_start_it_again_or_to_document_the_skip_and_then_left_alone(fleet: Fleet) -> None:
    limits = {"nudge_s": 1, "peek_s": 1, "subagent_s": SUBAGENT_S, "nudges_max": 5}
    pipeline = beside("writer", "editor", "clerk", limits=limits)
    pipeline["roles"]["editor"]["limits"] = {"subagent_s": 600}
    more = {"name": "more", "to": "writer", "task": "Write more.", "outputs": ["more.md"]}
    pipeline["phases"].append({"name": "more", "dispatches": [more]})
    rules = [
        {"on": "dispatch", "subject": "writer-task", "do": list(NEVER_BACK)},
        {"on": "nudge", "do": [{"write": {"path": "skipped.md", "content": "No researcher."}}, "continue"]},
        {"on": "dispatch", "subject": "more", "do": [{"work": 2 * SUBAGENT_S}, "continue"]},
    ]
    scenarios = {
        "writer": {"work_s": 0.3, "rules": rules},
        # Its sub-agent takes longer than the other's may, and has the time.
        "editor": on_dispatch({"subagent": {"type": "researcher", "seconds": 2 * SUBAGENT_S}}, "silent"),
        "clerk": {"work_s": 2 * SUBAGENT_S},
    }
    run = fleet.launch(fleet.spec(pipeline, scenarios))
    alert = fleet.wait_event("alert_raised", "writer", 60)
    assert (alert.body["diagnosis"], alert.body["action"]) == ("subagent_overdue", "NUDGE"), alert.body
    assert alert.body["evidence"][0].startswith("hooks: sub-agent researcher runs for ")
    assert alert.at.mono - fleet.deeds("writer", "subagent_start")[0]["mono"] >= SUBAGENT_S - 0.5
    text = wait_for(lambda: nudges_read(fleet, "writer"), 60, lambda: f"the nudge to be read:\n{fleet.tail()}")[0]
    assert ASKED in text
    assert "sub-agent researcher runs for " in text
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert (fleet.project / "out" / run / "skipped.md").exists()
    # The skip was documented and the task done: the sub-agent that still ran was nobody's concern any more, neither at
    # rest nor in the next task.
    accepted = fleet.events("task_accepted", "writer")[0]
    assert accepted.body["task"] == "writer-task"
    words = [e.body for e in fleet.events("alert_raised", "writer") if e.at.mono > accepted.at.mono + 1]
    assert not words, fleet.tail()
    assert {event.body["diagnosis"] for event in fleet.events("agent_nudged")} == {"subagent_overdue"}, fleet.tail()
    assert not fleet.events("person_called"), fleet.tail()
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    assert fleet.deeds("editor", "subagent_end")[0]["code"] == 0
    assert_unnoticed(fleet, "editor", "clerk")


def test_f21_a_parent_that_does_nothing_about_it_stays_noticed_and_a_person_is_called_instead_of_a_restart(
    fleet: Fleet,
) -> None:
    limits = {"nudge_s": 1, "peek_s": 1, "subagent_s": SUBAGENT_S, "nudges_max": 2}
    again = [{"subagent": {"type": "researcher", "seconds": 0.3, "output": "notes.md"}}, "silent"]
    rules = [
        {"on": "dispatch", "do": list(NEVER_BACK)},
        {"on": "nudge", "do": ["silent"]},
        {"on": "prompt", "do": again},
    ]
    scenarios = {"writer": {"work_s": 0.3, "rules": rules}, "clerk": {"work_s": 6}}
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits=limits), scenarios))
    wait_seen(fleet, run, "writer", "subagent_overdue")
    parent = process_of(fleet, run, "writer")
    called = fleet.wait_event("person_called", "writer", 90)
    assert called.body["diagnosis"] == "subagent_overdue", called.body
    nudged = [event.body["diagnosis"] for event in fleet.events("agent_nudged", "writer")]
    assert nudged == ["subagent_overdue"] * 2, fleet.tail()
    wait_for(lambda: len(nudges_read(fleet, "writer")) == 2, 60, fleet.tail)
    assert all(ASKED in text for text in nudges_read(fleet, "writer"))

    def has_failed() -> bool:
        check = subagents_in_time(fleet, run)
        return check is not None and check.result == "failed" and check.detail.startswith("researcher of writer runs")

    wait_for(has_failed, 60, lambda: f"the self-check to fail: {subagents_in_time(fleet, run)}")
    seen = watch(fleet, run).agents["writer"]
    assert (seen.kind, seen.action) == ("subagent_overdue", "ESCALATE")
    assert process_of(fleet, run, "writer") == parent
    # The person tells it what to do.
    press(fleet, run, "writer", "please start it again")
    press(fleet, run, "writer", "Enter")
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert (fleet.project / "out" / run / "notes.md").exists(), "what the second sub-agent found"
    assert len(fleet.events("person_called")) == 1, fleet.tail()
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    assert_unnoticed(fleet, "clerk")
