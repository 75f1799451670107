"""The harness contract on the real Claude Code, against the scripted model."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from dogwatch.harness.claude import Claude
from faults.watching import child_named, decisions, process_of, wait_seen, watch
from fleet import Fleet
from helpers import wait_for
from realcli.clients import claude_home
from realcli.lab import DONE, FOREVER, REPORT, WAIT, WRITE, Lab, asked, descendants, model, on


@pytest.fixture
def lab(fleet: Fleet) -> Lab:
    return Lab(fleet)


def test_it_takes_its_task_runs_tools_and_reports(lab: Lab) -> None:
    with model(on("dispatch draft", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
    assert not lab.fleet.events("alert_raised")
    told = [event.body for event in lab.fleet.events("message_delivered", "writer")]
    assert [(body["kind"], body["tries"]) for body in told] == [("canary", 1), ("dispatch", 1)]
    assert [event.body for event in lab.fleet.events("guard_proven", "writer")] == [{"incarnation": 1}]


def test_it_is_nudged_when_it_stops_over_its_task(lab: Lab) -> None:
    with model(on("nudge draft", WRITE, REPORT, DONE), on("dispatch draft", {"text": "I shall see."})) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
    assert decisions(lab.fleet, run, "writer") == [("NUDGE", "recovered")]
    assert [event.body["diagnosis"] for event in lab.fleet.events("agent_nudged", "writer")] == ["silent_turn"]


def test_it_survives_errors_of_its_provider_without_a_touch(lab: Lab) -> None:
    overloaded = {"status": {"code": 529, "times": 2, "retry_after_s": 1}}
    with model(on("dispatch draft", overloaded, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
        assert [request.status for request in asked(scripted)][:3] == [529, 529, 200]
    assert not lab.fleet.events("agent_restarted")
    assert not lab.fleet.events("agent_nudged")


def test_a_long_tool_is_named_and_left_alone(lab: Lab) -> None:
    with model(on("dispatch draft", FOREVER, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, long_tool_s=2)
        seen = wait_seen(lab.fleet, run, "writer", "long_tool")
        name, pid = child_named(seen.waits_for)
        assert name in ("bash", "sh", "zsh", "python3")
        assert pid in descendants(process_of(lab.fleet, run, "writer").pid)
        assert not lab.fleet.events("agent_restarted")
        assert not lab.fleet.events("agent_nudged")


def test_when_it_is_killed_the_next_incarnation_goes_on_with_its_conversation(lab: Lab) -> None:
    with model(
        on("dispatch draft", FOREVER, times=1),
        on("dispatch draft", WRITE, REPORT, DONE),
    ) as scripted:
        run = lab.launch(scripted, long_tool_s=2)
        wait_seen(lab.fleet, run, "writer", "long_tool")
        lab.fleet.kill(process_of(lab.fleet, run, "writer"), signal.SIGKILL)
        lab.deliver(run)
        first, last = [request for request in scripted.requests if not request.side][:1], scripted.requests[-1]
        assert {request.conversation for request in scripted.requests if request.conversation} == {
            first[0].conversation
        }
        assert last.messages > first[0].messages, "what was said before the death is still there"
    assert [event.body["reason"] for event in lab.fleet.events("agent_restarted", "writer")] == ["exited"]


def test_a_long_task_with_all_kinds_of_characters_arrives_character_for_character(lab: Lab) -> None:
    # But for tabs, of which the client's composer makes four blanks.
    odd = ["Write the draft.", "quotes ' \" `$(x)` \\ end", "emoji 🐕‍🦺 — ä", "  indented", ""]
    text = "\n".join([*odd, *(f"line {n}" for n in range(5000)), "the last line"])
    with model(on("Write the draft", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, task=text)
        lab.deliver(run)
        sent = json.dumps(asked(scripted)[0].body, ensure_ascii=False)
        assert json.dumps(text, ensure_ascii=False)[1:-1] in sent
    spool = Path(lab.fleet.home.spool(run, "writer")).read_bytes()
    assert spool.count(b"\tUserPromptSubmit\t") == 1


def test_a_tool_that_may_not_run_so_long_is_interrupted_and_its_client_told_to_go_on(lab: Lab) -> None:
    with model(on("nudge draft", WRITE, REPORT, DONE), on("dispatch draft", FOREVER)) as scripted:
        run = lab.launch(scripted, long_tool_s=1, tool_max_s=3)
        process = lab.process(run)
        event = lab.fleet.wait_event("agent_interrupted", "writer")
        assert event.body["diagnosis"] == "long_tool"
        _, tool = child_named("\n".join(event.body["evidence"]))
        # Esc runs no hook: that the turn is over, only the client's state file and its screen tell.
        ended = lab.fleet.wait_event("turn_ended", "writer")
        assert (ended.body["diagnosis"], ended.body["how"]) == ("long_tool", "interrupted")
        assert tool not in descendants(process.pid)
        lab.deliver(run)
    assert len(lab.fleet.events("agent_interrupted", "writer")) == 1
    assert [body.body["diagnosis"] for body in lab.fleet.events("agent_nudged", "writer")] == ["silent_turn"]
    assert not lab.fleet.events("agent_restarted")


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
    claude_home(lab.home, lab.fleet.base / "elsewhere")
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
