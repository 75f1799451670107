"""A person's draft stands in the agent's composer: it stays, whatever waits behind it, and for as long as it takes."""

from __future__ import annotations

import subprocess
from typing import Any

from dogwatch.harness.scripted import Scripted
from dogwatch.world import tmux
from support.fleet import Fleet
from support.helpers import wait_for

DRAFT = "half a thought of somebod"


def composer(fleet: Fleet, run: str) -> str | None:
    """What stands in the writer's composer."""
    pane = fleet.view(run).agents["writer"].pane
    return Scripted().read(tmux.captures(fleet.home.tmux(run), [pane]).get(pane, ())).composer


def two_tasks() -> dict[str, Any]:
    phases = [
        {"name": name, "dispatches": [{"name": name, "to": "writer", "task": "Write.", "outputs": [f"{name}.md"]}]}
        for name in ("draft", "final")
    ]
    return {"roles": {"writer": {}}, "phases": phases, "deliverable": {"path": "final.md"}, "limits": {"nudge_s": 1}}


def test_a_draft_in_the_composer_is_left_alone_and_an_overtaken_nudge_is_never_typed(fleet: Fleet) -> None:
    rule = {"on": "dispatch", "subject": "draft", "do": [{"draft": DRAFT}, "silent"]}
    run = fleet.launch(fleet.spec(two_tasks(), {"writer": {"work_s": 0.3, "rules": [rule]}}))
    wait_for(lambda: fleet.deeds("writer", "fell_silent"), 60, fleet.tail)
    # The stall is seen, a nudge waits for its turn; it lasts, and is looked at again and again.
    fleet.wait_event("agent_nudged", "writer")
    wait_for(lambda: len(fleet.events("alert_withdrawn", "writer")) >= 2, 60, fleet.tail)
    assert composer(fleet, run) == DRAFT
    assert len(fleet.events("agent_nudged")) == 1
    assert not fleet.events("agent_restarted")
    assert len(fleet.deeds("writer", "prompt")) == 1
    # Meanwhile the work is done by other means: the nudge is overtaken, the next task waits behind it.
    (fleet.project / "out" / run / "draft.md").write_text("written by hand")
    assert b"reported" in fleet.as_agent(run, "writer", "report", "done", "--task", "draft").stdout
    wait_for(lambda: "final" in fleet.view(run).tasks, 60, fleet.tail)
    assert composer(fleet, run) == DRAFT
    # The person takes the draft away; now the next task is typed, and nothing else.
    target = ["-t", fleet.view(run).agents["writer"].pane]
    subprocess.run(["tmux", "-S", fleet.home.tmux(run), "send-keys", *target, "C-u"], check=True)
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", f"{view.run.cause}\n{fleet.tail()}"
    expired = fleet.events("message_expired", "writer")
    assert [event.body["kind"] for event in expired] == ["nudge"]
    sent = {event.body["message"]: event.body["kind"] for event in fleet.events("message_sent")}
    told = [sent[message] for deed in fleet.deeds("writer", "prompt") for message in deed["ids"]]
    assert told == ["dispatch", "dispatch"]
    assert not fleet.events("agent_restarted")
