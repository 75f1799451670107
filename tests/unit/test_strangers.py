"""What no pattern knows is kept for people: screens once each, and hook events that nobody understands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dogwatch.cli.explain import _sentences, _story
from dogwatch.cli.harness import compare
from dogwatch.coordination.runs import create_run
from dogwatch.crew.shared.tallies import TallyReader
from dogwatch.crew.watchdog.strangers import SHAPES_MAX, STOOD_S, Strangers, shape_of
from dogwatch.harness import harness
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Lease, Store
from dogwatch.ledger.records import load_run
from dogwatch.model.plan import ByteCheck, Dispatch, Phase, Plan, Role
from dogwatch.model.sight import Sight
from dogwatch.model.spool import PAYLOAD_BYTES_MAX, render
from dogwatch.model.view import RunView
from dogwatch.testing.clock import ManualClock
from support.helpers import events_of

STRANGE = Sight(process="alive", strange=True, lines=("A new menu", "3 of 12"))


class Watch:
    """A run whose agents are looked at, on a clock that is turned by hand."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.ledger: Store = open_store(str(path), self.clock)
        roles = (Role(name="writer", harness="claude"), Role(name="tool", harness="command", command=("true",)))
        phase = Phase(name="p", dispatches=(Dispatch(name="d", to="writer", task="x"),))
        plan = Plan(name="t", roles=roles, phases=(phase,), deliverable=ByteCheck(path="d"))
        self.run = self.ledger.run(lambda tx: create_run(tx, plan, "/p", "/o", "s")).run
        lease = self.ledger.run(lambda tx: tx.acquire("watchdog/t-1", "me", 1e6))
        assert lease is not None
        self.lease: Lease = lease
        self.strangers = Strangers()

    @property
    def view(self) -> RunView:
        return self.ledger.read(lambda reader: load_run(reader, self.run))

    def look(self, sight: Sight, agent: str = "writer", after_s: float = 0.0, incarnation: int = 1) -> int:
        """One look; returns how many screens were told of until now."""
        self.clock.advance(after_s)
        view = self.view
        agents = {agent: replace(view.agents[agent], incarnation=incarnation)}
        self.strangers.look(self.ledger, self.lease, replace(view, agents=agents), {agent: sight}, self.clock.now())
        return len(events_of(self.ledger, "screen_unknown"))


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    found = Watch(tmp_path / "ledger.db")
    yield found
    found.ledger.close()


def test_a_screen_that_stands_is_told_once_with_its_lines(watch: Watch) -> None:
    assert watch.look(STRANGE) == 0
    assert watch.look(STRANGE, after_s=STOOD_S / 2) == 0
    assert watch.look(STRANGE, after_s=STOOD_S) == 1
    assert watch.look(replace(STRANGE, lines=("A new menu", "4 of 12")), after_s=1) == 1
    (event,) = events_of(watch.ledger, "screen_unknown", "writer")
    assert event.body["lines"] == ["A new menu", "3 of 12"]
    assert (event.body["harness"], event.body["tested"]) == ("claude", harness("claude").version)
    watch.strangers = Strangers()
    watch.look(STRANGE)
    assert watch.look(STRANGE, after_s=2 * STOOD_S) == 1, "a watchdog that starts anew tells nothing twice"
    watch.look(STRANGE, incarnation=2)
    assert watch.look(STRANGE, after_s=2 * STOOD_S, incarnation=2) == 2


def test_the_lines_of_an_unknown_screen_are_explained(watch: Watch) -> None:
    watch.look(STRANGE)
    watch.look(replace(STRANGE, lines=("A new \x1b[2Jmenu",)), after_s=2 * STOOD_S)
    agent = watch.view.agents["writer"]
    story = watch.ledger.read(lambda reader: _story(reader, agent, 5))
    told = "\n".join(_sentences(*story, watch.clock.now()))
    assert "the screen of writer is not understood (claude, tested with" in told
    assert "│ A new " in told
    assert "\x1b" not in told
    assert "dogwatch harness check claude" in told


def test_what_passes_is_dead_or_is_a_plain_command_is_no_stranger(watch: Watch) -> None:
    watch.look(STRANGE)
    assert watch.look(Sight(process="alive", screen="idle"), after_s=2 * STOOD_S) == 0
    for sight, agent in ((replace(STRANGE, process="dead"), "writer"), (STRANGE, "tool")):
        watch.look(sight, agent)
        assert watch.look(sight, agent, after_s=2 * STOOD_S) == 0


def test_only_so_many_screens_of_an_incarnation_are_kept(watch: Watch) -> None:
    for number in range(3 * SHAPES_MAX):
        told = watch.look(replace(STRANGE, lines=("x" * number,)), after_s=2 * STOOD_S)
    assert told == SHAPES_MAX


def test_screens_that_differ_in_numbers_alone_have_one_shape() -> None:
    assert shape_of(["12 s", "a"]) == shape_of(["3 s", "a"])
    assert shape_of(["12 s", "a"]) != shape_of(["12 s", "b"])


def test_hook_events_that_nobody_understands_are_counted(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    long = b'{"a": "' + b"x" * 2 * PAYLOAD_BYTES_MAX + b'"}'
    lines = [
        render(1.0, 1.0, 1, 7, "SessionStart", {}),
        render(2.0, 2.0, 1, 7, "MoonRise", {}),
        b"1\t3.0\t3.0\t1\t7\tPreToolUse\t4\toops\n",
        b"1\t4.0\t4.0\t2\t7\tPreToolUse\t0\t\n",
        b"1\t5.0\t5.0\t1\t7\tPreToolUse\t%d\t%s\n" % (len(long), long[:PAYLOAD_BYTES_MAX]),
        b"1\t6.0\t6.0\t1\t7\tDelivered\t5\twords\n",
    ]
    spool.write_bytes(b"".join(lines))
    tally, _ = TallyReader(str(spool), harness("claude")).read()
    assert {number: dict(one.unread) for number, one in tally.incarnations.items()} == {
        "1": {"MoonRise": 1, "PreToolUse": 1},
        "2": {"PreToolUse": 1},
    }


@pytest.mark.parametrize(
    ("version", "differs"),
    [("2.1.325", "same"), ("2.1.326", "newer"), ("2.1.99", "older"), ("3", "newer"), ("", "unknown"), ("x", "unknown")],
)
def test_versions_are_compared_by_their_numbers(version: str, differs: str) -> None:
    assert compare(version, "2.1.325") == differs
