"""F18: the watchdog is dead, or lives and is silent. The captain starts another one, the gap is on record, and what
went wrong meanwhile is found after it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

from dogwatch.ledger.api import StoredEvent
from dogwatch.model.process import ProcessId
from dogwatch.world.processes import life
from faults.watching import assert_unnoticed, beside, decisions, on_dispatch, process_of, self_check
from support.fleet import Fleet
from support.helpers import wait_for

UNTIL_GO = {"tool": {"command": ["sh", "-c", 'until test -e "$DOGWATCH_PROJECT/go"; do sleep 0.1; done']}}
CLERK = on_dispatch(UNTIL_GO, "continue")
SILENT_S = 8.0


def at_work(fleet: Fleet, writer: dict[str, Any]) -> str:
    """A run with a writer and a clerk who are in the middle of their tasks; the clerk goes on until `go` is there."""
    fleet.settings(silent_s=SILENT_S)
    run = fleet.launch(fleet.spec(beside("writer", "clerk", limits={}), {"writer": writer, "clerk": CLERK}))
    wait_for(lambda: fleet.deeds("writer", "turn_start") and fleet.deeds("clerk", "tool_start"), 60, fleet.tail)
    return run


def go(fleet: Fleet) -> None:
    (fleet.project / "go").touch()


def watchdog_of(fleet: Fleet, run: str) -> ProcessId:
    found = wait_for(lambda: fleet.crew("watchdog", run), 60, "the watchdog")
    assert found is not None
    return found


def of_watchdog(fleet: Fleet, kind: str) -> list[StoredEvent]:
    return [event for event in fleet.events(kind) if event.body["member"] == "watchdog"]


def assert_found_after_the_gap(fleet: Fleet, run: str, loss: str, lost: ProcessId) -> None:
    """The run delivers; the gap is on record between `loss` and the successor, and only the successor has seen what
    had happened to the writer."""
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    (gone,) = of_watchdog(fleet, loss)
    (revived,) = of_watchdog(fleet, "crew_revived")
    assert gone.body["pid"] == lost.pid
    assert revived.body["starts"] == 2
    (alert,) = fleet.events("alert_raised", "writer")
    assert alert.body["diagnosis"] == "exited"
    assert gone.at.mono <= revived.at.mono <= alert.at.mono
    restarted = fleet.events("agent_restarted", "writer")
    assert [(event.body["reason"], event.body["incarnation"]) for event in restarted] == [("exited", 2)]
    assert [deed["incarnation"] for deed in fleet.deeds("writer", "report_called")] == [2]
    assert decisions(fleet, run, "writer") == [("RESTART", "recovered")]
    assert_unnoticed(fleet, "clerk")
    assert {event.body["member"] for kind in ("crew_lost", "crew_silent") for event in fleet.events(kind)} == {
        "watchdog"
    }, "the others of the crew were left alone"


def test_f18_what_dies_together_with_the_watchdog_is_found_by_its_successor(fleet: Fleet) -> None:
    run = at_work(fleet, on_dispatch({"wait": 600}, incarnation=1))
    watchdog, writer = watchdog_of(fleet, run), process_of(fleet, run, "writer")
    # Stopped first: it sees nothing of the death.
    fleet.kill(watchdog, signal.SIGSTOP)
    fleet.kill(writer)
    wait_for(lambda: life(writer, fleet.boot) == "dead", 10, "the writer's end")
    fleet.kill(watchdog)
    wait_for(lambda: of_watchdog(fleet, "crew_revived"), 30, fleet.tail)
    fleet.wait_event("agent_restarted", "writer", 30)
    go(fleet)
    assert_found_after_the_gap(fleet, run, "crew_lost", watchdog)
    told = fleet.cli("events", run).stdout
    dead, back = (told.find(text) for text in ("the watchdog was found dead", "the watchdog was revived"))
    assert 0 <= dead < back, told


def test_f18_a_silent_watchdog_is_ended_with_its_stacks_on_record_and_its_successor_finds_what_it_missed(
    fleet: Fleet,
) -> None:
    run = at_work(fleet, on_dispatch({"wait": 600}, incarnation=1))
    watchdog, writer = watchdog_of(fleet, run), process_of(fleet, run, "writer")
    beat = Path(fleet.home.beat("watchdog", run))
    fleet.kill(watchdog, signal.SIGSTOP)
    last_sign = float(beat.read_text().split()[1])
    fleet.kill(writer)
    silent = fleet.wait_event("crew_silent", timeout_s=120)
    assert silent.at.mono - last_sign >= SILENT_S, "no sooner: it may only be slow"
    wait_for(lambda: life(watchdog, fleet.boot) == "dead", 10, "its end")
    fleet.wait_event("agent_restarted", "writer", 30)
    go(fleet)
    assert_found_after_the_gap(fleet, run, "crew_silent", watchdog)
    stacks = Path(fleet.home.log("watchdog", run)).read_text()
    assert "most recent call first" in stacks, "where it stood when it was ended"
    assert os.path.join("crew", "main.py") in stacks
    # The event comes at the end of the gap: it says how long nobody was watching.
    assert silent.body["quiet_s"] >= SILENT_S, silent.body


def test_f18_a_watchdog_that_stops_within_a_transaction_is_ended_although_it_holds_the_ledger(fleet: Fleet) -> None:
    run = at_work(fleet, CLERK)
    watchdog, captain = watchdog_of(fleet, run), fleet.crew("captain", run)
    with contextlib.closing(sqlite3.connect(fleet.home.ledger, isolation_level=None, timeout=60)) as connection:
        connection.execute("BEGIN IMMEDIATE")  # in its place: when it is stopped, no one can say where it stands
        fleet.kill(watchdog, signal.SIGSTOP)
        wait_for(lambda: life(watchdog, fleet.boot) == "dead", 200, fleet.tail)
        connection.execute("ROLLBACK")
    fleet.wait_event("crew_revived", timeout_s=60)
    assert fleet.crew("captain", run) == captain, "who only waits for the ledger is not silent"
    go(fleet)
    assert fleet.wait_over(run, 120).run.state == "COMPLETED"


def test_f18_while_watchdogs_die_one_after_another_the_self_check_says_so_and_nobody_else_is_touched(
    fleet: Fleet,
) -> None:
    run = at_work(fleet, CLERK)

    def check() -> tuple[str, str]:
        one = self_check(fleet, run, "WATCHDOG_ALIVE")
        return (one.result, one.detail) if one else ("", "")

    killed = []

    def kill_and_check() -> bool:
        if (process := fleet.crew("watchdog", run)) is not None:
            fleet.kill(process)
            killed.append(process.pid)
        return check()[0] == "failed"

    wait_for(kill_and_check, 60, lambda: f"a failed WATCHDOG_ALIVE: {check()}\n{fleet.tail()}")
    shown = fleet.cli("status", run, "--checks", "--json", check=False)
    assert shown.returncode == 1
    failed = [one for one in json.loads(shown.stdout)["checks"] if one["result"] == "failed"]
    assert [(one["name"], one["detail"]) for one in failed] == [("WATCHDOG_ALIVE", "it is not running")]
    told = [event.body for event in fleet.events("self_check_failed")]
    assert told == [{"check": "WATCHDOG_ALIVE", "detail": "it is not running"}]
    watchdog = watchdog_of(fleet, run)
    wait_for(lambda: check()[0] == "ok", 60, lambda: f"{check()}\n{fleet.tail()}")
    assert fleet.crew("watchdog", run) == watchdog, "the one that was left alone stays"
    go(fleet)
    view = fleet.wait_over(run, 60)
    assert view.run.state == "COMPLETED", view.run.cause
    # One for each: no gap without its record.
    assert {event.body["pid"] for event in of_watchdog(fleet, "crew_lost")} == set(killed)
    assert [event.body["starts"] for event in of_watchdog(fleet, "crew_revived")] == list(
        range(2, len(set(killed)) + 2)
    )
    assert_unnoticed(fleet, "writer", "clerk")
