"""What Claude Code tells besides its turns, with payloads and lines as the client writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dogwatch.harness import State, harness
from dogwatch.harness.claude import EVENTS, Claude
from dogwatch.harness.neutral import FAILURE_EVENTS
from dogwatch.model.plan import Role
from dogwatch.model.process import ProcessId
from dogwatch.model.tally import ModelCall, Refusal, Tokens
from dogwatch.world.processes import boot_id, identify, pid_namespace

HOOKS = Path(__file__).parent.parent / "data" / "hooks"
CLAUDE = Claude()


def payload(name: str, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {**json.loads((HOOKS / f"{name}.json").read_text()), **changes}
    return found


def stop_failure(error: str, said: str) -> str:
    failure = CLAUDE.failure("StopFailure", payload("StopFailure", error=error, last_assistant_message=said))
    assert failure is not None
    return failure.type


@pytest.mark.parametrize(
    ("error", "said", "expected"),
    [
        ("rate_limit", "API Error: Request rejected (429) · scripted 429", "rate_limited"),
        ("server_error", "API Error: 529 scripted 529. This is a server-side issue", "overloaded"),
        ("overloaded", "API Error: Overloaded", "overloaded"),
        ("server_error", "API Error: 500 scripted 500. This is a server-side issue", "api_error"),
        ("authentication_failed", "Please run /login · API Error: 401 scripted 401", "auth_failed"),
        ("billing_error", "Credit balance is too low", "auth_failed"),
        ("unknown", "API Error: Request timed out.", "api_timeout"),
        ("invalid_request", "Prompt is too long", "context_exhausted"),
        ("invalid_request", "API Error: 400 bad", "api_error"),
        ("", "", "api_error"),
        ("a word of tomorrow", "and what it says", "api_error"),
    ],
)
def test_an_error_that_ends_a_turn_has_a_type(error: str, said: str, expected: str) -> None:
    assert stop_failure(error, said) == expected


def test_a_tool_that_failed_is_named_with_what_it_said() -> None:
    failure = CLAUDE.failure("PostToolUseFailure", payload("PostToolUseFailure"))
    assert failure is not None
    assert (failure.type, failure.tool, failure.message) == ("tool_failed", "Bash", "Exit code 1")
    assert failure.severity == "info"


def test_a_tool_that_was_interrupted_has_not_failed() -> None:
    failure = CLAUDE.failure("PostToolUseFailure", payload("PostToolUseFailure", is_interrupt=True))
    assert failure is not None
    assert failure.type == "tool_interrupted"


def test_a_permission_that_the_client_itself_denied() -> None:
    failure = CLAUDE.failure("PermissionDenied", payload("PermissionDenied"))
    assert failure is not None
    assert (failure.type, failure.tool) == ("permission_denied", "Bash")


def test_long_words_are_cut_to_one_line() -> None:
    failure = CLAUDE.failure("PostToolUseFailure", payload("PostToolUseFailure", error="Exit code 1\n" + "x\n" * 9000))
    assert failure is not None
    assert len(failure.message) <= 200
    assert "\n" not in failure.message


@pytest.mark.parametrize("name", ["claude", "scripted", "command"])
@pytest.mark.parametrize("event", sorted({*EVENTS, "Denied", "TurnEnded"}))
@pytest.mark.parametrize("odd", [{}, {"error": 7, "tool_name": None, "last_assistant_message": []}])
def test_only_events_of_errors_tell_of_one_whatever_is_in_them(name: str, event: str, odd: Mapping[str, Any]) -> None:
    assert (harness(name).failure(event, odd) is not None) == (event in FAILURE_EVENTS)


def test_every_event_of_an_error_is_asked_for() -> None:
    assert set(EVENTS) >= FAILURE_EVENTS


def line(usage: Mapping[str, Any] | None = None, **changes: Any) -> bytes:
    usage = {"input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 30} if usage is None else usage
    message = {"id": "msg_1", "model": "claude-opus-5-5", "usage": usage, "content": [{"type": "text", "text": "hi"}]}
    entry = {"type": "assistant", "timestamp": "2026-11-16T09:46:12.644Z", "isSidechain": False, "message": message}
    return json.dumps({**entry, **changes}).encode()


def test_a_line_of_the_transcript_tells_of_a_call_with_its_tokens() -> None:
    call = CLAUDE.entry(line())
    tokens = Tokens(calls=1, input=100, output=7, cache_read=30)
    assert call == ModelCall(id="msg_1", model="claude-opus-5-5", at=1794822372.644, tokens=tokens)


def test_a_sub_agents_call_is_told_apart() -> None:
    call = CLAUDE.entry(line(isSidechain=True))
    assert isinstance(call, ModelCall)
    assert call.subagent


@pytest.mark.parametrize(
    "told",
    [
        line(message={"id": "x", "model": "<synthetic>", "usage": {"input_tokens": 0}}),
        line(type="api-request-blob"),
        line(message=None),
        b'{"type":"assistant","usage"',
        b"",
        b'"usage" "assistant"',
        b"\xff\xfe",
    ],
)
def test_other_lines_tell_of_no_call(told: bytes) -> None:
    assert CLAUDE.entry(told) is None


def test_odd_numbers_are_no_reason_to_fail() -> None:
    call = CLAUDE.entry(line({"input_tokens": None, "output_tokens": "7", "cache_read_input_tokens": -3}, timestamp=7))
    assert isinstance(call, ModelCall)
    assert (call.tokens, call.at) == (Tokens(calls=1), 0.0)


def result(content: Any, **changes: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": content}
    entry = {"type": "user", "timestamp": "2026-11-16T09:46:13.615Z", "message": {"content": [block]}}
    return json.dumps({**entry, **changes}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("said", "type_", "tool"),
    [
        (
            "<tool_use_error>InputValidationError: Bash failed due to this:\n`command` is missing</tool_use_error>",
            "validation_failure",
            "Bash",
        ),
        ("<tool_use_error>Error: No such tool available: Nope</tool_use_error>", "validation_failure", "Nope"),
        ("<tool_use_error>File has not been read yet.</tool_use_error>", "validation_failure", ""),
        ("Permission to use Bash with command cat /etc/passwd has been denied.", "permission_denied", "Bash"),
    ],
)
def test_a_refused_call_is_told_by_the_transcript(said: str, type_: str, tool: str) -> None:
    refusal = CLAUDE.entry(result(said))
    assert isinstance(refusal, Refusal)
    assert (refusal.id, refusal.failure.type, refusal.failure.tool) == ("toolu_1", type_, tool)
    assert "tool_use_error" not in refusal.failure.message


@pytest.mark.parametrize(
    "told",
    [
        result("Exit code 1\n<tool_use_error>quoted</tool_use_error>"),
        result("<tool_use_error>x</tool_use_error>", type="api-request-blob"),
        result([{"type": "text", "text": "<tool_use_error>"}]),
        result(None),
    ],
)
def test_what_only_speaks_of_a_refusal_is_none(told: bytes) -> None:
    assert CLAUDE.entry(told) is None


def test_a_refusal_is_not_told_by_a_hook_as_well() -> None:
    said = payload("PostToolUseFailure", error="<tool_use_error>InputValidationError: Bash failed</tool_use_error>")
    assert CLAUDE.failure("PostToolUseFailure", said) is None


def test_the_words_of_an_api_error_say_nothing_of_the_context() -> None:
    error = line(message={"id": "x", "model": "<synthetic>", "usage": {"input_tokens": 0}})
    assert CLAUDE.context(b"\n".join([line(), error])) == CLAUDE.context(line())


# The state file


@pytest.fixture
def me() -> ProcessId:
    process = identify(os.getpid(), boot_id())
    assert process is not None
    return process


class Sessions:
    """A folder of state files, and a role whose clients have it."""

    def __init__(self, folder: Path, variable: str) -> None:
        self.folder = folder / "sessions"
        self.folder.mkdir(parents=True)
        value = str(folder) if variable == "CLAUDE_CONFIG_DIR" else str(folder.parent)
        self.role = Role(name="writer", harness="claude", environment={variable: value})

    def write(self, process: ProcessId, **changes: Any) -> None:
        domain = f"linux:3d1219c7:{pid_namespace(process.pid)}"
        told = {"pid": process.pid, "procStart": str(process.start_ticks), "pidDomain": domain, "status": "busy"}
        (self.folder / f"{process.pid}.json").write_text(json.dumps({**told, **changes}))

    def told(self, *processes: ProcessId) -> State:
        return CLAUDE.told_state(self.role, processes)


@pytest.fixture(params=["HOME", "CLAUDE_CONFIG_DIR"])
def sessions(tmp_path: Path, request: pytest.FixtureRequest) -> Sessions:
    return Sessions(tmp_path / ".claude", request.param)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"status": "idle"}, "idle"),
        ({"status": "busy"}, "busy"),
        ({"status": "shell"}, "shell"),
        ({"status": "waiting", "waitingFor": "permission prompt"}, "permission"),
        ({"status": "waiting", "waitingFor": "dialog open"}, "dialog"),
        ({"status": "waiting"}, "dialog"),
        ({"status": "dreaming"}, "unknown"),
        ({"status": None}, "unknown"),
    ],
)
def test_the_client_says_itself_what_it_does(sessions: Sessions, me: ProcessId, told: Any, expected: str) -> None:
    sessions.write(me, **told)
    assert sessions.told(me) == expected


def test_the_client_is_found_below_its_launcher(sessions: Sessions, me: ProcessId) -> None:
    sessions.write(me)
    parent = identify(os.getppid(), me.boot)
    assert parent is not None
    assert sessions.told(parent, me) == "busy"


@pytest.mark.parametrize(
    "changes",
    [
        {"procStart": "1"},
        {"procStart": None},
        {"pid": 1},
        {"pidDomain": "linux:3d1219c7:pid:[1]"},
    ],
)
def test_a_file_that_another_process_has_left_behind_says_nothing(
    sessions: Sessions, me: ProcessId, changes: Mapping[str, Any]
) -> None:
    sessions.write(me, **changes)
    assert sessions.told(me) == "unknown"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": "x"}'])
def test_a_file_that_cannot_be_read_says_nothing(sessions: Sessions, me: ProcessId, text: str) -> None:
    assert sessions.told(me) == "unknown"
    (sessions.folder / f"{me.pid}.json").write_text(text)
    assert sessions.told(me) == "unknown"


def test_an_older_client_without_a_domain_is_known_by_pid_and_start(sessions: Sessions, me: ProcessId) -> None:
    sessions.write(me, pidDomain=None)
    assert sessions.told(me) == "busy"
