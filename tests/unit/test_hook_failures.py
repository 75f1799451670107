"""The guard fails closed: whatever goes wrong at a tool call denies it, with words; no other event is ever held."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dogwatch.guard import fast
from support.hooking import (
    HOOK,
    INCARNATION,
    SAMPLES,
    Done,
    HookedAgent,
    call,
    command_line,
    hooked_agent,
    is_denied_with_words,
)

TEST = "npm test"
"""A command that is allowed, and not so plainly that it passes at once."""
EVENTS = ("Stop", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "SessionEnd", "PermissionRequest")


@pytest.fixture
def agent() -> Iterator[HookedAgent]:
    with hooked_agent() as made:
        made.register()
        assert made.bash(TEST).returncode == 0
        yield made


def entry_of(agent: HookedAgent) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(agent.registry().read_text(encoding="utf-8"))
    return entry


def put_entry(agent: HookedAgent, entry: dict[str, Any]) -> None:
    agent.registry().write_text(json.dumps(entry) + "\n", encoding="utf-8")


def is_closed(agent: HookedAgent) -> bool:
    """Whether all but the plainly harmless is denied."""
    return is_denied_with_words(agent.bash(TEST)) and agent.bash("ls").returncode == 0


def test_without_a_registry_only_the_plainly_harmless_passes(agent: HookedAgent) -> None:
    agent.registry().unlink()
    assert is_closed(agent)
    assert agent.lines("Denied")[0].payload()["rule"] == "registry"
    agent.registry().mkdir()
    assert is_closed(agent)


def test_a_registry_that_is_garbage_knows_nobody(agent: HookedAgent) -> None:
    agent.registry().write_bytes(b"\x00\xff garbage\n[1]\n{\n\n" + agent.registry().read_bytes()[:-20])
    assert is_closed(agent)


def test_lines_around_the_entry_do_not_matter(agent: HookedAgent) -> None:
    entry = agent.registry().read_bytes()
    agent.registry().write_bytes(b"\x00\xff garbage\n" + entry + entry[:50])
    assert agent.bash(TEST).returncode == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"DOGWATCH_ROLE": "editor"},
        {"DOGWATCH_ROLE": ""},
        {"DOGWATCH_INCARNATION": str(INCARNATION + 1)},
        {"DOGWATCH_INCARNATION": f"0{INCARNATION}"},
        {"DOGWATCH_RUN": "tide-2"},
        {"DOGWATCH_RUN": ""},
        {"DOGWATCH_HOME": ""},
        {"DOGWATCH_HOME": "/nonexistent"},
    ],
)
def test_whom_the_registry_does_not_know_is_denied(agent: HookedAgent, changed: dict[str, str]) -> None:
    assert is_denied_with_words(agent.bash(TEST, **changed))


def test_the_registered_process_must_stand_above_the_hook(agent: HookedAgent) -> None:
    """A reused pid is another process: F54."""
    entry = entry_of(agent)
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            cases = [{"start": entry["start"] + 1}, {"start": 0}, {"start": None}, {"pid": other.pid}, {"pid": 0}]
            for changed in (*cases, {"start": entry["start"] - 1, "pid_namespace": None}):
                put_entry(agent, entry | changed)
                assert is_closed(agent), changed
                assert agent.lines("Denied")[-1].payload()["rule"] == "caller"
        finally:
            other.kill()
    put_entry(agent, entry)
    assert agent.bash(TEST).returncode == 0


def test_an_entry_of_a_strange_shape_denies(agent: HookedAgent) -> None:
    entry = entry_of(agent)
    cases: list[dict[str, object]] = [{"time": "yesterday"}, {"time": [1]}, {"pid": []}, {"pid": str(entry["pid"])}]
    for changed in cases:
        put_entry(agent, entry | changed)
        assert is_closed(agent), changed


WHOLE = call("Bash", {"command": "ls"})
PAYLOADS = {
    "empty": b"",
    "blank": b" \n\t",
    "malformed": b'{"tool_name":"Bash","tool_input":{"command":ls}}',
    "no object": b'["tool_name","Read"]',
    "a text": b'"ls"',
    "truncated": WHOLE[: WHOLE.index(b'ls"')],
    "truncated behind the command": WHOLE[: WHOLE.index(b'ls"') + 3],
    "truncated by one byte": WHOLE[:-1],
    "truncated, of a harmless tool": call("Read", {"file_path": "/x"})[:-2],
    "more behind it": WHOLE + b"x",
    "twice": WHOLE + WHOLE,
    "garbage": bytes(range(256)) * 64,
    "zeros": b"\0" * 100_000,
    "no utf-8": b'{"tool_name":"Bash","tool_input":{"command":"kill 1 # \xff\xfe"}}',
    "nested deeply": b'{"tool_name":"Bash","tool_input":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    "lists nested deeply": b"[" * 1_000_000,
    "a lone surrogate": b'{"tool_name":"Bash","tool_input":{"command":"kill 1 # \\ud800"}}',
    "the last of two names counts": b'{"tool_name":"Read","tool_name":"Bash","tool_input":{"command":"kill 1"}}',
    "the last of two inputs counts": WHOLE[:-1] + b',"tool_input":{"command":"kill 1"}}',
    "the last of two commands counts": b'{"tool_name":"Bash","tool_input":{"command":"ls","command":"kill 1"}}',
    "no tool": b'{"tool_input":{"command":"ls"}}',
    "no input": b'{"tool_name":"Bash"}',
    "an input that is a text": b'{"tool_name":"Bash","tool_input":"ls"}',
    "an input that is a list": b'{"tool_name":"Bash","tool_input":["ls"]}',
    "no command": call("Bash", {}),
    "a command that is a number": call("Bash", {"command": 1}),
    "a command that is nothing": call("Bash", {"command": None}),
    "a tool that is a number": call("Bash", {"command": "ls"}).replace(b'"Bash"', b"7"),
    "a zero byte": call("Bash", {"command": "npm test\0"}),
    "a number that is too long": b'{"tool_name":"Bash","x":' + b"9" * 10_000 + b',"tool_input":{"command":"npm test"}}',
    "ten megabytes": call("Write", {"file_path": "x", "content": "x" * 10_000_000}),
    "ten megabytes of a harmless tool": call("Read", {"file_path": "x" * 10_000_000}),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_that_cannot_be_understood_is_denied(agent: HookedAgent, name: str) -> None:
    done = agent.hook("PreToolUse", PAYLOADS[name])
    assert is_denied_with_words(done), done.stderr
    assert agent.lines("PreToolUse")[-1].payload_bytes == len(PAYLOADS[name])


@pytest.mark.parametrize("text", [b"\xff\xfe", b"\\ud800", b"\\udcff", b"\t", "é😀".encode()])
def test_strange_characters_are_no_reason_to_deny(agent: HookedAgent, text: bytes) -> None:
    done = agent.hook("PreToolUse", b'{"tool_name":"Bash","tool_input":{"command":"npm test \'' + text + b"'\"}}")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_stdin_is_denied(agent: HookedAgent) -> None:
    line = f"{shlex.join(command_line('PreToolUse'))} <&-"
    done = subprocess.run(["sh", "-c", line], env=agent.environment, capture_output=True, check=False)
    assert is_denied_with_words(done)


@pytest.mark.parametrize("spool", ["/dev/full", "/nonexistent/spool", "/tmp", ""])
def test_what_cannot_be_recorded_is_denied_unless_it_is_harmless(agent: HookedAgent, spool: str) -> None:
    assert is_denied_with_words(agent.bash(TEST, DOGWATCH_SPOOL=spool))
    assert agent.bash("ls", DOGWATCH_SPOOL=spool).returncode == 0


def test_a_spool_that_is_not_to_be_opened_is_not_waited_for_for_ever(agent: HookedAgent, package: Path) -> None:
    replace(package / "fast.py", f"DEADLINE_S = {fast.DEADLINE_S}", "DEADLINE_S = 0.3")
    pipe = agent.project / "pipe"
    os.mkfifo(pipe)
    done = agent.hook("PreToolUse", WHOLE, script=str(package / "hook.py"), DOGWATCH_SPOOL=str(pipe))
    assert is_denied_with_words(done)


# A guard that is broken itself


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the guard that can be broken."""
    folder = tmp_path / "dogwatch" / "guard"
    shutil.copytree(Path(HOOK).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "dogwatch" / "__init__.py").touch()
    return folder


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def as_the_client_does(agent: HookedAgent, package: Path, event: str, payload: bytes) -> Done:
    line = shlex.join(command_line(event, script=str(package / "hook.py")))
    line += " || exit 2" if event == "PreToolUse" else ""
    return subprocess.run(["sh", "-c", line], input=payload, env=agent.environment, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("judge.py", "raise RuntimeError('broken')"),
        ("judge.py", "def judge(:"),
        ("judge.py", "raise MemoryError"),
        ("judge.py", "\0"),
        ("bash/parser.py", ""),
        ("full.py", "import nothing_of_this_name"),
        ("full.py", "def answer(*_): return [].pop()"),
    ],
)
def test_a_broken_engine_denies_all_but_the_plainly_harmless(
    agent: HookedAgent, package: Path, name: str, text: str
) -> None:
    (package / name).write_text(text, encoding="utf-8")
    assert is_denied_with_words(as_the_client_does(agent, package, "PreToolUse", call("Bash", {"command": TEST})))
    assert as_the_client_does(agent, package, "PreToolUse", WHOLE).returncode == 0
    assert as_the_client_does(agent, package, "Stop", b"{}").returncode == 0


@pytest.mark.parametrize("name", ["fast.py", "plain.py"])
@pytest.mark.parametrize("text", ["raise RuntimeError('broken')", "def main(:", ""])
def test_a_broken_fast_path_denies_all_and_holds_no_stop(
    agent: HookedAgent, package: Path, name: str, text: str
) -> None:
    (package / name).write_text(text, encoding="utf-8")
    assert is_denied_with_words(as_the_client_does(agent, package, "PreToolUse", WHOLE))
    assert as_the_client_does(agent, package, "Stop", b"{}").returncode == 0


def test_a_guard_that_is_gone_denies(agent: HookedAgent, package: Path) -> None:
    shutil.rmtree(package)
    assert as_the_client_does(agent, package, "PreToolUse", WHOLE).returncode == 2


def test_a_payload_that_never_ends_is_denied_in_time(agent: HookedAgent, package: Path) -> None:
    replace(package / "fast.py", f"DEADLINE_S = {fast.DEADLINE_S}", "DEADLINE_S = 0.3")
    for event, code in (("PreToolUse", 2), ("Stop", 0)):
        line = command_line(event, script=str(package / "hook.py"))
        with subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=agent.environment) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(WHOLE)
            process.stdin.flush()
            assert process.wait(120) == code
            said = process.stderr.read()
        assert said.startswith(b"dogwatch: no answer was found within ")
        assert b"\nhint: " in said


def test_an_engine_that_never_ends_is_stopped_in_time(agent: HookedAgent, package: Path) -> None:
    replace(package / "fast.py", f"DEADLINE_S = {fast.DEADLINE_S}", "DEADLINE_S = 0.3")
    (package / "judge.py").write_text("while True: pass", encoding="utf-8")
    assert is_denied_with_words(as_the_client_does(agent, package, "PreToolUse", call("Bash", {"command": TEST})))


# No other event is held


@pytest.mark.parametrize("event", EVENTS)
def test_no_other_event_is_ever_held(agent: HookedAgent, event: str) -> None:
    sample = SAMPLES / f"{event}.json"
    payload = sample.read_bytes() if sample.exists() else b"{}"
    box = agent.project / "box"
    box.mkdir()
    (box / f"0-broken.{INCARNATION}").write_bytes(b"\xff\xfe no text")
    (box / f"1-folder.{INCARNATION}").mkdir()
    (box / f"2-gone.{INCARNATION}").symlink_to("/nonexistent")
    ways: list[dict[str, str]] = [
        {},
        {"DOGWATCH_SPOOL": "/dev/full"},
        {"DOGWATCH_SPOOL": "/nonexistent/spool", "DOGWATCH_POST": str(box)},
        {"DOGWATCH_SPOOL": "", "DOGWATCH_HOME": "", "DOGWATCH_POST": ""},
        {"DOGWATCH_POST": str(box)},
        {"DOGWATCH_POST": "/dev/null", "DOGWATCH_INCARNATION": "x"},
    ]
    for changed in ways:
        assert agent.hook(event, payload, **changed).returncode == 0, changed
    for bad in (b"", b"\xff" * 1000, b"[" * 100_000, b'{"stop_hook_active":'):
        assert agent.hook(event, bad, DOGWATCH_POST=str(box)).returncode == 0, bad[:20]
    assert agent.hook(event, payload, "alone").returncode == 0


def test_a_stop_is_not_held_where_nobody_listens(agent: HookedAgent) -> None:
    (Path(agent.box()) / f"1-x.{INCARNATION}").write_text("[dogwatch:1] hello", encoding="utf-8")
    for closed in (">&-", "2>&-", ">&- 2>&- <&-", ">/dev/full 2>/dev/full"):
        line = f"{shlex.join(command_line('Stop'))} {closed}"
        environment = agent.environment | {"DOGWATCH_SPOOL": "/nonexistent/spool"}
        done = subprocess.run(["sh", "-c", line], input=b"{}", env=environment, check=False)
        assert done.returncode in (0, 1), closed
