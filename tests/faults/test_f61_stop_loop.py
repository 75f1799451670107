"""F61: an agent tries to stop again and again. It is interrupted once, and goes on."""

from __future__ import annotations

from faults.watching import assert_unnoticed, assert_untouched, beside, decisions, on_dispatch
from fleet import Fleet


def test_f61_an_agent_in_a_stop_loop_is_interrupted_once_and_goes_on(fleet: Fleet) -> None:
    limits = {"nudge_s": 2, "peek_s": 2, "stops_max": 3}
    scenarios = {"writer": on_dispatch({"stop_loop": 200}, "continue"), "clerk": {"work_s": 5}}
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits=limits), scenarios))
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    interrupted = fleet.events("agent_interrupted", "writer")
    assert [event.body["diagnosis"] for event in interrupted] == ["stop_loop"], fleet.tail()
    assert len(fleet.deeds("writer", "interrupted")) == 1
    assert len(fleet.deeds("writer", "stop_again")) < 100, "long before its own end"
    assert decisions(fleet, run, "writer")[0][0] == "INTERRUPT"
    assert_untouched(fleet, "writer", but=["agent_interrupted", "agent_nudged"])
    assert_unnoticed(fleet, "clerk")
