"""F32: an agent dies again and again. Every way to fail counts, restarts come later and later, and then it is given up
and a person is told. What is spread over a long time is no storm, and a new name is no new beginning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dogwatch.actions.kill import end_session
from dogwatch.world.processes import life, marked
from faults.watching import assert_unnoticed, beside, on_dispatch, process_of
from support.fleet import Fleet
from support.helpers import wait_for

BACKOFF_S = 0.5
CLAIM_S, PROBE_S = 4.0, 3.0
CLERK: dict[str, Any] = {"limits": {"claim_s": 60, "nudge_s": 30}}
"""A clerk is healthy; on a busy machine it may be slow."""


def with_clerk(fleet: Fleet, limits: Mapping[str, float]) -> dict[str, Any]:
    """A clerk who delivers, and a writer whom the run can do without; who is told of something tells the test."""
    pipeline = beside("clerk", "writer", limits=limits)
    pipeline["roles"]["clerk"] = dict(CLERK)
    tell = ["sh", "-c", 'cat >>"$0"; echo >>"$0"', str(fleet.base / "told")]
    return {**pipeline, "on_task_failure": "partial", "notify": {"command": tell, "on": ["quarantine"]}}


def told(fleet: Fleet) -> list[dict[str, Any]]:
    path = fleet.base / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def starts(fleet: Fleet) -> list[tuple[str, int]]:
    """Every start of a writer, whatever its name was."""
    return [(deed["agent"].partition("/")[2], deed["incarnation"]) for deed in fleet.deeds("writer", "started")]


def test_f32_every_way_to_fail_counts_until_the_agent_is_given_up_and_a_person_is_told(fleet: Fleet) -> None:
    rules = [
        {"on": "start", "incarnation": 1, "do": [{"crash": "SIGKILL"}]},
        {"on": "dispatch", "incarnation": 2, "do": [{"crash": "SIGSEGV"}]},
        {"on": "dispatch", "incarnation": 3, "do": [{"wait": 600}]},
        {"on": "dispatch", "incarnation": 4, "do": [{"exit": 0}]},
    ]
    limits = {"restarts_max": 3, "restart_backoff_s": BACKOFF_S}
    scenarios = {"clerk": {"work_s": 6}, "writer": {"work_s": 0.3, "rules": rules}}
    run = fleet.launch(fleet.spec(with_clerk(fleet, limits), scenarios))
    wait_for(lambda: [deed["incarnation"] for deed in fleet.deeds("writer", "turn_start")] == [2, 3], 60, fleet.tail)
    last = process_of(fleet, run, "writer")
    end_session(fleet.home.tmux(run), f"{run}-writer")
    quarantined = fleet.wait_event("agent_quarantined", "writer", 60)
    assert "writer failed 4 times within 600 s" in quarantined.body["reason"]
    assert life(last, fleet.boot) == "dead"
    view = fleet.wait_over(run, 60)
    assert view.run.state == "PARTIAL", view.run.cause
    assert "writer failed 4 times" in view.run.cause
    restarted = fleet.events("agent_restarted", "writer")
    assert [event.body["reason"] for event in restarted] == ["exited", "exited", "session_dead"]
    # The first one at once, each further one twice as late, and none before its time.
    assert [event.body["backoff_s"] for event in restarted] == [0.0, BACKOFF_S, 2 * BACKOFF_S]
    intended = {event.body["incarnation"]: event.at for event in fleet.events("agent_spawn_intended", "writer")}
    for event in restarted:
        assert intended[event.body["incarnation"]].since(event.at) >= event.body["backoff_s"]
    assert starts(fleet) == [("writer", number) for number in (1, 2, 3, 4)]
    assert fleet.events("task_failed")[0].body["task"] == "writer-task"
    wait_for(lambda: fleet.events("notice_sent"), 60, fleet.tail)
    assert [(notice["kind"], notice["agent"]) for notice in told(fleet)] == [("quarantine", "writer")]
    assert_unnoticed(fleet, "clerk")
    assert [deed["incarnation"] for deed in fleet.deeds("clerk", "report_called")] == [1]


def test_f32_deaths_that_are_spread_over_a_long_time_are_no_storm(fleet: Fleet) -> None:
    # Each incarnation lives for longer than the period over which failures are counted.
    limits = {"restarts_max": 1, "restart_period_s": 2, "restart_backoff_s": 60}
    dies = {"on": "dispatch", "incarnation": [1, 2, 3], "do": [{"wait": 3}, {"crash": "SIGKILL"}]}
    scenarios = {"clerk": {"work_s": 2}, "writer": {"work_s": 0.3, "rules": [dies]}}
    run = fleet.launch(fleet.spec(with_clerk(fleet, limits), scenarios))
    view = fleet.wait_over(run, 120)
    assert view.run.state == "COMPLETED", view.run.cause
    assert [event.body["backoff_s"] for event in fleet.events("agent_restarted", "writer")] == [0.0] * 3
    assert starts(fleet) == [("writer", number) for number in (1, 2, 3, 4)]
    assert not fleet.events("agent_quarantined")
    assert told(fleet) == []
    assert_unnoticed(fleet, "clerk")


def test_f32_a_successor_under_a_new_name_inherits_every_failure_before_it(fleet: Fleet) -> None:
    limits = {"nudge_s": 2, "claim_s": CLAIM_S, "probe_s": PROBE_S, "restarts_max": 2}
    scenarios = {"clerk": {"work_s": 2}, "writer": on_dispatch("hang")}
    run = fleet.launch(fleet.spec(with_clerk(fleet, limits), scenarios))
    wait_for(lambda: len(fleet.deeds("writer", "hung")) >= 2, 60, fleet.tail)
    # Both incarnations of the writer hang; who comes after them does not even start.
    dies = {"rules": [{"on": "start", "do": [{"crash": "SIGKILL"}]}]}
    (fleet.project / "writer.json").write_text(json.dumps(dies))
    replaced = fleet.wait_event("agent_replaced", "writer", 60)
    successor = replaced.body["successor"]
    view = fleet.wait_over(run, 60)
    assert view.run.state == "PARTIAL", view.run.cause
    assert [event.agent for event in fleet.events("agent_quarantined")] == [successor]
    assert f"{successor} failed 3 times within 600 s" in view.run.cause
    # One start and two more, whatever they were called: two stalls and a death are three failures.
    assert starts(fleet) == [("writer", 1), ("writer", 2), (successor, 1)], fleet.tail()
    wait_for(lambda: fleet.events("notice_sent"), 60, fleet.tail)
    assert [(notice["kind"], notice["agent"]) for notice in told(fleet)] == [("quarantine", successor)]
    assert not list(marked(fleet.boot, fleet.home.path, run))
    assert_unnoticed(fleet, "clerk")
