"""F12: an agent writes its output to an unexpected path. It is found there, named, and the agent is told."""

from __future__ import annotations

from faults.watching import assert_unnoticed, assert_untouched, beside, decisions, on_dispatch
from support.fleet import Fleet


def test_f12_an_output_at_an_unexpected_path_is_found_and_the_agent_is_told_where_it_belongs(fleet: Fleet) -> None:
    scenarios = {
        "writer": on_dispatch({"write_outputs": {"wrong_path": "elsewhere/"}}, "silent"),
        "clerk": {"work_s": 5},
    }
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits={"nudge_s": 2, "peek_s": 2}), scenarios))
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    written = fleet.deeds("writer", "wrote")
    assert [deed["path"] for deed in written] == ["elsewhere/writer.md", "writer.md"]
    alert = fleet.events("alert_raised", "writer")[0]
    assert alert.body["diagnosis"] == "wrong_path", alert.body
    assert "elsewhere/writer.md" in "\n".join(alert.body["evidence"])
    nudged = fleet.events("agent_nudged", "writer")
    assert [event.body["diagnosis"] for event in nudged] == ["wrong_path"], fleet.tail()
    prompts = fleet.deeds("writer", "prompt")
    assert len(prompts) == 2
    assert "elsewhere/writer.md" in prompts[1]["text"]
    assert decisions(fleet, run, "writer") == [("NUDGE", "recovered")]
    assert_untouched(fleet, "writer", but=["agent_nudged"])
    assert_unnoticed(fleet, "clerk")
