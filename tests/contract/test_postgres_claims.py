"""Claimers of one queue in PostgreSQL: each picks an item that no other is at, and a pick leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from dogwatch.ledger.api import Item, Store, Tx
from dogwatch.ledger.postgres import PostgresStore
from dogwatch.testing.clock import ManualClock
from postgres import clean_database, postgres

__all__ = ["clean_database", "postgres"]

TTL_S = 60.0


class Claimers:
    """Two stores on one queue of three items."""

    def __init__(self, one: Store, other: Store, clock: ManualClock) -> None:
        self.one, self.other, self.clock = one, other, clock
        self.tries = 0

    def claim(self, tx: Tx) -> Item:
        """An item, of which there must be one."""
        self.tries += 1
        item = tx.claim("q", "holder", TTL_S)
        assert item is not None
        return item

    def finish(self, tx: Tx) -> str:
        """The id of an item that is claimed and done with an event."""
        item = self.claim(tx)
        tx.ack(item)
        tx.append("done", {"item": item.id})
        return item.id


@pytest.fixture
def claimers(clean_database: str) -> Iterator[Claimers]:
    clock = ManualClock()
    with ExitStack() as stack:
        one, other = (stack.enter_context(closing(PostgresStore(clean_database, clock))) for _ in range(2))
        one.run(lambda tx: [tx.push("q", {"name": name}, name) for name in ("a", "b", "c")])
        yield Claimers(one, other, clock)


def test_claimers_that_overlap_go_on_to_the_next_item_and_none_is_sent_back(claimers: Claimers) -> None:
    def slow(tx: Tx) -> tuple[str, str]:
        item = claimers.claim(tx)
        between = claimers.other.run(claimers.finish)
        tx.ack(item)
        tx.append("done", {"item": item.id})
        return item.id, between

    assert claimers.one.run(slow) == ("a", "b")
    assert claimers.tries == 2
    assert claimers.one.run(claimers.finish) == "c"
    assert [event.body["item"] for event in claimers.one.read(lambda reader: reader.recent(9))] == ["b", "a", "c"]
    assert claimers.one.read(lambda reader: reader.items("q")) == []


def test_an_item_whose_claim_was_undone_is_the_next_for_everybody(claimers: Claimers) -> None:
    def undone(tx: Tx) -> None:
        assert claimers.finish(tx) == "a"
        raise RuntimeError("undone")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="undone"):
            claimers.one.run(undone)
    assert claimers.other.run(claimers.finish) == "a"
    assert claimers.one.run(claimers.finish) == "b"


def test_a_claim_that_has_run_out_is_anybodys(claimers: Claimers) -> None:
    first = claimers.one.run(claimers.claim)
    assert (first.id, first.fence, first.deliveries, first.state) == ("a", 1, 1, "claimed")
    claimers.clock.advance(TTL_S + 1)
    again = claimers.other.run(claimers.claim)
    assert (again.id, again.fence) == ("a", 2)
    assert claimers.one.run(claimers.finish) == "b"


def test_an_item_that_changed_hands_between_the_pick_and_the_write_is_not_claimed_twice(claimers: Claimers) -> None:
    taken: list[Item | None] = []

    def robbed(tx: Tx) -> str:
        item = claimers.claim(tx)
        if not taken:
            # By its name it is claimed whatever others have picked.
            taken.append(claimers.other.run(lambda other: other.claim("q", "thief", TTL_S, "a")))
        return item.id

    assert claimers.one.run(robbed) == "b"
    (thiefs,) = taken
    assert thiefs is not None
    assert {item.id: (item.holder, item.fence) for item in claimers.one.read(lambda reader: reader.items("q"))} == {
        "a": ("thief", 1),
        "b": ("holder", 1),
        "c": ("", 0),
    }


def test_the_last_item_that_another_has_picked_and_not_claimed_is_no_empty_queue(claimers: Claimers) -> None:
    for _ in "ab":
        claimers.one.run(claimers.finish)

    def late(tx: Tx) -> str | None:
        claimers.tries += 1
        item = tx.claim("q", "holder", TTL_S)
        if claimers.tries == 3:
            assert claimers.other.run(claimers.finish) == "c"
        return item.id if item is not None else None

    assert claimers.one.run(late) is None, "it was told of the item, and then run again without it"
