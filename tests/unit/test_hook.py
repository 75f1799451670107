"""The guard's hook as a client runs it: what it denies, what it lets pass, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.guard.full import SHOWN_MAX
from support.helpers import wait_for
from support.hooking import HOOK, RUN, HookedAgent, call, hooked_agent, is_denied_with_words, sleeper

KILLS = "tmux kill-server"


@pytest.fixture
def agent() -> Iterator[HookedAgent]:
    with hooked_agent() as made:
        made.register()
        yield made


@pytest.fixture
def newcomer() -> Iterator[HookedAgent]:
    """An agent to whom every file there is was there before it."""
    with hooked_agent() as made:
        made.register(started=3600)
        yield made


def rule(agent: HookedAgent) -> str:
    """The rule of the newest denial."""
    found = agent.lines("Denied")[-1].payload()["rule"]
    assert isinstance(found, str)
    return found


def test_a_denial_says_rule_reason_and_hint_and_is_recorded(agent: HookedAgent) -> None:
    done = agent.bash(KILLS)
    assert is_denied_with_words(done)
    assert done.stdout == b""
    first, second = done.stderr.decode().splitlines()
    assert first.startswith("dogwatch: denied by tmux.kill-server: ")
    assert second.startswith("hint: ")
    assert [line.event for line in agent.lines()] == ["PreToolUse", "Denied"]
    said = agent.lines("Denied")[0].payload()
    assert (said["rule"], said["tool"], said["command"]) == ("tmux.kill-server", "Bash", KILLS)
    assert first.endswith(said["reason"])
    assert said["tool_use_id"] == agent.lines("PreToolUse")[0].payload()["tool_use_id"]


def test_of_a_long_command_only_the_beginning_is_recorded(agent: HookedAgent) -> None:
    assert agent.bash(f"{KILLS} # {'😀' * SHOWN_MAX}").returncode == 2
    assert len(agent.lines("Denied")[0].payload()["command"]) == SHOWN_MAX


@pytest.mark.parametrize("command", ["ls", "npm test", "git commit -m 'no tmux kill-server'", "sleep 9 & kill $!"])
def test_what_does_no_harm_passes_without_a_word(agent: HookedAgent, command: str) -> None:
    done = agent.bash(command)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [line.event for line in agent.lines()] == ["PreToolUse"]


def test_only_what_carries_the_mark_may_be_killed(agent: HookedAgent) -> None:
    others = agent.environment | {"DOGWATCH_INCARNATION": "1"}
    with sleeper(agent.environment) as own, sleeper({}) as foreign, sleeper(others) as predecessor:
        wait_for(lambda: b"DOGWATCH_ROLE=" in Path(f"/proc/{own}/environ").read_bytes(), what="the mark")
        assert agent.bash(f"kill -9 {own}").returncode == 0
        for pid in (foreign, predecessor, os.getpid(), os.getppid(), 1):
            assert is_denied_with_words(agent.bash(f"kill {pid}")), pid
            assert rule(agent) == ("kill.parent" if pid in (os.getpid(), os.getppid()) else "kill.foreign")
        assert agent.bash(f"kill {own} {foreign}").returncode == 2


def test_what_the_hook_runs_in_is_not_to_be_killed_though_it_carries_the_mark(agent: HookedAgent) -> None:
    code = 'sed "s/PID/$$/" | "$0" -I -S "$1" PreToolUse; exit $?'
    done = subprocess.run(
        ["sh", "-c", code, sys.executable, HOOK],
        input=call("Bash", {"command": "kill PID"}, agent.project),
        env=agent.environment,
        capture_output=True,
        check=False,
    )
    assert is_denied_with_words(done)
    assert rule(agent) == "kill.parent"
    assert agent.lines("Denied")[0].payload()["command"] != "kill PID"


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("x.sh", f"#!/bin/sh\n{KILLS}\n", "bash x.sh"),
        ("x.sh", f"#!/bin/sh\n{KILLS}\n", "cd . && ./x.sh"),
        ("package.json", json.dumps({"scripts": {"x": KILLS}}), "npm run x"),
        ("Makefile", f"x:\n\t{KILLS}\n", "make x"),
        ("x.py", "import os\nos.kill(1, 9)\n", "python3 x.py"),
        (".git/hooks/pre-commit", f"#!/bin/sh\n{KILLS}\n", "git commit -m x"),
    ],
)
def test_files_that_changed_since_the_agent_began_are_judged_when_they_are_run(
    agent: HookedAgent, newcomer: HookedAgent, name: str, text: str, command: str
) -> None:
    for one in (agent, newcomer):
        (one.project / name).parent.mkdir(parents=True, exist_ok=True)
        (one.project / name).write_text(text, encoding="utf-8")
    assert is_denied_with_words(agent.bash(command))
    assert newcomer.bash(command).returncode == 0
    (agent.project / name).write_text(text.replace(KILLS, "ls").replace("os.kill(1, 9)", ""), encoding="utf-8")
    assert agent.bash(command).returncode == 0


def test_a_pipe_in_place_of_a_script_is_not_waited_for(agent: HookedAgent) -> None:
    os.mkfifo(agent.project / "x.sh")
    done = agent.bash("bash x.sh")
    assert (done.returncode, done.stderr) == (0, b"")


def test_nothing_is_written_into_dogwatchs_home(agent: HookedAgent) -> None:
    home = agent.home.path
    os.symlink(home, agent.project / "innocent")
    os.symlink(f"{home}/new-file", agent.project / "notes.md")
    paths = [f"{home}/x", f"{home}/runs/{RUN}/registry.jsonl", "../home/x", "./a/../../home/bin/ls"]
    paths += [f"{agent.project}/../home/x", "innocent/x", f"{agent.project}/innocent/bin/tmux", "notes.md", "~/home/x"]
    for path in paths:
        assert is_denied_with_words(agent.hook("PreToolUse", call("Write", {"file_path": path}, agent.project))), path
        assert rule(agent) == "path.dogwatch", path
    for tool, key in (("Edit", "file_path"), ("MultiEdit", "file_path"), ("NotebookEdit", "notebook_path")):
        assert agent.hook("PreToolUse", call(tool, {key: f"{home}/x"}, agent.project)).returncode == 2
    assert is_denied_with_words(agent.hook("PreToolUse", call("Write", {"content": "x"}, agent.project)))


def test_a_patch_is_judged_by_the_files_that_it_names(agent: HookedAgent) -> None:
    def patch(*files: str) -> str:
        return "\n".join(["*** Begin Patch", *files, "+*** Add File: only/words", "*** End Patch"])

    home = agent.home.path
    for files in (
        [f"*** Add File: {home}/x"],
        ["*** Update File: x.md", "*** Move to: ../home/x"],
        ["*** Add File: x.md", f"*** Delete File: {home}/runs/{RUN}/registry.jsonl"],
    ):
        done = agent.hook("PreToolUse", call("apply_patch", {"command": patch(*files)}, agent.project))
        assert is_denied_with_words(done), files
        assert rule(agent) == "path.dogwatch"
        assert is_denied_with_words(agent.bash(f"apply_patch <<'EOF'\n{patch(*files)}\nEOF")), files
    inside = f"cd {home} && apply_patch <<'EOF'\n{patch('*** Add File: x')}\nEOF"
    assert is_denied_with_words(agent.bash(inside))
    assert is_denied_with_words(agent.hook("PreToolUse", call("apply_patch", {"command": "x"}, agent.project)))
    fine = patch("*** Update File: a/b.md", "*** Move to: a/c.md")
    done = agent.hook("PreToolUse", call("apply_patch", {"command": fine}, agent.project))
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_settings_of_all_clients_are_left_alone(agent: HookedAgent) -> None:
    for path in ("~/.codex/config.toml", ".codex/hooks.json", ".gemini/settings.json", "~/.claude/settings.json"):
        assert is_denied_with_words(agent.hook("PreToolUse", call("Write", {"file_path": path}, agent.project))), path
        assert rule(agent) == "path.settings", path
        assert is_denied_with_words(agent.bash(f"echo x >> {path}")), path
    assert is_denied_with_words(agent.bash("rm -rf ~/.codex"))
    assert agent.bash("cat ~/.codex/config.toml").returncode == 0
    assert agent.bash("echo x > .codex/notes.md").returncode == 0


def test_elsewhere_files_may_be_written(agent: HookedAgent) -> None:
    for path in ("x.md", f"{agent.project}/deep/x.py", "../home-made/x", f"{agent.home.path}.txt", "/tmp/x"):
        done = agent.hook("PreToolUse", call("Write", {"file_path": path, "content": KILLS}, agent.project))
        assert (done.returncode, done.stderr) == (0, b""), path


def test_dogwatchs_home_does_not_become_the_agents_own_by_going_there(agent: HookedAgent) -> None:
    inside = f"{agent.home.path}/runs"
    assert agent.hook("PreToolUse", call("Bash", {"command": "ls"}, inside)).returncode == 0
    assert is_denied_with_words(agent.hook("PreToolUse", call("Bash", {"command": "rm -rf tide-1"}, inside)))
    assert is_denied_with_words(agent.hook("PreToolUse", call("Write", {"file_path": f"{inside}/x"}, inside)))
    within = {"DOGWATCH_PROJECT": inside}
    payload = call("Write", {"file_path": f"{inside}/x"}, inside)
    assert agent.hook("PreToolUse", payload, **within).returncode == 0


def test_tools_that_are_not_known_are_judged_by_the_commands_in_their_input(agent: HookedAgent) -> None:
    for key in ("command", "cmd", "script"):
        assert is_denied_with_words(agent.hook("PreToolUse", call("mcp__shell__run", {key: KILLS}, agent.project)))
        assert agent.hook("PreToolUse", call("mcp__shell__run", {key: "npm test"}, agent.project)).returncode == 0
    harmless = {"title": KILLS, "command": 3}
    assert agent.hook("PreToolUse", call("mcp__notes__add", harmless, agent.project)).returncode == 0


def test_in_a_users_own_client_neither_spool_nor_registry_is_needed(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def alone(payload: bytes) -> subprocess.CompletedProcess[bytes]:
        line = [sys.executable, "-I", "-S", HOOK, "PreToolUse", "alone"]
        return subprocess.run(line, input=payload, env=environment, capture_output=True, check=False)

    assert is_denied_with_words(alone(call("Bash", {"command": KILLS}, tmp_path)))
    assert alone(call("Bash", {"command": "npm test"}, tmp_path)).returncode == 0
    assert is_denied_with_words(alone(b"no json"))
    with sleeper(environment) as own:
        assert alone(call("Bash", {"command": f"kill {own}"}, tmp_path)).returncode == 0
    assert is_denied_with_words(alone(call("Bash", {"command": f"kill {os.getpid()}"}, tmp_path)))
    assert is_denied_with_words(alone(call("Bash", {"command": "kill 1"}, tmp_path)))
    assert list(tmp_path.iterdir()) == []
