"""The live table's layout, for terminals of every size."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dogwatch.cli.frame import Frame, lay_out
from dogwatch.cli.live import _drawn
from dogwatch.cli.snapshot import take
from dogwatch.ledger.api import StoredEvent
from dogwatch.model.moment import Moment
from dogwatch.world.clock import SystemClock
from support.cli_ledgers import add_run, admit_run, end_run, go_halfway, ledger_at


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three runs: one halfway, one new, one ended."""
    folder: Path = tmp_path_factory.mktemp("frame")
    with ledger_at(folder) as store:
        names = [add_run(store) for _ in range(3)]
        go_halfway(store, names[0], os.getpid())
        admit_run(store, names[1])
        end_run(store, names[2], "FAILED", "the tide \x1b[2J came in " * 20)
        now = SystemClock().now()
        return store.read(lambda reader: take(reader, names, now))


def frame(snapshot: dict[str, Any], events: int = 8, extra: int = 0) -> Frame:
    now = Moment("boot", 100.0, 100.0)
    told = [
        StoredEvent(
            str(n), "task_failed", {"task": f"t{n}", "note": "n" * 300}, Moment("boot", n, n), "tide-1", "writer", ""
        )
        for n in range(events)
    ]
    return Frame(snapshot, told, [f"fault {n}: a long line of it {'x' * 100}" for n in range(extra)], now)


def text(lines: list[list[tuple[str, str]]]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def test_a_large_terminal_shows_runs_agents_and_events(snapshot: dict[str, Any]) -> None:
    lines = text(lay_out(frame(snapshot), 120, 40))
    assert lines[0].startswith("tide-1  RUNNING  2/2 audit  ███░░░░░░░ 1/3")
    assert any("auditor-1" in line and "BUSY" in line and line.rstrip().endswith("#2  nudged 1") for line in lines)
    assert sum(" ago  " in line for line in lines) == 8
    assert not any("auditor" in line for line in lines[lines.index(lines[8]) + 1 :])


def test_the_live_table_says_how_far_an_agent_is_and_until_when_it_has_its_claim(snapshot: dict[str, Any]) -> None:
    lines = text(lay_out(frame(snapshot), 120, 40))
    claim = snapshot["runs"][0]["tasks"][1]["claimed_at"]
    since = time.strftime("%H:%M:%S", time.localtime(claim["wall"]))
    (held,) = [line for line in lines if "audit.auditor-1" in line]
    assert f" audit.auditor-1   62 %  claimed {since} +5m 00s  " in held
    assert not any("claimed" in line for line in lines if line.startswith("  writer"))
    narrow = next(line for line in text(lay_out(frame(snapshot), 80, 40)) if "audit.auditor-1" in line)
    assert " 62 %  " in narrow
    assert "claimed" not in narrow, "names and causes have no room beside it"


def test_events_go_first_where_there_is_too_little_room(snapshot: dict[str, Any]) -> None:
    lines = text(lay_out(frame(snapshot), 80, 13))
    assert sum(line.startswith("tide-") for line in lines) == 3
    assert sum("auditor-" in line for line in lines) == 4
    shown = [line for line in lines if " ago  " in line]
    assert len(shown) == 3
    assert "t7" in shown[-1]


def test_then_agents_become_one_line_then_none_then_runs_are_counted(snapshot: dict[str, Any]) -> None:
    assert text(lay_out(frame(snapshot), 80, 5))[1].split() == ["BUSY", "2", "WAITING", "1"]
    assert [line.split()[0] for line in text(lay_out(frame(snapshot), 80, 3))] == ["tide-1", "tide-2", "tide-3"]
    assert text(lay_out(frame(snapshot), 80, 2))[1] == "… and 2 more runs"


def test_further_lines_stand_at_the_bottom(snapshot: dict[str, Any]) -> None:
    lines = text(lay_out(frame(snapshot, extra=4), 80, 24))
    assert [line.split(":")[0] for line in lines[-4:]] == ["fault 0", "fault 1", "fault 2", "fault 3"]
    assert len(lines) <= 24


def test_no_runs_at_all_are_said_so() -> None:
    assert text(lay_out(frame({"runs": []}, events=0), 80, 24)) == ["no runs yet"]


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Four runs that are over, one that is going, five that are queued."""
    with ledger_at(tmp_path_factory.mktemp("queue")) as store:
        names = [add_run(store) for _ in range(10)]
        for name in names[:4]:
            end_run(store, name)
        go_halfway(store, names[4], os.getpid())
        now = SystemClock().now()
        return store.read(lambda reader: take(reader, names, now))


def test_a_queued_run_is_one_line_with_what_it_waits_for(queue: dict[str, Any]) -> None:
    lines = text(lay_out(frame(queue, events=0), 80, 40))
    assert lines[4].startswith("tide-5  RUNNING")
    assert lines[8:] == [
        "tide-6  QUEUED  it is the next one",
        *(f"tide-{n}  QUEUED  tide-{n - 1} is before it" for n in range(7, 11)),
    ]


def test_what_is_going_keeps_its_agents_where_the_rest_of_a_queue_does_not_fit(queue: dict[str, Any]) -> None:
    lines = text(lay_out(frame(queue, events=0), 80, 6))
    assert lines[0].startswith("tide-5  RUNNING")
    assert ["writer" in lines[1], "auditor-1" in lines[2], "auditor-2" in lines[3]] == [True] * 3
    assert lines[4:] == ["… and 4 ended runs, 5 queued runs"]
    assert text(lay_out(frame(queue, events=0), 80, 2))[0].startswith("tide-5  RUNNING")


@given(width=st.integers(10, 200), height=st.integers(2, 60), extra=st.integers(0, 12), events=st.integers(0, 8))
def test_no_frame_is_larger_than_its_terminal(
    snapshot: dict[str, Any], width: int, height: int, extra: int, events: int
) -> None:
    shown = frame(snapshot, events, extra)
    assert len(lay_out(shown, width, height)) <= height
    console = Console(width=width, height=height, force_terminal=True, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(_drawn(shown, console, height))
    lines = captured.get().removesuffix("\n").split("\n")
    assert len(lines) <= height
    assert all(len(line) <= width and "\x1b" not in line for line in lines)
