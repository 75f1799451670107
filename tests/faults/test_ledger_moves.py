"""Moves, copies and archives of the ledger, killed or disturbed at any point; runs whose server dies or hangs."""

from __future__ import annotations

import contextlib
import json
import math
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dogwatch.errors import LedgerSealedError
from dogwatch.ledger.compaction import compact_part
from dogwatch.ledger.copying import counted
from dogwatch.testing.events import PlainEvent
from faults.pipelines import three_phases
from support.commands import call
from support.fleet import Fleet, fleets
from support.helpers import wait_for
from support.ledger_places import Place, Places, places_on
from support.postgres import Server, new_server, postgres

__all__ = ["postgres"]

KILLED = Path(__file__).with_name("killed_move.py")
MOVES = (("sqlite", "postgresql"), ("postgresql", "sqlite"), ("sqlite", "sqlite"))
SECRET = "sesame"  # noqa: S105


@pytest.fixture
def places(postgres: Server) -> Iterator[Places]:
    yield from places_on(postgres)


@pytest.fixture
def solid() -> Iterator[Server]:
    """A server of the test's own, set up as one should be."""
    with new_server(fsync="on", full_page_writes="on") as server:
        yield server


@pytest.fixture
def served(solid: Server) -> Iterator[Fleet]:
    """A fleet whose ledger is on that server, by an address with a password."""
    yield from fleets(solid.new_database().replace("dogwatch@", f"dogwatch:{SECRET}@"))


def killed(place: Place, number: int, when: str, *words: str) -> bool:
    """Whether `dogwatch ledger WORDS` was killed at its Nth commit, and had not come to its end before."""
    argv = [str(number), when, *words]
    done = call(argv, place.environment, place.folder, timeout_s=120, program=str(KILLED))
    assert done.returncode in (-9, 0), done.stderr.decode()
    return done.returncode == -9


def is_open(place: Place) -> bool:
    """Whether the ledger lets itself be written."""
    with contextlib.suppress(LedgerSealedError), place.store() as store:
        store.run(lambda tx: tx.put("probe", {}))
        store.run(lambda tx: tx.delete("probe"))
        return True
    return False


def is_in_use(place: Place) -> bool:
    """Whether there is something in the ledger, and it lets itself be read."""
    with contextlib.suppress(LedgerSealedError), place.store() as store:
        return any(store.read(counted).values())
    return False


def note(place: Place, number: int) -> None:
    with place.store() as store:
        store.run(lambda tx: tx.append(PlainEvent("crew_started", {"n": number})))


def raised(content: list[Any]) -> list[Any]:
    return [(k, {**body, "fence": body["fence"] + 1} if k == "fence" else body) for k, body in content]


@pytest.mark.parametrize(("here", "there"), MOVES)
def test_a_move_killed_before_and_after_each_commit_goes_on_to_a_whole_copy(
    places: Places, here: str, there: str
) -> None:
    source, target = places.full(here, 700), places.new(there)
    words = ("migrate", "--to", target.address)
    before = source.content()
    sealed = False
    for number in range(1, 100):
        if not killed(source, number, "before" if number % 2 else "after", *words):
            break
        closed = not is_open(source)
        assert closed or not (sealed or is_in_use(target)), number
        sealed = closed
        assert source.content() == before
    assert number > 5
    source.ledger(*words)
    assert target.content() == raised(before)
    assert not is_open(source)
    assert is_open(target)


@pytest.mark.parametrize(("here", "there"), MOVES[:2])
def test_a_move_is_given_up_until_its_very_end_and_nothing_written_since_is_lost(
    places: Places, here: str, there: str
) -> None:
    """Whenever it is killed: either the old ledger comes back and the new one is shut, or the move can only go on."""
    source, target = places.full(here, 300), places.new(there)
    words = ("migrate", "--to", target.address)
    given_up = 0
    for number in range(1, 100):
        if not killed(source, number, "after", *words):
            break
        if is_open(source):
            assert "no move" in source.ledger("migrate", "--undo", code=77)
        elif "moving" in json.loads(source.cli("ledger", "info", "--json").stdout)["facts"]:
            if number % 2:
                assert b"is being moved" in source.cli("status", code=74).stderr
                assert "would give up" in source.ledger("migrate", "--undo", "--dry-run")
            source.ledger("migrate", "--undo")
            given_up += 1
        else:
            # Past the point of no return: only the new one will ever be written.
            assert "no move" in source.ledger("migrate", "--undo", code=77)
            assert not is_open(source)
            continue
        note(source, number)
        assert not is_in_use(target)
    assert given_up > 1
    before = source.content()
    source.ledger(*words)
    after = target.content()
    assert after == raised(before)
    assert sum(kind == "event" for kind, _ in after) > 300 + given_up
    assert not is_open(source)


def test_a_move_killed_at_any_instant_goes_on_to_a_whole_copy(places: Places) -> None:
    source, target = places.full("sqlite", 5000), places.new("postgresql")
    before = source.content()
    begun = time.monotonic()
    source.ledger("export", "whole.jsonl")
    usual_s = time.monotonic() - begun
    dice = random.Random(7)
    for _ in range(10):
        moving = source.start("migrate", "--to", target.address, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            moving.wait(dice.uniform(0.2, 2.5) * usual_s)
        except subprocess.TimeoutExpired:
            moving.kill()
            moving.wait()
        assert source.content() == before
    source.ledger("migrate", "--to", target.address)
    assert target.content() == raised(before)


def test_of_two_moves_at_once_one_wins_and_the_copy_is_whole(places: Places) -> None:
    source, target = places.full("sqlite", 2500), places.new("postgresql")
    before = source.content()
    both = [
        source.start("migrate", "--to", target.address, stderr=subprocess.PIPE, stdout=subprocess.PIPE) for _ in "ab"
    ]
    said = [process.communicate(timeout=240) for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 0], [0, 77], [0, 74]), said
    assert target.content() == raised(before)
    assert is_open(target)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_an_import_killed_at_each_commit_is_never_in_use_half_done(places: Places, engine: str) -> None:
    source, other, target = places.full("sqlite", 700), places.full("sqlite", 1), places.new(engine)
    file, foreign = str(source.folder / "out.jsonl"), str(other.folder / "out.jsonl")
    source.ledger("export", file)
    other.ledger("export", foreign)
    for number in range(1, 100):
        if not killed(target, number, "after" if number % 2 else "before", "import", file):
            break
        with pytest.raises(LedgerSealedError) as caught, target.store():
            pass
        assert "out.jsonl" in caught.value.message
        assert "again" in caught.value.hint
        if number == 1:
            assert b"unfinished copy" in target.cli("status", code=74).stderr
            assert "unfinished copy" in target.ledger("import", foreign, code=77)
            assert "unfinished copy" in target.ledger("export", "half.jsonl", code=74)
            assert "unfinished copy" in target.ledger("compact", code=74)
            assert "unfinished copy" in target.ledger("migrate", "--to", places.new("sqlite").address, code=74)
            assert "unfinished copy" in other.ledger("migrate", "--to", target.address, code=77)
    assert number > 4
    assert target.content() == raised(source.content())
    assert is_open(target)


def test_a_compaction_killed_at_each_commit_loses_no_event(places: Places) -> None:
    for engine in ("sqlite", "postgresql"):
        place = places.full(engine, 2200)
        before, events = place.content(), place.events()
        for when in ("before", "after", "before", "after"):
            assert killed(place, 1, when, "compact", "--keep", "0s") or when == "after"
            assert (place.content(), place.events()) == (before, events)
        place.ledger("compact", "--keep", "0s")
        assert (place.content(), place.events()) == (before, events)


def test_an_event_that_others_may_come_before_is_not_archived(places: Places) -> None:
    place = places.new("postgresql")
    with place.store() as slow, place.store() as quick:

        def late(tx: Any) -> None:
            tx.append(PlainEvent("crew_started", {"n": "early"}))
            tx.rows("SELECT 1")
            quick.run(lambda other: other.append(PlainEvent("crew_started", {"n": "late"})))
            assert quick.run(lambda other: compact_part(other, math.inf)) == (0, 0, 0)

        slow.run(late)
        wait_for(lambda: quick.run(lambda tx: compact_part(tx, math.inf))[0] == 2, what="both in the archive")
    assert [event.body["n"] for event in place.events()] == ["early", "late"]


# Runs on a server


def on_dispatch(*steps: Any) -> dict[str, Any]:
    return {"work_s": 0.2, "rules": [{"on": "dispatch", "do": [*steps, "continue"]}]}


def delivered(fleet: Fleet, run: str) -> None:
    """The run has delivered, everything once, and nobody healthy was taken for dead."""
    view = fleet.wait_over(run)
    assert view.run.state == "COMPLETED", fleet.tail()
    assert fleet.events("crew_silent") == []
    accepted = [event.body["task"] for event in fleet.events("task_accepted")]
    assert sorted(accepted) == sorted(set(accepted)) == ["draft", "final", "plan"]


def test_a_run_on_a_server_delivers_leaves_a_healthy_ledger_and_tells_nobody_the_address(served: Fleet) -> None:
    look = "env; tr '\\0' '\\n' </proc/$PPID/environ; tmux show-environment -g || true"
    step = {"tool": {"command": ["sh", "-c", f"({look}) >$DOGWATCH_OUTPUT/agent.env 2>&1"]}}
    text = three_phases()
    text["phases"][1]["gates"][0]["command"] = ["sh", "-c", f"({look}) >gate.env 2>&1"]
    spec = served.spec(text, {"planner": on_dispatch(step), "writer": {"work_s": 0.2}, "judge": {"work_s": 0.2}})
    done = served.cli("run", str(spec))
    assert "delivered 1/1" in done.stdout
    delivered(served, "t-1")
    out = served.project / "out" / "t-1"
    for name in ("agent.env", "gate.env"):
        seen = (out / name).read_text()
        assert "DOGWATCH_RUN=t-1" in seen
        assert "DOGWATCH_LEDGER" not in seen
        assert SECRET not in seen
    checked = json.loads(served.cli("ledger", "check", "--json").stdout)
    assert (checked["ok"], checked["problems"]) == (True, [])
    served.cli("ledger", "compact", "--keep", "0s")
    assert json.loads(served.cli("ledger", "check", "--json").stdout)["ok"] is True
    told = served.cli("events", "t-1", "--json", "--last", "10000").stdout.splitlines()
    assert len(told) == len([event for event in served.events() if event.run == "t-1"])
    for path in served.base.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_a_run_outlives_the_death_of_its_server(solid: Server, served: Fleet) -> None:
    scenarios = {name: {"work_s": 2} for name in ("planner", "writer", "judge")}
    run = served.launch(served.spec(three_phases(), scenarios))
    for agent in ("planner", "writer"):
        served.wait_event("message_delivered", agent)
        solid.kill()
        solid.start()
    delivered(served, run)


def test_a_run_outlives_a_server_that_hangs(solid: Server, served: Fleet) -> None:
    scenarios = {name: {"work_s": 2} for name in ("planner", "writer", "judge")}
    run = served.launch(served.spec(three_phases(), scenarios))
    served.wait_event("message_delivered", "planner")
    captain, watchdog = served.crew("captain", run), served.crew("watchdog", run)
    assert captain is not None
    assert watchdog is not None
    solid.pause()
    try:
        # Each takes seconds, so that together they last longer than a member may be silent.
        log = Path(served.home.log("captain", run))
        wait_for(lambda: log.read_text().count("step_failed") >= 4, 180, "the captain to have tried four times")
    finally:
        solid.resume()
    wait_for(lambda: served.events("task_accepted"), 120, "the run to go on")
    assert (served.crew("captain", run), served.crew("watchdog", run)) == (captain, watchdog)
    delivered(served, run)
