"""What keeps the real Claude Code from harming others: namespace, hook, wrappers, and the proof of them (F50–F55)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from realcli.clients import program
from realcli.lab import DONE, INSIDE, REPORT, WAIT, WRITE, Lab, asked, directives, model, on, results, told, until
from support.helpers import wait_for

PERMISSIONS = ["Bash", "Write"]


@pytest.fixture
def server(lab: Lab) -> Iterator[str]:
    """A tmux server of the user's own, where `tmux` without a socket would find it; returns its folder."""
    folder = lab.fleet.base / "user"
    folder.mkdir()
    environment = {**lab.fleet.environment, "TMUX_TMPDIR": str(folder)}
    try:
        subprocess.run(["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "mine"], env=environment, check=True)
        yield str(folder)
    finally:
        subprocess.run(["tmux", "kill-server"], env=environment, capture_output=True, check=False)


def lives(folder: str) -> bool:
    """Whether the user's session is still there."""
    words = ["tmux", "has-session", "-t", "=mine"]
    return subprocess.run(words, env={"TMUX_TMPDIR": folder, "PATH": "/usr/bin:/bin"}, check=False).returncode == 0


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_f50_f51_f52_what_would_end_others_is_denied_and_everything_survives(
    lab: Lab, server: str, sandbox: str
) -> None:
    script = lab.fleet.project / "stop.sh"
    with model(on("dispatch draft", WAIT)) as scripted:
        environment = {**lab.role(scripted)["environment"], "TMUX_TMPDIR": server}
        run = lab.settled(scripted, permissions=PERMISSIONS, sandbox=sandbox, environment=environment)
        captain, clerk, writer = lab.captain(run), lab.process(run, "clerk"), lab.process(run)
        socket = lab.fleet.home.tmux(run)
        commands = {
            "tmux kill-server": "tmux.kill-server",
            f"tmux -S {socket} kill-session -t {run}-clerk": "tmux.kill-session",
            f"bash -c 'tmux -S {socket} kill-ser'": "tmux.kill-server",
            f"kill -9 {captain.pid}": "kill.foreign",
            f"python3 -c 'import os; os.kill({clerk.pid}, 9)'": "kill.foreign",
            # Without a namespace the name is one that nobody else's processes have, should they be met after all.
            "pkill -f dogwatch" if sandbox == "auto" else f"pkill -f {lab.fleet.base}": "kill.pattern",
            f"sh {script}": "tmux.kill-server",
        }
        job = "python3 -c 'import time; time.sleep(60)' & PID=$!; kill $PID; wait $PID; echo ended $?"
        write = {"name": "Write", "input": {"file_path": str(script), "content": f"tmux -S {socket} kill-server\n"}}
        harm = [{"shell": command} for command in commands]
        lab.mail(run, directives({"tool": write}, *harm, {"shell": job}, WRITE, REPORT, DONE))
        lab.deliver(run)
        answers = results(scripted)
    assert "File created" in answers[0]
    denied = {entry["command"]: entry["rule"] for entry in lab.denials(run)}
    for (command, rule), answer in zip(commands.items(), answers[1:], strict=False):
        if sandbox == "auto" and rule == "kill.foreign":
            assert "No such process" in answer, "in the namespace there is nobody to hit"
            continue
        if sandbox == "auto" and rule == "kill.pattern":
            rule = "kill.self"
        assert f"denied by {rule}: " in answer
        assert denied[command] == rule
    assert "ended 143" in answers[1 + len(commands)], "its own job it may end"
    assert not lab.fleet.events("agent_restarted")
    assert not lab.fleet.events("crew_lost"), "the captain that it began with has ended the run"
    assert lives(server)
    assert {lab.fleet.view(run).agents[name].process for name in ("clerk", "writer")} == {clerk, writer}


def test_f50_f52_without_a_namespace_the_wrappers_refuse_what_no_hook_has_read(lab: Lab) -> None:
    with model(on("dispatch draft", WAIT)) as scripted:
        run = lab.settled(scripted, sandbox="off")
        clerk, socket = lab.process(run, "clerk"), lab.fleet.home.tmux(run)
        calls = {
            f"tmux -S {socket} kill-session -t ={run}-clerk:": "tmux.kill-session",
            f"kill -9 {clerk.pid}": "kill.foreign",
            f"pkill -f {lab.fleet.base}": "kill.pattern",
        }
        steps = [{"shell": f"python3 {INSIDE} call {call}"} for call in calls]
        lab.mail(run, directives(*steps, WRITE, REPORT, DONE))
        wait_for(lambda: len(results(scripted)) >= len(calls), 60, lab.fleet.tail)
        assert lab.process(run, "clerk") == clerk
        lab.deliver(run)
        answers = [json.loads(answer) for answer in results(scripted)[: len(calls)]]
    for answer, rule in zip(answers, calls.values(), strict=True):
        assert (answer["code"], rule in answer["errors"]) == (2, True), answer
    assert not lab.fleet.events("agent_restarted")


def edited(lab: Lab, change: str) -> list[str]:
    """A launcher that starts the client with other settings than it was given; `change` is Python and has `hooks`."""
    path = lab.fleet.base / "launcher.py"
    path.write_text(
        "import json, os, sys\n"
        "words = sys.argv[1:]\n"
        "at = words.index('--settings') + 1\n"
        "settings = json.load(open(words[at]))\n"
        "hooks = settings['hooks']\n"
        f"{change}\n"
        f"words[at] = {str(lab.fleet.base / 'settings.json')!r}\n"
        "json.dump(settings, open(words[at], 'w'))\n"
        f"os.execv({program('claude')!r}, ['claude', *words])\n"
    )
    return [sys.executable, str(path)]


def test_f55_where_the_guard_cannot_be_run_no_tool_runs(lab: Lab) -> None:
    mark = lab.fleet.project / "mark"
    change = "entry = hooks['PreToolUse'][0]['hooks'][0]; entry['command'] = '/gone/' + entry['command'].lstrip('/')"
    with model(on("dispatch draft", {"shell": f"touch {mark}"}, {"shell": "ls"}, DONE)) as scripted:
        lab.launch(scripted, role={"command": edited(lab, change)}, patient=True)
        wait_for(lambda: len(asked(scripted)) >= 3, 90, lab.fleet.tail)
        first, second = results(scripted)[:2]
    assert "PreToolUse:Bash hook error" in first
    assert "No such file or directory" in first or "not found" in first
    assert "PreToolUse:Bash hook error" in second
    assert not mark.exists()


def test_f55_without_a_registry_only_the_plainly_harmless_runs_and_stopping_works(lab: Lab) -> None:
    mark = lab.fleet.project / "mark"
    with model(on("dispatch draft", WAIT)) as scripted:
        run = lab.settled(scripted)
        registry = Path(lab.fleet.home.registry(run))
        known = registry.read_bytes()
        registry.unlink()
        lab.mail(run, directives({"shell": f"touch {mark} & wait"}, {"shell": "ls"}, {"text": "That was all."}))
        wait_for(lambda: len(lab.spool(run, "Stop")) >= 2, 60, lab.fleet.tail)
        denied, listed = results(scripted)[:2]
        assert "denied by registry: " in denied
        assert "dogwatch doctor" in denied
        assert "pipeline.yaml" in listed
        assert not mark.exists()
        registry.write_bytes(known)
        lab.mail(run, directives(WRITE, REPORT, DONE))
        lab.deliver(run)
    assert [entry["rule"] for entry in lab.denials(run)] == ["registry"]


@pytest.mark.parametrize("case", ["user", "silent"])
def test_a_client_whose_guard_does_not_fire_gets_no_work_and_the_run_says_why(lab: Lab, case: str) -> None:
    role: dict[str, Any] = {}
    # Where no hook runs at all, the client never says that it has started; otherwise it has all the time to start.
    startup_s = {"user": 6.0, "silent": 60.0}[case]
    if case == "user":
        lab.user_settings(env={"CLAUDE_CODE_SIMPLE": "1"})  # no hooks run in this mode
    else:
        role = {"command": edited(lab, "del hooks['UserPromptSubmit']")}
    with model(on("dispatch", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, role=role, startup_s=startup_s, receipt_s=1, restarts_max=1)
        view = lab.fleet.wait_over(run, 120)
        assert not [request for request in asked(scripted) if "dispatch draft" in told(request)]
    assert view.run.state == "FAILED"
    assert {"user": "startup_stall", "silent": "guard_silent"}[case] in view.run.cause
    assert not lab.delivered()
    assert not lab.fleet.events("guard_proven")


def test_settings_that_switch_hooks_off_do_not_switch_off_the_guard(lab: Lab) -> None:
    lab.user_settings(disableAllHooks=True)
    local = lab.fleet.project / ".claude/settings.local.json"
    local.parent.mkdir()
    local.write_text(json.dumps({"disableAllHooks": True, "hooks": {}}))
    with model(on("dispatch draft", {"shell": "tmux kill-server"}, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
        assert "denied by tmux.kill-server: " in results(scripted)[0]
    assert [entry["rule"] for entry in lab.denials(run)] == ["tmux.kill-server"]


def test_the_guard_is_proven_for_every_incarnation_and_no_model_is_asked_to_answer(lab: Lab) -> None:
    heard = lab.fleet.base / "heard"
    again = on("dispatch draft", until(heard), WRITE, REPORT, DONE)
    with model(on("dispatch draft", WAIT, times=1), again) as scripted:
        run = lab.launch(scripted, patient=True)
        wait_for(lambda: lab.spool(run, "Stop"), 90, lab.fleet.tail)
        # The captain hears of a delivery from the client's hook, and may be later than the client's next one.
        wait_for(lambda: len(lab.delivered()) >= 2, 60, lab.fleet.tail)
        lab.fleet.kill(lab.process(run))
        wait_for(lambda: len(lab.delivered()) >= 4, 150, lab.fleet.tail)
        heard.touch()
        lab.deliver(run)
        # The client keeps the refused prompt, and its words go along with the next one; nobody is asked to answer it.
        prompts = [request.prompt for request in asked(scripted)]
        assert prompts
        assert not [prompt for prompt in prompts if "canary" in prompt or "dispatch draft" not in prompt]
    proven = [event.body["incarnation"] for event in lab.fleet.events("guard_proven", "writer")]
    assert proven == [1, 2]
    assert [line.incarnation for line in lab.spool(run, "Canary")] == [1, 2]
    kinds = [(event.kind, event.body.get("kind")) for event in lab.fleet.events(agent="writer")]
    told = [body for kind, body in kinds if kind == "message_delivered"]
    assert told == ["canary", "dispatch", "canary", "dispatch"]
