"""The Gemini CLI's harness: how it is started, and what its transcripts and errors tell."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.errors import RefusedError
from dogwatch.harness import Launch, harness
from dogwatch.harness.gemini import EVENTS, HOOK_NAME, Gemini, policy
from dogwatch.model.plan import Role
from dogwatch.model.tally import ModelCall, Tokens

GEMINI = Gemini()
CONVERSATION = "6f1f7a52-4f5e-4a66-9d0c-5f0f3a0f5b1e"
OTHER = "00000000-4f5e-4a66-9d0c-5f0f3a0f5b1e"


def launched(folder: Path, **role: Any) -> Launch:
    return Launch(
        role=Role(name="writer", harness="gemini", environment={"HOME": str(folder / "user")}, **role),
        python="/usr/bin/python3",
        hook="/srv/hook.py",
        folder=str(folder / "agents/a"),
        conversation=CONVERSATION,
    )


def user_file(folder: Path, name: str, text: str) -> None:
    path = folder / "user/.gemini" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def settings(folder: Path, **role: Any) -> dict[str, Any]:
    start = GEMINI.start(launched(folder, **role))
    [text] = [text for path, text in start.files.items() if path.endswith("/.gemini/settings.json")]
    found: dict[str, Any] = json.loads(text)
    return found


def answer(**changes: Any) -> bytes:
    tokens = {"input": 524_288, "output": 7, "cached": 24_288, "thoughts": 3, "tool": 0, "total": 0}
    entry = {"id": "m1", "timestamp": "2026-11-16T13:04:33.599Z", "type": "gemini", "content": "", "tokens": tokens}
    return json.dumps({**entry, "model": "gemini-3", **changes}, separators=(",", ":")).encode()


def test_it_is_known_by_its_name() -> None:
    assert harness("gemini").guards


def test_its_hooks_come_beside_the_users_own_settings(tmp_path: Path) -> None:
    theirs = {
        "model": {"name": "gemini-3"},
        "general": {"vimMode": True, "preferredEditor": "vim"},
        "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "mine"}]}]},
        "hooksConfig": {"enabled": False, "disabled": [HOOK_NAME, "other"]},
    }
    user_file(tmp_path, "settings.json", f'// mine\n{json.dumps(theirs)} /* all: "x" */')
    found = settings(tmp_path)
    assert found["model"] == theirs["model"]
    assert found["general"] == {
        "vimMode": False,
        "preferredEditor": "vim",
        "enableAutoUpdate": False,
        "enableAutoUpdateNotification": False,
    }
    assert found["hooksConfig"]["enabled"] is True
    assert found["hooksConfig"]["disabled"] == ["other"]
    assert set(found["hooks"]) == set(EVENTS)
    first, last = found["hooks"]["BeforeTool"]
    assert (first["hooks"][0]["command"], last["hooks"][0]["name"]) == ("mine", HOOK_NAME)
    assert "PreToolUse gemini || {" in last["hooks"][0]["command"]
    assert "exit 2" not in found["hooks"]["AfterAgent"][0]["hooks"][0]["command"]


@pytest.mark.parametrize("text", ["{", "[]", "{,}", "nothing"])
def test_settings_that_the_client_would_not_take_are_refused(tmp_path: Path, text: str) -> None:
    user_file(tmp_path, "settings.json", text)
    with pytest.raises(RefusedError, match=r"settings\.json"):
        settings(tmp_path)


def test_what_is_the_users_is_linked_and_what_is_the_agents_is_not(tmp_path: Path) -> None:
    for name in ("oauth_creds.json", "trustedFolders.json", "settings.json", "projects.json", "keybindings.json"):
        user_file(tmp_path, name, "{}")
    start = GEMINI.start(launched(tmp_path))
    [own] = start.kept
    assert start.environment["GEMINI_CLI_HOME"] == str(Path(own).parent)
    assert {Path(path).name for path in start.links} == {"oauth_creds.json", "trustedFolders.json"}
    assert start.links[f"{own}/oauth_creds.json"] == str(tmp_path / "user/.gemini/oauth_creds.json")


def test_a_role_that_would_lead_its_client_away_from_the_hooks_is_refused(tmp_path: Path) -> None:
    launch = launched(tmp_path)
    role = replace(launch.role, environment={"GEMINI_CLI_HOME": str(tmp_path)})
    with pytest.raises(RefusedError, match="GEMINI_CLI_HOME"):
        GEMINI.start(replace(launch, role=role))


def test_rules_decide_only_where_the_role_has_some(tmp_path: Path) -> None:
    assert "--approval-mode" not in GEMINI.start(launched(tmp_path)).command
    user_file(tmp_path, "policies/mine.toml", "")
    words = GEMINI.start(launched(tmp_path, permissions=("write_file",))).command
    assert words[words.index("--approval-mode") + 1] == "default"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--policy"] == [
        str(tmp_path / "agents/a/policy.toml"),
        str(tmp_path / "user/.gemini/policies"),
    ]


def test_permissions_become_rules_of_the_client() -> None:
    given = ("run_shell_command(npm test:*)", "write_file", "deny: run_shell_command(git push)", 'x("a.b")')
    rules = tomllib.loads(policy(Role(name="w", harness="gemini", permissions=given)))["rule"]
    told = [(rule["toolName"], rule.get("commandPrefix"), rule["decision"], rule["priority"]) for rule in rules]
    assert told == [
        ("run_shell_command", "dogwatch", "allow", 990),
        ("run_shell_command", "npm test", "allow", 990),
        ("write_file", None, "allow", 990),
        ("run_shell_command", "git push", "deny", 999),
        ("x", None, "allow", 990),
    ]
    assert rules[-1]["argsPattern"] == '"a\\.b"'


def test_it_goes_on_with_the_conversation_that_it_has_begun(tmp_path: Path) -> None:
    launch = launched(tmp_path)
    assert "--resume" not in GEMINI.start(launch).command
    chat = Path(GEMINI.start(launch).kept[0]) / "tmp/project/chats/session-1.jsonl"
    chat.parent.mkdir(parents=True)
    chat.touch()
    assert GEMINI.start(launch).command[-2:] == ("--resume", "latest")
    assert "--resume" not in GEMINI.start(replace(launch, conversation=OTHER)).command


def test_calls_are_counted_and_the_context_is_known() -> None:
    expected = Tokens(calls=1, input=500_000, output=10, cache_read=24_288)
    found = GEMINI.entry(answer())
    assert found == ModelCall(id="m1", model="gemini-3", at=1794834273.599, tokens=expected, subagent=False)
    history = b'{"$set":{"messages":[' + answer() + b"]}}"
    assert GEMINI.entry(history) is None
    assert GEMINI.context(answer() + b"\n" + history) == 0.5
    assert GEMINI.context(answer() + b'\n{"$set":{"sessionId":"s"}}\n' + history) is None
    assert GEMINI.context(answer(tokens=None)) is None


def test_sub_agents_have_files_of_their_own(tmp_path: Path) -> None:
    main = tmp_path / "session-2026-11-16T13-04-8141e230.jsonl"
    sub = tmp_path / "8141e230-71cc-4dc3-8910-bbc40759a887/bbe74bad.jsonl"
    other = tmp_path / "00000000-71cc-4dc3-8910-bbc40759a887/bbe74bad.jsonl"
    for path in (sub, other):
        path.parent.mkdir()
        path.touch()
    assert GEMINI.transcripts(str(main)) == (str(main), str(sub))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('[API Error: {"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}]', "rate_limited"),
        ('[API Error: {"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]', "overloaded"),
        ('[API Error: {"error":{"code":529,"message":"x","status":"UNAVAILABLE"}}]', "overloaded"),
        ('[API Error: {"error":{"code":400,"message":"API key not valid","status":"X"}}]', "auth_failed"),
        ('[API Error: {"error":{"code":401,"message":"x","status":"UNAUTHENTICATED"}}]', "auth_failed"),
        ('[API Error: {"error":{"code":504,"message":"x","status":"DEADLINE_EXCEEDED"}}]', "api_timeout"),
        ('[API Error: {"error":{"code":500,"message":"x","status":"INTERNAL"}}]', "api_error"),
        ("The input token count (2) exceeds the maximum number of tokens allowed (1).", "context_exhausted"),
        ("Sending this message might exceed the context window limit (9 tokens left).", "context_exhausted"),
    ],
)
def test_errors_of_the_provider_have_types(said: str, kind: str) -> None:
    failure = GEMINI.failure("StopFailure", {"error": said, "last_assistant_message": said})
    assert failure is not None
    assert (failure.type, failure.message) == (kind, said)


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b'"tokens":{', b'{"tokens":{"input":1e999},"type":"gemini"', b'"type":"gemini"']),
)
def test_no_transcript_makes_it_fail(junk: bytes, piece: bytes) -> None:
    GEMINI.entry(junk + piece)
    share = GEMINI.context(piece + junk + b"\n" + piece)
    assert share is None or share >= 0
