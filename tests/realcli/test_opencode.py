"""What is special about OpenCode (1.18.33): it is guarded by a plugin, which may be missing or without its hook."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dogwatch.actions.spawn import HOOK
from dogwatch.harness import Launch
from dogwatch.harness.opencode import OpenCode
from dogwatch.model.plan import Role
from dogwatch.model.spool import parse
from realcli.clients import rehearsal
from realcli.lab import DONE, REPORT, WRITE, Lab, asked, model, on, results
from support.helpers import wait_for

USAGE = {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 30}
ASK = """
const { Dogwatch } = await import(process.argv[2])
const steps = JSON.parse(process.argv[3])
const sessions = { child: { id: "child", parentID: "root" }, root: { id: "root" } }
const sent = []
const session = {
  get: async ({ path }) => ({ data: sessions[path.id] }),
  promptAsync: async ({ body }) => void sent.push(body.parts[0].text),
}
const hooks = await Dogwatch({ client: { session }, directory: process.cwd() })
const said = []
for (const [hook, input, output] of steps) {
  try {
    await hooks[hook](input, output)
    said.push(output ?? null)
  } catch (error) {
    said.push(error.message)
  }
}
await hooks.dispose()
console.log(JSON.stringify({ said, sent, offline: "npm_config_offline" in process.env }))
"""
"""Calls the plugin's hooks as the client would, one after the other."""


def plugged(tmp_path: Path, *steps: Any, python: str = sys.executable) -> tuple[dict[str, Any], list[Any]]:
    """What the plugin answers to the steps, and what then stands in the spool."""
    spool, post = tmp_path / "a.spool", tmp_path / "post"
    post.mkdir(exist_ok=True)
    marks = {"DOGWATCH_SPOOL": str(spool), "DOGWATCH_POST": str(post), "DOGWATCH_INCARNATION": "1"}
    role = Role(name="a", harness="opencode")
    launch = Launch(role=role, python=python, hook=HOOK, folder=str(tmp_path), conversation="c", marks=marks)
    plugin, script = tmp_path / "plugin.mjs", tmp_path / "ask.mjs"
    plugin.write_text(OpenCode().plugin(launch))
    script.write_text(ASK)
    done = subprocess.run(
        ["node", str(script), str(plugin), json.dumps(steps)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "npm_config_offline": "true"},
    )
    assert done.returncode == 0, done.stderr
    lines = [parse(line) for line in spool.read_bytes().splitlines()] if spool.exists() else []
    return json.loads(done.stdout), lines


def before(tool: str, **args: Any) -> list[Any]:
    return ["tool.execute.before", {"tool": tool, "sessionID": "root", "callID": "call_1"}, {"args": args}]


def status(kind: str) -> list[Any]:
    return [
        "event",
        {"event": {"type": "session.status", "properties": {"sessionID": "root", "status": {"type": kind}}}},
    ]


def test_without_its_plugin_it_is_not_even_typed_to(lab: Lab) -> None:
    with model(on(".*", DONE)) as scripted:
        environment = rehearsal("opencode", lab.home, lab.fleet.project, scripted.url)
        lab.launch(scripted, role={"environment": {**environment, "OPENCODE_PURE": "1"}}, startup_s=8)
        restarted = lab.fleet.wait_event("agent_restarted", "writer")
        assert restarted.body["reason"] == "startup_stall"
        assert not lab.fleet.events("message_delivered")
        assert not scripted.requests


def test_a_tool_does_not_run_where_its_hook_cannot(tmp_path: Path) -> None:
    answer, spool = plugged(tmp_path, before("bash", command="ls"), python=str(tmp_path / "nothing"))
    [refused] = answer["said"]
    assert refused.startswith("dogwatch: the hook cannot be run: ")
    assert not spool


def test_every_file_of_a_patch_is_judged_and_a_folder_of_the_tools_own_is_told(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: one\n+1\n*** Update File: two\n*** Move to: three\n*** End Patch"
    answer, spool = plugged(tmp_path, before("apply_patch", patchText=patch), before("bash", command="ls", workdir="/"))
    assert answer["offline"] is False, "what is started from here finds a network"
    judged = [line.payload() for line in spool if line.event == "PreToolUse"]
    paths = [one["tool_input"].get("file_path") for one in judged]
    assert paths == [str(tmp_path / name) for name in ("one", "two", "three")] + [None]
    assert judged[-1]["cwd"] == "/"


def test_a_stop_is_held_by_a_letter_once_and_a_failure_takes_none_along(tmp_path: Path) -> None:
    (tmp_path / "post").mkdir()
    (tmp_path / "post/m1.1").write_text("[dogwatch:m1 mail from-b]\nHello.")
    part = {"type": "tool", "tool": "bash", "callID": "call_1", "sessionID": "root", "state": {"status": "error"}}
    failed = ["event", {"event": {"type": "message.part.updated", "properties": {"part": part}}}]
    answer, spool = plugged(
        tmp_path, before("bash", command="ls"), failed, status("busy"), status("idle"), status("busy"), status("idle")
    )
    assert [text.partition("\n")[2] for text in answer["sent"]] == ["Hello."]
    events = [line.event for line in spool]
    assert events[2:] == ["PostToolUseFailure", "StopHeld", "Delivered", "Stop", "SessionEnd"]
    assert spool[-2].payload()["stop_hook_active"] is True


def test_errors_and_compactions_are_told_and_its_tools_find_a_network(lab: Lab) -> None:
    full = {"shell": {"command": "true", "usage": {"input_tokens": 127_000}}}
    wrong = (
        {"shell": "env | grep -c npm_config_offline"},
        {"tool": {"name": "read", "input": {"filePath": "nothing"}}},
        {"tool": {"name": "grep", "input": {"path": 5}}},
        {"shell": "cat x"},
    )
    rules = (
        on("dispatch draft", *wrong, full, {"text": "I shall see."}, times=1),
        on("nudge draft", {"status": {"code": 401}}, times=1),
        on("nudge draft", WRITE, REPORT, DONE),
    )
    with model(*rules, usage=USAGE) as scripted:
        run = lab.launch(scripted, role={"permissions": ["bash", "deny: bash(cat *)"]}, hold_s=1, nudges_max=20)
        lab.deliver(run)
        assert results(scripted)[0].strip().startswith("0")
    told = {event.body["type"]: event.body for event in lab.fleet.events("agent_error", "writer")}
    assert set(told) == {"tool_failed", "validation_failure", "permission_denied", "auth_failed"}
    assert told["tool_failed"]["tool"] == "Read"
    assert lab.spool(run, "PreCompact")
    assert lab.spool(run, "PostCompact")
    assert not lab.fleet.events("agent_restarted")


def test_a_check_in_asks_a_copy_of_its_session(lab: Lab) -> None:
    gate, harm = lab.fleet.base / "go", lab.fleet.base / "harm"
    until = {"shell": f"until [ -e {gate} ]; do python3 -c 'import time; time.sleep(0.1)'; done"}
    asking = on(
        "How many chapters", {"tool": {"name": "bash", "input": {"command": f"touch {harm}"}}}, {"text": "Four."}
    )
    with model(asking, on("dispatch draft", until, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, "Write the quokka book.", clerk=True, patient=True)
        wait_for(lambda: lab.spool(run, "PreToolUse"), 120, lab.fleet.tail)
        spool = lab.spool(run)
        done = lab.fleet.cli("check-in", f"{run}/writer", "How many chapters are written?", "--json")
        letter = json.loads(done.stdout)
        assert (letter["answered"], letter["text"].strip()) == (True, "Four.")
        assert lab.spool(run) == spool, "its turn goes on as if nothing had been"
        gate.touch()
        lab.deliver(run)
    copies = [request for request in asked(scripted) if "How many chapters" in request.prompt]
    assert "Write the quokka book." in json.dumps(copies[0].body)
    assert not harm.exists()
