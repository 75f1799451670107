"""F02: the client is gone and its session lives on with a shell prompt. The process says so, not the session."""

from __future__ import annotations

import os
import signal

import pytest

from dogwatch.world.processes import identify
from faults.watching import assert_unnoticed, beside, decisions, on_dispatch
from support.fleet import Fleet
from support.helpers import wait_for


@pytest.mark.parametrize("how", ["killed", "left"])
def test_f02_a_client_that_left_its_shell_behind_is_noticed_and_started_again(fleet: Fleet, how: str) -> None:
    # No threshold helps here: whoever waits for silence waits for minutes.
    limits = {"nudge_s": 120, "peek_s": 120, "claim_s": 120}
    first = {"wait": 600} if how == "killed" else "shell"
    scenarios = {"writer": on_dispatch(first, incarnation=1, launcher=True), "clerk": {"work_s": 4}}
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits=limits), scenarios))
    began = wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)[0]
    if how == "killed":
        client = identify(began["pid"], fleet.boot)
        assert client is not None
        os.kill(client.pid, signal.SIGKILL)
    alert = fleet.wait_event("alert_raised", "writer", 30)
    assert alert.body["diagnosis"] == "exited"
    assert alert.body["confidence"] == 1.0
    evidence = alert.body["evidence"]
    assert evidence[0].startswith("process: "), evidence
    last_words = "Killed" if how == "killed" else "scripted agent"
    assert last_words in "\n".join(evidence[1:]), "the last lines of the pane"
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    restarted = fleet.events("agent_restarted", "writer")
    assert [(event.body["reason"], event.body["incarnation"]) for event in restarted] == [("exited", 2)]
    assert [deed["incarnation"] for deed in fleet.deeds("writer", "report_called")] == [2]
    assert [event.body["task"] for event in fleet.events("task_released")] == ["writer-task"]
    assert decisions(fleet, run, "writer") == [("RESTART", "recovered")]
    assert_unnoticed(fleet, "clerk")
