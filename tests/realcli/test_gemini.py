"""What is special about the Gemini CLI (0.61.0): its settings in layers, the ends of its turns, its compactions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dogwatch.actions.spawn import HOOK
from dogwatch.harness import Launch, harness
from dogwatch.harness.gemini import HOOK_NAME, Gemini
from dogwatch.model.plan import Role
from realcli.clients import rehearsal
from realcli.lab import DONE, FOREVER, REPORT, WRITE, Lab, asked, directives, model, on, told
from support.helpers import wait_for

OFF: tuple[dict[str, Any], ...] = ({"enabled": False}, {"disabled": [HOOK_NAME]})


@pytest.mark.parametrize("off", OFF, ids=["all hooks", "ours"])
def test_where_the_project_switches_its_hooks_off_it_is_not_even_typed_to(lab: Lab, off: dict[str, Any]) -> None:
    folder = lab.fleet.project / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"hooksConfig": off}))
    with model(on(".*", DONE)) as scripted:
        lab.launch(scripted, startup_s=8)
        restarted = lab.fleet.wait_event("agent_restarted", "writer")
        assert restarted.body["reason"] == "startup_stall"
        assert not lab.fleet.events("message_delivered")
        assert not asked(scripted)


def test_the_users_own_settings_do_not_switch_them_off_and_are_left_as_they_are(lab: Lab) -> None:
    with model(on("dispatch draft", FOREVER, times=1), on("nudge draft", WRITE, REPORT, DONE)) as scripted:
        home = lab.fleet.base / "person"
        environment = rehearsal("gemini", home, lab.fleet.project, scripted.url)
        settings = home / ".gemini/settings.json"
        theirs = {**json.loads(settings.read_text()), "hooksConfig": {"enabled": False, "disabled": [HOOK_NAME]}}
        theirs["ui"] |= {"hideWindowTitle": True, "dynamicWindowTitle": False}
        settings.write_text(f"// mine\n{json.dumps(theirs)}")
        before = {path.name: path.read_bytes() for path in (home / ".gemini").iterdir()}
        run = lab.launch(scripted, role={"environment": environment}, long_tool_s=1, tool_max_s=5)
        wait_for(lambda: lab.spool(run, "PreToolUse"), 90, lab.fleet.tail)
        wait_for(lambda: lab.title(run).startswith("✦"), 60, lambda: lab.title(run))
        assert harness("gemini").read(("a screen", "that nobody knows"), lab.title(run)).state == "unknown"
        lab.deliver(run)
    assert {path.name: path.read_bytes() for path in (home / ".gemini").iterdir()} == before


def test_errors_that_end_a_turn_have_types(lab: Lab) -> None:
    key = {"status": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "times": "always"}}
    full = {
        "status": {"code": 400, "message": "The input token count (2) exceeds the maximum number of tokens allowed"}
    }
    rules = (
        on("dispatch draft", key, times=1),
        on("nudge draft", full, times=1),
        on("dispatch draft", WRITE, REPORT, DONE),
    )
    with model(*rules) as scripted:
        run = lab.launch(scripted, hold_s=1)
        lab.deliver(run)
    types = [event.body["type"] for event in lab.fleet.events("agent_error", "writer")]
    assert types == ["auth_failed", "context_exhausted"]
    assert [event.body["reason"] for event in lab.fleet.events("agent_restarted", "writer")] == ["context_exhausted"]
    first, last = asked(scripted)[0], asked(scripted)[-1]
    assert first.conversation != last.conversation, "it has begun anew"


def test_a_compaction_is_seen_when_there_is_one(lab: Lab) -> None:
    used = {"input_tokens": 700_000, "output_tokens": 7}
    much = {"tool": {"name": "run_shell_command", "input": {"command": "echo much"}, "usage": used}}
    with model(on("dispatch draft", {"text": "I wait."}), usage={"input_tokens": 50_000}) as scripted:
        run = lab.settled(scripted)
        assert not lab.spool(run, "PostCompact"), "the client has spoken of one before each request"
        assert lab.spool(run, "PreCompress")
        lab.mail(run, directives(much, WRITE, REPORT, DONE))
        lab.deliver(run)
    assert len(lab.spool(run, "PostCompact")) == 1
    assert len(lab.fleet.events("context_compacted", "writer")) == 1


def test_what_stands_behind_an_at_sign_is_not_read_as_a_file(lab: Lab) -> None:
    (lab.fleet.project / "notes.txt").write_text("what is in the file")
    with model(on("dispatch draft", {"text": "I wait."}), on("mail", WRITE, REPORT, DONE)) as scripted:
        run = lab.settled(scripted)
        lab.mail(run, "Look at @notes.txt, me@example.org and @/etc/hostname.")
        lab.deliver(run)
        said = told(asked(scripted)[-1])
    assert "Look at @notes.txt, me@example.org and @/etc/hostname." in said
    assert "what is in the file" not in said


def test_a_tool_does_not_run_where_its_hook_cannot(tmp_path: Path) -> None:
    role = Role(name="a", harness="gemini", environment={"HOME": str(tmp_path)})
    for python, hook in ((str(tmp_path / "nothing"), HOOK), (sys.executable, str(tmp_path / "nothing.py"))):
        launch = Launch(role=role, python=python, hook=hook, folder=str(tmp_path), conversation="c")
        command = Gemini().settings(launch)["hooks"]["BeforeTool"][0]["hooks"][0]["command"]
        done = subprocess.run(["bash", "-c", command], input=b"{}", capture_output=True, timeout=120, check=False)
        assert (done.returncode, bool(done.stderr), done.stdout) == (2, True, b""), "a denial without words would pass"


def test_f61_a_stop_loop_that_no_interrupt_ends_is_no_endless_one_and_the_run_says_why(lab: Lab) -> None:
    # An interrupt ends the turn, and with that the client asks the user's own hook again, which holds it again.
    hold = "echo 'You may not stop yet.' >&2; exit 2"
    slowly = {"text": {"text": "I am done with all of it.", "token_s": 0.1}}
    with model(on("dispatch draft|may not stop", slowly)) as scripted:
        home = lab.fleet.base / "person"
        environment = rehearsal("gemini", home, lab.fleet.project, scripted.url)
        settings = home / ".gemini/settings.json"
        hooks = {"AfterAgent": [{"hooks": [{"type": "command", "command": hold}]}]}
        settings.write_text(json.dumps({**json.loads(settings.read_text()), "hooks": hooks}))
        run = lab.launch(scripted, role={"environment": environment}, probe_s=4, restarts_max=1)
        view = lab.fleet.wait_over(run, 200)
    assert view.run.state == "FAILED"
    assert "stop_loop" in view.run.cause
    assert lab.fleet.events("agent_interrupted", "writer")[0].body["diagnosis"] == "stop_loop"
    assert {event.body["reason"] for event in lab.fleet.events("agent_restarted", "writer")} == {"stop_loop"}
