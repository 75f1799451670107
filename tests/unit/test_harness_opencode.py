"""OpenCode's harness: how it is started, and what its spool tells of sessions, errors and model calls."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.errors import RefusedError
from dogwatch.harness import Launch, harness
from dogwatch.harness.opencode import CONTENT, FILE, OpenCode, own_rules
from dogwatch.model.plan import Role
from dogwatch.model.spool import render
from dogwatch.model.tally import ModelCall, Tokens

OPENCODE = OpenCode()
CONVERSATION = "6f1f7a52-4f5e-4a66-9d0c-5f0f3a0f5b1e"
OTHER = "00000000-4f5e-4a66-9d0c-5f0f3a0f5b1e"
USAGE = {"input": 60_000, "output": 1_000, "cache_creation": 0, "cache_read": 3_000}


def launched(folder: Path, **role: Any) -> Launch:
    marks = {"DOGWATCH_SPOOL": str(folder / "a.spool"), "DOGWATCH_OUTPUT": str(folder / "out")}
    return Launch(
        role=Role(name="writer", harness="opencode", **role),
        python="/usr/bin/python3",
        hook="/srv/hook.py",
        folder=str(folder / "agents" / "a"),
        conversation=CONVERSATION,
        marks=marks,
    )


def line(event: str, **payload: Any) -> bytes:
    return render(1.0, 1.0, 1, 1, event, payload)


def prompt(session: str, conversation: str, event: str = "UserPromptSubmit") -> bytes:
    raw = json.dumps({"session_id": session, "conversation": conversation, "prompt": "go"}, separators=(",", ":"))
    return line(event).replace(b"{}", raw.encode())


def called(**changes: Any) -> bytes:
    call = {"id": "msg_1", "model": "p/m", "usage": USAGE, "window": 128_000, "at": 1794834156.4, **changes}
    return line("ModelCall", **call)


def settings(text: str) -> dict[str, Any]:
    """What stands at the head of the plugin."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text.removeprefix("const SETTINGS = "))[0]
    return found


def test_it_is_known_by_its_name() -> None:
    assert harness("opencode").guards


def test_the_plugin_comes_besides_the_users_own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CONTENT, FILE):
        monkeypatch.delenv(name, raising=False)
    launch = launched(tmp_path)
    start = OPENCODE.start(launch)
    [(path, text)] = start.files.items()
    assert json.loads(start.environment[CONTENT])["plugin"] == [Path(path).as_uri()]
    told = settings(text)
    assert (told["python"], told["hook"], told["marks"]) == ("/usr/bin/python3", "/srv/hook.py", dict(launch.marks))
    assert told["permissions"]["own"] is None, "without rules of the role those of the user hold"
    assert told["passing"] == ["npm_config_offline"]
    assert start.command == ("opencode",)


def test_what_the_user_has_configured_by_variable_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE, raising=False)
    start = OPENCODE.start(launched(tmp_path, environment={CONTENT: "{}"}))
    assert CONTENT not in start.environment
    assert json.loads(start.files[start.environment[FILE]])["plugin"]
    with pytest.raises(RefusedError):
        OPENCODE.start(launched(tmp_path, environment={CONTENT: "{}", FILE: "/srv/mine.json"}))


def test_it_goes_on_with_the_newest_session_of_its_conversation(tmp_path: Path) -> None:
    launch = launched(tmp_path)
    lines = [
        prompt("ses_old", CONVERSATION),
        prompt("ses_right", CONVERSATION),
        prompt("ses_of_before", OTHER),
        prompt("ses_empty", CONVERSATION, "Canary"),
    ]
    (tmp_path / "a.spool").write_bytes(b"".join(lines))
    assert OPENCODE.start(launch).command[-2:] == ("--session", "ses_right")
    asked = OPENCODE.check_in(launch, "How far?")
    assert asked is not None
    assert "--fork" in asked.command
    assert json.loads(asked.environment["OPENCODE_PERMISSION"])["*"] == "deny"


def test_there_is_nothing_to_ask_before_anything_was_said(tmp_path: Path) -> None:
    assert OPENCODE.check_in(launched(tmp_path), "How far?") is None


def test_a_roles_rules_become_the_clients_own() -> None:
    rules = own_rules(["deny: bash(rm *)", "bash(npm *)", "edit", "deny: webfetch", "deny: read(*.env)"])
    assert rules is not None
    assert rules["*"] == "ask"
    assert list(rules["bash"].items()) == [("*", "ask"), ("npm *", "allow"), ("rm *", "deny")]
    assert rules["edit"] == "allow"
    assert rules["read"] == {"*": "allow", "*.env": "deny"}
    assert rules["webfetch"] == "deny"
    assert rules["todowrite"] == "allow", "the client takes no patterns for it"
    assert own_rules([]) is None
    with pytest.raises(RefusedError):
        own_rules(["bash npm"])


@pytest.mark.parametrize(
    ("error", "said", "expected"),
    [
        ("APIError 429", "scripted 429", "rate_limited"),
        ("APIError 401", "scripted 401", "auth_failed"),
        ("ProviderAuthError", "no key", "auth_failed"),
        ("APIError 529", "Overloaded", "overloaded"),
        ("APIError 500", "scripted 500", "api_error"),
        ("ContextOverflowError", "too much", "context_exhausted"),
        ("UnknownError", "", "api_error"),
    ],
)
def test_an_error_that_ends_a_turn_has_a_type(error: str, said: str, expected: str) -> None:
    failure = OPENCODE.failure("StopFailure", {"error": error, "last_assistant_message": said})
    assert failure is not None
    assert failure.type == expected


@pytest.mark.parametrize(
    ("error", "interrupted", "expected"),
    [
        ("File not found: /x", False, "tool_failed"),
        ("Tool execution aborted", True, "tool_interrupted"),
        ("The user has specified a rule which prevents you from … Here are [1]", False, "permission_denied"),
        ("invalid: The arguments provided to the tool are invalid", False, "validation_failure"),
    ],
)
def test_a_tools_failure_has_a_type(error: str, interrupted: bool, expected: str) -> None:
    payload = {"tool_name": "Read", "error": error, "is_interrupt": interrupted}
    failure = OPENCODE.failure("PostToolUseFailure", payload)
    assert failure is not None
    assert (failure.type, failure.tool) == (expected, "Read")


def test_model_calls_stand_in_the_spool() -> None:
    tokens = Tokens(calls=1, input=60_000, output=1_000, cache_read=3_000)
    expected = ModelCall(id="msg_1", model="p/m", at=1794834156.4, tokens=tokens)
    assert OPENCODE.entry(called()) == expected
    assert OPENCODE.entry(called(agent_id="ses_2")) == ModelCall(
        id="msg_1", model="p/m", at=1794834156.4, tokens=tokens, subagent=True
    )
    assert OPENCODE.entry(line("Stop", text="\tModelCall\t")) is None
    assert OPENCODE.transcripts("/srv/a.spool") == ("/srv/a.spool",)


def test_the_context_is_that_of_the_last_answer_of_its_own() -> None:
    assert OPENCODE.context(called() + called(agent_id="ses_2") + line("Stop")) == 0.5
    assert OPENCODE.context(called(window=0)) is None
    assert OPENCODE.context(called() + line("PostCompact")) is None
    assert OPENCODE.context(called(summary=True)) is None


@given(st.binary(max_size=200), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_nothing_in_a_spool_ends_the_reader(raw: bytes, value: Any) -> None:
    for one in (
        raw,
        line("ModelCall", usage=value, window=value, id=value, model=value, at=value),
        called(usage=value),
    ):
        share = OPENCODE.context(one)
        assert share is None or math.isfinite(share)
        assert OPENCODE.entry(one) is None or isinstance(OPENCODE.entry(one), ModelCall)


def test_the_bar_of_facts_beside_a_composer_is_none_of_its_text() -> None:
    facts = " " * 6 + "LSPs are disabled"
    lines = ["  ┃" + " " * 60, "  ┃  half a draft".ljust(63) + facts, "  ┃".ljust(63) + facts, "  ┃  Build · scripted"]
    screen = OPENCODE.read([*lines, "  ╹" + "▀" * 60, "   /srv/lab".ljust(63) + facts])
    assert (screen.state, screen.composer) == ("idle", "half a draft")
