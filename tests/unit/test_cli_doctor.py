"""The doctor: what it finds, and that it changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dogwatch.cli import checks
from dogwatch.cli.checks import Finding, answer
from dogwatch.cli.checks_home import home_findings
from dogwatch.cli.checks_machine import machine_findings, memory_findings, tmux_version
from dogwatch.cli.framework import run_command
from dogwatch.ledger.migrations import VERSION
from dogwatch.world.memory import Memory
from dogwatch.world.processes import boot_id, identify
from support.cli_ledgers import add_run, ledger_at, short_home
from support.helpers import wait_for


@pytest.fixture
def home() -> Iterator[Path]:
    with short_home() as folder:
        yield folder


def home_of(folder: Path) -> dict[str, Finding]:
    return {finding.subject: finding for finding in home_findings({"DOGWATCH_HOME": str(folder)})}


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_on_a_fresh_machine_nothing_is_made(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOGWATCH_HOME", str(home / "h"))
    assert run_command(["doctor", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    assert {finding["level"] for finding in found["findings"]} <= {"ok", "warning"}
    assert all(finding["fix"] for finding in found["findings"] if finding["level"] != "ok")
    assert {"python", "tmux", "memory", "pidfd", "home", "ledger"} <= {f["subject"] for f in found["findings"]}
    assert os.listdir(home) == []


def test_a_problem_makes_exit_code_1_and_comes_with_a_fix(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOGWATCH_HOME", str(home))
    (home / "ledger.db").write_bytes(b"no ledger at all" * 100)
    assert run_command(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "problem  ledger" in out
    assert "fix: " in out
    assert (home / "ledger.db").read_bytes() == b"no ledger at all" * 100


def test_a_home_that_is_open_to_others_is_a_warning(home: Path) -> None:
    home.chmod(0o755)
    assert home_of(home)["home"].level == "warning"
    home.chmod(0o700)
    assert home_of(home)["home"].level == "ok"


def test_a_home_too_long_for_sockets_is_a_problem(tmp_path: Path) -> None:
    assert home_of(tmp_path / ("x" * 100))["home"].level == "problem"


def test_a_home_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert home_of(tmp_path / "home")["home"].level == "problem"


def test_unfinished_runs_without_a_dispatcher_are_a_warning(home: Path) -> None:
    with ledger_at(home) as store:
        add_run(store)
    found = home_of(home)
    assert found["ledger"].level == "ok"
    assert f"version {VERSION}" in found["ledger"].text
    assert (found["dispatcher"].level, found["dispatcher"].fix) == ("warning", "dogwatch up")


@pytest.mark.parametrize(
    ("line", "expected"),
    [("tmux 3.3a", (3, 3)), ("tmux next-3.5", (3, 5)), ("tmux 3.10", (3, 10)), ("tmux master", None), ("", None)],
)
def test_the_version_of_tmux_is_read(line: str, expected: tuple[int, int] | None) -> None:
    assert tmux_version(line) == expected


def test_agent_programs_are_asked_for_their_version_with_a_home_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    program(tmp_path, "claude", 'echo x >"$HOME/settings"; echo x >"${XDG_CONFIG_HOME:-$HOME}/more"; echo "1.2.3 ($1)"')
    program(tmp_path, "codex", "echo broken; exit 3")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = {finding.subject: finding for finding in machine_findings()}
    assert found["claude"].level == "ok"
    assert found["claude"].text.startswith("1.2.3 (--version)")
    assert (found["codex"].level, "broken" in found["codex"].text) == ("warning", True)
    assert os.listdir(home) == []


def test_a_machine_without_its_tools_has_problems_and_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {finding.subject: finding for finding in machine_findings()}
    assert found["tmux"].level == "problem"
    assert found["bubblewrap"].level == "warning"
    assert found["agent programs"].level == "warning"
    program(tmp_path, "tmux", "echo tmux 2.9")
    assert next(f for f in machine_findings() if f.subject == "tmux").level == "problem"


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "ANSWER_S", 0.5)
    program(tmp_path, "hangs", "sleep 600 & echo $! >child; exec sleep 600")
    monkeypatch.chdir(tmp_path)
    code, text = answer([str(tmp_path / "hangs")])
    assert (code, text) == (None, "no answer within 0.5 s")
    child = int((tmp_path / "child").read_text())
    # A killed process takes a moment to die.
    wait_for(lambda: identify(child, boot_id()) is None, 30, "the end of the child")


def memory_of(seen: Memory) -> dict[str, tuple[str, str]]:
    return {finding.subject: (finding.level, finding.text) for finding in memory_findings(seen)}


def test_what_the_machine_counts_as_is_said() -> None:
    gb = 1024**3
    seen = Memory(16 * gb, 8 * gb, 2 * gb, gb, 1.5, 0.25)
    assert memory_of(seen) == {
        "memory": ("ok", "8.0 GB of 16.0 GB available"),
        "swap": ("ok", "1.0 GB of 2.0 GB free"),
        "memory pressure": ("ok", "some waited 1.5 % of the time, all of them 0.25 %"),
    }
    limited = memory_of(replace(seen, limit_bytes=4 * gb, limit_used_bytes=gb, swap_total_bytes=0, swap_free_bytes=0))
    text = "3.0 GB of 4.0 GB available: a control group's limit counts as the machine, which has 16.0 GB"
    assert (limited["memory"], limited["swap"]) == (("ok", text), ("ok", "none"))
    full = memory_of(replace(seen, limit_bytes=4 * gb, limit_used_bytes=4 * gb))
    assert full["memory"][0] == "warning"


def test_each_missing_sensor_is_said_with_a_way_out() -> None:
    found = list(memory_findings(Memory()))
    assert {(finding.subject, finding.level) for finding in found} == {
        ("memory", "problem"),
        ("swap", "warning"),
        ("memory pressure", "warning"),
    }
    assert all(finding.fix for finding in found)
    assert memory_of(Memory(total_bytes=1024))["memory"][0] == "problem", "how much is left is what counts"
