"""The harness contract on the real Claude Code, against the scripted model."""

from __future__ import annotations

from dogwatch.harness.claude import Claude
from faults.watching import decisions, wait_seen, watch
from realcli.lab import DONE, REPORT, WAIT, WRITE, Lab, model, on
from support.helpers import wait_for


def test_when_a_person_ends_it_the_next_incarnation_takes_over(lab: Lab) -> None:
    with model(on("dispatch draft", WAIT, times=1), on("dispatch draft", WRITE, REPORT, DONE)) as scripted:
        run = lab.settled(scripted)
        lab.keys(run, "-l", "/exit")
        wait_for(lambda: lab.composer(run) == "/exit", 30, lambda: "\n".join(lab.screen(run)))
        lab.keys(run, "Enter")
        lab.deliver(run)
    assert [event.body["reason"] for event in lab.fleet.events("agent_restarted", "writer")] == ["exited"]
    ends = [line.payload()["reason"] for line in lab.spool(run, "SessionEnd") if line.incarnation == 1]
    assert ends == ["prompt_input_exit"]


def test_f08_a_permission_dialog_calls_a_person_once_and_gets_no_key(lab: Lab) -> None:
    note = lab.fleet.project / "note.md"
    write = {"tool": {"name": "Write", "input": {"file_path": str(note), "content": "A note."}}}
    with model(on("dispatch draft", write, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, clerk=True, dialog_s=1, nudge_s=1, peek_s=1)
        seen = wait_seen(lab.fleet, run, "writer", "awaiting_permission", 90)
        assert seen.waits_for == "a person"
        called = lab.fleet.wait_event("person_called", "writer")
        assert "note.md" in called.body["evidence"][0]
        lab.mail(run, "Are you there?")
        assert {Claude().read(lab.screen(run)).state for _ in lab.steps(run)} == {"permission"}
        assert not note.exists()
        lab.keys(run, "1")
        lab.deliver(run)
    assert note.read_text() == "A note."
    assert len(lab.fleet.events("person_called", "writer")) == 1
    assert decisions(lab.fleet, run, "writer")[0] == ("ESCALATE", "recovered")
    assert not lab.fleet.events("agent_restarted")


def test_f20_a_trust_dialog_calls_a_person_with_its_text_and_gets_no_key(lab: Lab) -> None:
    lab.trusted = lab.fleet.base / "elsewhere"
    with model(on("dispatch draft", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, dialog_s=1)
        alert = lab.fleet.wait_event("alert_raised", "writer")
        assert alert.body["diagnosis"] == "startup_dialog"
        assert "Yes, I trust this folder" in "\n".join(alert.body["evidence"])
        assert {Claude().read(lab.screen(run)).state for _ in lab.steps(run)} == {"dialog"}
        lab.keys(run, "Down", "Enter")
        lab.deliver(run)
    assert [event.body["diagnosis"] for event in lab.fleet.events("person_called", "writer")] == ["startup_dialog"]
    assert not lab.fleet.events("agent_restarted")


def test_f09_old_errors_above_a_healthy_prompt_are_history(lab: Lab) -> None:
    words = "● API Error: 529 Overloaded. ✻ Thinking… Retrying in 5s · attempt 3/10. Do you want to proceed? ❯ 1. Yes"
    first = {"command": f"echo '{words}'", "text": "API Error: 500, says the log."}
    with model(on("dispatch draft", {"shell": first}, WAIT)) as scripted:
        run = lab.settled(scripted)
        kinds = {watch(lab.fleet, run).agents["writer"].kind for _ in lab.steps(run)}
        assert "API Error" in "\n".join(lab.screen(run))
        assert Claude().read(lab.screen(run)).state == "idle"
        assert wait_seen(lab.fleet, run, "writer", "idle").screen == "idle"
    assert not lab.fleet.events("alert_raised"), kinds
