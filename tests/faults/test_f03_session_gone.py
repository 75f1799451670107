"""F03: an agent's session is gone altogether; it comes back under the same name as a new incarnation."""

from __future__ import annotations

from dogwatch.actions.kill import end_session
from faults.pipelines import three_phases
from support.fleet import Fleet
from support.helpers import wait_for


def test_f03_a_lost_session_is_respawned_with_the_same_identity_and_its_task(fleet: Fleet) -> None:
    slow_first = {"work_s": 0.3, "rules": [{"on": "dispatch", "incarnation": 1, "do": [{"work": 60}, "continue"]}]}
    scenarios = {"planner": slow_first, "writer": {"work_s": 0.3}, "judge": {"work_s": 0.3}}
    run = fleet.launch(fleet.spec(three_phases(), scenarios))
    wait_for(lambda: fleet.deeds("planner", "turn_start"), 60, fleet.tail)
    end_session(fleet.home.tmux(run), f"{run}-planner")
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    alert = fleet.events("alert_raised", "planner")[0]
    assert alert.body["diagnosis"] == "session_dead"
    assert alert.body["incarnation"] == 1
    assert view.agents["planner"].incarnation == 2
    assert view.agents["planner"].session == f"{run}-planner"
    # Nothing healthy was harmed: the others are still their first incarnations, started once each.
    assert [deed["incarnation"] for deed in fleet.deeds("planner", "started")] == [1, 2]
    for healthy in ("writer", "judge"):
        assert [deed["incarnation"] for deed in fleet.deeds(healthy, "started")] == [1]
        assert not fleet.events("agent_restarted", healthy)
