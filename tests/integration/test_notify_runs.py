"""Whole runs that need a person: who is told, once, by the run's own captain."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dogwatch.ledger.api import Reader, Tx
from dogwatch.ledger.records import load_all, save
from dogwatch.model.jobs import NoticeRecord
from dogwatch.world.clock import SystemClock
from support.fleet import Fleet
from support.helpers import wait_for

FAILING: dict[str, Any] = {"work_s": 0.2, "rules": [{"on": "dispatch", "do": [{"exit": 1}]}]}
QUICK: dict[str, Any] = {"work_s": 0.2}


def pipeline(folder: Path, code: str = "") -> dict[str, Any]:
    tell = ["sh", "-c", f'cat >>"$0"; echo >>"$0"; {code}', str(folder / "told")]
    return {
        "notify": {"command": tell},
        "roles": {"writer": {}},
        "phases": [
            {"name": "a", "dispatches": [{"name": "draft", "to": "writer", "task": "Write.", "outputs": ["draft.md"]}]}
        ],
        "deliverable": {"path": "draft.md"},
        "limits": {"restarts_max": 1},
    }


def told(folder: Path) -> list[dict[str, Any]]:
    path = folder / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def paused(reader: Reader, run: str) -> list[NoticeRecord]:
    """The notices whose next attempt is still to come."""
    now = SystemClock().now()
    found = load_all(reader, NoticeRecord, f"notice/{run}/")
    return [one for one in found if one.not_before is not None and now.is_before(one.not_before)]


def hurry(fleet: Fleet, run: str) -> bool:
    """The pause before each next attempt is over; whether both notices were given up."""

    def fn(tx: Tx) -> None:
        for record in paused(tx, run):
            save(tx, replace(record, not_before=tx.now))

    if fleet.ledger.read(lambda reader: paused(reader, run)):
        fleet.ledger.run(fn)
    return len(fleet.events("notice_failed")) == 2


def test_a_run_that_fails_tells_of_its_agent_and_of_itself_once_each(fleet: Fleet) -> None:
    done = fleet.cli("run", str(fleet.spec(pipeline(fleet.base), {"writer": FAILING})), check=False)
    assert done.returncode == 1
    wait_for(lambda: len(fleet.events("notice_sent")) == 2, 60, lambda: fleet.tail())
    assert [(n["kind"], n["run"], n["agent"]) for n in told(fleet.base)] == [
        ("quarantine", "t-1", "writer"),
        ("ended", "t-1", ""),
    ]
    wait_for(lambda: not fleet.ledger.read(lambda r: r.scan("active/")), 60, "the captain's leave")
    assert fleet.leftovers(["t-1"]) == []


def test_a_way_that_fails_keeps_neither_the_operator_nor_the_agents_waiting(fleet: Fleet) -> None:
    done = fleet.cli("run", str(fleet.spec(pipeline(fleet.base, "exit 1"), {"writer": FAILING})), check=False)
    assert done.returncode == 1
    assert fleet.events("notice_failed") == [], "the run is over and cleared long before the last attempt"
    assert fleet.leftovers(["t-1"]) == []
    # How long the pauses are is tested with a clock that can be turned.
    wait_for(lambda: hurry(fleet, "t-1"), 150, lambda: fleet.tail())
    assert len(told(fleet.base)) == 6
    wait_for(lambda: not fleet.ledger.read(lambda r: r.scan("active/")), 60, "the captain's leave")


def test_a_captain_killed_while_the_last_notice_is_sent_is_revived_for_it(fleet: Fleet) -> None:
    wait = f"while test ! -e {fleet.base}/go; do sleep 0.1; done"
    text = pipeline(fleet.base, wait)
    text["notify"]["on"] = ["ended"]
    fleet.launch(fleet.spec(text, {"writer": FAILING}))
    wait_for(lambda: told(fleet.base), 120, "the sender")
    fleet.wait_over("t-1")
    captain = fleet.crew("captain", "t-1")
    assert captain is not None
    fleet.kill(captain, signal.SIGKILL)
    wait_for(lambda: fleet.crew("captain", "t-1") not in (None, captain), 60, "the successor")
    (fleet.base / "go").touch()
    fleet.wait_event("notice_sent")
    assert len(told(fleet.base)) == 1


def test_a_run_that_delivers_tells_nobody(fleet: Fleet) -> None:
    fleet.cli("run", str(fleet.spec(pipeline(fleet.base), {"writer": QUICK})))
    assert told(fleet.base) == []
    assert not os.path.exists(f"{fleet.home.run('t-1')}/notices")


def test_agents_and_gates_are_not_given_the_machines_ways(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    text = pipeline(fleet.base)
    del text["notify"]
    text["phases"][0]["gates"] = [{"name": "look", "command": ["sh", "-c", "env >gate.env"]}]
    steps = [{"tool": {"command": ["sh", "-c", "env >$DOGWATCH_OUTPUT/agent.env"]}}, "continue"]
    scenario = {**QUICK, "rules": [{"on": "dispatch", "do": steps}]}
    spec = fleet.spec(text, {"writer": scenario})
    own = fleet.environment
    monkeypatch.setattr(Fleet, "environment", {**own, "DOGWATCH_NOTIFY": "true", "DOGWATCH_NOTIFY_TARGETS": "json://x"})
    fleet.cli("run", str(spec))
    out = fleet.project / "out" / "t-1"
    for name in ("agent.env", "gate.env"):
        assert "DOGWATCH_RUN=t-1" in (out / name).read_text()
        assert "DOGWATCH_NOTIFY" not in (out / name).read_text()
