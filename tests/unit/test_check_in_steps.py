"""A captain's steps with a check-in, broken off wherever a kill could do it: there is one letter in any case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dogwatch.coordination.runs import create_run
from dogwatch.crew.captain.checkins import look_after_check_ins
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.shared.log import Log
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import change, load_all
from dogwatch.model.keys import checkins_queue
from dogwatch.model.life import GivenUp
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord
from support.cli_ledgers import PLAN, ledger_at
from support.helpers import events_of, open_gate


class KilledError(BaseException):
    """The captain is gone at this place."""


class Captain:
    """A captain on a ledger of its own, whose check-ins only exist in memory: `results` by attempt, `alive` by pid."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.run = store.run(lambda tx: create_run(tx, PLAN, "/p", "/p/out", "/p/pipeline.yaml")).run
        self.started: list[int] = []
        self.forgotten: list[int] = []
        self.results: dict[int, tuple[int, str, str]] = {}
        self.alive: set[int] = set()
        self.at_start: BaseException | None = None
        body = {"agent": "writer", "to": "auditor-2", "question": "How far?"}
        self.item = store.run(lambda tx: tx.push(checkins_queue(self.run), body))

    def step(self) -> None:
        lease = self.store.run(lambda tx: tx.acquire(f"captain/{self.run}", "captain", 60.0))
        now = self.store.run(lambda tx: tx.now)
        assert lease is not None
        open_gate(self.store)
        world: Any = SimpleNamespace(eyes=self, hands=self)
        look_after_check_ins(Helm(world, self.store, lease, self.run, now, Log("captain", self.run)))

    def start_check_in(self, run: Any, plan: Any, agent: Any, item: str, question: str, attempt: int) -> ProcessId:
        self.started.append(attempt)
        if self.at_start is not None:
            raise self.at_start
        self.alive.add(attempt)
        return ProcessId("boot", attempt, 1)

    def check_in_result(self, run: str, item: str, attempt: int) -> tuple[int, str, str] | None:
        return self.results.get(attempt)

    def forget_check_in(self, run: str, item: str, attempts: int) -> None:
        self.forgotten.append(attempts)

    def life(self, process: ProcessId) -> str:
        return "alive" if process.pid in self.alive else "dead"

    def watch_also(self, process: ProcessId) -> None:
        assert process.pid in self.alive

    def pulse(self) -> None:
        pass

    def letters(self) -> list[tuple[str, str]]:
        found = self.store.read(lambda r: load_all(r, MessageRecord, f"message/{self.run}/"))
        return [(one.to, one.body) for one in found]

    def assert_settled(self) -> None:
        """Nothing is left to be done, and another step does nothing."""
        before, started = self.letters(), list(self.started)
        self.step()
        assert (self.letters(), self.started) == (before, started)
        assert not self.store.read(lambda r: [*r.items(checkins_queue(self.run)), *r.scan("check-in/")])
        assert len([e for e in events_of(self.store) if e.kind in ("check_in_answered", "check_in_failed")]) == 1


@pytest.fixture
def captain(tmp_path: Path) -> Iterator[Captain]:
    with ledger_at(tmp_path) as store:
        yield Captain(store)


def test_a_captain_killed_before_it_knew_the_process_finds_its_result(captain: Captain) -> None:
    captain.at_start = KilledError()
    with pytest.raises(KilledError):
        captain.step()
    captain.at_start = None
    captain.results[1] = (0, "Half of it.", "a warning")
    captain.step()
    assert captain.letters() == [("auditor-2", "Half of it.")]
    assert (captain.started, captain.forgotten) == ([1], [1])
    captain.assert_settled()


def test_what_is_broken_off_is_asked_once_more_and_then_told(captain: Captain) -> None:
    captain.at_start = KilledError()
    with pytest.raises(KilledError):
        captain.step()
    captain.at_start = None
    captain.step()
    captain.step()
    assert captain.started == [1, 2], "one that lives is waited for"
    captain.alive.clear()
    captain.step()
    assert captain.letters() == [("auditor-2", "The check-in of writer has no answer: it was broken off 2 times.")]
    captain.assert_settled()


def test_one_that_cannot_be_started_is_told(captain: Captain) -> None:
    captain.at_start = OSError(2, "No such file or directory")
    captain.step()
    ((_, text),) = captain.letters()
    assert text.startswith("The check-in of writer has no answer: it could not be started: ")
    assert captain.started == [1]
    captain.assert_settled()


@pytest.mark.parametrize(
    ("result", "reason", "lines"),
    [
        ((0, "", ""), "it ended without a word (exit code 0)", ""),
        ((0, "", "warning: low disk"), "it ended without a word (exit code 0)", "\nwarning: low disk"),
        ((1, "API Error", "a\nb\nc\nd\ne"), "exit code 1", "\na\nb\nc\nd\ne"),
        ((124, "", ""), "it did not answer within 300 s", ""),
    ],
)
def test_whatever_ends_without_an_answer_is_told_with_its_last_lines(
    captain: Captain, result: tuple[int, str, str], reason: str, lines: str
) -> None:
    captain.step()
    captain.results[1] = result
    captain.step()
    assert captain.letters() == [("auditor-2", f"The check-in of writer has no answer: {reason}.{lines}")]
    captain.assert_settled()


def test_a_token_in_an_answer_is_not_sent(captain: Captain) -> None:
    captain.step()
    captain.results[1] = (0, "I use ghp_" + "Ab3dE6gH9jK2" * 3, "")
    captain.step()
    assert captain.letters() == [("auditor-2", "I use [redacted:github]")]


def test_the_answer_goes_to_whoever_stands_in_the_receivers_place(captain: Captain) -> None:
    captain.step()
    key, gone = f"agent/{captain.run}/auditor-2", GivenUp(cause="replaced", successor="auditor-1")
    captain.store.run(lambda tx: change(tx, AgentRecord, key, lambda a: replace(a, life=gone)))
    captain.results[1] = (0, "Half of it.", "")
    captain.step()
    assert captain.letters() == [("auditor-1", "Half of it.")]
