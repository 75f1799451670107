"""F16: tmux does not answer. What cannot be seen is unknown: nobody is killed or started again for it."""

from __future__ import annotations

import signal

from faults.watching import assert_untouched, beside, on_dispatch, press, process_of, watch
from support.fleet import Fleet
from support.helpers import wait_for


def test_f16_while_tmux_does_not_answer_nothing_is_done_and_afterwards_the_run_goes_on(fleet: Fleet) -> None:
    limits = {"nudge_s": 3, "peek_s": 3, "claim_s": 4, "probe_s": 1, "dialog_s": 1}
    scenarios = {
        "writer": on_dispatch({"tool": {"command": ["sleep", "12"]}}, "continue"),
        "clerk": {"work_s": 9},
        "reader": {},
    }
    run = fleet.launch(fleet.spec(beside("writer", "clerk", idle=["reader"], limits=limits), scenarios))
    wait_for(lambda: fleet.deeds("writer", "turn_start") and fleet.deeds("clerk", "turn_start"), 60, fleet.tail)
    processes = {agent: process_of(fleet, run, agent) for agent in scenarios}
    server = fleet.view(run).agents["writer"].server
    assert server is not None
    fleet.kill(server, signal.SIGSTOP)
    try:
        wait_for(lambda: {one.screen for one in watch(fleet, run).agents.values()} == {"unknown"}, 60, fleet.tail)
        wait_for(lambda: fleet.deeds("clerk", "report_exit"), 60, fleet.tail)
        seen = watch(fleet, run).agents
        assert {name: one.kind for name, one in seen.items() if name != "clerk"} == {
            "writer": "working",
            "reader": "idle",
        }
        assert [deed["code"] for deed in fleet.deeds("clerk", "report_exit")] == [0], "the door is open meanwhile"
    finally:
        fleet.kill(server, signal.SIGCONT)
    view = fleet.wait_over(run, 90)
    assert view.run.state == "COMPLETED", view.run.cause
    assert {agent: view.agents[agent].process for agent in processes} == processes
    assert not fleet.events("crew_silent"), fleet.tail()
    assert not fleet.events("crew_lost"), fleet.tail()
    assert not fleet.events("fleet_held"), fleet.tail()
    assert not fleet.events("alert_raised"), fleet.tail()
    assert_untouched(fleet, *scenarios)


def test_f16_an_alert_that_rests_on_the_screen_is_not_withdrawn_because_the_screen_cannot_be_read(fleet: Fleet) -> None:
    scenario = on_dispatch({"permission": "rm -rf build"}, "continue")
    run = fleet.launch(fleet.spec(beside("writer", limits={"dialog_s": 1, "claim_s": 60}), {"writer": scenario}))
    wait_for(lambda: fleet.deeds("writer", "dialog_open"), 60, fleet.tail)
    captain, server = fleet.crew("captain", run), fleet.view(run).agents["writer"].server
    assert captain is not None
    assert server is not None
    fleet.kill(captain, signal.SIGSTOP)
    try:
        fleet.wait_event("alert_raised", "writer", 30)
        fleet.kill(server, signal.SIGSTOP)
    finally:
        fleet.kill(captain, signal.SIGCONT)
    try:
        # The captain answers at the beginning of a step: between two answers it has looked, and has seen nothing.
        assert [fleet.as_agent(run, "writer", "heartbeat").returncode for _ in range(2)] == [0, 0]
        assert not fleet.events("person_called"), "nobody is called for what was not seen"
    finally:
        fleet.kill(server, signal.SIGCONT)
    fleet.wait_event("person_called", "writer", 30)
    press(fleet, run, "writer", "1")
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    assert not fleet.events("alert_withdrawn"), fleet.tail()
    assert len(fleet.events("alert_raised", "writer")) == 1, fleet.tail()
    assert_untouched(fleet, "writer")
