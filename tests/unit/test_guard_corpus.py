"""The guard's own corpus: nothing that does harm is let through, nothing innocent is denied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dogwatch.guard.judge import Caller, judge
from dogwatch.guard.plain import plainly_harmless

CORPUS = Path(__file__).parents[1] / "data" / "guard" / "own.jsonl"
LINES = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
EVASIONS = [line["command"] for line in LINES if not line["allowed"]]
INNOCENT = [line["command"] for line in LINES if line["allowed"]]


def test_the_corpus_is_large_and_says_everything_once() -> None:
    assert len(EVASIONS) >= 120
    assert len(INNOCENT) >= 120
    assert len({line["command"] for line in LINES}) == len(LINES)
    assert all(set(line) == {"command", "allowed", "why"} for line in LINES)


def test_no_evasion_is_let_through() -> None:
    assert [command for command in EVASIONS if judge(command, Caller()).allowed] == []


def test_nothing_innocent_is_denied() -> None:
    verdicts = {command: judge(command, Caller()) for command in INNOCENT}
    assert {command: verdict for command, verdict in verdicts.items() if not verdict.allowed} == {}


def test_every_denial_says_which_rule_why_and_what_to_do_instead() -> None:
    for command in EVASIONS:
        verdict = judge(command, Caller())
        assert verdict.rule, command
        assert verdict.rule != "guard.error", command
        assert verdict.reason, command
        assert verdict.hint, command
        (verdict.reason + verdict.hint).encode()  # nothing of the engine's own notation in it


def test_what_is_innocent_stays_so_in_a_namespace() -> None:
    denied = {command: judge(command, Caller(namespace=True)) for command in INNOCENT}
    assert {command: verdict for command, verdict in denied.items() if not verdict.allowed} == {}


def test_the_quick_filter_passes_no_evasion_and_a_good_part_of_the_rest() -> None:
    assert [command for command in EVASIONS if plainly_harmless(command.encode())] == []
    passed = [command for command in INNOCENT if plainly_harmless(command.encode())]
    assert len(passed) > len(INNOCENT) / 10


@pytest.mark.parametrize(
    "command",
    [
        "tmux kill-server",
        "bash -c 'tmux kill-server'",
        "echo dG11eCBraWxsLXNlcnZlcg== | base64 -d | sh",
        "kill -9 -1",
        "kill $PPID",
        "pkill .",
        "systemctl restart app",
        "rm -rf $DOGWATCH_HOME",
        "dogwatch down",
        "echo 1 > /sys/fs/cgroup/x/cgroup.kill",
    ],
)
def test_a_namespace_does_not_excuse_what_is_known_to_do_harm(command: str) -> None:
    assert not judge(command, Caller(namespace=True)).allowed


@pytest.mark.parametrize(
    "command",
    ["kill $PID", "kill $(pgrep -f vite)", "pkill -f vite", "lsof -ti:3000 | xargs kill", "$TOOL x", "curl x | sh"],
)
def test_in_a_namespace_what_cannot_be_resolved_passes(command: str) -> None:
    assert not judge(command, Caller()).allowed
    assert judge(command, Caller(namespace=True)).allowed
