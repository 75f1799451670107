"""Claimers of one queue in PostgreSQL: each picks an item that no other is at, and a pick leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import psycopg
import pytest

from dogwatch.ledger.api import Item, Store, Tx
from dogwatch.ledger.postgres import PostgresStore
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent
from support.helpers import wait_for
from support.postgres import Server, clean_database, postgres

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
        tx.append(PlainEvent("done", {"item": item.id}))
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
        tx.append(PlainEvent("done", {"item": item.id}))
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


@pytest.mark.parametrize("events", [0, 1, 2])
def test_an_item_that_changed_hands_between_the_pick_and_the_write_is_not_claimed_twice(
    claimers: Claimers, events: int
) -> None:
    taken: list[Item | None] = []

    def robbed(tx: Tx) -> str:
        item = claimers.claim(tx)
        for number in range(events):
            tx.append(PlainEvent("claimed", {"item": item.id, "number": number}))
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
    told = [event.body for event in claimers.one.read(lambda reader: reader.recent(9))]
    assert told == [{"item": "b", "number": number} for number in range(events)]


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


def test_an_item_that_stands_in_the_place_of_the_one_that_was_picked_is_not_taken_for_it(
    claimers: Claimers, postgres: Server, clean_database: str
) -> None:
    taken: list[str] = []

    def finish(tx: Tx) -> str:
        item = claimers.claim(tx)
        if not taken:
            taken.append(item.id)
            claimers.other.run(lambda other: other.ack(_there(other.claim("q", "thief", TTL_S, item.id))))
            postgres.execute("VACUUM dogwatch.items", clean_database.rpartition("/")[2])
            claimers.other.run(lambda other: other.push("q", {}, "in-its-place"))
        tx.ack(item)
        tx.append(PlainEvent("done", {"item": item.id}))
        return item.id

    def finish_others(tx: Tx) -> None:
        for name in ("b", "c"):
            tx.ack(_there(tx.claim("q", "holder", TTL_S, name)))

    claimers.one.run(finish_others)
    assert claimers.one.run(finish) == "in-its-place"
    assert taken == ["a"]
    assert [event.body["item"] for event in claimers.one.read(lambda reader: reader.recent(9))] == ["in-its-place"]


def _there(item: Item | None) -> Item:
    assert item is not None
    return item


@contextmanager
def pushed_late(database: str) -> Iterator[psycopg.Connection]:
    """An item that was pushed before all others after it, by a transaction that is still open."""
    with closing(psycopg.connect(database)) as connection:
        connection.execute(
            "INSERT INTO dogwatch.items (queue, id, state, holder, fence, pushed_boot, pushed_mono, pushed_wall, body)"
            " VALUES ('q', 'late', 'open', '', 0, 'boot', 0, 0, '{}')"
        )
        yield connection


def test_an_item_that_was_pushed_before_others_and_committed_after_them_is_not_the_last_in_line(
    claimers: Claimers, clean_database: str
) -> None:
    one, other = claimers.one, claimers.other
    with pushed_late(clean_database) as late:
        one.run(lambda tx: [tx.push("q", {}, f"later-{n}") for n in range(3)])
        assert [one.run(claimers.finish) for _ in range(4)] == ["a", "b", "c", "later-0"]
        # To this one, the queue begins behind the late item.
        assert other.run(claimers.finish) == "later-1"
        late.commit()

    def is_served() -> bool:
        other.run(lambda tx: tx.push("q", {}))
        return other.run(claimers.finish) == "late"

    # The queue is never empty meanwhile: one goes in for each that comes out.
    wait_for(is_served, what="the late item")


def test_a_late_item_is_found_at_once_where_nothing_else_is(claimers: Claimers, clean_database: str) -> None:
    with pushed_late(clean_database) as late:
        claimers.one.run(lambda tx: tx.push("q", {}, "d"))
        assert [claimers.one.run(claimers.finish) for _ in range(3)] == ["a", "b", "c"]
        assert claimers.other.run(claimers.finish) == "d"
        late.commit()
    assert claimers.other.run(claimers.finish) == "late"
