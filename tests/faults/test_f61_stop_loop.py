"""F61: an agent tries to stop again and again under a hook that holds it. Its turn is ended, and its work goes on."""

from __future__ import annotations

from faults.watching import assert_unnoticed, assert_untouched, beside, decisions, on_dispatch
from support.fleet import Fleet


def test_f61_a_stop_loop_is_interrupted_once_and_its_task_goes_on(fleet: Fleet) -> None:
    # The clerk is held twice, and goes on: that is what such hooks are for.
    scenarios = {"writer": on_dispatch("stop_loop"), "clerk": on_dispatch({"stop_loop": 2}, "continue")}
    # Its prompt stands there for a second before its turn counts as ended; only then may it be nudged.
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits={"probe_s": 60, "nudge_s": 6}), scenarios))
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", view.run.cause
    assert len(fleet.deeds("writer", "interrupted")) == 1
    assert [event.body["diagnosis"] for event in fleet.events("agent_interrupted", "writer")] == ["stop_loop"]
    (ended,) = fleet.events("turn_ended", "writer")
    assert (ended.body["diagnosis"], ended.body["how"]) == ("stop_loop", "interrupted")
    assert "times in one turn it tried to stop after a hook had held it" in ended.body["evidence"][0]
    nudged = fleet.events("agent_nudged", "writer")[0]
    assert nudged.at.mono > ended.at.mono
    assert "ledger: its turn was interrupted (stop_loop)" in nudged.body["evidence"]
    assert decisions(fleet, run, "writer")[0] == ("INTERRUPT", "recovered")
    assert_untouched(fleet, "writer", but=["agent_interrupted", "agent_nudged"])
    assert_unnoticed(fleet, "clerk")


def test_f61_a_stop_loop_that_no_key_ends_costs_the_incarnation_and_not_the_task(fleet: Fleet) -> None:
    scenarios = {"writer": on_dispatch({"stop_loop": {"deaf": True}}, incarnation=1)}
    run = fleet.launch(fleet.spec(beside("writer", limits={"probe_s": 3}), scenarios))
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", view.run.cause
    assert 1 <= len(fleet.deeds("writer", "interrupt_ignored")) <= 2
    assert not fleet.deeds("writer", "interrupted")
    (ended,) = fleet.events("turn_ended", "writer")
    assert (ended.body["diagnosis"], ended.body["how"]) == ("stop_loop", "restarted")
    assert "had no effect" in ended.body["evidence"][1]
    assert [event.body["reason"] for event in fleet.events("agent_restarted", "writer")] == ["stop_loop"]
    assert [event.body["task"] for event in fleet.events("task_released", "writer")] == ["writer-task"]
    assert [deed["incarnation"] for deed in fleet.deeds("writer", "started")] == [1, 2]
    assert decisions(fleet, run, "writer")[0] == ("INTERRUPT", "not_recovered")
