"""`dogwatch queue`: who waits for what, who was let in, and what was learnt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from dogwatch.cli.framework import run_command
from dogwatch.coordination.admission import ask, note_process
from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import save
from dogwatch.model.admission import Demand, Launch, MemoryProfile
from dogwatch.model.memory import GB, AgentMemory, HostRecord, HostSettings, Readings
from dogwatch.model.plan import ByteCheck, Dispatch, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from support.cli_ledgers import ledger_at, short_home

PLAN = Plan(
    name="tide",
    roles=(Role(name="writer", harness="claude"),),
    phases=(Phase(name="draft", dispatches=(Dispatch(name="draft", to="writer", task="write"),)),),
    deliverable=ByteCheck(path="report.md"),
)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with short_home() as home, ledger_at(home) as store:
        monkeypatch.setenv("DOGWATCH_HOME", str(home))
        yield store


def queue(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command(["queue", *words]) == 0
    return capsys.readouterr().out


def put_host(ledger: Store, **facts: object) -> None:
    readings = Readings(
        size_bytes=100 * GB,
        left_bytes=30 * GB,
        processes=1,
        agents={"tide-1/writer": AgentMemory(rss_bytes=3 * GB)},
    )
    ledger.run(lambda tx: save(tx, HostRecord(host=tx.host, at=tx.now, since=tx.now, readings=readings, **facts)))  # type: ignore[arg-type]


def test_without_a_ledger_it_says_so_and_how_to_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with short_home() as home:
        monkeypatch.setenv("DOGWATCH_HOME", str(home))
        assert queue(capsys).splitlines() == [
            "no dispatcher has looked at the memory yet",
            "hint: start a run with: dogwatch run SPEC",
            "nobody waits",
        ]
        assert json.loads(queue(capsys, "--json"))["host"] is None


def test_each_waiting_run_says_for_what(ledger: Store, capsys: pytest.CaptureFixture[str]) -> None:
    put_host(ledger, zone="YELLOW", sensor="available", why="memory available: 15%", problem="host.yaml: not YAML")
    first, second = (ledger.run(lambda tx: create_run(tx, PLAN, "/p", "/o", "s")).run for _ in range(2))
    launch = Launch(kind="run", holder=f"run:{first}", run=first)
    assert ledger.run(lambda tx: ask(tx, launch, lambda process: "alive")).verdict == "hold"
    shown = queue(capsys)
    assert "memory is YELLOW (memory available: 15%)" in shown
    assert "host.yaml cannot be used, the last settings still hold: host.yaml: not YAML" in shown
    rows = [line.split(None, 3) for line in shown.splitlines() if line.startswith("tide-")]
    assert [row[0] for row in rows] == [first, second]
    assert rows[0][2:] == ["zone", "memory is YELLOW: memory available: 15%"]
    assert rows[1][2:] == ["order", f"{first} is before it"]


def test_settings_that_could_never_be_read_are_told_as_what_holds_everything(
    ledger: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    put_host(ledger, problem="host.yaml: not YAML", is_unset=True)
    assert "host.yaml cannot be used, nothing starts before it is mended: host.yaml: not YAML" in queue(capsys)


def test_whoever_was_let_in_is_shown_with_what_it_uses_and_the_caps(
    ledger: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    put_host(ledger, settings=HostSettings(roles={"writer": 1}))
    run = ledger.run(lambda tx: create_run(tx, PLAN, "/p", "/o", "s")).run
    demand = Demand(mean_bytes=5e9, learnt=True)
    launches = [
        Launch(kind="run", holder=f"run:{run}", run=run, demand=demand),
        Launch(kind="agent", holder=f"agent:{run}/writer", run=run, agent="writer", role="writer", demand=demand),
        Launch(kind="agent", holder=f"agent:{run}/other", run=run, agent="other", role="writer", demand=demand),
    ]
    verdicts = []
    for launch in launches:
        verdicts.append(ledger.run(partial(ask, launch=launch, life=lambda process: "alive")).verdict)
        ledger.run(partial(note_process, holder=launch.holder, process=ProcessId("boot", 7, 7)))
    assert verdicts == ["admit", "admit", "hold"]
    found = json.loads(queue(capsys, "--json"))
    assert found["caps"] == [{"cap": "role writer", "limit": 1, "taken": 1}]
    assert [(one["holder"], one["limit"]) for one in found["waits"]] == [(f"agent:{run}/other", "role")]
    shown = queue(capsys)
    assert "3.0 GB" in shown
    assert "4.7 GB" in shown
    assert "role writer  1" in shown


def test_what_was_learnt_is_shown_by_role_and_phase(ledger: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing is learnt yet" in queue(capsys, "--profiles")
    profile = MemoryProfile(harness="claude", pipeline="tide", role="writer", peaks={"draft": (GB, 2 * GB)})
    ledger.run(lambda tx: save(tx, profile))
    row = next(line for line in queue(capsys, "--profiles").splitlines() if line.startswith("writer"))
    assert row.split()[:5] == ["writer", "tide", "claude", "draft", "2"]
    assert row.split()[5:] == ["1.0", "GB", "2.0", "GB", "2.0", "GB"]
