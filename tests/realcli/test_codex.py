"""What is special about Codex: trust in hooks, programs as tool calls, its daemon, its rollouts, its dialogs."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dogwatch.harness import harness
from faults.watching import wait_seen
from realcli.clients import program
from realcli.lab import DONE, REPORT, WRITE, Lab, asked, descendants, directives, model, on, results, told
from support.helpers import wait_for

LAUNCHER = """import os, sys
old, new, *words = sys.argv[1:]
os.execv(words[0], [word.replace(old, new) for word in words])
"""
PROGRAMMER = "gpt-6.1-sol"
"""A model to which the client offers one tool for programs in JavaScript, which use its other tools."""


def launcher(lab: Lab, old: str, new: str) -> list[str]:
    """The client, started by a program that changes what it is told by flag."""
    path = lab.fleet.base / "launcher.py"
    path.write_text(LAUNCHER)
    return [sys.executable, str(path), old, new, program("codex")]


def javascript(source: str) -> dict[str, Any]:
    return {"tool": {"name": "functions.exec", "input": {"input": source}}}


def patch(path: Path | str) -> str:
    return f"*** Begin Patch\n*** Add File: {path}\n+A mark.\n*** End Patch"


def test_a_hook_that_is_not_trusted_gets_no_work(lab: Lab) -> None:
    with model(on("dispatch draft", WRITE, REPORT, DONE)) as scripted:
        command = launcher(lab, "sha256:", "sha256:0")
        run = lab.launch(scripted, role={"command": command}, dialog_s=1)
        called = lab.fleet.wait_event("person_called", "writer")
        assert called.body["diagnosis"] == "startup_dialog"
        assert "Hooks need review" in "\n".join(called.body["evidence"])
        states = {harness("codex").read(lab.screen(run), lab.title(run)).state for _ in islice(lab.steps(run), 5)}
        assert states == {"dialog"}
        assert not scripted.requests
    assert not lab.spool(run)
    assert not lab.delivered()


def test_hooks_that_never_run_get_no_work(lab: Lab) -> None:
    with model(on("dispatch draft", WRITE, REPORT, DONE)) as scripted:
        command = launcher(lab, "features.hooks=true", "features.hooks=false")
        run = lab.launch(scripted, role={"command": command}, startup_s=8)
        event = lab.fleet.wait_event("agent_restarted", "writer")
        assert event.body["reason"] in ("startup_stall", "guard_silent")
        assert not [request for request in asked(scripted) if "dispatch" in request.prompt]
    assert not lab.spool(run)
    assert not lab.delivered()


def test_hooks_of_others_are_trusted_by_nobody_but_the_user(lab: Lab) -> None:
    mark = lab.fleet.base / "mark"
    command = {"type": "command", "command": f"touch {mark}"}
    hooks = {event: [{"hooks": [command]}] for event in ("SessionStart", "UserPromptSubmit", "Stop")}
    (lab.home / ".codex").mkdir()
    (lab.home / ".codex/hooks.json").write_text(json.dumps({"hooks": hooks}))
    with model(on("dispatch draft", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, dialog_s=1)
        called = lab.fleet.wait_event("person_called", "writer")
        assert "3 hooks are new or changed" in "\n".join(called.body["evidence"]), "those of dogwatch are none of them"
        lab.keys(run, "Escape")
        lab.deliver(run)
    assert lab.fleet.events("guard_proven", "writer")
    assert not mark.exists()


def test_a_model_that_writes_programs_is_guarded_too_and_all_of_it_runs_below_the_pane(lab: Lab) -> None:
    folder = lab.fleet.home.agent("t-1", "writer")
    typed = {"cmd": "cat", "tty": True, "yield_time_ms": 500}
    here = f"apply_patch <<'EOF'\n{patch('mark')}\nEOF"
    steps = [
        {"shell": "tmux kill-server"},
        javascript(f"text(await tools.apply_patch({json.dumps(patch('second'))}));"),
        javascript(f"text(await tools.apply_patch({json.dumps(patch(f'{folder}/mark'))}));"),
        {"shell": f"cd {folder} && {here}"},
        javascript(f"text(await tools.exec_command({json.dumps({'cmd': 'touch mark', 'workdir': folder})}));"),
        javascript(f"text(await tools.exec_command({json.dumps(typed)}));"),
        {"shell": "cat /proc/$PPID/comm; echo I am $DOGWATCH_ROLE"},
        {"agent": {"prompt": directives({"shell": "tmux kill-server"}, {"text": "The sub-agent has looked."})}},
    ]
    with model(on("dispatch draft", *steps, WRITE, REPORT, DONE)) as scripted:
        # What the user has switched on himself stands before what dogwatch says.
        command = [program("codex"), "-m", PROGRAMMER, "-c", "features.daemon_auto_start=true"]
        run = lab.launch(scripted, role={"command": command, "sandbox": "off"})
        process = lab.process(run)
        wait_for(lambda: lab.spool(run, "PreToolUse"), 90, lab.fleet.tail)
        below = [Path(f"/proc/{pid}/cmdline") for pid in descendants(process.pid)]
        assert not [path for path in below if path.exists() and b"\0app-server" in path.read_bytes()]
        lab.deliver(run)
        answers = results(scripted)
    rules = [entry["rule"] for entry in lab.denials(run)]
    assert sorted(rules) == sorted(["tmux.kill-server", *["path.dogwatch"] * 3, "tmux.kill-server"])
    assert (lab.fleet.project / "second").exists()
    assert not Path(folder, "mark").exists()
    assert "TTY execution is disabled" in "\n".join(answers), "what is typed into a program no hook reads"
    assert [answer for answer in answers if "codex\\nI am writer" in answer], "its tools are the client's own children"
    assert [one for one in lab.spool(run, "Denied") if "agent_id" not in one.payload()]
    tools = {line.payload()["tool_use_id"] for line in lab.spool(run, "PreToolUse")}
    assert len(tools) >= 8, "each call in a program has a hook of its own"
    assert not list((lab.home / ".codex").glob("**/*.sock"))


def test_an_error_that_ends_the_turn_is_told_by_its_rollout(lab: Lab) -> None:
    with model(
        on("dispatch draft", {"status": {"code": 429, "message": "scripted words"}}),
        on("nudge draft", WRITE, REPORT, DONE),
    ) as scripted:
        run = lab.launch(scripted, hold_s=2)
        seen = wait_seen(lab.fleet, run, "writer", "provider_wait", 90)
        assert "rate_limited" in "\n".join(seen.evidence)
        assert harness("codex").read(lab.screen(run), lab.title(run)).state == "error"
        lab.deliver(run)
    [failure] = lab.fleet.events("agent_error", "writer")
    assert failure.body["type"] == "rate_limited"
    assert "429" in failure.body["message"]
    assert not lab.spool(run, "StopFailure"), "no hook tells of it"
    assert not lab.fleet.events("agent_restarted")


def test_a_full_context_begins_a_new_conversation(lab: Lab) -> None:
    with model(
        on("dispatch draft", {"status": {"code": 413, "tokens": 1, "text": "I", "message": "too long"}}, times=1),
        on("dispatch draft", WRITE, REPORT, DONE),
    ) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
        conversations = [request.conversation for request in asked(scripted)]
    assert [event.body["reason"] for event in lab.fleet.events("agent_restarted", "writer")] == ["context_exhausted"]
    assert conversations[0] != conversations[-1]


def test_a_compaction_is_seen(lab: Lab) -> None:
    usage = {"input_tokens": 250_000, "output_tokens": 7}
    nearly_full = {"text": {"text": "I have read much.", "usage": usage}}
    with model(on("nudge draft", WRITE, REPORT, DONE), on("dispatch draft", nearly_full)) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
    assert lab.spool(run, "PreCompact")
    assert lab.fleet.events("context_compacted", "writer")
    assert lab.fleet.events("context_low", "writer")


def test_a_stream_that_stops_looks_busy_by_its_title(lab: Lab) -> None:
    hang = {"hang": {"text": "I begin to think of it.", "tokens": 3}}
    with model(on("dispatch draft", hang)) as scripted:
        run = lab.launch(scripted, patient=True)
        wait_for(lambda: lab.spool(run, "UserPromptSubmit"), 90, lab.fleet.tail)
        client = harness("codex")
        wait_for(lambda: client.read(lab.screen(run), lab.title(run)).state == "busy", 60, lab.fleet.tail)
        assert {client.read(lab.screen(run), lab.title(run)).state for _ in islice(lab.steps(run), 5)} == {"busy"}
        lab.keys(run, *client.interrupt_keys)
        wait_for(lambda: lab.spool(run, "Interrupt"), 60, lab.fleet.tail)
        wait_for(lambda: client.read(lab.screen(run), lab.title(run)).state == "idle", 60, lab.fleet.tail)


def test_a_check_in_answers_from_the_owners_conversation_and_leaves_the_owner_alone(lab: Lab) -> None:
    question, answer = "How many chapters are written?", "Four of six, says the copy."
    go, began, harm = (lab.fleet.base / name for name in ("go", "began", "harm"))
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)"
    work = {"shell": f"touch {began}; python3 -c {shlex.quote(wait)}"}
    asking = on("How many chapters", {"shell": f"touch {harm}"}, {"text": answer})
    with model(asking, on("dispatch draft", work, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, "Write the draft of the quokka book.", clerk=True, patient=True)
        wait_for(began.exists, 120, lab.fleet.tail)
        before, spool = rollouts(lab), lab.spool(run)
        letter = json.loads(lab.fleet.cli("check-in", f"{run}/writer", question, "--json").stdout)
        assert (letter["to"], letter["answered"], letter["text"]) == ("writer", True, answer)
        assert lab.spool(run) == spool, "its turn goes on as if nothing had been"
        after = rollouts(lab)
        assert list(after) == list(before), "no conversation was added"
        assert question not in "".join(after.values())
        go.touch()
        lab.deliver(run)
    copy = [request for request in asked(scripted) if question in told(request)]
    assert "Write the draft of the quokka book." in told(copy[0]), "it has the owner's conversation"
    assert not harm.exists()
    assert not lab.fleet.events("agent_restarted")


def test_its_own_sandbox_holds_inside_ours_and_leaves_the_way_to_the_captain(lab: Lab) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place, model() as scripted:  # below /tmp it does not work
        harm = Path(place, "harm")
        environment = {**lab.role(scripted)["environment"], "CODEX_HOME": f"{place}/codex"}
        shutil.copytree(lab.home / ".codex", environment["CODEX_HOME"])
        task = directives({"shell": f"touch {harm}; touch mine"}, WRITE, REPORT, DONE)
        role = {"permissions": ["workspace-write", "never"], "environment": environment}
        run = lab.launch(scripted, task, role=role)
        lab.deliver(run)
        assert not harm.exists()
        assert "Read-only file system" in results(scripted)[0]
    assert (lab.fleet.project / "mine").exists()
    assert not lab.fleet.events("task_rescued"), "it has reported by itself"


def rollouts(lab: Lab) -> dict[str, str]:
    """All conversations that the client keeps, by their files."""
    files = sorted((lab.home / ".codex/sessions").glob("*/*/*/*.jsonl"))
    return {file.name: file.read_text() for file in files}


@pytest.mark.parametrize("word", ["Bash", "sandbox_mode=none"])
def test_a_permission_that_it_does_not_know_is_refused_by_the_client_itself(lab: Lab, word: str) -> None:
    with model() as scripted:
        lab.launch(scripted, role={"permissions": [word]})
        event = lab.fleet.wait_event("agent_restarted", "writer")
    assert event.body["reason"] == "exited"
