"""The machine for durable jobs, broken off wherever a kill could do it, with each rule that its kinds differ in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dogwatch.coordination.runs import create_run
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.jobs import Attempts, Ended, Job, advance
from dogwatch.crew.shared.log import Log
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load, save
from dogwatch.model.jobs import NoticeRecord
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from support.cli_ledgers import PLAN, ledger_at

TWICE = Attempts(attempts_max=2)


class KilledError(BaseException):
    """The captain is gone at this place."""


@dataclass
class Errand(Job[NoticeRecord, str]):
    """A job that exists in memory only: `results` by attempt, processes that are `alive` by pid, which is the attempt's
    number; `watched` are those whose end would wake the captain."""

    store: Store
    run: str
    attempts: Attempts = TWICE
    at_start: BaseException | Ended[str] | None = None
    later_s: float = 0.0
    started: list[int] = field(default_factory=list)
    concluded: list[tuple[int, str]] = field(default_factory=list)
    results: dict[int, Ended[str]] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    watched: set[int] = field(default_factory=set)

    def step(self) -> bool:
        """One step of a captain that knows nothing but the ledger."""
        lease = self.store.run(lambda tx: tx.acquire(f"captain/{self.run}", "captain", 60.0))
        assert lease is not None
        self.watched.clear()
        world: Any = SimpleNamespace(eyes=self, hands=None)
        helm = Helm(world, self.store, lease, self.run, self.now(), Log("captain", self.run))
        return advance(helm, self, self.known())

    def now(self) -> Moment:
        return self.store.run(lambda tx: tx.now).plus(self.later_s)

    def known(self) -> NoticeRecord | None:
        return self.store.read(lambda reader: load(reader, NoticeRecord, self.attempt(1).key))

    def end(self) -> None:
        """All processes of the job die."""
        self.alive.clear()

    def attempt(self, number: int) -> NoticeRecord:
        return NoticeRecord(run=self.run, item="i", attempt=number)

    def start(self, record: NoticeRecord) -> ProcessId | Ended[str]:
        assert self.known() == record, "it is recorded before it is started"
        self.started.append(record.attempt)
        if isinstance(self.at_start, BaseException):
            raise self.at_start
        if self.at_start is not None:
            return self.at_start
        self.alive.add(record.attempt)
        return ProcessId("boot", record.attempt, 1)

    def result(self, record: NoticeRecord) -> Ended[str] | None:
        return self.results.get(record.attempt)

    def lost(self, record: NoticeRecord) -> str:
        return "lost"

    def conclude(self, record: NoticeRecord, result: str) -> None:
        self.concluded.append((record.attempt, result))

    def life(self, process: ProcessId) -> str:
        return "alive" if process.pid in self.alive else "dead"

    def watch_also(self, process: ProcessId) -> None:
        self.watched.add(process.pid)

    def pulse(self) -> None:
        pass


@pytest.fixture
def errand(tmp_path: Path) -> Iterator[Errand]:
    with ledger_at(tmp_path) as store:
        run = store.run(lambda tx: create_run(tx, PLAN, "/p", "/p/out", "/p/pipeline.yaml")).run
        yield Errand(store, run)


def kill_at_start(errand: Errand) -> None:
    errand.at_start = KilledError()
    with pytest.raises(KilledError):
        errand.step()
    errand.at_start = None


def test_one_that_runs_is_watched_in_each_step_until_its_result_is_there(errand: Errand) -> None:
    assert not errand.step()
    assert errand.watched == {1}
    assert not errand.step()
    assert errand.watched == {1}
    errand.results[1] = Ended("done")
    assert errand.step()
    assert (errand.started, errand.concluded) == ([1], [(1, "done")])


def test_a_process_of_another_host_is_not_asked_for_and_the_next_attempt_follows(errand: Errand) -> None:
    errand.step()
    known = errand.known()
    assert known is not None
    assert known.host == errand.store.host
    errand.store.run(lambda tx: save(tx, replace(known, host="elsewhere")))
    errand.step()
    assert errand.started == [1, 2]
    assert errand.watched == {2}


def test_the_result_of_a_process_that_is_dead_counts(errand: Errand) -> None:
    errand.step()
    errand.end()
    errand.results[1] = Ended("done")
    assert errand.step()
    assert (errand.started, errand.concluded) == ([1], [(1, "done")])


def test_one_that_dies_without_a_result_is_tried_again_until_no_attempt_is_left(errand: Errand) -> None:
    errand.step()
    errand.end()
    assert not errand.step()
    assert (errand.started, errand.watched) == ([1, 2], {2})
    errand.end()
    assert errand.step()
    assert (errand.started, errand.concluded) == ([1, 2], [(2, "lost")])


def test_a_result_is_final_unless_it_says_that_another_attempt_may_end_better(errand: Errand) -> None:
    errand.step()
    errand.results = {1: Ended("refused", again=True), 2: Ended("refused", again=True)}
    errand.end()
    assert not errand.step()
    errand.end()
    assert errand.step()
    assert (errand.started, errand.concluded) == ([1, 2], [(2, "refused")])


def test_with_pauses_the_next_attempt_waits_for_its_time(errand: Errand) -> None:
    errand.attempts = Attempts(attempts_max=2, pauses_s=(1000.0,))
    errand.step()
    errand.end()
    assert errand.step(), "the attempt has ended"
    assert not errand.step()
    assert errand.started == [1]
    errand.later_s = 2000.0
    assert not errand.step()
    assert errand.started == [1, 2]
    errand.end()
    assert errand.step()
    assert errand.concluded == [(2, "lost")]


@pytest.mark.parametrize(("counts", "numbers"), [(False, [1, 1]), (True, [1, 2])])
def test_an_attempt_whose_captain_was_killed_is_made_again(errand: Errand, counts: bool, numbers: list[int]) -> None:
    errand.attempts = Attempts(attempts_max=2, counts_unconfirmed=counts)
    kill_at_start(errand)
    assert not errand.step()
    assert errand.started == numbers


def test_an_attempt_whose_captain_was_killed_is_not_made_again_where_its_result_is_there(errand: Errand) -> None:
    kill_at_start(errand)
    errand.results[1] = Ended("done")
    assert errand.step()
    assert (errand.started, errand.concluded) == ([1], [(1, "done")])


def test_where_no_attempt_is_left_one_whose_captain_was_killed_is_lost(errand: Errand) -> None:
    errand.attempts = Attempts(attempts_max=1, counts_unconfirmed=True)
    kill_at_start(errand)
    assert errand.step()
    assert (errand.started, errand.concluded) == ([1], [(1, "lost")])


@pytest.mark.parametrize(("again", "started"), [(False, [1]), (True, [1, 2])])
def test_one_that_cannot_be_started_has_ended(errand: Errand, again: bool, started: list[int]) -> None:
    errand.at_start = Ended("no such program", again)
    errand.step()
    assert (errand.started, errand.concluded) == (started, [(started[-1], "no such program")])
