"""F57: instructions change in the middle of a run; who works is not disturbed, who is told sends nothing before it has
read them."""

from __future__ import annotations

import json

from faults.watching import on_dispatch, until
from support.fleet import Fleet
from support.helpers import wait_for


def test_f57_mail_is_held_until_the_new_instructions_were_read(fleet: Fleet) -> None:
    pipeline = {
        "roles": {"writer": {"instructions": "writer.md"}, "judge": {}},
        "phases": [
            {
                "name": "draft",
                "dispatches": [
                    {"name": "draft", "to": "writer", "task": "Write.", "outputs": ["draft.md"]},
                    {"name": "read", "to": "judge", "task": "Read.", "outputs": ["read.md"]},
                ],
            }
        ],
        "deliverable": {"path": "draft.md"},
    }
    sends = {"mail_send": {"to": "judge", "text": "the draft is there"}}
    refresh = {"on": "refresh", "do": [sends, until(fleet.base / "read"), "continue"]}
    writer = {"work_s": 0.3, "rules": [refresh]}
    judge = on_dispatch(until(fleet.base / "go"), "continue")
    instructions = fleet.project / "writer.md"
    instructions.write_text("---\nversion: 1.0\n---\nWrite well.\n")
    run = fleet.launch(fleet.spec(pipeline, {"writer": writer, "judge": judge}))
    fleet.wait_event("task_accepted", "writer")
    prompt = fleet.deeds("writer", "prompt")[0]["text"]
    assert f"version 1.0, are in {instructions}" in prompt
    instructions.write_text("---\nversion: 1.1\n---\nWrite better.\n")
    changed = fleet.wait_event("instructions_changed")
    assert (changed.body["from"], changed.body["to"]) == ("1.0", "1.1")
    held = fleet.wait_event("message_held", "writer")
    letter = held.body["message"]
    assert not [e for e in fleet.events("message_sent", "judge") if e.body["kind"] == "mail"]
    wait_for(lambda: fleet.deeds("writer", "mail_send"), 60, fleet.tail)
    assert fleet.deeds("writer", "mail_send")[0]["code"] == 0
    shown = json.loads(fleet.cli("status", run, "--json").stdout)["runs"][0]
    assert shown["refresh"] == {"done": 0, "agents": 1}
    assert [(a["instructions"] or {}).get("held") for a in shown["agents"]] == [True, None]
    text = fleet.cli("status", run).stdout
    assert "0/1 have the newest instructions" in text
    assert "its mail is held" in fleet.cli("explain", f"{run}/writer").stdout

    (fleet.base / "read").touch()
    read = fleet.wait_event("instructions_read", "writer")
    assert read.body["version"] == "1.1"

    def mails() -> list[str]:
        return [e.body["message"] for e in fleet.events("message_sent", "judge") if e.body["kind"] == "mail"]

    wait_for(mails, 60, fleet.tail)
    assert mails() == [letter]
    (fleet.base / "go").touch()
    assert fleet.wait_over(run).run.state == "COMPLETED"
    assert not fleet.events("refresh_expired")
    assert not fleet.events("agent_restarted")
