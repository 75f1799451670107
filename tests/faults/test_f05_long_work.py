"""F05: long legitimate work without a word: a tool that prints nothing, and a client that only thinks. Neither is
touched; when a dispatch is overdue, the alert names the tool's process and says to wait."""

from __future__ import annotations

from pathlib import Path

from faults.watching import assert_unnoticed, assert_untouched, beside, child_named, on_dispatch, wait_seen
from support.fleet import Fleet

EXPECT_S = 2.0


def test_f05_a_long_tool_and_silent_reasoning_are_never_touched_and_an_overdue_alert_says_to_wait(
    fleet: Fleet,
) -> None:
    limits = {"nudge_s": 2, "claim_s": 4, "probe_s": 1, "tier1_s": 2, "tier2_s": 3, "tier3_s": 4, "long_tool_s": 1}
    pipeline = beside("writer", "thinker", limits=limits)
    pipeline["phases"][0]["dispatches"][0]["expect_s"] = EXPECT_S
    scenarios = {
        "writer": on_dispatch({"tool": {"command": ["sleep", "11"]}}, "continue"),
        # No hook, no tool, hardly any cpu: all that moves is the timer on the screen.
        "thinker": on_dispatch({"wait": 11}, "continue"),
    }
    run = fleet.launch(fleet.spec(pipeline, scenarios))
    seen = wait_seen(fleet, run, "writer", "long_tool")
    assert seen.action == ""
    name, pid = child_named(seen.waits_for)
    assert name == "sleep"
    assert Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    overdue = fleet.wait_event("alert_raised", "writer")
    dispatched = fleet.events("task_dispatched", "writer")[0]
    assert overdue.at.since(dispatched.at) >= 1.5 * EXPECT_S
    assert f"sleep (pid {pid})" in "\n".join(overdue.body["evidence"])
    assert overdue.body["advice"].startswith("wait")
    assert overdue.body["action"] == ""
    assert overdue.body["tier"] == 2
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert len(fleet.events("alert_raised", "writer")) == 1, fleet.tail()
    assert not fleet.events("person_called")
    assert_untouched(fleet, "writer")
    assert_unnoticed(fleet, "thinker")
    for agent in ("writer", "thinker"):
        assert len(fleet.deeds(agent, "prompt")) == 1
