"""`dogwatch guard explain`: exit codes, words, JSON, batches, and an agent of a real ledger with a real process."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.cli.framework import run_command
from support.cli_ledgers import add_run, go_halfway, ledger_at, short_home
from support.helpers import wait_for


def explain(*words: str) -> int:
    return run_command(["guard", "explain", *words])


def test_an_allowed_command_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--as", "agent", "git commit -m 'fix kill-session'") == 0
    assert capsys.readouterr().out == "allowed\n"


def test_a_denied_command_is_exit_code_2_with_rule_reason_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--as", "agent", "tmux kill-ser") == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("denied by tmux.kill-server: `tmux kill-server` ends every session")
    assert second.startswith("hint: ")


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--as", "agent", "--json", "pkill node") == 2
    verdict = json.loads(capsys.readouterr().out)
    assert set(verdict) == {"allowed", "rule", "reason", "hint"}
    assert (verdict["allowed"], verdict["rule"]) == (False, "kill.pattern")


def test_a_batch_is_one_verdict_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "batch"
    file.write_text('"ls"\n"tmux kill-server"\n\n"echo \\ud800 \\u00e9"\n', encoding="utf-8")
    assert explain("--as", "agent", "--batch", str(file)) == 0
    verdicts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [verdict["allowed"] for verdict in verdicts] == [True, False, True]
    assert all(set(verdict) == {"allowed", "rule", "reason"} for verdict in verdicts)


def test_a_batch_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('"kill 1"\n'))
    assert explain("--as", "agent", "--batch", "-") == 0
    assert json.loads(capsys.readouterr().out)["rule"] == "kill.foreign"


@pytest.mark.parametrize("bad", ["ls", "[1]", "{}", '"unclosed', "null", "3", "[" * 100_000])
def test_a_bad_line_of_a_batch_is_named(bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "batch"
    file.write_text(f'"ls"\n{bad}\n"pwd"\n', encoding="utf-8")
    assert explain("--as", "agent", "--batch", str(file)) == 64
    output = capsys.readouterr()
    assert output.err.startswith("error: line 2 is no JSON string\nhint: ")
    assert len(output.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--as", "agent"], 64, "give a COMMAND, or --batch FILE"),
        (["--as", "agent", "--batch", "x", "ls"], 64, "give a COMMAND, or --batch FILE"),
        (["ls"], 64, "the following arguments are required: --as"),
        (["--as", "writer", "ls"], 64, "'writer' names no agent"),
        (["--as", "/writer", "ls"], 64, "'/writer' names no agent"),
        (["--as", "agent", "--batch", "/nonexistent/file"], 66, "/nonexistent/file cannot be read"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(*words) == code
    assert message in capsys.readouterr().err


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with short_home() as folder:
        monkeypatch.setenv("DOGWATCH_HOME", str(folder))
        monkeypatch.delenv("DOGWATCH_LEDGER", raising=False)
        yield folder


@pytest.fixture
def sleeper(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that carries the mark of tide-1/auditor-1's second incarnation."""
    marks = {
        "DOGWATCH_HOME": os.path.realpath(home),
        "DOGWATCH_RUN": "tide-1",
        "DOGWATCH_ROLE": "auditor-1",
        "DOGWATCH_INCARNATION": "2",
    }
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, **marks})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_an_agent_of_a_run_may_kill_what_carries_its_mark(
    home: Path, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    with ledger_at(home) as store:
        go_halfway(store, add_run(store), os.getpid())
    wait_for(lambda: explain("--as", "tide-1/auditor-1", f"kill {sleeper.pid}") == 0, what="the mark in /proc")
    assert explain("--as", "tide-1/auditor-1", f"kill {os.getpid()}") == 2
    assert explain("--as", "tide-1/auditor-2", f"kill {sleeper.pid}") == 2
    assert explain("--as", "agent", f"kill {sleeper.pid}") == 2
    assert explain("--as", "tide-1/auditor-1", f"rm -r {os.path.realpath(home)}/runs") == 2
    assert explain("--as", "tide-1/auditor-1", "ls") == 0


def test_an_agent_that_does_not_exist_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--as", "tide-1/writer", "ls") == 66
    assert "there is no ledger in" in capsys.readouterr().err
    with ledger_at(home) as store:
        add_run(store)
    for name in ("tide-1/nobody", "tide-2/writer", "tide-1/write"):
        assert explain("--as", name, "ls") == 66
        assert f"there is no agent '{name}'" in capsys.readouterr().err
    assert explain("--as", "tide-1/writer", "ls") == 0
