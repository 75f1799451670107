"""No agent gets around the guard by the names of its tools, nor out of its folder by what the crew writes there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.actions.spawn import _link, write_whole
from dogwatch.errors import RefusedError
from dogwatch.guard import fast, full
from dogwatch.guard.languages.codex_patch import written
from dogwatch.harness import Launch
from dogwatch.harness.codex import Codex
from dogwatch.harness.codex_facts import CodexFacts
from dogwatch.harness.gemini_facts import user_settings
from dogwatch.model.plan import Role
from support.hooking import HookedAgent, call, hooked_agent, is_denied_with_words

GEMINI_TOOLS = sorted(name.decode() for name in fast._GEMINI_READING_TOOLS)
LOADED = (
    "opencode.json",
    "deep/opencode.jsonc",
    ".opencode/plugin/x.js",
    ".opencode/plugins/x.ts",
    ".opencode/tool/read.ts",
    "~/.config/opencode/opencode.json",
    "~/.config/opencode/plugins/x.js",
    "~/.config/opencode/config.json",
    ".gemini/.env",
    "~/.gemini/extensions/x/gemini-extension.json",
    "~/.gemini/trustedFolders.json",
    ".codex/agents/x.toml",
    "~/.codex/.env",
)
"""What a client loads when it starts next."""
FREE = (
    ".opencode/agent/x.md",
    "opencode/plugin/x.js",
    ".env",
    ".gemini/GEMINI.md",
    ".codex/notes.md",
    "src/opencode.py",
)


@pytest.fixture
def agent() -> Iterator[HookedAgent]:
    with hooked_agent() as agent:
        agent.register()
        yield agent


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder in which both the crew and the agent write."""
    folder = tmp_path / "agent"
    folder.mkdir()
    return folder


# What the crew writes where an agent writes too


def test_no_link_that_an_agent_has_laid_leads_the_crew_out_of_its_folder(shared: Path, tmp_path: Path) -> None:
    precious = tmp_path / "ledger.db"
    precious.write_text("precious")
    path = shared / "settings.json"
    for name in ("settings.json", f"settings.json.{os.getpid()}", "settings.json.new"):
        (shared / name).symlink_to(precious)
    write_whole(str(path), "{}")
    assert precious.read_text() == "precious"
    assert (path.is_symlink(), path.read_text(), path.stat().st_mode & 0o777) == (False, "{}", 0o600)
    (shared / "login").symlink_to(precious)
    _link(str(shared / "login"), "/somewhere/login")
    assert (str((shared / "login").readlink()), precious.read_text()) == ("/somewhere/login", "precious")


def test_the_crew_waits_for_no_pipe(shared: Path) -> None:
    path = shared / "settings.json"
    os.mkfifo(path)
    os.mkfifo(f"{path}.{os.getpid()}")
    write_whole(str(path), "{}")
    assert path.read_text() == "{}"


def test_the_crew_reads_no_pipe_in_a_clients_own_folder(tmp_path: Path) -> None:
    day = tmp_path / "sessions/2026/01/02"
    day.mkdir(parents=True)
    path = day / "rollout-1.jsonl"
    path.write_text('{"session_id":"00000000-0000-4000-8000-000000000000"}\n')
    os.mkfifo(day / "rollout-2.jsonl")
    assert CodexFacts().transcripts(str(path)) == (str(path),)
    (tmp_path / ".gemini").mkdir()
    os.mkfifo(tmp_path / ".gemini/settings.json")
    with pytest.raises(RefusedError):
        user_settings(Role(name="w", harness="gemini", environment={"HOME": str(tmp_path)}))


def test_what_is_no_text_is_written_anew_and_what_is_the_same_is_left_alone(shared: Path) -> None:
    path = shared / "x"
    path.write_bytes(b"\xff\xfe")
    write_whole(str(path), "ä")
    before = path.stat()
    write_whole(str(path), "ä")
    assert (path.read_text(encoding="utf-8"), path.stat().st_ino) == ("ä", before.st_ino)
    assert os.listdir(shared) == ["x"], "nothing is left over"


# Tools


def test_each_client_has_a_table_of_its_own() -> None:
    known = {*fast._READING_TOOLS, *fast._WRITING_TOOLS, fast._SHELL, *map(str.encode, full.WRITERS)}
    assert all(name[:1].isupper() for name in known), "OpenCode's plugin gives such names to no tool of others"
    theirs = {*fast._GEMINI_READING_TOOLS, *fast._GEMINI_WRITING_TOOLS, fast._GEMINI_SHELL}
    assert not known & theirs


@pytest.mark.parametrize("tool", [*GEMINI_TOOLS, "write_file", "replace", "run_shell_command"])
def test_the_name_of_another_clients_tool_lets_no_command_pass(agent: HookedAgent, tool: str) -> None:
    given = {"file_path": f"{agent.project}/x", "command": "tmux kill-server"}
    assert is_denied_with_words(agent.hook("PreToolUse", call(tool, given, agent.project)))
    assert agent.hook("PreToolUse", call(tool, {"anything": "x"}, agent.project)).returncode == 0, "it is just a name"


@pytest.mark.parametrize("tool", ["Read", "Task", "TaskStop", "Write"])
def test_nor_do_the_names_of_claudes_tools_in_gemini(agent: HookedAgent, tool: str) -> None:
    given = {"file_path": f"{agent.project}/x", "command": "tmux kill-server"}
    assert is_denied_with_words(agent.hook("PreToolUse", call(tool, given, agent.project), "gemini"))


def test_a_files_name_goes_on_to_the_end_of_its_line() -> None:
    names = ["x\x0c/../y", "x\u2028/../y", "x\x85y"]
    text = "".join(f"*** Add File: {name}\r\n+a\n" for name in names)
    assert list(written(f"*** Begin Patch\n{text}*** End Patch")) == names


# What a client loads when it starts next


def test_what_a_client_loads_at_its_next_start_is_left_alone(agent: HookedAgent) -> None:
    for path in LOADED:
        full_path = path if path.startswith("~") else f"{agent.project}/{path}"
        done = agent.hook("PreToolUse", call("Write", {"file_path": full_path, "content": ""}, agent.project))
        assert is_denied_with_words(done), path
        patch = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
        assert is_denied_with_words(agent.hook("PreToolUse", call("apply_patch", {"command": patch}, agent.project)))
    for line in (
        "echo x > opencode.json",
        "cp /srv/opencode.json .",
        "cp /srv/settings.json .claude",
        "cp x.js .opencode/plugin/",
        "rm -rf ~/.config/opencode",
        "mkfifo ~/.gemini/settings.json",
    ):
        assert is_denied_with_words(agent.bash(line)), line


def test_all_else_beside_it_may_be_written(agent: HookedAgent) -> None:
    for path in FREE:
        done = agent.hook("PreToolUse", call("Write", {"file_path": path, "content": ""}, agent.project))
        assert (done.returncode, done.stderr) == (0, b""), path
    lines = ("rm -f *.json", "rm -rf opencode", "cat opencode.json", "cp opencode.json old.json", "cp a.md .claude/")
    for line in lines:
        assert agent.bash(line).returncode == 0, line


# Hooks that cannot run


@pytest.mark.parametrize("program", ["/bin/false", "/nowhere/python", "kill -9 $$ #"])
def test_codex_hears_words_where_the_guard_cannot_be_run(tmp_path: Path, program: str) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    launch = Launch(
        role=Role(name="w", harness="codex"),
        python=str(script),
        hook="/srv/hook.py",
        folder=str(tmp_path),
        conversation="c",
    )
    [group] = Codex().settings(launch)["hooks.PreToolUse"]
    done = subprocess.run(["sh", "-c", group["hooks"][0]["command"]], capture_output=True, check=False, timeout=60)
    assert (done.returncode, b"dogwatch: the guard has not let it pass" in done.stderr) == (2, True)
