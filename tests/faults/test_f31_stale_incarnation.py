"""F31: what belongs to incarnation 1 reaches neither the captain nor incarnation 2 of the same name."""

from __future__ import annotations

import signal
import subprocess
import sys

from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for


def test_f31_a_report_of_a_dead_incarnation_is_refused_and_recorded(fleet: Fleet) -> None:
    scenario = {"work_s": 0.3, "rules": [{"on": "dispatch", "do": [{"work": 600}]}]}
    run = fleet.launch(fleet.spec(one_task(), {"writer": scenario}))
    wait_for(lambda: fleet.deeds("writer", "turn_start"), 60, fleet.tail)
    first = fleet.view(run).agents["writer"]
    assert first.process is not None
    fleet.kill(first.process, signal.SIGKILL)
    wait_for(lambda: len(fleet.deeds("writer", "turn_start")) == 2, 60, fleet.tail)
    environment = {
        **fleet.environment,
        "DOGWATCH_RUN": run,
        "DOGWATCH_ROLE": "writer",
        "DOGWATCH_INCARNATION": "1",
        "DOGWATCH_DOOR": fleet.home.door(run),
    }
    late = subprocess.run(
        [sys.executable, "-m", "dogwatch", "report", "done", "--task", "draft"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert late.returncode == 77
    assert "incarnation 1 of writer is gone; 2 is current" in late.stderr
    assert "hint:" in late.stderr
    refused = fleet.events("request_refused", "writer")
    assert [event.body["code"] for event in refused] == ["stale"]
    task = fleet.view(run).tasks["draft"]
    assert (task.state, task.incarnation) == ("claimed", 2)


def test_f31_a_message_for_incarnation_1_is_never_typed_to_incarnation_2(fleet: Fleet) -> None:
    # The first incarnation holds a half-written draft in its composer, so nothing can be typed to it; then it dies.
    scenario = {"work_s": 0.3, "rules": [{"on": "start", "incarnation": 1, "do": [{"draft": "not yet"}]}]}
    run = fleet.launch(fleet.spec(one_task(), {"writer": scenario}))
    fleet.wait_event("task_dispatched", "writer")
    wait_for(lambda: fleet.deeds("writer", "draft"), 60, fleet.tail)
    first = fleet.view(run).agents["writer"]
    assert first.process is not None
    (stale,) = fleet.view(run).messages.values()
    fleet.kill(first.process, signal.SIGKILL)
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    assert stale.id not in view.messages
    assert [event.body["message"] for event in fleet.events("message_expired")] == [stale.id]
    told = [message for deed in fleet.deeds("writer", "prompt") for message in deed["ids"]]
    assert len(told) == 1
    assert stale.id not in told
