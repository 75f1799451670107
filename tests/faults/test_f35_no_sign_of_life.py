"""F35: a client hangs or is stopped in the middle of its task. It is asked for a sign of life, and without one its
claim ends: the task goes to a new incarnation, exactly once."""

from __future__ import annotations

import os
import signal

from dogwatch.world.processes import identify, life
from faults.watching import assert_unnoticed, beside, decisions, on_dispatch, process_of
from support.fleet import Fleet
from support.helpers import wait_for

CLAIM_S, PROBE_S = 3.0, 2.0
LIMITS = {"nudge_s": 2, "claim_s": CLAIM_S, "probe_s": PROBE_S}


def test_f35_a_hung_and_a_stopped_client_are_asked_for_a_sign_of_life_and_then_started_again(fleet: Fleet) -> None:
    spec = fleet.spec(
        beside("writer", "editor", idle=["reader"], limits=LIMITS),
        {
            "writer": on_dispatch("hang", incarnation=1),
            # A client below its launcher: tmux wakes up whatever is stopped as a pane's own process.
            "editor": on_dispatch({"wait": 600}, incarnation=1, launcher=True),
            "reader": {},
        },
    )
    run = fleet.launch(spec)
    wait_for(lambda: fleet.deeds("writer", "hung") and fleet.deeds("editor", "turn_start"), 60, fleet.tail)
    stopped = identify(fleet.deeds("editor", "turn_start")[0]["pid"], fleet.boot)
    assert stopped is not None
    os.kill(stopped.pid, signal.SIGSTOP)
    old = [process_of(fleet, run, "writer"), process_of(fleet, run, "editor"), stopped]
    view = fleet.wait_over(run, 90)
    assert view.run.state == "COMPLETED", view.run.cause
    for agent in ("writer", "editor"):
        probed, stalled = fleet.events("agent_probed", agent), fleet.events("agent_stalled", agent)
        assert [event.body["diagnosis"] for event in probed] == ["stalled"], fleet.tail()
        assert [event.body["incarnation"] for event in stalled] == [1], fleet.tail()
        assert stalled[0].at.since(probed[0].at) >= PROBE_S
        assert probed[0].at.mono - fleet.deeds(agent, "turn_start")[0]["mono"] >= CLAIM_S - 0.5
        restarted = fleet.events("agent_restarted", agent)
        assert [(event.body["reason"], event.body["incarnation"]) for event in restarted] == [("stalled", 2)]
        assert [event.body["task"] for event in fleet.events("task_released", agent)] == [f"{agent}-task"]
        assert [deed["incarnation"] for deed in fleet.deeds(agent, "report_called")] == [2]
        assert view.tasks[f"{agent}-task"].incarnation == 2
        assert [event.body["incarnation"] for event in fleet.events("agent_recovered", agent)] == [2]
        assert view.agents[agent].health == "healthy"
        assert not fleet.events("agent_nudged", agent)
    assert [life(process, fleet.boot) for process in old] == ["dead"] * 3
    told = [event for event in fleet.events("message_sent", "reader") if event.body["kind"] == "mail"]
    assert told == [], "it waits for neither"
    assert sorted(event.agent for event in fleet.events("stall_alert")) == ["editor", "writer"]
    assert_unnoticed(fleet, "reader")
    for agent in ("writer", "editor"):
        assert decisions(fleet, run, agent) == [("PROBE", "not_recovered"), ("RESTART", "recovered")]
