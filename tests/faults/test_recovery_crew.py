"""The crew loses several members at one instant, or is taken down again and again; the run delivers all the same."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

from faults.pipelines import one_task, three_phases
from support.fleet import Fleet
from support.helpers import wait_for

FAST: dict[str, Any] = {"work_s": 0.3}
LATER: dict[str, Any] = {"work_s": 0.3, "rules": [{"on": "dispatch", "do": [{"wait": 4}, "continue"]}]}
AGENTS = ("planner", "writer", "judge")


def at_work(fleet: Fleet) -> str:
    """A run that nobody attends to, with its planner in the middle of a turn."""
    run = fleet.launch(fleet.spec(three_phases(), {"planner": LATER, "writer": FAST, "judge": FAST}))
    wait_for(lambda: fleet.deeds("planner", "turn_start"), 60, fleet.tail)
    wait_for(lambda: fleet.crew("watchdog", run), 60, "the watchdog")
    return run


def kill_crew(fleet: Fleet, run: str, *members: str) -> None:
    """At one instant: all are stopped first, so that none of them sees that another has died."""
    found = [fleet.crew(member, "" if member == "dispatcher" else run) for member in members]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in found:
            assert process is not None
            fleet.kill(process, number)


def has_done(fleet: Fleet, deed: str, times: int) -> bool:
    return len(fleet.deeds("writer", deed)) == times


def assert_delivered_once(fleet: Fleet, run: str) -> None:
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", f"{view.run.cause}\n{fleet.tail()}"
    for agent in AGENTS:
        assert [deed["incarnation"] for deed in fleet.deeds(agent, "started")] == [1]
        prompts = [deed["sha256"] for deed in fleet.deeds(agent, "prompt")]
        assert len(prompts) == len(set(prompts)), f"{agent} was told twice"
    assert not fleet.events("agent_restarted")


def test_captain_and_dispatcher_killed_at_one_instant_are_revived_through_the_watchdog(fleet: Fleet) -> None:
    run = at_work(fleet)
    kill_crew(fleet, run, "captain", "dispatcher")
    assert_delivered_once(fleet, run)
    revived = [event.body["member"] for event in fleet.events("crew_revived")]
    assert revived == ["dispatcher", "captain"], "first who starts captains, then the captain; the watchdog lived"


def test_dispatcher_and_watchdog_killed_at_one_instant_are_revived_by_the_captain(fleet: Fleet) -> None:
    run = at_work(fleet)
    kill_crew(fleet, run, "dispatcher", "watchdog")
    assert_delivered_once(fleet, run)
    # The run needs no dispatcher: its successor may take its place later.
    wait_for(lambda: len(fleet.events("crew_revived")) >= 2, 60, fleet.tail)
    assert sorted(event.body["member"] for event in fleet.events("crew_revived")) == ["dispatcher", "watchdog"]


def test_after_all_of_the_crew_was_killed_up_goes_on_and_starts_no_agent_twice(fleet: Fleet) -> None:
    run = at_work(fleet)
    kill_crew(fleet, run, "dispatcher", "captain", "watchdog")
    fleet.cli("up")
    assert_delivered_once(fleet, run)
    assert sorted(e.body["member"] for e in fleet.events("crew_revived")) == ["captain", "dispatcher", "watchdog"]


def test_down_and_up_five_times_is_no_failure_of_the_agents(fleet: Fleet) -> None:
    rule = {"on": "dispatch", "incarnation": [1, 2, 3, 4, 5], "do": [{"wait": 600}]}
    text = one_task(limits={"restarts_max": 1})
    run = fleet.launch(fleet.spec(text, {"writer": {"work_s": 0.3, "rules": [rule]}}))
    for number in range(1, 6):
        # Once in the middle of a turn, the other times as soon as the agent is there.
        wait_for(partial(has_done, fleet, "turn_start" if number == 1 else "started", number), 60, fleet.tail)
        fleet.cli("down")
        assert fleet.processes() == []
        fleet.cli("up")
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", f"{view.run.cause}\n{fleet.tail()}"
    assert view.agents["writer"].restarts == ()
    assert not fleet.events("agent_quarantined")
    assert [deed["incarnation"] for deed in fleet.deeds("writer", "started")] == [1, 2, 3, 4, 5, 6]
    assert {e.body["backoff_s"] for e in fleet.events("agent_restarted")} == {0.0}
