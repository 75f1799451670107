"""Events: recorded once, read in the order of their commits."""

from __future__ import annotations

import pytest

from contract.parts.opener import Opener
from dogwatch.errors import UsageError
from dogwatch.ledger.api import START, Store, Tx
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent


def append(store: Store, n: int, kind: str = "kind", run: str = "") -> None:
    store.run(lambda tx: tx.append(PlainEvent(kind, {"n": n}, run=run)))


class EventContract:
    """What any engine promises about events and cursors."""

    def test_an_event_comes_back_with_everything_it_was_recorded_with(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        assert store.run(
            lambda tx: tx.append(PlainEvent("task_claimed", {"task": "t"}, run="demo", agent="writer"), "op")
        )
        (event,) = store.since(START, 10)
        assert (event.kind, event.body, event.op_id) == ("task_claimed", {"task": "t"}, "op")
        assert (event.run, event.agent, event.at) == ("demo", "writer", clock.now())

    def test_an_operation_is_recorded_once(self, opener: Opener) -> None:
        store, other = opener(), opener()
        assert store.run(lambda tx: tx.append(PlainEvent("kind", {"n": 1}), "op")) is True
        assert other.run(lambda tx: tx.append(PlainEvent("kind", {"n": 2}), "op")) is False
        assert store.run(
            lambda tx: (tx.append(PlainEvent("kind", {}), "two"), tx.append(PlainEvent("kind", {}), "two"))
        ) == (True, False)
        assert [event.body for event in store.since(START, 10)] == [{"n": 1}, {}]

    def test_an_operation_that_was_rolled_back_may_be_recorded_later(self, opener: Opener) -> None:
        store = opener()

        def fail(tx: Tx) -> None:
            tx.append(PlainEvent("kind", {}), "op")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.run(fail)
        assert store.run(lambda tx: tx.append(PlainEvent("kind", {}), "op")) is True

    def test_events_without_an_operation_are_all_recorded(self, opener: Opener) -> None:
        store = opener()
        assert [store.run(lambda tx: tx.append(PlainEvent("kind", {}))) for _ in range(3)] == [True] * 3
        assert len(store.since(START, 10)) == 3

    def test_a_cursor_goes_on_behind_its_event(self, opener: Opener) -> None:
        store = opener()
        for n in range(5):
            append(store, n)
        first = store.since(START, 2)
        rest = store.since(first[-1].cursor, 10)
        assert [event.body["n"] for event in [*first, *rest]] == [0, 1, 2, 3, 4]
        assert store.since(rest[-1].cursor, 10) == []
        assert store.since(START, 0) == []

    def test_a_cursor_stays_valid_when_the_ledger_is_opened_again(self, opener: Opener) -> None:
        store = opener()
        store.run(lambda tx: (tx.append(PlainEvent("kind", {"n": 1})), tx.append(PlainEvent("kind", {"n": 2}))))
        cursor = store.since(START, 1)[0].cursor
        store.close()
        assert [event.body for event in opener().since(cursor, 10)] == [{"n": 2}]

    def test_since_may_be_narrowed_to_a_run_with_the_same_cursors(self, opener: Opener) -> None:
        store = opener()
        for n in range(6):
            append(store, n, run="even" if n % 2 == 0 else "odd")
        append(store, 6)
        even = store.since(START, 2, run="even")
        assert [event.body["n"] for event in even] == [0, 2]
        assert [event.body["n"] for event in store.since(even[-1].cursor, 10, run="even")] == [4]
        assert [event.body["n"] for event in store.since(even[-1].cursor, 10)] == [3, 4, 5, 6]
        assert store.since(START, 10, run="none") == []

    def test_what_is_no_cursor_is_refused(self, opener: Opener) -> None:
        for cursor in ("first", "-1", "1.5", "9" * 40, "²"):
            with pytest.raises(UsageError):
                opener().since(cursor, 10)

    def test_a_negative_number_of_events_is_refused(self, opener: Opener) -> None:
        with pytest.raises(UsageError):
            opener().since(START, -1)
        with pytest.raises(UsageError):
            opener().read(lambda reader: reader.recent(-1))

    def test_recent_gives_the_newest_with_the_oldest_of_them_first(self, opener: Opener) -> None:
        store = opener()
        kinds = ["a", "b", "a", "c", "b", "a"]
        for n, kind in enumerate(kinds):
            append(store, n, kind, run="x" if n < 4 else "y")

        def numbers(n: int, run: str = "", kinds: tuple[str, ...] = ()) -> list[int]:
            return [event.body["n"] for event in store.read(lambda reader: reader.recent(n, run, kinds))]

        assert numbers(2) == [4, 5]
        assert numbers(0) == []
        assert numbers(100) == [0, 1, 2, 3, 4, 5]
        assert numbers(2, run="x") == [2, 3]
        assert numbers(2, kinds=("a",)) == [2, 5]
        assert numbers(3, kinds=("a", "c", "a")) == [2, 3, 5]
        assert numbers(2, run="x", kinds=("a", "b")) == [1, 2]
        assert numbers(0, kinds=("a",)) == []
        assert numbers(5, kinds=("none",)) == []
