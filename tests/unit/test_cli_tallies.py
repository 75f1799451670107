"""What `dogwatch status` and `explain` say of model calls, errors and denials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.cli import main
from dogwatch.cli.snapshot import take
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import save
from dogwatch.model.tally import Tally, TallyRecord, Tokens
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.cli_ledgers import add_run, ledger_at, short_home

TALLIES = {
    "0": Tally(own={"opus": Tokens(2, 200, 14, 10, 60)}, errors={"tool_failed": 12, "rate_limited": 1}),
    "1": Tally(own={"opus": Tokens(1, 100, 7, 5, 30)}, subagents={"haiku": Tokens(3, 30, 3, 0, 0)},
               denied={"kill.foreign": 2, "unresolved": 1}),
}  # fmt: skip


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with short_home() as folder:
        monkeypatch.setenv("DOGWATCH_HOME", str(folder))
        monkeypatch.delenv("DOGWATCH_LEDGER", raising=False)
        yield folder


@pytest.fixture
def run(home: Path) -> str:
    with ledger_at(home) as store:
        return fill(store)


def fill(store: Store) -> str:
    run = add_run(store)
    store.run(lambda tx: save(tx, TallyRecord(run=run, agent="writer", incarnations=TALLIES)))
    body = {"rule": "kill.foreign", "severity": "critical", "command": "kill 7", "count": 1, "reason": "not yours"}
    store.run(lambda tx: tx.append(PlainEvent("guard_denied", body, run=run, agent="writer")))
    return run


def test_the_snapshot_has_what_was_counted_of_all_incarnations(home: Path) -> None:
    with ledger_at(home) as store:
        run = fill(store)
        agents = store.read(lambda reader: take(reader, [run], SystemClock().now()))["runs"][0]["agents"]
    writer = next(agent for agent in agents if agent["agent"] == "writer")
    assert (writer["usage"]["calls"], writer["usage"]["input_tokens"]) == (6, 330)
    assert writer["usage"]["subagents"]["calls"] == 3
    assert {name: one["calls"] for name, one in writer["usage"]["models"].items()} == {"opus": 3, "haiku": 3}
    assert writer["errors"] == {"tool_failed": 12, "rate_limited": 1}
    assert writer["denied"] == {"critical": 2, "warning": 1, "rules": {"kill.foreign": 2, "unresolved": 1}}
    other = next(agent for agent in agents if agent["agent"] == "auditor-1")
    assert (other["usage"]["calls"], other["errors"], other["denied"]["critical"]) == (0, {}, 0)


def test_status_of_a_run_shows_it_for_those_who_have_something(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", run]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("USAGE"))
    assert lines[at + 1].split()[:5] == ["writer", "6", "3", "330", "24"]
    assert "12 tool failed, 1 rate limited" in lines[at + 1]
    assert "3 (2 critical)" in lines[at + 1]
    assert not lines[at + 2].strip(), "the auditors have used nothing"


def test_explain_says_it_in_sentences(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{run}/writer"]) == 0
    text = capsys.readouterr().out
    assert "It has called haiku, opus 6 times, 3 of them by sub-agents: 330 tokens in, 24 out" in text
    assert "Its errors: 12 tool failed, 1 rate limited." in text
    assert "The guard has denied it 3 commands: 2 by kill.foreign (critical), 1 by unresolved (warning)." in text
    assert "writer was denied (critical) by kill.foreign: kill 7" in text


def test_explain_as_json_has_the_same(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{run}/writer", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["usage"]["calls"], found["denied"]["kill.foreign"]) == (6, 2)
    assert [(one["kind"], one["rule"]) for one in found["troubles"]] == [("guard_denied", "kill.foreign")]
