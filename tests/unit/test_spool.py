"""The fast hook and the spool line that it writes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dogwatch.guard import hook
from dogwatch.model import spool

HOOK = hook.__file__
ENVIRONMENT = {"PATH": os.environ["PATH"], "DOGWATCH_INCARNATION": "3"}


def run(event: str, payload: bytes, path: Path | None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    named = {"DOGWATCH_SPOOL": str(path)} if path else {}
    return subprocess.run(
        [sys.executable, "-I", "-S", HOOK, event],
        input=payload,
        env=ENVIRONMENT | named | environment,
        capture_output=True,
        check=False,
    )


def only_line(path: Path) -> spool.SpoolLine:
    content = path.read_bytes()
    assert content.endswith(b"\n")
    assert content.count(b"\n") == 1
    line = spool.parse(content)
    assert line is not None
    return line


def test_an_event_becomes_one_line_with_its_sender(tmp_path: Path) -> None:
    done = run("UserPromptSubmit", b'{"prompt": "hi"}', tmp_path / "spool")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    line = only_line(tmp_path / "spool")
    assert (line.event, line.incarnation, line.pid) == ("UserPromptSubmit", 3, os.getpid())
    assert line.payload() == {"prompt": "hi"}
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"not json at all",
        b"\x00" * 100,
        b"\xff\xfe\x80 invalid",
        b'{"a":\t1,\r\n"b":\n2}',
        b"\n\n\n",
        b"\t1\t2\t3\t",
    ],
)
def test_any_payload_makes_one_line_that_can_be_read(tmp_path: Path, payload: bytes) -> None:
    assert run("Stop", payload, tmp_path / "spool").returncode == 0
    line = only_line(tmp_path / "spool")
    assert line.payload_bytes == len(payload)
    assert line.raw == payload.translate(bytes.maketrans(b"\t\r\n", b"   "))


def test_a_huge_payload_is_cut_and_its_true_size_is_told(tmp_path: Path) -> None:
    payload = b'{"prompt": "' + b"x" * 20_000_000 + b'"}'
    assert run("UserPromptSubmit", payload, tmp_path / "spool").returncode == 0
    line = only_line(tmp_path / "spool")
    assert line.payload_bytes == len(payload)
    assert line.raw == payload[: spool.PAYLOAD_BYTES_MAX]
    assert line.payload() == {}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(payload=st.binary(max_size=300), event=st.from_regex(r"\A[A-Za-z]{1,64}\Z"), incarnation=st.integers(0, 10**9))
def test_what_the_hook_writes_is_what_the_reader_parses(
    tmp_path: Path, payload: bytes, event: str, incarnation: int
) -> None:
    path = tmp_path / "spool"
    path.unlink(missing_ok=True)
    assert run(event, payload, path, DOGWATCH_INCARNATION=str(incarnation)).returncode == 0
    line = only_line(path)
    assert (line.event, line.incarnation, line.payload_bytes) == (event, incarnation, len(payload))
    assert line.raw == payload.translate(bytes.maketrans(b"\t\r\n", b"   "))


def test_concurrent_writers_never_tear_a_line(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    loop = f'for n in 1 2 3 4 5 6; do head -c 60000 /dev/zero | tr "\\0" $1 | {sys.executable} -I -S {HOOK} Stop; done'
    environment = ENVIRONMENT | {"DOGWATCH_SPOOL": str(path)}
    writers = [subprocess.Popen(["sh", "-c", loop, "sh", letter], env=environment) for letter in "abcdefgh"]
    assert [writer.wait() for writer in writers] == [0] * 8
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 48
    for raw in lines:
        line = spool.parse(raw)
        assert line is not None
        assert len(line.raw) == 60000
        assert len(set(line.raw)) == 1, "two writers share a line"


def test_a_tool_is_denied_when_its_event_cannot_be_recorded(tmp_path: Path) -> None:
    done = run("PreToolUse", b"{}", tmp_path / "missing" / "spool")
    assert done.returncode == 2
    assert b"could not be recorded" in done.stderr
    assert b"hint: " in done.stderr


@pytest.mark.parametrize("event", ["Stop", "SessionEnd", "UserPromptSubmit", "PostToolUse", "PermissionRequest"])
def test_stopping_still_works_when_the_spool_is_gone(tmp_path: Path, event: str) -> None:
    done = run(event, b"{}", tmp_path / "missing" / "spool")
    assert done.returncode == 0
    assert b"could not be recorded" in done.stderr


def test_without_a_spool_in_the_environment_tools_are_denied() -> None:
    assert run("PreToolUse", b"{}", None).returncode == 2
    assert run("Stop", b"{}", None).returncode == 0


def test_a_full_disk_denies_tools() -> None:
    assert run("PreToolUse", b"{}", Path("/dev/full")).returncode == 2


@pytest.mark.parametrize("event", ["", "Pre ToolUse", "../x", "A" * 65, "Stop\n", "Ünicode"])
def test_a_name_that_is_no_event_is_refused_and_nothing_is_written(tmp_path: Path, event: str) -> None:
    assert run(event, b"{}", tmp_path / "spool").returncode == 64
    assert not (tmp_path / "spool").exists()


def test_a_strange_incarnation_does_not_spoil_the_line(tmp_path: Path) -> None:
    run("Stop", b"{}", tmp_path / "spool", DOGWATCH_INCARNATION="x\ty")
    assert only_line(tmp_path / "spool").incarnation == 0


def test_a_closed_stdin_is_an_empty_payload(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    subprocess.run(
        ["sh", "-c", f"{sys.executable} -I -S {HOOK} Stop <&-"],
        env=ENVIRONMENT | {"DOGWATCH_SPOOL": str(path)},
        check=True,
    )
    assert only_line(path).payload_bytes == 0


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("Stop", b"{}"),
        ("PostToolUse", b'{"tool_name":"Bash","tool_input":{"command":"kill 1"}}'),
        ("PreToolUse", b'{"tool_name":"Read","tool_input":{"file_path":"/etc/hosts"}}'),
        ("PreToolUse", b'{"tool_name":"Bash","tool_input":{"command":"cd src && grep -rn \'to kill\' . | head -5"}}'),
    ],
)
def test_the_hook_loads_nothing_heavy(tmp_path: Path, event: str, payload: bytes) -> None:
    command = [sys.executable, "-I", "-S", "-X", "importtime", HOOK, event]
    environment = ENVIRONMENT | {"DOGWATCH_SPOOL": str(tmp_path / "spool")}
    done = subprocess.run(command, input=payload, env=environment, capture_output=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "dogwatch.guard.fast" in loaded
    assert {name for name in loaded if name.startswith("dogwatch.")} <= {
        "dogwatch.guard",
        "dogwatch.guard.fast",
        "dogwatch.guard.plain",
    }
    assert not loaded & {"os", "json", "re", "enum", "pathlib", "subprocess", "typing", "dataclasses", "site"}


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    line = spool.parse(data)
    if line is not None:
        line.payload()


def test_lines_of_other_versions_and_torn_lines_are_not_read() -> None:
    assert spool.parse(b"2\t1.0\t1.0\t1\t1\tStop\t2\t{}\n") is None
    assert spool.parse(b"1\t1.0\t1.0\t1\t1\tSt") is None
    assert spool.parse(b"") is None
