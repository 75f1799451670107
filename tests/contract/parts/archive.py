"""The archive: whoever reads notices nothing of it, whoever writes neither."""

from __future__ import annotations

import base64
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from contract.parts.opener import Opener
from contract.parts.processes import child, finish, follow
from dogwatch.ledger.api import START, Store, StoredEvent, Tx
from dogwatch.ledger.checking import problems
from dogwatch.ledger.compaction import compact_part
from dogwatch.ledger.facts import sql
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent
from support.helpers import wait_for

COMPACTOR = Path(__file__).with_name("compactor.py")


@contextmanager
def compactor(opener: Opener, part: int) -> Iterator[subprocess.Popen[str]]:
    """A process that archives everything, in parts of so many events."""
    argv = [sys.executable, str(COMPACTOR), opener.url, str(part)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "0\n"
            yield process
        finally:
            process.kill()


def archived(store: Store) -> tuple[int, int]:
    """How many events are in the archive, and in how many parts."""
    rows = store.read(lambda reader: sql(reader).rows("SELECT coalesce(sum(events), 0), count(*) FROM archives"))
    return int(rows[0][0]), rows[0][1]


def archive(store: Store, before: float, wanted: int) -> None:
    """Archives what is older; on a server, that may have to wait for transactions of others."""

    def step() -> bool:
        store.run(lambda tx: compact_part(tx, before))
        return archived(store)[0] == wanted

    wait_for(step, what=f"{wanted} events in the archive")


def append(store: Store, n: int, kind: str, run: str) -> None:
    store.run(lambda tx: tx.append(PlainEvent(kind, {"n": n}, run=run), f"op-{n}" if n % 2 else ""))


def plain(events: Any) -> list[StoredEvent]:
    """The events without their cursors: that of one just made is not its own yet."""
    return [replace(event, cursor="") for event in events]


def answers(store: Store, cursors: list[str]) -> list[Any]:
    """Everything that can be asked about events."""
    found: list[Any] = []
    for cursor in (START, *cursors[::7]):
        for n in (0, 1, 5, 1000):
            found += [store.since(cursor, n, run) for run in ("", "a", "b", "none")]
    every = product((0, 1, 9, 1000), ("", "a", "none"), ((), ("x",), ("x", "y", "x"), ("none",)))
    return [
        *found,
        *(plain(recent) for recent in store.read(lambda reader: [reader.recent(*asked) for asked in every])),
    ]


class ArchiveContract:
    """What any engine promises about old events."""

    def test_no_answer_changes_while_events_go_into_the_archive(self, opener: Opener) -> None:
        clock = ManualClock()
        store, reader = opener(clock), opener()
        for n in range(60):
            append(store, n, "xyz"[n % 4 % 3], ("a", "b", "")[n % 3])
            clock.advance(1)
        events = wait_for(lambda: found if len(found := store.since(START, 100)) == 60 else [], what="all events")
        cursors = [event.cursor for event in events]
        before = answers(store, cursors)
        for count in (1, 14, 14, 33, 60):
            archive(store, events[0].at.wall + count - 0.5, count)
            for anybody in (store, reader, opener()):
                assert answers(anybody, cursors) == before
            assert store.read(lambda r: list(problems(r))) == []
        assert archived(store)[1] >= 4
        store.run(lambda tx: tx.append(PlainEvent("x", {"n": 60})))
        assert [event.body["n"] for event in store.since(cursors[58], 100)] == [59, 60]

    def test_an_operation_of_the_archive_is_not_recorded_again(self, opener: Opener) -> None:
        store, other = opener(), opener()
        store.run(
            lambda tx: (
                tx.append(PlainEvent("kind", {}), "one"),
                tx.append(PlainEvent("kind", {})),
                tx.append(PlainEvent("kind", {}), "two"),
            )
        )
        archive(store, math.inf, 3)

        def again(tx: Tx) -> list[bool]:
            return [tx.append(PlainEvent("kind", {"again": True}), op_id) for op_id in ("one", "new", "", "two", "new")]

        assert other.run(again) == [False, True, True, False, False]
        assert [event.op_id for event in follow(store)] == ["one", "", "two", "new", ""]
        assert store.run(lambda tx: tx.append(PlainEvent("kind", {}), "one")) is False

    def test_only_events_before_the_first_young_one_go(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        for step in (0, 100, -50, 10):
            clock.step_wall(step)
            store.run(lambda tx: tx.append(PlainEvent("kind", {})))
        archive(store, clock.now().wall + 1, 1)
        assert store.run(lambda tx: compact_part(tx, clock.now().wall + 1)) == (0, 0, 0)
        assert len(follow(store)) == 4

    def test_a_follower_misses_nothing_while_several_write_and_one_archives(self, opener: Opener) -> None:
        store, count = opener(), 100
        seen: list[StoredEvent] = []
        with ExitStack() as stack:
            packing = stack.enter_context(compactor(opener, 9))
            writers = [stack.enter_context(child(opener, "append", name, str(count))) for name in "abc"]

            def all_seen() -> bool:
                seen.extend(follow(store, seen[-1].cursor if seen else START))
                return len(seen) >= 3 * count

            wait_for(all_seen, 120, "all events")
            for writer in writers:
                assert finish(writer) == [str(n) for n in range(1, count + 1)]
            wait_for(lambda: archived(store)[0] == 3 * count, what="everything in the archive")
            assert packing.poll() is None
        for name in "abc":
            assert [e.body["n"] for e in seen if e.body["writer"] == name] == list(range(1, count + 1))
        for n in (1, 7, 1000):
            assert follow(opener(), n=n) == seen
        assert plain(store.read(lambda reader: reader.recent(1000))) == plain(seen)
        assert store.read(lambda reader: list(problems(reader))) == []

    def test_a_compactor_may_be_killed_at_any_time(self, opener: Opener) -> None:
        store, dice = opener(), random.Random(4)

        def fill(tx: Tx) -> None:
            for n in range(800):
                tx.append(PlainEvent("kind", {"n": n}, run="ab"[n % 2]), f"op-{n}")

        store.run(fill)
        events = wait_for(lambda: follow(store, n=1000), what="the events")
        assert len(events) == 800
        for _ in range(5):
            with compactor(opener, 3) as process:
                assert process.stdout is not None
                for _ in range(dice.randint(0, 12)):
                    assert int(process.stdout.readline()) <= 3
            assert follow(opener(), n=1000) == events
            assert store.read(lambda reader: list(problems(reader))) == []
        gone = archived(store)[0]
        assert 0 < gone < 800
        assert not any(store.run(lambda tx: [tx.append(PlainEvent("kind", {}), f"op-{n}") for n in range(800)]))

    def test_large_bodies_go_into_small_parts(self, opener: Opener) -> None:
        store, dice = opener(), random.Random(5)
        bodies = [{"n": n, "text": base64.b64encode(dice.randbytes(740_000)).decode()} for n in range(20)]
        store.run(lambda tx: [tx.append(PlainEvent("kind", body)) for body in bodies[:10]])
        store.run(lambda tx: [tx.append(PlainEvent("kind", body)) for body in bodies[10:]])
        archive(store, math.inf, 20)
        assert archived(store)[1] >= 2
        assert [event.body for event in follow(store)] == bodies
        assert [event.body for event in store.read(lambda reader: reader.recent(3))] == bodies[-3:]
