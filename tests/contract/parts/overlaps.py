"""Transactions that overlap, fail, are interrupted or are very large: one after the other, all of it or nothing."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

import pytest

from contract.parts.opener import Opener
from contract.parts.processes import child, finish, follow
from dogwatch.errors import ConflictError, StaleError, UsageError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import START, Item, Reader, Store, Tx
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from support.helpers import wait_for

MEET_S = 1.0


def together(opener: Opener, *steps: Callable[[Tx, Callable[[], None]], object]) -> None:
    """Runs each step in a thread and a store of its own. What they call in the middle waits for the others to come to
    the same place, or for a while: where the engine lets only one writer in, the others never come."""
    barrier = threading.Barrier(len(steps))
    failed: list[BaseException] = []

    def meet() -> None:
        with suppress(threading.BrokenBarrierError):
            barrier.wait(MEET_S)

    def work(step: Callable[[Tx, Callable[[], None]], object]) -> None:
        try:
            with closing(open_store(opener.url, SystemClock())) as store:
                store.run(lambda tx: step(tx, meet))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)


def quiet(store: Store) -> None:
    """Empties the doorbell, and waits until it stays empty."""
    wait_for(
        lambda: not store.wait(0) and not select.select([store.fileno()], [], [], 0.3)[0], what="an empty doorbell"
    )


class OverlapContract:
    """What any engine promises to transactions that get in each other's way."""

    def test_of_two_that_each_read_what_the_other_writes_the_second_decides_anew(self, opener: Opener) -> None:
        store = opener()
        store.run(lambda tx: (tx.put("duty/a", {"on": True}), tx.put("duty/b", {"on": True})))

        def leave(mine: str, other: str) -> Callable[[Tx, Callable[[], None]], None]:
            def step(tx: Tx, meet: Callable[[], None]) -> None:
                document = tx.get(other)
                assert document is not None
                meet()
                if document.body["on"]:
                    tx.put(mine, {"on": False})

            return step

        together(opener, leave("duty/a", "duty/b"), leave("duty/b", "duty/a"))
        assert sorted(d.body["on"] for d in store.read(lambda reader: reader.scan("duty/"))) == [False, True]

    @pytest.mark.parametrize("kind", ["documents", "items", "events", "leases"])
    def test_who_found_nothing_and_wrote_for_that_reason_was_right(self, opener: Opener, kind: str) -> None:
        def find(reader: Reader, name: str) -> bool:
            match kind:
                case "documents":
                    return bool(reader.scan(f"{name}/"))
                case "items":
                    return bool(reader.items(name))
                case "events":
                    return bool(reader.recent(1, kinds=[name]))
                case _:
                    return bool(reader.leases(f"{name}/"))

        def write(tx: Tx, name: str) -> None:
            match kind:
                case "documents":
                    tx.put(f"{name}/1", {})
                case "items":
                    tx.push(name, {})
                case "events":
                    tx.append(PlainEvent(name, {}))
                case _:
                    tx.acquire(f"{name}/1", "holder", 600)

        def unless(other: str, mine: str) -> Callable[[Tx, Callable[[], None]], None]:
            def step(tx: Tx, meet: Callable[[], None]) -> None:
                found = find(tx, other)
                meet()
                if not found:
                    write(tx, mine)

            return step

        store = opener()
        together(opener, unless("one", "two"), unless("two", "one"))
        assert store.read(lambda reader: sorted([find(reader, "one"), find(reader, "two")])) == [False, True]

    def test_known_and_new_ids_in_one_transaction_are_told_apart_and_the_rest_stands(self, opener: Opener) -> None:
        store = opener()
        store.run(lambda tx: (tx.append(PlainEvent("kind", {"n": 0}), "known"), tx.push("queue", {}, "known")))

        def mixed(tx: Tx) -> list[object]:
            return [
                tx.put("before", {}),
                tx.append(PlainEvent("kind", {"n": 1}), "new"),
                tx.append(PlainEvent("kind", {"n": 2}), "known"),
                tx.push("queue", {}, "known"),
                tx.append(PlainEvent("kind", {"n": 3})),
                tx.push("queue", {}, "new"),
                tx.append(PlainEvent("kind", {"n": 4}), "new"),
                tx.push("queue", {}, "new"),
                tx.put("after", {}),
            ]

        assert store.run(mixed) == [1, True, False, None, True, "new", False, None, 1]
        assert [event.body["n"] for event in store.since(START, 10)] == [0, 1, 3]
        assert [item.id for item in store.read(lambda reader: reader.items("queue"))] == ["known", "new"]
        assert [document.key for document in store.read(lambda reader: reader.scan(""))] == ["after", "before"]

    @pytest.mark.parametrize("verb", ["append", "push"])
    def test_a_function_that_fails_was_told_the_truth_before(self, opener: Opener, verb: str) -> None:
        store = opener()

        def once(tx: Tx) -> str:
            is_new = (
                tx.append(PlainEvent("kind", {}), "id") if verb == "append" else tx.push("queue", {}, "id") is not None
            )
            if not is_new:
                return "known"
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.run(once)
        store.run(lambda tx: (tx.append(PlainEvent("kind", {}), "id"), tx.push("queue", {}, "id")))
        assert store.run(once) == "known"

    def test_a_function_may_catch_every_refusal_and_go_on(self, opener: Opener) -> None:
        store = opener()
        lease = store.run(lambda tx: tx.acquire("lease", "a", 60))
        assert lease is not None
        store.run(lambda tx: tx.release(lease))
        store.run(lambda tx: tx.push("queue", {}, "item"))

        def stubborn(tx: Tx) -> None:
            item = tx.claim("queue", "a", 60)
            assert item is not None
            tx.give_back(item)
            for refused, fn in (
                (StaleError, lambda: tx.check(lease)),
                (StaleError, lambda: tx.renew(lease, 60)),
                (StaleError, lambda: tx.ack(item)),
                (ConflictError, lambda: tx.put("key", {}, revision=3)),
                (ConflictError, lambda: tx.delete("key", revision=3)),
                (UsageError, lambda: tx.append(PlainEvent("", {}))),
                (UsageError, lambda: tx.put("key", {"n": float("nan")})),
            ):
                tx.append(PlainEvent("tried", {}))
                try:
                    fn()
                except refused:
                    continue
                raise AssertionError(refused)

        store.run(stubborn)
        assert len(store.since(START, 100)) == 7
        assert [item.state for item in store.read(lambda reader: reader.items("queue"))] == ["ready"]

    def test_a_cursor_of_recent_misses_nothing_that_is_committed_later(self, opener: Opener) -> None:
        store, count = opener(), 80
        samples: list[tuple[str, set[tuple[str, int]]]] = []

        def look(reader: Reader) -> tuple[str, set[tuple[str, int]]]:
            newest = reader.recent(1)
            seen = {(e.body["writer"], e.body["n"]) for e in reader.recent(10_000)}
            return newest[-1].cursor if newest else START, seen

        with ExitStack() as stack:
            writers = [stack.enter_context(child(opener, "append", name, str(count))) for name in "abcd"]
            while any(writer.poll() is None for writer in writers):
                samples.append(store.read(look))
            for writer in writers:
                finish(writer)
        everything = {(name, n) for name in "abcd" for n in range(1, count + 1)}
        assert store.read(look)[1] == everything
        for cursor, seen in samples[:: max(1, len(samples) // 50)]:
            followed = {(e.body["writer"], e.body["n"]) for e in follow(store, cursor, n=500)}
            assert everything - seen <= followed

    def test_an_interrupt_inside_the_function_undoes_it_and_the_store_goes_on(self, opener: Opener) -> None:
        store = opener()

        def interrupt(tx: Tx) -> None:
            tx.append(PlainEvent("undone", {}))
            tx.put("key", {})
            raise KeyboardInterrupt

        def interrupt_reading(reader: Reader) -> None:
            reader.get("key")
            raise KeyboardInterrupt

        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                store.run(interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.read(interrupt_reading)
            store.run(lambda tx: tx.append(PlainEvent("kept", {})))
        assert [event.kind for event in store.since(START, 10)] == ["kept"] * 3
        assert store.read(lambda reader: reader.get("key")) is None

    def test_a_thousandfold_transaction_is_one_transaction(self, opener: Opener) -> None:
        store = opener()

        def large(tx: Tx) -> None:
            for n in range(1500):
                tx.append(PlainEvent("kind", {"n": n}), f"op-{n}")
                tx.push("queue", {"n": n}, f"item-{n}")
                if n % 5 == 0:
                    tx.put(f"key/{n:04}", {"n": n})

        def fail(tx: Tx) -> None:
            large(tx)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.run(fail)
        assert store.since(START, 1) == []
        store.run(large)
        assert [event.body["n"] for event in follow(store, n=400)] == list(range(1500))
        assert [item.body["n"] for item in store.read(lambda reader: reader.items("queue"))] == list(range(1500))
        assert len(store.read(lambda reader: reader.scan("key/"))) == 300

    def test_many_large_bodies_go_through_in_one_transaction(self, opener: Opener) -> None:
        store, text = opener(), "x" * 1_000_000

        def large(tx: Tx) -> None:
            for n in range(8):
                tx.append(PlainEvent("kind", {"n": n, "text": text}))
                tx.push("queue", {"n": n, "text": text})
                tx.put(f"key/{n}", {"n": n, "text": text})

        store.run(large)
        expected = [{"n": n, "text": text} for n in range(8)]
        assert [event.body for event in store.since(START, 100)] == expected
        assert [item.body for item in store.read(lambda reader: reader.items("queue"))] == expected
        assert [document.body for document in store.read(lambda reader: reader.scan("key/"))] == expected

    def test_several_items_are_done_together_or_not_at_all(self, opener: Opener) -> None:
        store = opener()
        store.run(lambda tx: [tx.push("queue", {}, name) for name in "abc"])
        items = [store.run(lambda tx: tx.claim("queue", "holder", 60)) for _ in range(3)]
        a, b, c = [item for item in items if item is not None]
        store.run(lambda tx: tx.give_back(c))

        def finish_all(tx: Tx, *claimed: Item) -> None:
            for item in claimed:
                tx.ack(item)

        with pytest.raises(StaleError):
            store.run(lambda tx: finish_all(tx, a, b, c))
        assert [item.state for item in store.read(lambda reader: reader.items("queue"))] == [
            *("claimed", "claimed", "ready")
        ]
        store.run(lambda tx: finish_all(tx, a, b))
        assert [item.id for item in store.read(lambda reader: reader.items("queue"))] == ["c"]

    def test_six_processes_share_a_queue_with_nothing_twice_and_nothing_left(self, opener: Opener) -> None:
        store = opener()
        store.run(lambda tx: [tx.push("queue", {}, f"item-{n}") for n in range(120)])
        with ExitStack() as stack:
            claimers = [stack.enter_context(child(opener, "drain", "queue", name)) for name in "abcdef"]
            done = [item for claimer in claimers for item in finish(claimer)]
        assert sorted(done) == sorted(f"item-{n}" for n in range(120))
        assert store.read(lambda reader: reader.items("queue")) == []

    def test_only_one_of_several_processes_is_inside_a_lease_at_a_time(self, opener: Opener) -> None:
        store = opener()
        with ExitStack() as stack:
            racers = [stack.enter_context(child(opener, "exclude", name, "12")) for name in "abcd"]
            fences = [int(fence) for racer in racers for fence in finish(racer)]
        assert sorted(fences) == list(range(1, 49))
        document = store.read(lambda reader: reader.get("inside"))
        assert document is not None
        assert (document.body, document.revision) == ({"holder": ""}, 96)

    def test_what_a_store_does_itself_does_not_make_its_doorbell_readable(self, opener: Opener) -> None:
        store = opener()
        quiet(store)
        for own in (
            lambda: store.read(lambda reader: reader.get("key")),
            lambda: store.since(START, 1),
            lambda: store.run(lambda tx: tx.append(PlainEvent("kind", {}))),
        ):
            for _ in range(3):
                own()
            assert not select.select([store.fileno()], [], [], 0.3)[0]

    def test_a_name_with_a_nul_is_never_taken_for_the_part_before_it(self, opener: Opener) -> None:
        store = opener()
        store.run(
            lambda tx: (tx.put("key", {}), tx.push("queue", {}, "item"), tx.append(PlainEvent("kind", {}, run="run")))
        )
        for read in (
            lambda reader: reader.get("key\0x"),
            lambda reader: reader.scan("key\0"),
            lambda reader: reader.items("queue\0x"),
            lambda reader: reader.recent(1, "run\0x"),
            lambda reader: reader.recent(1, kinds=["kind\0x"]),
        ):
            with suppress(UsageError):
                assert not store.read(read)
        for write in (
            lambda tx: tx.delete("key\0x"),
            lambda tx: tx.claim("queue\0x", "a", 60),
            lambda tx: tx.claim("queue", "a", 60, "item\0x"),
        ):
            with suppress(UsageError):
                assert store.run(write) is None
        assert store.read(lambda reader: reader.get("key")) is not None
        assert [item.state for item in store.read(lambda reader: reader.items("queue"))] == ["ready"]

    def test_a_store_that_was_interrupted_anywhere_gives_right_answers_and_loses_nothing(self, opener: Opener) -> None:
        with child(opener, "interrupted", "150") as process:
            assert int(finish(process)[-1]) > 0
