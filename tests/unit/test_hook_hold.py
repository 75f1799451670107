"""F73: while the captain holds launches, no client starts a sub-agent, and nothing else is held."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.actions.hands import MachineHands
from dogwatch.model.sight import Turn
from dogwatch.policy.turns import fold
from dogwatch.world.processes import boot_id
from support.hooking import RUN, SAMPLES, HookedAgent, call, hooked_agent, is_denied_with_words

WHY = "memory is RED: memory available: 7%, RED below 10%"
STARTS = ("PreToolUse-Agent", "PreToolUse-codex-spawn_agent", "PreToolUse-opencode-Task")
GEMINI = {"tool_name": "invoke_agent", "tool_input": {"agent_name": "generalist", "prompt": "look"}}


@pytest.fixture
def agent() -> Iterator[HookedAgent]:
    with hooked_agent() as made:
        made.register()
        yield made


def hold(agent: HookedAgent, why: str = WHY) -> Path:
    MachineHands(agent.home, boot_id()).hold_launches(RUN, why)
    return Path(agent.home.hold(RUN))


def starts(agent: HookedAgent) -> dict[str, tuple[bytes, tuple[str, ...]]]:
    """The call of each client that would start a sub-agent."""
    found: dict[str, tuple[bytes, tuple[str, ...]]] = {}
    for name in STARTS:
        sample = json.loads((SAMPLES / f"{name}.json").read_text()) | {"cwd": str(agent.project)}
        found[name] = json.dumps(sample, separators=(",", ":")).encode(), ()
        # Whichever way the client writes it.
        found[f"{name}, wide"] = json.dumps(sample, indent=1).encode(), ()
    base = json.loads(call("x", {}, agent.project)) | GEMINI
    found["gemini"] = json.dumps(base, separators=(",", ":")).encode(), ("gemini",)
    return found


def test_f73_a_start_of_a_sub_agent_is_denied_with_the_reason_while_launches_are_held(agent: HookedAgent) -> None:
    calls = starts(agent)
    for name, (payload, words) in calls.items():
        assert agent.hook("PreToolUse", payload, *words).returncode == 0, name
    hold(agent)
    for name, (payload, words) in calls.items():
        done = agent.hook("PreToolUse", payload, *words)
        assert is_denied_with_words(done), (name, done)
        assert WHY in done.stderr.decode(), name
        assert "dogwatch queue" in done.stderr.decode(), name
    denials = [line.payload() for line in agent.lines("Denied")]
    assert len(denials) == len(calls)
    assert {one["rule"] for one in denials} == {"memory"}
    assert {one["tool"] for one in denials} == {"Agent", "Task", "spawn_agent", "invoke_agent"}
    hold(agent, "")
    for name, (payload, words) in calls.items():
        assert agent.hook("PreToolUse", payload, *words).returncode == 0, name


def test_a_sub_agent_whose_start_was_denied_does_not_count(agent: HookedAgent) -> None:
    hold(agent)
    agent.hook("UserPromptSubmit", b'{"prompt":"go"}')
    for payload, words in starts(agent).values():
        agent.hook("PreToolUse", payload, *words)
    known = Turn()
    for line in agent.lines():
        known = fold(known, line)
    assert (known.subagents, known.announced, known.tools) == ({}, {}, {})


def test_nothing_else_is_held(agent: HookedAgent) -> None:
    hold(agent)
    for tool, tool_input in (
        ("Read", {"file_path": "/etc/hosts"}),
        ("TaskCreate", {"subject": "x"}),
        ("TaskOutput", {"task_id": "x"}),
        ("Write", {"file_path": f"{agent.project}/x", "content": "Task Agent spawn_agent"}),
        ("Bash", {"command": "ls", "description": '"tool_name":"Task"'}),
    ):
        assert agent.hook("PreToolUse", call(tool, tool_input, agent.project)).returncode == 0, tool
    assert agent.hook("Stop", b"{}").returncode == 0
    assert not agent.lines("Denied")


def test_who_belongs_to_no_run_or_to_another_one_is_not_held(agent: HookedAgent) -> None:
    hold(agent)
    payload = call("Task", {"prompt": "x"}, agent.project)
    assert agent.hook("PreToolUse", payload, DOGWATCH_RUN="tide-2").returncode == 0
    assert agent.hook("PreToolUse", payload, DOGWATCH_RUN="").returncode == 0
    assert agent.hook("PreToolUse", payload, DOGWATCH_HOME="").returncode == 0


def test_a_start_is_denied_also_where_the_registry_is_gone_and_the_reason_cannot_be_read(agent: HookedAgent) -> None:
    path = hold(agent)
    agent.registry().unlink()
    payload = call("Task", {"prompt": "x"}, agent.project)
    assert WHY in agent.hook("PreToolUse", payload).stderr.decode()
    path.write_bytes(b"\xff\x00" * 5000)
    assert is_denied_with_words(agent.hook("PreToolUse", payload))


def test_holding_and_letting_go_can_be_done_again_and_again(agent: HookedAgent) -> None:
    path = hold(agent)
    before = os.stat(path)
    assert os.stat(hold(agent)).st_mtime_ns == before.st_mtime_ns, "the same words are not written again"
    assert hold(agent, "other words").read_text() == "other words"
    for _ in range(2):
        assert not hold(agent, "").exists()
    assert sorted(os.listdir(agent.home.run(RUN))) == ["agents", "registry.jsonl", "spool"], "nothing is left"
