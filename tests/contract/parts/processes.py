"""Several processes on one ledger: nothing missed, nothing lost, nothing twice."""

from __future__ import annotations

import random
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from contract.parts.opener import Opener
from dogwatch.ledger.api import START, Store, StoredEvent, Tx
from dogwatch.testing.events import PlainEvent
from support.helpers import wait_for

CHILD = Path(__file__).with_name("child.py")


@contextmanager
def child(opener: Opener, verb: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that works on the same ledger; gone at the end, whatever happens."""
    argv = [sys.executable, str(CHILD), verb, opener.url, *arguments]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str]) -> list[str]:
    """What the process printed until its good end."""
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output.split()


def follow(store: Store, cursor: str = START, n: int = 7) -> list[StoredEvent]:
    """All events after the cursor, read in small steps."""
    found: list[StoredEvent] = []
    while batch := store.since(cursor, n):
        found += batch
        cursor = batch[-1].cursor
    return found


class ProcessContract:
    """What any engine promises to several processes at once."""

    def test_a_follower_misses_nothing_of_several_writers_and_sees_the_order_of_the_commits(
        self, opener: Opener
    ) -> None:
        store, count = opener(), 150
        seen: list[StoredEvent] = []
        with ExitStack() as stack:
            writers = [stack.enter_context(child(opener, "append", name, str(count))) for name in "abcd"]
            while len(seen) < 4 * count:
                seen += follow(store, seen[-1].cursor if seen else START)
                if len(seen) < 4 * count and all(writer.poll() == 0 for writer in writers):
                    seen += follow(store, seen[-1].cursor if seen else START)
                    break
                store.wait(1)
            for writer in writers:
                assert finish(writer) == [str(n) for n in range(1, count + 1)]
        for name in "abcd":
            assert [e.body["n"] for e in seen if e.body["writer"] == name] == list(range(1, count + 1))
        assert follow(opener()) == seen

    def test_no_increment_of_several_writers_is_lost(self, opener: Opener) -> None:
        store = opener()
        with ExitStack() as stack:
            writers = [stack.enter_context(child(opener, "increment", "counter", "60")) for _ in range(4)]
            for writer in writers:
                finish(writer)
        document = store.read(lambda reader: reader.get("counter"))
        assert document is not None
        assert (document.body, document.revision) == ({"n": 240}, 240)

    def test_every_item_goes_to_exactly_one_of_several_claimers(self, opener: Opener) -> None:
        store = opener()

        def fill(tx: Tx) -> None:
            for n in range(100):
                tx.push("queue", {}, f"item-{n}")

        store.run(fill)
        with ExitStack() as stack:
            claimers = [stack.enter_context(child(opener, "drain", "queue", name)) for name in "abc"]
            done = [item for claimer in claimers for item in finish(claimer)]
        assert sorted(done) == sorted(f"item-{n}" for n in range(100))

    def test_a_commit_of_another_process_rings_the_doorbell(self, opener: Opener) -> None:
        store = opener()
        assert store.wait(60)
        wait_for(lambda: not store.wait(0), what="an empty doorbell")
        with child(opener, "append", "a", "1") as writer:
            readable, _, _ = select.select([store.fileno()], [], [], 60)
            assert readable
            assert len(store.since(START, 10)) == 1
            assert finish(writer) == ["1"]
        assert store.wait(0)

    def test_a_waiter_comes_back_for_a_commit_and_not_for_its_own(self, opener: Opener) -> None:
        store, other = opener(), opener()
        wait_for(lambda: not store.wait(0), what="an empty doorbell")
        store.run(lambda tx: tx.append(PlainEvent("own", {})))
        assert not store.wait(0)
        for _ in range(1000):
            other.run(lambda tx: tx.put("key", {}))
        assert store.wait(60)
        wait_for(lambda: not store.wait(0), what="an empty doorbell")

    def test_no_acknowledged_append_is_lost_when_its_writers_are_killed(self, opener: Opener) -> None:
        dice = random.Random(75)
        for turn in range(4):
            with ExitStack() as stack:
                names = [f"{turn}-{number}" for number in range(2)]
                writers = [stack.enter_context(child(opener, "append", name, "0")) for name in names]
                printed: dict[str, list[int]] = {}
                for name, writer in zip(names, writers, strict=True):
                    assert writer.stdout is not None
                    printed[name] = [int(writer.stdout.readline()) for _ in range(dice.randint(1, 60))]
                for writer in writers:
                    writer.kill()
                for name, writer in zip(names, writers, strict=True):
                    assert writer.stdout is not None
                    rest = writer.stdout.read()
                    printed[name] += [int(line) for line in rest[: rest.rfind("\n") + 1].split()]
            store = opener()
            events = follow(store, n=1000)
            for name, numbers in printed.items():
                kept = [event.body["n"] for event in events if event.body["writer"] == name]
                assert kept == list(range(1, len(kept) + 1))
                assert numbers[-1] <= len(kept) <= numbers[-1] + 1
            store.run(lambda tx: tx.put("turn", {}))
            store.close()
