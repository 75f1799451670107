"""Places in the crew: who may take one, who keeps one through an outage of the ledger, and who gives one up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from dogwatch.coordination.crew import LEASE_S, leave_host
from dogwatch.coordination.runs import create_run
from dogwatch.crew.dispatcher.dispatcher import CADENCE_S, LINGER_S, Dispatcher
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import BEAT_S, JOIN_S, RESTART_PAUSE_S, Reviver, join, renew
from dogwatch.errors import LedgerLockedError, StaleError
from dogwatch.ledger.api import Lease, Reader, Store, Tx
from dogwatch.ledger.records import load, save
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.model import keys
from dogwatch.model.memory import HostSettings, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Output, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord
from dogwatch.testing.clock import ManualClock

T = TypeVar("T")

FIRST = ProcessId("boot-1", 100, 1)
SECOND = ProcessId("boot-1", 200, 2)
PLAN = Plan(
    name="t",
    roles=(Role(name="writer", harness="scripted", script="writer.json"),),
    phases=(
        Phase(
            name="draft",
            dispatches=(Dispatch(name="draft", to="writer", task="Write it.", outputs=(Output(path="draft.md"),)),),
        ),
    ),
    deliverable=ByteCheck(path="draft.md"),
)


@pytest.fixture
def ledger(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    with closing(SqliteStore(str(tmp_path / "ledger.db"), clock, host="here")) as store:
        yield store


def alive(process: ProcessId) -> str:
    return "alive"


def dead(process: ProcessId) -> str:
    return "dead"


def unknown(process: ProcessId) -> str:
    return "unknown"


def taken(lease: Lease | None) -> Lease:
    assert lease is not None
    return lease


def holder(ledger: Store, member: str = "captain", run: str = "t-1") -> ProcessId:
    record = ledger.read(lambda r: load(r, CrewRecord, keys.crew(run, member) if run else keys.dispatcher(r.host)))
    assert record is not None
    return record.process


# The place of a captain.


def test_a_lease_that_ran_out_during_an_outage_is_taken_anew_by_its_holder(ledger: Store, clock: ManualClock) -> None:
    lease = taken(join(ledger, "captain", "t-1", FIRST, dead, clock.now()))
    clock.advance(LEASE_S * 10)
    with pytest.raises(StaleError):
        ledger.run(lambda tx: tx.renew(lease, LEASE_S))
    again = renew(ledger, lease, clock.now())
    assert again.holder == lease.holder
    assert again.fence > lease.fence
    ledger.run(lambda tx: tx.check(again))
    with pytest.raises(StaleError):
        ledger.run(lambda tx: tx.check(lease))
    # Nobody counts this as a new start of the captain.
    assert [event.kind for event in ledger.since("", 10)] == ["crew_started"]


def test_a_lease_is_not_taken_anew_where_a_successor_has_joined(ledger: Store, clock: ManualClock) -> None:
    lease = taken(join(ledger, "captain", "t-1", FIRST, dead, clock.now()))
    clock.advance(LEASE_S * 10)
    successor = taken(join(ledger, "captain", "t-1", SECOND, dead, clock.now()))
    clock.advance(BEAT_S + 1)
    with pytest.raises(StaleError):
        renew(ledger, lease, clock.now())
    ledger.run(lambda tx: tx.check(successor))
    assert renew(ledger, successor, clock.now()).fence == successor.fence
    assert holder(ledger) == SECOND


def test_a_predecessor_stays_out_also_where_the_successors_lease_was_not_renewed_since(
    ledger: Store, clock: ManualClock
) -> None:
    """The ledger was away for both of them: the first one back must not be the one that was replaced."""
    lease = taken(join(ledger, "captain", "t-1", FIRST, dead, clock.now()))
    taken(join(ledger, "captain", "t-1", SECOND, dead, clock.now()))
    clock.advance(LEASE_S * 10)
    with pytest.raises(StaleError):
        renew(ledger, lease, clock.now())


def test_a_lease_is_written_no_more_often_than_needed(ledger: Store, clock: ManualClock) -> None:
    lease = taken(join(ledger, "captain", "t-1", FIRST, dead, clock.now()))
    clock.advance(BEAT_S / 2)
    assert renew(ledger, lease, clock.now()) is lease
    clock.advance(BEAT_S)
    assert renew(ledger, lease, clock.now()).renewed == clock.now()


def test_nobody_joins_while_the_operator_wants_everything_down(ledger: Store, clock: ManualClock) -> None:
    ledger.run(lambda tx: tx.put(keys.down(tx.host), {}))
    for member, run in (("dispatcher", ""), ("captain", "t-1"), ("watchdog", "t-1")):
        assert join(ledger, member, run, FIRST, dead, clock.now()) is None
    assert not ledger.read(lambda r: r.scan("crew/"))
    assert not ledger.read(lambda r: r.leases(""))
    ledger.run(lambda tx: tx.delete(keys.down(tx.host)))
    assert join(ledger, "captain", "t-1", FIRST, dead, clock.now()) is not None


# Members on other hosts.


def of_another_host(ledger: Store, clock: ManualClock, member: str, run: str) -> None:
    """A member that was left by another host, without a lease: the ledger was taken over."""
    record = CrewRecord(member=member, run=run, host="elsewhere", process=FIRST, started=clock.now(), starts=4)
    ledger.run(lambda tx: save(tx, record))


def never(process: ProcessId) -> str:
    raise AssertionError(f"{process} is on another host")


def test_a_member_of_another_host_is_never_asked_for_and_its_lease_decides(ledger: Store, clock: ManualClock) -> None:
    of_another_host(ledger, clock, "captain", "t-1")
    lease = ledger.run(lambda tx: tx.acquire(keys.place("captain", "t-1"), str(FIRST), LEASE_S))
    assert lease is not None
    assert join(ledger, "captain", "t-1", SECOND, never, clock.now()) is None
    assert holder(ledger) == FIRST
    ledger.run(lambda tx: tx.release(lease))
    assert join(ledger, "captain", "t-1", SECOND, never, clock.now()) is not None
    record = ledger.read(lambda r: load(r, CrewRecord, keys.crew("t-1", "captain")))
    assert record is not None
    assert (record.process, record.host, record.starts) == (SECOND, ledger.host, 5)


def test_each_host_has_a_dispatcher_of_its_own(ledger: Store, clock: ManualClock) -> None:
    of_another_host(ledger, clock, "dispatcher", "")
    lease = taken(join(ledger, "dispatcher", "", SECOND, never, clock.now()))
    assert lease.name == keys.place("dispatcher", ledger.host)
    assert holder(ledger, "dispatcher", "") == SECOND
    clock.advance(LEASE_S * 10)
    assert renew(ledger, lease, clock.now()).fence > lease.fence
    assert ledger.read(lambda r: r.get(keys.dispatcher("elsewhere"))) is not None


def test_a_host_that_is_down_keeps_nobody_on_another_from_joining(ledger: Store, clock: ManualClock) -> None:
    ledger.run(lambda tx: tx.put(keys.down("elsewhere"), {}))
    assert join(ledger, "dispatcher", "", FIRST, dead, clock.now()) is not None


@pytest.mark.parametrize("life", [alive, unknown])
def test_nobody_joins_while_the_predecessor_is_not_known_to_be_dead(
    ledger: Store, clock: ManualClock, life: Callable[[ProcessId], str]
) -> None:
    taken(join(ledger, "captain", "t-1", FIRST, dead, clock.now()))
    clock.advance(LEASE_S * 10)
    assert join(ledger, "captain", "t-1", SECOND, life, clock.now()) is None
    assert holder(ledger) == FIRST


def test_a_dead_predecessors_lease_is_not_waited_for(ledger: Store, clock: ManualClock) -> None:
    first = taken(join(ledger, "captain", "t-1", FIRST, dead, clock.now()))
    second = taken(join(ledger, "captain", "t-1", SECOND, dead, clock.now()))
    assert second.fence > first.fence
    revived = ledger.since("", 10)[-1]
    assert (revived.kind, revived.body["starts"]) == ("crew_revived", 2)


def test_the_places_of_runs_whose_names_begin_alike_are_apart(ledger: Store, clock: ManualClock) -> None:
    other = taken(join(ledger, "captain", "t-11", FIRST, dead, clock.now()))
    taken(join(ledger, "captain", "t-1", SECOND, dead, clock.now()))
    third = ProcessId("boot-1", 300, 3)
    taken(join(ledger, "captain", "t-1", third, dead, clock.now()))
    ledger.run(lambda tx: tx.check(other))


# When a successor is due.


def test_a_start_that_has_not_joined_gets_time_to_do_so(clock: ManualClock) -> None:
    reviver = Reviver()
    assert reviver.may_start(None, "dead", clock.now(), "t-1")
    reviver.note_start("t-1", clock.now())
    clock.advance(JOIN_S / 2)
    assert not reviver.may_start(None, "dead", clock.now(), "t-1")
    assert reviver.may_start(None, "dead", clock.now(), "t-2")
    clock.advance(JOIN_S)
    assert reviver.may_start(None, "dead", clock.now(), "t-1")


def test_a_member_that_joined_and_died_is_started_after_a_short_pause(clock: ManualClock) -> None:
    reviver = Reviver()
    reviver.note_start("t-1", clock.now())
    clock.advance(0.3)
    record = CrewRecord(host="", member="captain", run="t-1", process=FIRST, started=clock.now())
    assert not reviver.may_start(record, "dead", clock.now(), "t-1")
    clock.advance(RESTART_PAUSE_S)
    assert reviver.may_start(record, "dead", clock.now(), "t-1")
    for life in ("alive", "unknown"):
        assert not reviver.may_start(record, life, clock.now(), "t-1")


# A dispatcher that leaves for want of work.


class Eyes:
    """Sees a crew in which everybody is dead."""

    def life(self, process: ProcessId) -> str:
        return "dead"

    def silence_s(self, member: str, run: str, now: Moment) -> float | None:
        return None

    def pulse(self) -> None:
        pass

    def watch(self, processes: Sequence[ProcessId]) -> None:
        pass

    def watch_also(self, process: ProcessId) -> None:
        pass

    def memory(self, agents: Mapping[str, ProcessId], ceiling_bytes: int) -> Readings:
        return Readings()

    def settings(self) -> tuple[HostSettings, str]:
        return HostSettings(), ""


@dataclass
class Hands:
    """Notes whom it was told to start."""

    started: list[tuple[str, str]] = field(default_factory=list)

    def start_crew(self, member: str, run: str = "") -> None:
        self.started.append((member, run))

    def end_silent_crew(self, process: ProcessId) -> None:
        raise AssertionError("nobody is silent here")


@dataclass(frozen=True)
class World:
    eyes: Eyes = field(default_factory=Eyes)
    hands: Hands = field(default_factory=Hands)


class CreatesAfterTheLook(SqliteStore):
    """A ledger in which somebody makes a run right after the dispatcher has looked for work."""

    armed = False

    def read(self, fn: Callable[[Reader], T]) -> T:
        found = super().read(fn)
        if self.armed:
            self.armed = False
            self.run(lambda tx: create_run(tx, PLAN, "/project", "/project/out", "/project/t.yaml"))
        return found


def dispatcher(ledger: Store, now: Moment) -> Dispatcher:
    lease = taken(join(ledger, "dispatcher", "", FIRST, dead, now))
    return Dispatcher(lease, Log("dispatcher", "", write=lambda line: None), now)


def test_a_dispatcher_without_work_leaves_and_gives_up_its_place(ledger: Store, clock: ManualClock) -> None:
    member = dispatcher(ledger, clock.now())
    assert member.step(World(), ledger, clock.now()) == CADENCE_S
    clock.advance(LINGER_S + 1)
    assert member.step(World(), ledger, clock.now()) is None
    assert ledger.read(lambda r: r.get(keys.dispatcher(r.host))) is None
    assert not ledger.read(lambda r: r.leases("dispatcher/"))
    # Whoever makes a run now finds no dispatcher and starts one, which takes the place though the old process lives.
    assert join(ledger, "dispatcher", "", SECOND, alive, clock.now()) is not None


def test_the_last_look_for_work_and_the_leave_are_one_transaction(ledger: Store, clock: ManualClock) -> None:
    member = dispatcher(ledger, clock.now())
    ledger.run(lambda tx: create_run(tx, PLAN, "/project", "/project/out", "/project/t.yaml"))
    assert ledger.run(lambda tx: leave_host(tx, member.lease)) is False
    assert holder(ledger, "dispatcher", "") == FIRST
    ledger.run(lambda tx: tx.check(member.lease))
    ledger.run(lambda tx: tx.delete("active/t-1"))
    assert ledger.run(lambda tx: leave_host(tx, member.lease)) is True
    assert ledger.read(lambda r: r.get(keys.dispatcher(r.host))) is None


def test_a_run_that_is_made_while_the_dispatcher_is_leaving_keeps_it(tmp_path: Path, clock: ManualClock) -> None:
    ledger = CreatesAfterTheLook(str(tmp_path / "ledger.db"), clock)
    try:
        member, world = dispatcher(ledger, clock.now()), World()
        clock.advance(LINGER_S + 1)
        ledger.armed = True
        assert member.step(world, ledger, clock.now()) == CADENCE_S
        assert holder(ledger, "dispatcher", "") == FIRST
        assert world.hands.started == []
        clock.advance(CADENCE_S)
        assert member.step(world, ledger, clock.now()) == CADENCE_S
        assert world.hands.started == [("captain", "t-1")]
    finally:
        ledger.close()


# Members that are stopped in the middle of a transaction.


class SilentEyes(Eyes):
    """Sees who lives, and who of them has given no sign of life for long."""

    def __init__(self, silent: tuple[str, ...], dead: tuple[ProcessId, ...] = ()) -> None:
        self._silent = silent
        self._dead = dead

    def life(self, process: ProcessId) -> str:
        return "dead" if process in self._dead else "alive"

    def silence_s(self, member: str, run: str, now: Moment) -> float | None:
        return 60.0 if member in self._silent else 0.1


@dataclass
class Ending(Hands):
    """Notes whom it was told to end."""

    ended: list[ProcessId] = field(default_factory=list)

    def end_silent_crew(self, process: ProcessId) -> None:
        self.ended.append(process)


class Locked(SqliteStore):
    """A ledger that somebody holds: it can be read, and not written."""

    locked = False

    def run(self, fn: Callable[[Tx], T]) -> T:
        if self.locked:
            raise LedgerLockedError("somebody holds it")
        return super().run(fn)


@pytest.mark.parametrize(
    ("silent", "captain_dead", "ended"),
    [
        (("captain", "watchdog"), False, [FIRST, SECOND]),
        (("watchdog",), True, [SECOND]),
        (("captain",), False, [FIRST]),
        (("watchdog",), False, []),
    ],
)
def test_whoever_may_hold_the_ledger_is_ended_before_anything_is_written(
    tmp_path: Path, clock: ManualClock, silent: tuple[str, ...], captain_dead: bool, ended: list[ProcessId]
) -> None:
    ledger = Locked(str(tmp_path / "ledger.db"), clock)
    try:
        run = ledger.run(lambda tx: create_run(tx, PLAN, "/project", "/project/out", "/project/t.yaml")).run
        ledger.run(lambda tx: tx.delete(f"queued/{run}"))
        for member, process in (("captain", FIRST), ("watchdog", SECOND)):
            record = CrewRecord(host="", member=member, run=run, process=process, started=clock.now())
            ledger.run(lambda tx, record=record: save(tx, record))  # type: ignore[misc]
        leader = dispatcher(ledger, clock.now())
        clock.advance(60.0)
        ledger.locked = True
        hands = Ending()
        world = World(SilentEyes(silent, (FIRST,) if captain_dead else ()), hands)
        with pytest.raises(LedgerLockedError):
            leader.step(world, ledger, clock.now())
        assert hands.ended == ended
    finally:
        ledger.close()
