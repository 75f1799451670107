"""The operator's commands on a real run: kill, Ctrl-C, down, up, and crew members that are stopped."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dogwatch.world.processes import life
from support.fleet import Fleet
from support.helpers import wait_for

QUICK: dict[str, Any] = {"work_s": 0.2}
FIRST_TIME_SLOW: dict[str, Any] = {
    "work_s": 0.2,
    "rules": [{"on": "dispatch", "incarnation": 1, "do": [{"work": 200}]}],
}


def pipeline(**changes: Any) -> dict[str, Any]:
    dispatch = {"name": "draft", "to": "writer", "task": "Write it.", "outputs": ["draft.md"]}
    return {
        "roles": {"writer": {}, "other": {}},
        "phases": [{"name": "draft", "dispatches": [dispatch]}],
        "deliverable": {"path": "draft.md"},
        **changes,
    }


def at_work(fleet: Fleet, **changes: Any) -> str:
    """A run whose writer works for long in its first incarnation."""
    spec = fleet.spec(pipeline(**changes), {"writer": FIRST_TIME_SLOW, "other": QUICK})
    run = fleet.launch(spec)
    fleet.wait_event("message_delivered", "writer")
    return run


def test_a_killed_agent_gets_its_next_incarnation_and_the_work_goes_on(fleet: Fleet) -> None:
    run = at_work(fleet)
    before = fleet.view(run).agents
    done = fleet.cli("kill", f"{run}/writer")
    assert done.stdout == f"{run}/writer: ended, its next incarnation is being started\n"
    after = fleet.wait_over(run)
    assert after.run.state == "COMPLETED"
    assert after.agents["writer"].incarnation == 2
    assert after.agents["other"].process == before["other"].process
    assert before["writer"].process is not None
    assert life(before["writer"].process, fleet.boot) == "dead"
    assert [e.body["reason"] for e in fleet.events("agent_restarted")] == ["killed by the operator"]


def test_an_agent_that_may_not_fail_at_all_can_still_be_killed_by_the_operator(fleet: Fleet) -> None:
    run = at_work(fleet, limits={"restarts_max": 0})
    done = fleet.cli("kill", f"{run}/writer", "--wait", "15", check=False)
    assert done.returncode == 0, done.stderr
    assert fleet.wait_over(run).run.state == "COMPLETED"


def test_a_killed_run_is_failed_with_its_cause_and_nothing_is_left(fleet: Fleet) -> None:
    run, other = at_work(fleet), fleet.launch(fleet.project / "pipeline.yaml")
    fleet.wait_event("message_delivered")
    assert fleet.cli("kill", run).stdout == f"{run}: ended\n"
    view = fleet.view(run)
    assert (view.run.state, view.run.cause) == ("FAILED", "killed by the operator")
    assert fleet.leftovers([run]) == []
    assert not fleet.view(other).run.over
    again = fleet.cli("kill", run, check=False)
    assert again.returncode == 77
    assert "over already" in again.stderr


def test_a_name_that_is_not_exact_kills_nothing(fleet: Fleet) -> None:
    run = at_work(fleet)
    before = {name: agent.process for name, agent in fleet.view(run).agents.items()}
    for target in (
        "",
        "/",
        "/writer",
        "t",
        "t-",
        "t-11",
        "T-1",
        "t-1/",
        "t-1/writ",
        "t-1/*",
        "t-1/writer/x",
        "*",
        "t-1 ",
    ):
        done = fleet.cli("kill", target, "--wait", "5", check=False)
        assert (target, done.returncode) in ((target, 64), (target, 66)), done.stdout + done.stderr
        assert "hint:" in done.stderr
    view = fleet.view(run)
    assert not view.run.over
    assert {name: agent.process for name, agent in view.agents.items()} == before
    assert not fleet.events("order_given")


@pytest.mark.parametrize("moment", ["run_created", "agent_spawned", "message_delivered"])
def test_ctrl_c_ends_a_run_in_the_foreground_at_any_moment(moment: str, fleet: Fleet) -> None:
    spec = fleet.spec(pipeline(), {"writer": FIRST_TIME_SLOW, "other": QUICK})
    child = fleet.start("run", str(spec))
    fleet.wait_event(moment)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    view = fleet.view("t-1")
    assert view.run.state == "FAILED"
    assert "operator" in view.run.cause
    assert fleet.leftovers(["t-1"]) == []


def test_down_stops_everything_and_up_goes_on_where_it_was(fleet: Fleet) -> None:
    run = at_work(fleet)
    assert "down:" in fleet.cli("down").stdout
    assert fleet.processes() == []
    assert fleet.leftovers([run]) == []
    assert (fleet.view(run).run.state, fleet.view(run).run.cleared) == ("RUNNING", False)
    assert fleet.cli("down").stdout == "down: 0 processes ended\n"
    assert run in fleet.cli("up").stdout
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED"
    assert {name: agent.incarnation for name, agent in view.agents.items()} == {"writer": 2, "other": 2}
    assert [e.body["task"] for e in fleet.events("task_accepted")] == ["draft"]


@pytest.mark.parametrize("kind", ["run_created", "crew_started", "agent_spawn_intended"])
def test_down_in_the_middle_of_a_start_leaves_nothing_that_comes_later(kind: str, fleet: Fleet) -> None:
    """A crew member that was started and has not taken its place yet must not do so after `down`."""
    spec = fleet.spec(pipeline(), {"writer": FIRST_TIME_SLOW, "other": QUICK})
    child = fleet.start("run", str(spec), "--detach")
    fleet.wait_event(kind)
    # With the time that an interpreter takes to begin, somebody may be on the way.
    assert fleet.start("down").wait(60) == 0
    child.wait(60)
    assert fleet.processes() == []


def test_up_without_anything_to_do_is_fine_and_finds_the_same_dispatcher(fleet: Fleet) -> None:
    first = fleet.cli("up", "--json").stdout
    assert fleet.cli("up", "--json").stdout == first
    fleet.cli("down")
    assert fleet.processes() == []


def test_stopped_crew_members_are_noticed_as_silent_and_replaced_and_the_run_delivers(fleet: Fleet) -> None:
    until_go = {"tool": {"command": ["sh", "-c", 'until test -e "$DOGWATCH_PROJECT/go"; do sleep 0.1; done']}}
    scenario = {"work_s": 0.2, "rules": [{"on": "dispatch", "do": [until_go, "continue"]}]}
    fleet.settings(silent_s=8)
    run = fleet.launch(fleet.spec(pipeline(), {"writer": scenario, "other": QUICK}))
    fleet.wait_event("message_delivered", "writer")
    stopped = [fleet.crew("captain", run), fleet.crew("watchdog", run)]
    for process in stopped:
        assert process is not None
        fleet.kill(process, signal.SIGSTOP)
    both = {"captain", "watchdog"}
    wait_for(lambda: {e.body["member"] for e in fleet.events("crew_revived")} == both, 120, fleet.tail)
    (fleet.project / "go").touch()
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED"
    assert {e.body["member"] for e in fleet.events("crew_silent")} >= {"captain"}
    assert {e.body["member"] for e in fleet.events("crew_revived")} == both
    assert all(life(process, fleet.boot) == "dead" for process in stopped if process is not None)
    assert {agent.incarnation for agent in view.agents.values()} == {1}
    assert len(fleet.deeds("writer", "prompt")) == 1
