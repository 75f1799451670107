"""F30: an alert is acted on late, when the agent has moved on; the captain looks again and does nothing."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from faults.pipelines import one_task
from support.fleet import Fleet
from support.helpers import wait_for


def test_f30_an_alert_whose_evidence_is_gone_at_the_moment_of_acting_is_withdrawn(fleet: Fleet) -> None:
    scenario = {
        "work_s": 0.3,
        "rules": [
            {"on": "dispatch", "do": ["silent"]},
            # A person types something: the agent goes on by itself.
            {
                "on": "prompt",
                "do": [{"work": 4}, {"write": {"path": "draft.md", "content": "done"}}, {"report": "done"}],
            },
        ],
    }
    run = fleet.launch(fleet.spec(one_task(), {"writer": scenario}))
    fleet.wait_event("message_delivered", "writer")
    wait_for(lambda: fleet.deeds("writer", "fell_silent"), 60, fleet.tail)
    captain = fleet.crew("captain", run)
    assert captain is not None
    fleet.kill(captain, signal.SIGSTOP)
    try:
        alert = fleet.wait_event("alert_raised", "writer")
        assert alert.body["action"] == "NUDGE"
        tmux = ["tmux", "-S", fleet.home.tmux(run)]
        subprocess.run([*tmux, "send-keys", "-t", f"={run}-writer:", "-l", "please finish it"], check=True)
        subprocess.run([*tmux, "send-keys", "-t", f"={run}-writer:", "Enter"], check=True)
        spool = Path(fleet.home.spool(run, "writer"))
        wait_for(lambda: spool.read_bytes().count(b"\tUserPromptSubmit\t") == 2, 60, "the second turn")
    finally:
        fleet.kill(captain, signal.SIGCONT)
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", view.run.cause
    withdrawn = fleet.events("alert_withdrawn", "writer")
    assert [event.body["why"] for event in withdrawn] == ["now working"], fleet.tail()
    assert not fleet.events("agent_nudged")
    assert not fleet.events("agent_restarted")
    assert len(fleet.deeds("writer", "prompt")) == 2
