"""The hook as the Gemini CLI runs it: what its payloads leave out is found, and all else understands the spool."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.guard.fast import Spool
from dogwatch.guard.gemini import translated
from dogwatch.model.sight import Turn
from dogwatch.policy.turns import fold
from support.hooking import HookedAgent, hooked_agent

CALL = "run_shell_command"
ERROR = '[API Error: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}]'


@pytest.fixture
def agent() -> Iterator[HookedAgent]:
    with hooked_agent() as agent:
        agent.register()
        yield agent


def iso(wall: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall)) + f".{int(wall % 1 * 1000):03d}Z"


def payload(agent: HookedAgent, **values: Any) -> bytes:
    """As the client writes it."""
    base = {"session_id": "s", "transcript_path": str(transcript(agent)), "cwd": str(agent.project)}
    text = {**base, "hook_event_name": "X", "timestamp": iso(time.time()), **values}
    return json.dumps(text, separators=(",", ":"), ensure_ascii=False).encode()


def tell(agent: HookedAgent, event: str, **values: Any) -> int:
    return agent.hook(event, payload(agent, **values), "gemini").returncode


def transcript(agent: HookedAgent) -> Path:
    return agent.project / "session-1.jsonl"


def record(agent: HookedAgent, *entries: dict[str, Any]) -> None:
    with transcript(agent).open("a") as file:
        file.writelines(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries)


def entry(kind: str, content: Any) -> dict[str, Any]:
    return {"id": "1", "timestamp": iso(time.time()), "type": kind, "content": content}


def turn(agent: HookedAgent) -> Turn:
    known = Turn()
    for line in agent.lines():
        known = fold(known, line)
    return known


def run(agent: HookedAgent, command: str = "ls") -> dict[str, Any]:
    return {"tool_name": CALL, "tool_input": {"command": command, "description": "x"}}


def answered(agent: HookedAgent, command: str = "ls", **response: Any) -> dict[str, Any]:
    return {**run(agent, command), "tool_response": {"llmContent": "x" * 100_000, "returnDisplay": "", **response}}


def test_a_tool_is_open_from_its_call_to_its_answer_however_long_that_is(agent: HookedAgent) -> None:
    assert tell(agent, "PreToolUse", **run(agent)) == 0
    assert [tool.name for tool in turn(agent).tools.values()] == [CALL]
    assert tell(agent, "PreToolUse", **run(agent, "pwd")) == 0
    assert len(turn(agent).tools) == 2
    assert tell(agent, "PostToolUse", **answered(agent)) == 0
    assert [tool.what for tool in turn(agent).tools.values()] == ["pwd"]


def test_what_would_do_harm_is_denied_in_words_and_is_open_no_more(agent: HookedAgent) -> None:
    done = agent.hook("PreToolUse", payload(agent, **run(agent, "tmux kill-server")), "gemini")
    assert (done.returncode, b"denied by tmux.kill-server" in done.stderr) == (2, True)
    assert not turn(agent).tools
    assert [line.payload()["command"] for line in agent.lines("Denied")] == ["tmux kill-server"]


def test_writes_are_judged_and_a_command_by_the_folder_that_it_is_to_run_in(agent: HookedAgent) -> None:
    inside = f"{agent.home.path}/x"
    for tool in ("write_file", "replace"):
        given = {"tool_name": tool, "tool_input": {"file_path": inside, "content": ""}}
        assert tell(agent, "PreToolUse", **given) == 2
        assert tell(agent, "PreToolUse", **{**given, "tool_input": {"file_path": f"{agent.project}/x"}}) == 0
    moved = {"tool_name": CALL, "tool_input": {"command": "rm x", "dir_path": agent.home.path}}
    assert tell(agent, "PreToolUse", **moved) == 2


def test_an_error_of_a_tool_is_told_as_one(agent: HookedAgent) -> None:
    tell(agent, "PreToolUse", **run(agent))
    tell(agent, "PostToolUse", **answered(agent, error={"message": "it broke", "type": "x"}))
    assert [line.payload()["error"] for line in agent.lines("PostToolUseFailure")] == ["it broke"]
    assert not turn(agent).tools


def test_the_canary_is_refused(agent: HookedAgent) -> None:
    assert tell(agent, "UserPromptSubmit", prompt="[dogwatch:m1 canary guard]") == 2
    assert tell(agent, "UserPromptSubmit", prompt="[dogwatch:m2 dispatch draft]\nGo.") == 0
    assert set(turn(agent).receipts) == {"m1", "m2"}


def test_calls_of_a_sub_agent_are_its_own_and_those_beside_it_are_not(agent: HookedAgent) -> None:
    asked = {"tool_name": "invoke_agent", "tool_input": {"agent_name": "generalist", "prompt": "look"}}
    together = iso(time.time())
    tell(agent, "UserPromptSubmit", prompt="go")
    tell(agent, "PreToolUse", **asked, timestamp=together)
    tell(agent, "PreToolUse", **run(agent, "pwd"), timestamp=together)
    tell(agent, "PreToolUse", **run(agent))
    tell(agent, "PostToolUse", **answered(agent, "pwd"))
    [started] = turn(agent).subagents.values()
    assert (started.type, started.id.startswith("generalist-")) == ("generalist", True)
    begun = [line.payload().get("agent_id") for line in agent.lines("PreToolUse")]
    assert begun == [None, None, started.id]
    assert [line.payload().get("agent_id") for line in agent.lines("PostToolUse")] == [None]
    tell(agent, "PostToolUse", **answered(agent))
    tell(agent, "PostToolUse", **asked, tool_response={"llmContent": [{"text": "DISAGREE: no"}]})
    assert [line.payload().get("agent_id") for line in agent.lines("PostToolUse")] == [None, started.id, None]
    [stopped] = agent.lines("SubagentStop")
    assert stopped.payload()["last_assistant_message"] == "DISAGREE: no"
    assert not turn(agent).subagents
    assert not turn(agent).tools


def test_a_sub_agent_gets_no_mail_of_its_parent(agent: HookedAgent) -> None:
    tell(agent, "PreToolUse", tool_name="invoke_agent", tool_input={"agent_name": "generalist", "prompt": "look"})
    tell(agent, "PreToolUse", **run(agent))
    Path(agent.box()).mkdir(parents=True, exist_ok=True)
    letter = Path(agent.box()) / "m1.2"
    letter.write_text("[dogwatch:m1 mail]\nhello\n")
    done = agent.hook("PostToolUse", payload(agent, **answered(agent)), "gemini")
    assert (done.stdout, letter.exists()) == (b"", True)
    tell(agent, "PreToolUse", **run(agent, "pwd"), timestamp="2020-01-01T00:00:00.000Z")
    done = agent.hook("PostToolUse", payload(agent, **answered(agent, "pwd")), "gemini")
    assert (b"hello" in done.stdout, letter.exists()) == (True, False)


@pytest.mark.parametrize(
    ("notes", "event", "told"),
    [
        ([], "Stop", None),
        ([("info", "Some note.")], "Stop", None),
        ([("error", ERROR), ("info", "This request failed.")], "StopFailure", ERROR),
        ([("info", "This might exceed the context window limit (9 tokens left).")], "StopFailure", "context window"),
        ([("info", "Request cancelled.")], "Stop", "true"),
    ],
)
def test_how_a_turn_has_ended_is_told(
    agent: HookedAgent, notes: list[tuple[str, str]], event: str, told: str | None
) -> None:
    record(agent, entry("error", "of an earlier turn"), entry("user", [{"text": "go"}]))
    record(agent, *(entry(kind, content) for kind, content in notes), {"$set": {"lastUpdated": "x"}})
    tell(agent, "UserPromptSubmit", prompt="go")
    tell(agent, "Stop", prompt="go", prompt_response="[no response text]", stop_hook_active=False)
    [line] = agent.lines(event)
    found = line.payload().get("interrupted" if event == "Stop" else "error")
    assert (found is None) if told is None else told in str(found)
    assert turn(agent).state == "idle"


def test_an_interrupted_stop_is_not_held_for_mail(agent: HookedAgent) -> None:
    record(agent, entry("user", [{"text": "go"}]), entry("info", "Request cancelled."))
    Path(agent.box()).mkdir(parents=True, exist_ok=True)
    (Path(agent.box()) / "m1.2").write_text("[dogwatch:m1 mail]\nhello\n")
    assert agent.hook("Stop", payload(agent, stop_hook_active=False), "gemini").stdout == b""
    assert (Path(agent.box()) / "m1.2").exists()


def test_a_tool_that_a_person_has_broken_off_ends_the_turn(agent: HookedAgent) -> None:
    tell(agent, "UserPromptSubmit", prompt="go")
    tell(agent, "PreToolUse", **run(agent))
    record(agent, entry("gemini", ""), entry("info", "Request cancelled."))
    tell(agent, "PostToolUse", **run(agent), tool_response={"llmContent": "Command was cancelled by user."})
    assert [line.event for line in agent.lines()][-2:] == ["PostToolUse", "Stop"]
    assert turn(agent).state == "idle"


def test_only_a_real_compaction_is_told_and_once(agent: HookedAgent) -> None:
    record(agent, {"sessionId": "s"}, {"$set": {"messages": [], "lastUpdated": iso(time.time())}})
    tell(agent, "SessionStart", source="startup")
    tell(agent, "PreCompress", trigger="auto")
    assert not agent.lines("PostCompact")
    shorter = {"$set": {"messages": [entry("user", "<state_snapshot>")], "lastUpdated": iso(time.time() + 1)}}
    record(agent, {"$set": {"sessionId": "s"}}, shorter)
    tell(agent, "PreCompress", trigger="auto")
    assert len(agent.lines("PostCompact")) == 1
    assert turn(agent).compacted > 0


def test_a_conversation_that_is_gone_on_with_was_not_compacted(agent: HookedAgent) -> None:
    resumed = {"$set": {"messages": [], "lastUpdated": iso(time.time() - 1)}}
    record(agent, {"sessionId": "s"}, {"$set": {"sessionId": "s"}}, resumed)
    tell(agent, "SessionStart", source="resume")
    record(agent, entry("user", [{"text": "go"}]))
    tell(agent, "PreCompress", trigger="auto")
    tell(agent, "Stop", stop_hook_active=False)
    assert not agent.lines("PostCompact")


def test_a_permission_that_is_asked_for_says_for_what(agent: HookedAgent) -> None:
    details = {"type": "edit", "title": "Confirm Write", "filePath": "/p/mark", "originalContent": "y" * 200_000}
    tell(agent, "PermissionRequest", notification_type="ToolPermission", details=details)
    assert turn(agent).dialog == "Confirm Write /p/mark"


EVENTS = ("PreToolUse", "PostToolUse", "PermissionRequest", "Stop", "PreCompress", "UserPromptSubmit")
PIECES = (
    *(b"{", b"}", b'"', b",", b"x", b"\xff", b'"timestamp":"', b'"tool_name":"invoke_agent"'),
    *(b',"tool_input":{"agent_name":"x"}', b',"tool_response":{', b'"error":{"message":2}', b'"details":{"title":1}'),
    b'"transcript_path":"/dev/zero"',
)


@settings(max_examples=300, derandomize=True)
@given(event=st.sampled_from(EVENTS), pieces=st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_payload_makes_it_fail(tmp_path_factory: pytest.TempPathFactory, event: str, pieces: list[bytes]) -> None:
    spool = Spool({b"DOGWATCH_SPOOL": str(tmp_path_factory.getbasetemp() / "fuzz.spool").encode()})
    name, told = translated(event, b"{" + b"".join(pieces), spool)
    assert name.isalpha()
    assert told


def test_what_a_hook_says_that_holds_a_stop_is_no_new_prompt(agent: HookedAgent) -> None:
    tell(agent, "UserPromptSubmit", prompt="[dogwatch:m0000000001 dispatch draft]\nWrite.")
    for number in range(4):
        tell(agent, "Stop", prompt="Write.", prompt_response="Done.", stop_hook_active=number > 0)
        tell(agent, "UserPromptSubmit", prompt="You may not stop yet.")
    assert (turn(agent).state, turn(agent).stops) == ("working", 3)
    tell(agent, "Stop", prompt="Write.", prompt_response="Done.", stop_hook_active=True)
    tell(agent, "UserPromptSubmit", prompt="[dogwatch:m0000000002 nudge draft]\nGo on.")
    assert turn(agent).stops == 0
