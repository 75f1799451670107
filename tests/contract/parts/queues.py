"""Queues: in order, claimed by one, delivered again when the claim runs out, done once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from contract.parts.opener import Opener
from dogwatch.errors import StaleError
from dogwatch.ledger.api import Item, Store, Tx
from dogwatch.testing.clock import ManualClock


def push(store: Store, *ids: str, ttl_s: float | None = None) -> None:
    def fill(tx: Tx) -> None:
        for identity in ids:
            tx.push("queue", {"id": identity}, identity, ttl_s=ttl_s)

    store.run(fill)


def claim(store: Store, holder: str = "a", ttl_s: float = 10, item_id: str = "") -> Item | None:
    return store.run(lambda tx: tx.claim("queue", holder, ttl_s, item_id))


def claimed(store: Store, holder: str = "a", ttl_s: float = 10, item_id: str = "") -> Item:
    item = claim(store, holder, ttl_s, item_id)
    assert item is not None
    return item


def standing(store: Store) -> list[tuple[str, str, str]]:
    return [(item.id, item.state, item.holder) for item in store.read(lambda reader: reader.items("queue"))]


def ack(store: Store, item: Item) -> None:
    store.run(lambda tx: tx.ack(item))


def give_back(store: Store, item: Item) -> None:
    store.run(lambda tx: tx.give_back(item))


def extend(store: Store, item: Item) -> Item:
    return store.run(lambda tx: tx.extend(item, 10))


USES: tuple[Callable[[Store, Item], object], ...] = (ack, give_back, extend)


class QueueContract:
    """What any engine promises about queues."""

    def test_items_are_claimed_in_the_order_of_pushing(self, opener: Opener) -> None:
        store = opener(ManualClock())
        push(store, "c", "a", "b")
        assert [claimed(store).id for _ in range(3)] == ["c", "a", "b"]
        assert claim(store) is None

    def test_an_item_says_all_about_itself(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        pushed = clock.now()
        push(store, "one", ttl_s=100)
        (ready,) = store.read(lambda reader: reader.items("queue"))
        assert ready == Item("queue", "one", {"id": "one"}, "ready", "", 0, 0, pushed, pushed.plus(100))
        clock.advance(1)
        item = claimed(store)
        assert item == Item("queue", "one", {"id": "one"}, "claimed", "a", 1, 1, pushed, clock.now().plus(10))
        assert store.read(lambda reader: reader.items("queue")) == [item]

    def test_queues_are_apart(self, opener: Opener) -> None:
        store = opener(ManualClock())
        store.run(lambda tx: (tx.push("one", {}, "id"), tx.push("two", {}, "id")))
        assert store.run(lambda tx: tx.claim("three", "a", 10)) is None
        assert store.run(lambda tx: tx.claim("two", "a", 10)) is not None
        assert [item.state for item in store.read(lambda reader: reader.items("one"))] == ["ready"]

    def test_the_queues_that_something_stands_in_are_found_by_their_prefix(self, opener: Opener) -> None:
        store = opener(ManualClock())

        def named(prefix: str) -> list[str]:
            return list(store.read(lambda reader: reader.queues(prefix)))

        assert named("") == []
        for queue in ("orders/2", "orders/10", "orders", "order%", "letters/1"):
            store.run(lambda tx, queue=queue: (tx.push(queue, {}, "a"), tx.push(queue, {}, "b")))  # type: ignore[misc]
        assert named("orders/") == ["orders/10", "orders/2"]
        assert named("") == ["letters/1", "order%", "orders", "orders/10", "orders/2"]
        for _ in range(2):
            item = store.run(lambda tx: tx.claim("orders/10", "a", 10))
            assert item is not None
            assert named("orders/") == ["orders/10", "orders/2"], "what is claimed stands there too"
            ack(store, item)
        assert named("orders/") == ["orders/2"]

    def test_an_item_without_an_id_gets_its_own(self, opener: Opener) -> None:
        store = opener(ManualClock())
        ids = [store.run(lambda tx: tx.push("queue", {})) for _ in range(3)]
        assert all(ids)
        assert len(set(ids)) == 3

    def test_an_id_is_accepted_once_also_after_it_is_done(self, opener: Opener) -> None:
        store = opener(ManualClock())
        push(store, "one")
        assert store.run(lambda tx: tx.push("queue", {"n": 2}, "one")) is None
        item = claimed(store)
        ack(store, item)
        assert store.run(lambda tx: tx.push("queue", {"n": 3}, "one")) is None
        assert claim(store) is None
        assert standing(store) == []

    def test_a_named_item_is_claimed_out_of_order(self, opener: Opener) -> None:
        store = opener(ManualClock())
        push(store, "one", "two")
        assert claimed(store, item_id="two").id == "two"
        assert claim(store, "b", item_id="two") is None
        assert claim(store, item_id="none") is None
        assert standing(store) == [("one", "ready", ""), ("two", "claimed", "a")]

    def test_a_claim_that_runs_out_makes_the_item_ready_and_its_next_delivery_is_counted(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        push(store, "one")
        first = claimed(store, "a")
        clock.advance(9.5)
        assert claim(store, "b") is None
        clock.advance(0.5)
        assert standing(store) == [("one", "ready", "")]
        second = claimed(store, "b")
        assert (first.deliveries, second.deliveries) == (1, 2)
        assert second.fence > first.fence
        for use in USES:
            with pytest.raises(StaleError):
                use(store, first)
        ack(store, second)
        assert standing(store) == []

    def test_a_claim_that_has_run_out_is_stale_though_nobody_else_has_the_item(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        push(store, "one")
        item = claimed(store)
        clock.advance(10)
        for use in USES:
            with pytest.raises(StaleError) as caught:
                use(store, item)
            assert caught.value.hint

    def test_an_item_is_done_once(self, opener: Opener) -> None:
        store = opener(ManualClock())
        push(store, "one")
        item = claimed(store)
        ack(store, item)
        for use in USES:
            with pytest.raises(StaleError):
                use(store, item)

    def test_what_was_never_claimed_cannot_be_done(self, opener: Opener) -> None:
        store = opener(ManualClock())
        push(store, "one")
        (ready,) = store.read(lambda reader: reader.items("queue"))
        for item in (ready, dataclasses.replace(ready, id="none", fence=1, holder="a")):
            with pytest.raises(StaleError):
                ack(store, item)

    def test_an_extended_claim_stands_longer(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        push(store, "one")
        item = claimed(store)
        for _ in range(3):
            clock.advance(9)
            item = extend(store, item)
        assert item.expires == clock.now().plus(10)
        assert claim(store, "b") is None
        ack(store, item)

    def test_an_item_given_back_is_ready_at_once_in_its_old_place(self, opener: Opener) -> None:
        store = opener(ManualClock())
        push(store, "one", "two")
        first = claimed(store, "a")
        give_back(store, first)
        second = claimed(store, "b")
        assert (second.id, second.deliveries) == ("one", 2)
        with pytest.raises(StaleError):
            ack(store, first)

    def test_a_reboot_ends_every_claim(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        push(store, "one")
        first = claimed(store, ttl_s=1000)
        clock.reboot()
        assert standing(store) == [("one", "ready", "")]
        with pytest.raises(StaleError):
            ack(store, first)
        assert claimed(store, "b").deliveries == 2

    def test_an_item_past_its_time_is_neither_shown_nor_claimed(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        push(store, "short", ttl_s=5)
        push(store, "long")
        clock.advance(5)
        assert standing(store) == [("long", "ready", "")]
        assert claim(store, item_id="short") is None
        assert claimed(store).id == "long"
        assert store.run(lambda tx: tx.push("queue", {}, "short")) is None

    def test_an_item_does_not_expire_while_it_is_claimed(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        push(store, "one", "two", ttl_s=5)
        first, second = claimed(store, "a"), claimed(store, "b")
        clock.advance(6)
        assert [state for _, state, _ in standing(store)] == ["claimed", "claimed"]
        ack(store, first)
        give_back(store, second)
        assert standing(store) == []
        assert claim(store) is None

    def test_an_items_time_goes_on_over_a_reboot(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        push(store, "short", ttl_s=60)
        push(store, "long", ttl_s=600)
        clock.reboot()
        clock.advance(60)
        assert standing(store) == [("long", "ready", "")]

    def test_the_first_ready_item_is_found_behind_many_claimed_and_expired_ones(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)

        def fill(tx: Tx) -> None:
            for number in range(200):
                tx.push("queue", {}, f"item-{number}", ttl_s=1 if number % 2 else None)
            for number in range(0, 198, 2):
                assert tx.claim("queue", "a", 1000, f"item-{number}")

        store.run(fill)
        clock.advance(1)
        assert claimed(store, "b").id == "item-198"
        assert claim(store, "b") is None
