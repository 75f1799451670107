"""F11: an agent's context is compacted or runs out in the middle of its task. It is seen coming, and the task's brief
is given again."""

from __future__ import annotations

from dogwatch.model.records import CheckResult
from faults.watching import assert_unnoticed, assert_untouched, beside, decisions, on_dispatch, self_check
from support.fleet import Fleet
from support.helpers import wait_for


def headroom(fleet: Fleet, run: str) -> CheckResult | None:
    """The self-check, once it fails."""
    found = self_check(fleet, run, "CONTEXT_HEADROOM")
    return found if found is not None and found.result == "failed" else None


def test_f11_a_context_that_runs_out_is_seen_coming_and_a_fresh_incarnation_gets_the_brief(fleet: Fleet) -> None:
    full = on_dispatch(
        {"context": 0.5},
        {"context": 0.91},
        {"tool": {"command": ["sh", "-c", "until [ -e go ]; do sleep 0.1; done"]}},
        {"context": {"used": 1.0, "full": True}},
        incarnation=1,
    )
    spec = beside("writer", "clerk", limits={"nudge_s": 5, "peek_s": 5, "long_tool_s": 600})
    run = fleet.launch(fleet.spec(spec, {"writer": full, "clerk": {"work_s": 3, "rules": []}}))
    check = wait_for(lambda: headroom(fleet, run), 60, fleet.tail)
    assert check is not None
    assert check.detail == "writer has used 91%"
    fleet.wait_event("context_low", "writer")
    (low,) = fleet.events("context_low", "writer")
    assert low.body == {"incarnation": 1, "used": 0.91, "limit": 0.8}
    assert "91%" in fleet.cli("status", run).stdout
    (fleet.project / "go").touch()
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [event.body["diagnosis"] for event in fleet.events("alert_raised", "writer")] == ["context_exhausted"]
    assert decisions(fleet, run, "writer") == [("RESTART", "recovered")]
    assert not fleet.events("agent_nudged", "writer"), "words to a full context change nothing"
    first, second = fleet.deeds("writer", "prompt")
    assert (first["incarnation"], second["incarnation"]) == (1, 2)
    assert "writer-task" in second["text"]
    assert "Write it." in second["text"]
    assert_unnoticed(fleet, "clerk")


def test_f11_an_agent_that_forgets_its_task_in_a_compaction_is_told_again_what_it_was(fleet: Fleet) -> None:
    forgets = on_dispatch({"context": 0.9}, {"compact": 0.2}, "silent")
    spec = beside("writer", "clerk", limits={"nudge_s": 2, "peek_s": 2})
    run = fleet.launch(fleet.spec(spec, {"writer": forgets, "clerk": {"work_s": 3, "rules": []}}))
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", view.run.cause
    assert len(fleet.events("context_compacted", "writer")) == 1
    brief, told = (deed["text"] for deed in fleet.deeds("writer", "prompt"))
    assert "Write it." in brief
    assert "context was made shorter" in told
    assert "Write it." in told, "the whole brief, not only its name"
    assert decisions(fleet, run, "writer") == [("NUDGE", "recovered")]
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    assert_unnoticed(fleet, "clerk")
