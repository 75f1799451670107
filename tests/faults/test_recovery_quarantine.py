"""An agent that was given up: it works no more, an order to end it does no harm, and the run ends with its name."""

from __future__ import annotations

from typing import Any

from dogwatch.model.keys import orders_queue
from dogwatch.world.processes import life, marked
from faults.pipelines import three_phases
from support.fleet import Fleet
from support.helpers import wait_for

FAST: dict[str, Any] = {"work_s": 0.2}


def test_a_reviewer_that_was_given_up_fails_the_run_with_its_name_and_the_captain_lives(fleet: Fleet) -> None:
    dies = {**FAST, "rules": [{"on": "checkpoint", "do": [{"crash": "SIGKILL"}]}]}
    spec = {**three_phases(), "limits": {"restarts_max": 1}}
    run = fleet.launch(fleet.spec(spec, {"planner": FAST, "writer": FAST, "judge": dies}))
    view = fleet.wait_over(run)
    assert view.run.state == "FAILED"
    assert "checkpoint review failed" in view.run.cause
    assert "judge failed 2 times" in view.run.cause
    assert len(fleet.events("agent_quarantined", "judge")) == 1
    assert [deed["incarnation"] for deed in fleet.deeds("judge", "started")] == [1, 2]
    assert not fleet.events("crew_lost")
    assert not fleet.events("crew_revived")
    wait_for(lambda: not fleet.leftovers([run]), 30, "nothing left of the run")


def two_writers() -> dict[str, Any]:
    """A deliverable by one writer, and an appendix by another that the run can do without."""
    dispatches = [
        {"name": name, "to": name, "task": "Write.", "outputs": [f"{name}.md"]} for name in ("writer", "appendix")
    ]
    return {
        "roles": {"writer": {}, "appendix": {}},
        "phases": [{"name": "write", "dispatches": dispatches}],
        "deliverable": {"path": "writer.md"},
        "on_task_failure": "partial",
        "limits": {"startup_s": 3, "restarts_max": 0},
    }


def test_a_given_up_agent_is_ended_and_an_order_to_end_it_once_more_does_no_harm(fleet: Fleet) -> None:
    writer = {**FAST, "rules": [{"on": "dispatch", "do": [{"wait": 600}]}]}
    asks = {**FAST, "start_delay_s": 600}
    run = fleet.launch(fleet.spec(two_writers(), {"writer": writer, "appendix": asks}))
    fleet.wait_event("agent_spawned", "appendix")
    process = fleet.view(run).agents["appendix"].process
    assert process is not None
    quarantined = fleet.wait_event("agent_quarantined", "appendix")
    assert "startup_stall" in quarantined.body["reason"]
    wait_for(lambda: life(process, fleet.boot) == "dead", 30, "the end of the quarantined agent")
    wait_for(lambda: not list(marked(fleet.boot, fleet.home.path, run, "appendix")), 30, "the end of all it started")
    wait_for(lambda: fleet.view(run).agents["appendix"].process is None, 30, fleet.tail)
    fleet.wait_event("task_failed", "")
    before = (fleet.crew("captain", run), fleet.view(run).agents["appendix"])
    told = fleet.cli("kill", f"{run}/appendix", "--wait", "2", check=False)
    assert "Traceback" not in told.stderr
    wait_for(lambda: not fleet.ledger.read(lambda r: r.items(orders_queue(run))), 30, "the order to be taken")
    assert (fleet.crew("captain", run), fleet.view(run).agents["appendix"]) == before
    assert [deed["incarnation"] for deed in fleet.deeds("appendix", "started")] == [1]
    # The healthy one was left alone, and goes on to deliver.
    (fleet.project / "out" / run / "writer.md").write_text("the text")
    assert b"reported" in fleet.as_agent(run, "writer", "report", "done", "--task", "writer").stdout
    view = fleet.wait_over(run)
    assert view.run.state == "PARTIAL", view.run.cause
    assert "appendix failed 1 times" in view.run.cause
    assert [deed["incarnation"] for deed in fleet.deeds("writer", "started")] == [1]


def test_an_order_to_end_an_agent_that_was_given_up_says_so_at_once(fleet: Fleet) -> None:
    writer = {**FAST, "rules": [{"on": "dispatch", "do": [{"wait": 600}]}]}
    dies = {**FAST, "rules": [{"on": "start", "do": [{"crash": "SIGKILL"}]}]}
    run = fleet.launch(fleet.spec(two_writers(), {"writer": writer, "appendix": dies}))
    fleet.wait_event("agent_quarantined", "appendix")
    told = fleet.cli("kill", f"{run}/appendix", "--wait", "5", check=False)
    assert "was not ended within" not in told.stderr, "there is nothing to wait for"
    assert "given up" in told.stderr
