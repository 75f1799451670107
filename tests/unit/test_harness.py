"""How screens are read: only the live region counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dogwatch.errors import UsageError
from dogwatch.harness import Launch, Screen, harness
from dogwatch.model.plan import Role
from dogwatch.testing.screen import View, frame

OLD = (
    "● API Error: 529 Overloaded.",
    "  ⎿  Do you want to proceed?",
    "  ✻ 529 Overloaded · Retrying in 3s · attempt 2/10",
    "  ✻ Working… (3s · esc to interrupt)",
    "  root@host:/# ",
)


def launch(role: Role, folder: str = "/home/agents/x") -> Launch:
    return Launch(role=role, python="/usr/bin/python3", hook="/p/hook.py", folder=folder, conversation="c-1")


def screen(
    *transcript: str, status: str = "", composer: str = "", dialog: tuple[str, ...] = (), starting: bool = False
) -> list[str]:
    view = View(status=status, composer=composer, dialog=dialog, starting=starting, footer=("  scripted agent",))
    view.transcript.extend(transcript)
    lines, _ = frame(view, 80, 24)
    return lines + [""] * (24 - len(lines))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (screen(), Screen("idle", "")),
        (screen(status="✻ Worked for 3s"), Screen("idle", "")),
        (screen(*OLD), Screen("idle", "")),
        (screen(*OLD, composer="half a sentence"), Screen("idle", "half a sentence")),
        (screen(composer="one\n  two"), Screen("idle", "one\n  two")),
        (screen(composer="─" * 40), Screen("idle", "─" * 40)),
        (screen(status="✻ Working… (0s · esc to interrupt)"), Screen("busy", "")),
        (screen(status="✻ Waiting for 2 background agents to finish"), Screen("busy", "")),
        (screen(status="✻ 529 Overloaded · Retrying in 3s · attempt 2/10"), Screen("retry", "")),
        (screen(status="✘ API Error: 529 Overloaded · the turn has ended"), Screen("error", "")),
        (screen(dialog=("Bash", "Do you want to proceed?", "❯ 1. Yes")), Screen("permission", None)),
        (screen(dialog=("Do you trust the files in this folder?", "❯ 1. No")), Screen("dialog", None)),
        (screen(starting=True), Screen("starting", None)),
        ([*screen()[:10], "# "], Screen("shell", None)),
        ([*screen()[:10], "$ make", "building"], Screen("unknown", None)),
        ([*screen()[:10], "Pane is dead (status 1)"], Screen("unknown", None)),
        (["", ""], Screen("unknown", None)),
        ([], Screen("unknown", None)),
        (["anything else"], Screen("unknown", None)),
    ],
)
def test_a_scripted_screen_is_read_by_its_live_region(lines: list[str], expected: Screen) -> None:
    assert harness("scripted").read(lines) == expected


def test_a_shell_prompt_over_the_remains_of_a_killed_client_is_a_shell() -> None:
    lines = screen(status="✻ Working… (2s · esc to interrupt)")
    rule = max(number for number, line in enumerate(lines) if line.startswith("─"))
    lines[rule - 1] = "❯ Killed"
    lines[rule] = "bash-5.2# " + lines[rule][10:]
    assert harness("scripted").read(lines).state == "shell"


def test_a_draft_taller_than_the_screen_is_still_a_draft() -> None:
    seen = harness("scripted").read(screen(composer="\n".join(f"line {n}" for n in range(100))))
    assert seen.state == "idle"
    assert (seen.composer or "").endswith("line 99")


def test_any_program_can_be_an_agent_and_nothing_is_read_from_its_screen() -> None:
    command = harness("command")
    assert command.start(launch(Role(name="x", command=("cat", "-u")))).command == ("cat", "-u")
    assert command.read(screen()) == Screen("unknown", None)
    assert not command.hooks


def test_the_scripted_agent_is_started_with_the_roles_scenario() -> None:
    argv = harness("scripted").start(launch(Role(name="x", script="s.yaml"))).command
    assert argv == ("/usr/bin/python3", "-m", "dogwatch.testing.agent", "--scenario", "s.yaml")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match=r"claude, .*command, .*scripted"):
        harness("nothing")
    with pytest.raises(UsageError, match="has no command"):
        harness("command").start(launch(Role(name="x")))
    with pytest.raises(UsageError, match="has no script"):
        harness("scripted").start(launch(Role(name="x")))


def test_claude_is_started_with_hooks_and_rules_by_flag_and_no_file_of_the_users_is_touched(tmp_path: Path) -> None:
    role = Role(
        name="x", permissions=("Bash(npm test:*)", "deny: Read(./.env)"), environment={"HOME": str(tmp_path / "home")}
    )
    start = harness("claude").start(launch(role, str(tmp_path / "agent")))
    path = f"{tmp_path}/agent/settings.json"
    assert start.command == ("claude", "--settings", path, "--session-id", "c-1")
    assert list(start.files) == [path]
    settings = json.loads(start.files[path])
    assert settings["permissions"] == {
        "allow": ["Bash(dogwatch:*)", "Bash(npm test:*)"],
        "deny": ["Read(./.env)"],
        "defaultMode": "default",
    }
    (gate,) = settings["hooks"]["PreToolUse"][0]["hooks"]
    assert gate["command"] == "/usr/bin/python3 -I -S /p/hook.py PreToolUse || exit 2"
    (told,) = settings["hooks"]["Stop"][0]["hooks"]
    assert told["command"] == "/usr/bin/python3 -I -S /p/hook.py Stop", "stopping must not fail closed"
    assert not (tmp_path / "home").exists()


def test_claude_goes_on_with_a_conversation_that_it_has_kept(tmp_path: Path) -> None:
    kept = tmp_path / ".claude/projects/-srv-p/c-1.jsonl"
    kept.parent.mkdir(parents=True)
    kept.touch()
    role = Role(name="x", command=("/opt/claude", "--model", "opus"), environment={"HOME": str(tmp_path)})
    command = harness("claude").start(launch(role)).command
    assert command == (
        "/opt/claude",
        "--model",
        "opus",
        "--settings",
        "/home/agents/x/settings.json",
        "--resume",
        "c-1",
    )


USAGE = {"input_tokens": 10_000, "cache_creation_input_tokens": 40_000, "cache_read_input_tokens": 50_000}


def test_claudes_context_is_read_from_the_last_answer_of_its_own_conversation() -> None:
    def line(**more: Any) -> bytes:
        return json.dumps({"type": "assistant", "message": {"usage": USAGE}, **more}, separators=(",", ":")).encode()

    small = {"message": {"usage": {"input_tokens": 2}}}
    claude = harness("claude")
    assert claude.context(b"\n".join([line(**small), line(), b'{"type":"user"}', b"not json"])) == 0.5
    assert claude.context(b"\n".join([line(), line(**small, isSidechain=True)])) == 0.5, "a sub-agent has its own"
    assert claude.context(b"\n".join([line(), b'{"type":"system","subtype":"compact_boundary"}'])) is None
    assert claude.context(b'cut off "usage":{}}\n') is None
