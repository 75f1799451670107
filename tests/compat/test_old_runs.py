"""Runs that an earlier version has left in its ledger are read whole, and a crew of today brings them to their end.

The ledgers were written by the crew of that version on the simulator's machine: `v-1` is complete, after a death and a
silence. `v-2` was left in the middle: a task is with its agent, another was returned by the death of its holder, which
it still names; a letter is on its way, and the holders of places are there no more.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dogwatch.coordination.auditing import disagreements
from dogwatch.crew.shared.membership import join
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load_run
from dogwatch.model.events import decode_event
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.sim.machine import Machine
from dogwatch.testing.clock import ManualClock
from support.helpers import events_of
from support.postgres import database, postgres, restore

__all__ = ["database", "postgres"]

HERE = Path(__file__).parent
LEFT = Moment("boot-1", 2001.528, 1_700_001_001.528)
"""When the ledgers were closed."""


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock(LEFT)
    clock.advance(600.0)
    clock.reboot()
    return clock


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    if request.param == "sqlite":
        place = str(tmp_path / "ledger.db")
        shutil.copy(HERE / "runs-v2.db", place)
    else:
        place = request.getfixturevalue("database")
        restore(place, HERE / "postgres-runs-v2.sql")
    with closing(open_store(place, clock)) as store:
        yield store


def test_everything_of_an_old_run_is_read_as_it_was(old: Store) -> None:
    done, left = (old.read(lambda reader, run=run: load_run(reader, run)) for run in ("v-1", "v-2"))  # type: ignore[misc]
    assert (done.run.state, left.run.state) == ("COMPLETED", "RUNNING")
    assert {task.task: (task.state, task.agent) for task in left.tasks.values()} == {
        "collect": ("returned", "worker-1"),
        "draft": ("accepted", "writer"),
        "sort": ("claimed", "clerk"),
    }
    assert [(letter.sender, letter.body) for letter in left.messages.values() if letter.kind == "mail"] == [
        ("writer", "Look at the second table.")
    ]
    assert [agent.incarnation for name, agent in sorted(left.agents.items())] == [1, 1, 2, 1, 1]
    events = events_of(old)
    assert len(events) > 100
    assert all(decode_event(event) is not None for event in events)
    assert list(old.read(lambda reader: list(disagreements(reader)))) == []


def test_a_crew_of_today_brings_an_old_run_to_its_end(old: Store, clock: ManualClock) -> None:
    machine = Machine(old, clock)
    machine.write("/out/v-2/draft.md", b"a draft")
    machine.hands.start_crew("dispatcher")
    machine.run_until(lambda: machine.view("v-2").run.cleared, 5000)
    assert machine.failures == []
    view = machine.view("v-2")
    assert (view.run.state, view.run.cause) == ("COMPLETED", "")
    assert {task.state for task in view.tasks.values()} == {"accepted"}
    assert [event.agent for event in machine.events("message_acknowledged", run="v-2")] == ["judge"]
    assert list(old.read(lambda reader: list(disagreements(reader)))) == []


def test_members_of_an_older_crew_have_lost_their_places(old: Store) -> None:
    """They would read the new records as empty ones, and write them so."""
    members = ("captain", "watchdog", "dispatcher")
    assert not [lease for lease in old.read(lambda reader: reader.leases("")) if lease.name.startswith(members)]
    assert not old.read(lambda reader: reader.scan("crew/"))


def test_members_of_todays_crew_keep_their_places_when_the_ledger_is_opened_again(tmp_path: Path) -> None:
    place, clock = str(tmp_path / "ledger.db"), ManualClock()
    process = ProcessId(clock.now().boot, 5, 6)
    with closing(open_store(place, clock)) as store:
        lease = join(store, "captain", "v-1", process, lambda _: "alive", clock.now())
        assert lease is not None
        with closing(open_store(place, clock)) as again:
            assert again.read(lambda reader: reader.leases("captain/v-1")) == [lease]
        store.run(lambda tx: tx.renew(lease, 30.0))
