"""F17: most of the fleet looks dead at one instant. Nothing is done but to look again; what is still so is mended."""

from __future__ import annotations

import signal

from dogwatch.world.processes import life
from faults.watching import assert_unnoticed, beside, on_dispatch, process_of
from support.fleet import Fleet
from support.helpers import wait_for

MASS_HOLD_S = 3.0
MANY = [f"hand-{number}" for number in range(1, 7)]


def test_f17_when_most_agents_die_at_one_instant_all_actions_are_held_and_then_all_come_back(fleet: Fleet) -> None:
    pipeline = beside("writer", *MANY, limits={"mass_hold_s": MASS_HOLD_S})
    pipeline["roles"] = {"writer": {}, "hand": {"count": len(MANY)}}
    scenarios = {"writer": {"work_s": 5}, "hand": on_dispatch({"wait": 600}, incarnation=1)}
    run = fleet.launch(fleet.spec(pipeline, scenarios))
    wait_for(lambda: len(fleet.deeds("hand", "turn_start")) == len(MANY), 60, fleet.tail)
    watchdog = fleet.crew("watchdog", run)
    assert watchdog is not None
    doomed = [process_of(fleet, run, name) for name in MANY]
    # One look of the watchdog's finds all of them dead: it does not come in between.
    fleet.kill(watchdog, signal.SIGSTOP)
    try:
        for process in doomed:
            fleet.kill(process)
        wait_for(lambda: {life(process, fleet.boot) for process in doomed} == {"dead"}, 10, "their end")
    finally:
        fleet.kill(watchdog, signal.SIGCONT)
    view = fleet.wait_over(run, 90)
    assert view.run.state == "COMPLETED", view.run.cause
    held = fleet.events("fleet_held")
    assert len(held) == 1, fleet.tail()
    assert f"{len(MANY)} of {len(MANY) + 1} agents" in held[0].body["why"]
    restarted = fleet.events("agent_restarted")
    assert sorted(event.agent for event in restarted) == MANY
    for event in (*restarted, *fleet.events("alert_raised")):
        # The hold begins with the look, and the look a moment before its event.
        assert event.at.since(held[0].at) >= MASS_HOLD_S - 0.5, f"{event.agent} {event.kind}"
    assert {view.agents[name].incarnation for name in MANY} == {2}
    assert view.agents["writer"].incarnation == 1
    assert fleet.crew("watchdog", run) in (None, watchdog)
    assert_unnoticed(fleet, "writer")
