"""How serious a denial is, for the rules that the guard has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dogwatch.guard.judge import Caller, judge
from dogwatch.guard.severity import severity

SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(
    "command",
    [
        "tmux kill-server",
        "tmux send-keys -t other 'rm x' Enter",
        "kill -9 -1",
        "kill -9 99999",
        "kill $PPID",
        "systemctl stop cron",
        "echo 1 > /proc/sysrq-trigger",
        "dogwatch down",
        ":(){ :|:& };:",
        "zellij kill-all-sessions",
    ],
)
def test_what_would_have_hit_others_or_the_machine_is_critical(command: str) -> None:
    verdict = judge(command, Caller())
    assert not verdict.allowed
    assert severity(verdict.rule) == "critical", verdict.rule


@pytest.mark.parametrize("command", ["pkill -f vite", "fuser -k 3000/tcp", '"$TOOL" now', "echo 'open", "x" * 200_000])
def test_what_could_not_be_followed_or_was_careless_is_a_warning(command: str) -> None:
    verdict = judge(command, Caller())
    assert not verdict.allowed
    assert severity(verdict.rule) == "warning", verdict.rule


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("tmux.rename-session", "warning"),
        ("path.settings", "critical"),
        ("a rule of tomorrow", "warning"),
        ("", "warning"),
    ],
)
def test_a_rule_that_is_not_in_the_table_is_a_warning(rule: str, expected: str) -> None:
    assert severity(rule) == expected


def test_it_loads_nothing() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); before = set(sys.modules); import dogwatch.guard.severity;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"dogwatch", "dogwatch.guard", "dogwatch.guard.severity"}
