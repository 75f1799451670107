"""Codex: how it is started, whom it is told to trust, which conversation it goes on with, what its rollouts tell."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.harness import Launch, harness
from dogwatch.harness.codex import EVENTS, Codex, trusted_hash
from dogwatch.model.plan import Role
from dogwatch.model.sight import Turn
from dogwatch.model.spool import SpoolLine, render
from dogwatch.model.tally import Failure, ModelCall, Refusal, Tokens
from dogwatch.policy.turns import failed, fold

CODEX = Codex()
SESSION, OTHER = "01a1e473-737e-7e03-88ca-926573f77d7c", "01a1e474-214e-70a3-b2aa-23135d3bacd9"
AT, WALL = "2026-11-16T13:02:58.401Z", 1794834178.401


def launch(folder: Path, incarnation: int = 1, conversation: str = "c-1", **role: Any) -> Launch:
    marks = {"DOGWATCH_INCARNATION": str(incarnation), "DOGWATCH_ROLE": "writer"}
    return Launch(
        role=Role(name="writer", harness="codex", **role),
        python="/usr/bin/python3",
        hook="/a place/hook.py",
        folder=str(folder),
        conversation=conversation,
        marks=marks,
        spool=str(folder / "spool"),
    )


def config(command: tuple[str, ...]) -> dict[str, Any]:
    """What the flags say, as the client reads them: each is a line of TOML, and later ones go before."""
    found: dict[str, Any] = {}
    for flag, value in pairwise(command):
        if flag == "-c":
            _merge(found, tomllib.loads(value))
    return found


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def record(kind: str, payload: dict[str, Any]) -> bytes:
    return json.dumps({"timestamp": AT, "type": kind, "payload": payload}, separators=(",", ":")).encode()


def event(kind: str, **payload: Any) -> bytes:
    return record("event_msg", {"type": kind, **payload})


def test_it_is_started_with_hooks_by_flag_and_the_trust_in_these_alone(tmp_path: Path) -> None:
    start = CODEX.start(launch(tmp_path))
    told = config(start.command)
    assert start.command[:2] == ("codex", "--no-daemon")
    assert "--dangerously-bypass-hook-trust" not in start.command
    assert told["features"] == {"hooks": True, "daemon_auto_start": False, "unified_exec_tty": False}
    assert told["shell_environment_policy"]["set"]["DOGWATCH_ROLE"] == "writer"
    hooks = told["hooks"]
    state = hooks.pop("state")
    assert hooks.keys() == EVENTS.keys()
    for name, [group] in hooks.items():
        [hook] = group["hooks"]
        assert hook["command"].startswith(f"CLAUDE_PID=$PPID /usr/bin/python3 -I -S '/a place/hook.py' {name}")
        assert (" || sh -c " in hook["command"]) == (name == "PreToolUse"), "no tool runs where its hook cannot"
        trust = state.pop(f"/<session-flags>/config.toml:{EVENTS[name]}:0:0")
        assert trust == {"enabled": True, "trusted_hash": trusted_hash(EVENTS[name], hook["command"], hook["timeout"])}
    assert not state
    assert all(path.startswith(str(tmp_path)) for path in start.files), "no file of the user's is touched"


def test_a_hook_is_known_by_the_hash_that_the_client_itself_makes() -> None:
    # As `codex app-server` lists them (hooks/list, currentHash).
    known = "sha256:8b5480109fe3e682cbf216b8fb4a7bea0ba2e46895331eda4500ef90f1e7e116"
    assert trusted_hash("pre_tool_use", "echo ä || exit 2", 30) == known
    known = "sha256:292ddab3b3e601ea9736f24206b21af7feb982973e9ecc011bc06589b3e4d3a3"
    assert trusted_hash("interrupt", "echo hi", 3) == known


@pytest.mark.parametrize(
    ("permissions", "sandboxed", "sandbox", "approval"),
    [
        ((), False, None, None),
        ((), True, "danger-full-access", None),
        (("read-only", "never"), True, "read-only", "never"),
        (("workspace-write", "on-request"), False, "workspace-write", "on-request"),
        (("sandbox_mode='read-only'",), True, "read-only", None),
    ],
)
def test_permissions_are_modes_of_its_own(
    tmp_path: Path, permissions: tuple[str, ...], sandboxed: bool, sandbox: str | None, approval: str | None
) -> None:
    told = config(
        CODEX.start(replace(launch(tmp_path, permissions=permissions), sandboxed=sandboxed)).command,
    )
    assert (told.get("sandbox_mode"), told.get("approval_policy")) == (sandbox, approval)


def test_no_permission_changes_what_dogwatch_says(tmp_path: Path) -> None:
    words = ("features.hooks=false", "hooks.state={}", "features={unified_exec_tty=true}")
    command = CODEX.start(launch(tmp_path, permissions=words)).command
    assert config(command)["features"]["hooks"] is True
    assert config(command)["features"]["unified_exec_tty"] is False
    assert len(config(command)["hooks"]["state"]) == len(EVENTS)
    assert "Bash" in CODEX.start(launch(tmp_path, permissions=("Bash",))).command, "the client itself refuses it"


def spoken(folder: Path, *sessions: tuple[int, str, bool]) -> None:
    """A spool in which these incarnations have told of their conversations, and whether they were kept."""
    for incarnation, session, kept in sessions:
        path = folder / f"rollout-{session}.jsonl"
        if kept:
            path.write_text("{}")
        told = {"session_id": session, "transcript_path": str(path)}
        with open(folder / "spool", "ab") as spool:
            spool.write(render(1.0, 1.0, incarnation, 7, "SessionStart", told))


def begun(folder: Path, incarnation: int, conversation: str = "c-1") -> tuple[str, ...]:
    """Starts an incarnation with its files written; returns what stands before its flags."""
    start = CODEX.start(launch(folder, incarnation, conversation))
    for path, text in start.files.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text)
    return start.command[: start.command.index("--no-daemon")]


def test_it_goes_on_with_the_conversation_that_its_hooks_have_told_of(tmp_path: Path) -> None:
    assert begun(tmp_path, 1) == ("codex",)
    assert begun(tmp_path, 2) == ("codex",), "nothing was kept of it"
    spoken(tmp_path, (2, SESSION, True), (3, OTHER, False))
    assert begun(tmp_path, 4) == ("codex", "resume", SESSION)
    assert begun(tmp_path, 5, "c-2") == ("codex",), "it shall begin anew"
    spoken(tmp_path, (5, OTHER, True))
    assert begun(tmp_path, 6, "c-2") == ("codex", "resume", OTHER)


def test_what_an_agent_puts_into_its_spool_is_no_flag(tmp_path: Path) -> None:
    begun(tmp_path, 1)
    spoken(tmp_path, (1, "--dangerously-bypass-hook-trust", True))
    assert begun(tmp_path, 2) == ("codex",)


def test_a_spool_that_is_none_is_not_waited_for(tmp_path: Path) -> None:
    begun(tmp_path, 1)
    os.mkfifo(tmp_path / "spool")
    assert begun(tmp_path, 2) == ("codex",)


def test_a_check_in_asks_a_copy_that_can_only_read(tmp_path: Path) -> None:
    home = {"CODEX_HOME": str(tmp_path / "codex")}
    assert CODEX.check_in(launch(tmp_path), "How far?") is None
    begun(tmp_path, 1)
    spoken(tmp_path, (1, SESSION, True))
    (tmp_path / "codex").mkdir()
    (tmp_path / "codex/config.toml").write_text('[mcp_servers."my server"]\ncommand = "x"\n')
    start = CODEX.check_in(launch(tmp_path, environment=home), "How far?")
    assert start is not None
    assert start.command[:3] == ("codex", "exec", "--ephemeral")
    assert start.command[-3:-1] == ("fork", SESSION)
    assert "How far?" in start.command[-1]
    told = config(start.command)
    assert (told["sandbox_mode"], told["approval_policy"]) == ("read-only", "never")
    assert told["mcp_servers"] == {"my server": {"enabled": False}}
    assert told["features"] == {"daemon_auto_start": False}
    assert "hooks" not in told


def test_a_rehearsal_is_a_home_without_questions(tmp_path: Path) -> None:
    found = CODEX.rehearsal(str(tmp_path), "/srv/a project", "http://127.0.0.1:1")
    [(path, text)] = found.files.items()
    told = tomllib.loads(text)
    assert path == f"{found.environment['CODEX_HOME']}/config.toml"
    assert told["model_providers"]["scripted"]["base_url"] == "http://127.0.0.1:1/v1"
    assert told["projects"] == {"/srv/a project": {"trust_level": "trusted"}}
    assert told["features"]["daemon_auto_start"] is False


# Rollouts


def usage(thread: str = SESSION, **tokens: int) -> bytes:
    told = {"thread_id": thread, "session_id": SESSION, "response_id": "resp_1", "usage": tokens}
    return record("token_usage_record", told)


def test_a_call_of_the_model_is_counted_with_its_tokens() -> None:
    line = usage(input_tokens=100, cached_input_tokens=60, cache_write_input_tokens=10, output_tokens=5)
    call = CODEX.entry(line)
    assert isinstance(call, ModelCall)
    tokens = Tokens(calls=1, input=30, output=5, cache_creation=10, cache_read=60)
    assert (call.id, call.tokens, call.subagent) == ("resp_1", tokens, False)
    assert call.at == pytest.approx(WALL)
    other = CODEX.entry(usage(OTHER, input_tokens=1))
    assert isinstance(other, ModelCall)
    assert other.subagent


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "x", "codex_error_info": {"response_too_many_failed_attempts": {"http_status_code": 429}}}, None),
        ({"message": "x", "codex_error_info": "context_window_exceeded"}, "context_exhausted"),
        ({"message": "x", "codex_error_info": "usage_limit_exceeded"}, "rate_limited"),
        ({"message": "unexpected status 401 Unauthorized", "codex_error_info": "other"}, "auth_failed"),
        ({"message": "stream disconnected", "codex_error_info": {"other": None}}, "api_error"),
        ({}, "api_error"),
    ],
)
def test_a_turn_that_ends_with_an_error_is_typed(error: dict[str, Any], kind: str | None) -> None:
    line = event("task_complete", turn_id="t-1", error=error)
    refusal = CODEX.entry(line)
    assert isinstance(refusal, Refusal)
    assert (refusal.id, refusal.failure.type) == ("t-1", kind or "rate_limited")
    ending = CODEX.ending(b"\n".join([event("task_started"), line, event("token_count"), b"cut"]))
    assert ending is not None
    assert ending[0] == pytest.approx(WALL)
    assert ending[1] == refusal.failure


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [event("task_complete", turn_id="t-1")],
        [event("task_complete", error={"message": "x"}), event("task_started")],
        [event("task_complete", error={"message": "x"}), event("turn_aborted", reason="interrupted")],
        [record("response_item", {"type": "task_complete", "error": {"message": "said by a model"}})],
    ],
)
def test_any_other_end_is_told_by_hooks(lines: list[bytes]) -> None:
    assert CODEX.ending(b"\n".join(lines)) is None


def test_the_context_is_read_from_the_last_count() -> None:
    def count(used: int, window: int | None = 258_400) -> bytes:
        return event("token_count", info={"last_token_usage": {"total_tokens": used}, "model_context_window": window})

    assert CODEX.context(b"\n".join([count(100), count(129_200), b'"token_count" cut'])) == 0.5
    assert CODEX.context(b"\n".join([count(100), event("token_count", info=None)])) == 100 / 258_400
    assert CODEX.context(b"\n".join([count(100), record("compacted", {"message": ""})])) is None
    assert CODEX.context(count(100, None)) is None
    assert CODEX.context(b"") is None


def test_sub_agents_have_rollouts_of_their_own_beside_it_or_of_a_later_day(tmp_path: Path) -> None:
    def rollout(day: str, name: str, session: str) -> str:
        path = tmp_path / f"sessions/2026/11/{day}/rollout-{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record("session_meta", {"session_id": session, "id": name}) + b"\n")
        return str(path)

    own = rollout("16", "own", SESSION)
    rollout("16", "stranger", OTHER)
    rollout("15", "older", SESSION)
    subs = [rollout("16", "sub", SESSION), rollout("17", "late", SESSION)]
    assert list(CODEX.transcripts(own)) == [own, *subs]
    assert list(CODEX.transcripts(str(tmp_path / "none.jsonl"))) == [str(tmp_path / "none.jsonl")]


@given(st.binary(max_size=200) | st.builds(lambda data: event("task_complete", error=data), st.text() | st.none()))
def test_whatever_stands_in_a_rollout_is_no_error_of_ours(line: bytes) -> None:
    tail = line + b'\n{"type":"event_msg","payload":' + line
    assert CODEX.context(tail) is None or CODEX.context(tail)
    CODEX.ending(tail)
    CODEX.entry(line)


@given(st.lists(st.text(max_size=20) | st.sampled_from(["› x", "", "  enter confirm · esc", "■ x", "$ "]), max_size=8))
def test_whatever_stands_on_a_screen_is_read(lines: list[str]) -> None:
    assert CODEX.read(lines, "⠋ x").state


# Turns


def line(name: str, mono: float, **payload: Any) -> SpoolLine:
    raw = json.dumps(payload).encode()
    return SpoolLine(wall=mono, mono=mono, incarnation=1, pid=7, event=name, payload_bytes=len(raw), raw=raw)


def test_an_interrupt_ends_the_turn() -> None:
    turn = fold(Turn(), line("UserPromptSubmit", 1.0, prompt="x"))
    turn = fold(turn, line("PreToolUse", 2.0, tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="t"))
    assert (turn.state, len(turn.tools)) == ("working", 1)
    turn = fold(turn, line("Interrupt", 3.0))
    assert (turn.state, turn.since, dict(turn.tools)) == ("idle", 3.0, {})


def test_an_error_of_the_rollout_ends_the_turn_that_it_belongs_to() -> None:
    turn = fold(Turn(), line("UserPromptSubmit", 1.0, prompt="x"))
    ended = failed(turn, 2.0, "rate_limited")
    assert (ended.state, ended.since, ended.failure) == ("idle", 2.0, "rate_limited")
    assert failed(turn, 0.5, "rate_limited") == turn, "another turn has begun since"
    assert failed(Turn(), 2.0, "rate_limited") == Turn()


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        ("apply_patch", "*** Begin Patch\n*** Update File: a b.md\n@@\n*** End Patch"),
        ("Bash", "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a b.md\n+x\n*** End Patch\nEOF"),
    ],
)
def test_a_patch_is_done_at_once(tool: str, command: str) -> None:
    turn = fold(Turn(), line("PreToolUse", 2.0, tool_name=tool, tool_input={"command": command}, tool_use_id="t"))
    assert (turn.state, dict(turn.tools)) == ("working", {})
    assert turn.wrote == ("a b.md",)


def test_its_members_are_those_of_the_contract() -> None:
    client = harness("codex")
    assert (client.hooks, client.guards, client.speaks_first, client.sandbox) == (True, True, False, "auto")
    assert client.interrupt_keys == ("Escape",), "one Ctrl-C on an empty composer would end it"
    assert client.failure("Stop", {}) is None
    assert client.failure("StopFailure", {"error": "x"}) == Failure("api_error", "", "x")
