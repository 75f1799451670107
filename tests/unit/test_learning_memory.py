"""Memory peaks become profiles: what ends a life or a phase, what teaches nothing, and what a lost write costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dogwatch.coordination.memory import PHASES_MAX
from dogwatch.crew.dispatcher.learning import BRIEF_S, GONE_S, KEEP_S, WAITING_MAX, Peaks
from dogwatch.errors import StaleError
from dogwatch.ledger.api import Lease, Store
from dogwatch.ledger.records import load, load_all
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.model.admission import MemoryProfile
from dogwatch.model.folders import folder_at
from dogwatch.model.life import NotStarted
from dogwatch.model.memory import AgentMemory
from dogwatch.model.plan import ByteCheck, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import RunRecord, Stage
from dogwatch.policy.forecast import by_key, demand_of, quantiles
from dogwatch.policy.learning import SAMPLES_MAX
from dogwatch.testing.clock import ManualClock
from support.records import living_agent

PLAN = Plan(
    name="book",
    roles=(Role(name="writer", harness="claude"),),
    phases=(Phase(name="draft"), Phase(name="review")),
    deliverable=ByteCheck(path="a"),
)
PROCESS = ProcessId("boot-1", 100, 1)


class Host:
    """One writer under a dispatcher's eyes."""

    def __init__(self, ledger: Store, clock: ManualClock) -> None:
        self.ledger, self.clock, self.peaks = ledger, clock, Peaks()
        self.lease = self.take()
        self.run = RunRecord(
            run="book-1", spec="s", project_folder=folder_at("p"), output_folder=folder_at("o"), created=clock.now()
        )
        self.agent = living_agent(since=clock.now(), run="book-1", process=PROCESS)

    def take(self) -> Lease:
        lease = self.ledger.run(lambda tx: tx.acquire("dispatcher/", "me", 1e6))
        assert lease is not None
        return lease

    def look(
        self, rss: int, *, state: str = "BUSY", phase: int = 0, incarnation: int = 1, after_s: float = 2.0
    ) -> None:
        """One look at the living writer, a while after the last."""
        self.clock.advance(after_s)
        agent = replace(self.agent, busy=state == "BUSY", incarnation=incarnation)
        memory = {"book-1/writer": AgentMemory(rss_bytes=rss)}
        self.peaks.see(replace(self.run, phase=phase), PLAN, [agent], memory, self.clock.now())

    def keep(self, after_s: float = GONE_S + 1) -> int:
        """The writer is not seen any more."""
        self.clock.advance(after_s)
        return self.peaks.keep(self.ledger, self.lease, self.clock.now())

    def profile(self, role: str = "writer", pipeline: str = "book") -> Mapping[str, tuple[int, ...]]:
        key = MemoryProfile(harness="claude", pipeline=pipeline, role=role).key
        found = self.ledger.read(lambda reader: load(reader, MemoryProfile, key))
        return found.peaks if found is not None else {}

    @property
    def harness(self) -> Mapping[str, tuple[int, ...]]:
        return self.profile("", "")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    clock = ManualClock()
    store = SqliteStore(str(tmp_path / "ledger.db"), clock)
    yield Host(store, clock)
    store.close()


def test_a_life_that_is_over_teaches_its_peak(host: Host) -> None:
    for rss in (100, 900, 300):
        host.look(rss)
    assert host.keep(after_s=1.0) == 0, "it lives"
    assert host.keep() == 2
    assert host.profile() == {"draft": (900,), "all": (900,)}
    assert host.harness == {"all": (900,)}, "phases are a pipeline's own"


def test_each_phase_teaches_when_the_next_begins(host: Host) -> None:
    host.look(900)
    host.look(100, phase=1)
    host.look(300, phase=1)
    assert host.keep(after_s=1.0) == 1
    assert host.profile() == {"draft": (900,)}
    host.clock.advance(KEEP_S)
    assert host.keep() == 2
    assert host.profile() == {"draft": (900,), "review": (300,), "all": (900,)}


def test_the_next_incarnation_ends_the_life_of_the_last(host: Host) -> None:
    host.look(900)
    host.look(200, incarnation=2)
    assert host.keep(after_s=1.0) == 2
    host.look(250, incarnation=2, after_s=KEEP_S)
    assert host.keep() == 2
    assert host.profile()["all"] == (900, 250)


def test_a_look_that_fails_ends_nobody(host: Host) -> None:
    host.look(900)
    host.clock.advance(GONE_S - 3)
    assert host.keep(after_s=1.0) == 0
    host.look(400, after_s=1.0)
    host.keep()
    assert host.profile()["all"] == (900,)


def test_a_dispatcher_that_has_slept_ends_nobody_who_is_there_again(host: Host) -> None:
    host.look(900)
    host.look(400, after_s=600.0)
    assert host.keep(after_s=0.0) == 0


def test_a_short_life_without_work_teaches_nothing(host: Host) -> None:
    host.look(900, state="WAITING")
    host.look(900, state="WAITING", after_s=BRIEF_S - 1)
    assert host.keep() == 0
    assert host.profile() == {}


def test_a_long_life_without_work_teaches(host: Host) -> None:
    host.look(900, state="WAITING")
    host.look(900, state="WAITING", after_s=BRIEF_S)
    host.keep()
    assert host.profile() == {"draft": (900,), "all": (900,)}


def test_a_phase_that_an_agent_only_saw_the_beginning_of_teaches_nothing_of_it(host: Host) -> None:
    host.look(900)
    host.look(900, phase=1, state="WAITING")
    host.keep()
    assert host.profile() == {"draft": (900,), "all": (900,)}


def test_after_the_last_phase_only_the_life_goes_on(host: Host) -> None:
    host.look(500)
    host.look(900, phase=2)
    host.keep()
    assert host.profile() == {"draft": (500,), "all": (900,)}


def test_a_rehearsal_teaches_nothing(host: Host) -> None:
    host.run = replace(host.run, stage=Stage(folder="f", port=1))
    host.look(900)
    assert host.keep() == 0


def test_who_is_not_seen_or_has_no_process_is_not_noted(host: Host) -> None:
    now = host.clock.now()
    memory = {"book-1/writer": AgentMemory(rss_bytes=900)}
    host.peaks.see(host.run, PLAN, [replace(host.agent, life=NotStarted(), busy=True)], memory, now)
    host.peaks.see(host.run, PLAN, [replace(host.agent, busy=True)], {}, now)
    host.peaks.see(host.run, PLAN, [replace(host.agent, role="of-an-older-plan", busy=True)], memory, now)
    host.look(0)
    assert host.keep() == 0, "nothing was measured"


def test_a_phase_that_is_called_all_is_kept_apart_from_lives(host: Host) -> None:
    for phase, rss in (("all", 900), ("draft", 100)):
        host.clock.advance(2.0)
        place = ("book-1", "writer", 1, "writer", "claude", "book")
        host.peaks.note(*place, phase, rss, now=host.clock.now(), worked=True)
    host.keep()
    assert host.profile() == {"draft": (100,), "all": (900,)}


def test_the_ledger_is_written_once_in_a_while(host: Host) -> None:
    host.look(900)
    assert host.keep() == 2
    before = host.ledger.read(lambda reader: reader.get(MemoryProfile(harness="claude").key))
    host.look(800, incarnation=2, after_s=0.1)
    host.look(700, incarnation=3, after_s=0.1)
    assert host.keep(after_s=0.1) == 0
    assert host.ledger.read(lambda reader: reader.get(MemoryProfile(harness="claude").key)) == before
    assert host.keep(after_s=KEEP_S) == 4
    assert host.profile()["all"] == (900, 800, 700)


def test_what_could_not_be_written_is_written_the_next_time(host: Host) -> None:
    host.look(900)
    host.clock.advance(GONE_S + 1)
    host.ledger.run(lambda tx: tx.release(host.lease))
    with pytest.raises(StaleError):
        host.keep(after_s=0.0)
    assert host.profile() == {}, "another dispatcher writes now"
    host.lease = host.take()
    assert host.keep(after_s=0.0) == 2
    assert host.profile() == {"draft": (900,), "all": (900,)}


def test_what_waits_for_the_ledger_has_a_limit(host: Host) -> None:
    for incarnation in range(1, WAITING_MAX):
        host.look(incarnation, incarnation=incarnation)
    assert host.keep() == WAITING_MAX
    assert host.profile()["all"][-1] == WAITING_MAX - 1


def test_the_newest_peaks_count(host: Host) -> None:
    for number in range(1, SAMPLES_MAX + 11):
        host.look(number, incarnation=number)
    host.keep()
    assert host.profile()["all"] == host.harness["all"] == tuple(range(11, SAMPLES_MAX + 11))


def test_phases_with_ever_new_names_do_not_fill_the_ledger(host: Host) -> None:
    place = ("book-1", "writer", 1, "writer", "claude", "book")
    for number in range(PHASES_MAX + 5):
        host.clock.advance(2.0)
        host.peaks.note(*place, f"phase-{number}", 7, now=host.clock.now(), worked=True)
    host.keep()
    found = host.profile()
    assert len(found) == PHASES_MAX + 1
    assert "all" in found
    assert f"phase-{PHASES_MAX + 4}" in found
    assert "phase-4" not in found


def test_what_was_learnt_is_what_is_forecast(host: Host) -> None:
    for number, rss in enumerate((400, 500, 600), 1):
        host.look(rss, incarnation=number)
    host.keep()
    profiles = by_key(host.ledger.read(lambda reader: load_all(reader, MemoryProfile, "profile/")))
    for pipeline, role in (("book", "writer"), ("book", "judge"), ("atlas", "writer")):
        found = demand_of(profiles, "claude", pipeline, role, "draft")
        assert (found.mean_bytes, found.learnt) == (500.0, True)
    shown = quantiles(profiles["profile/claude/book/writer"], "draft")
    assert shown is not None
    assert (shown.samples, shown.p50_bytes, shown.p99_bytes) == (3, 500, 600)
