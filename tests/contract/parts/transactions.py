"""Transactions: all of it or nothing, and the store stays usable."""

from __future__ import annotations

from typing import Any

import pytest

from contract.parts.opener import Opener
from dogwatch.errors import ConflictError, LedgerError, UsageError
from dogwatch.ledger.api import START, Reader, Tx
from dogwatch.testing.clock import ManualClock
from dogwatch.testing.events import PlainEvent

DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"deeper": DEEP}


class TransactionContract:
    """What any engine promises about transactions and bodies."""

    def test_a_transaction_that_raises_leaves_nothing_behind(self, opener: Opener) -> None:
        store = opener()
        store.run(lambda tx: tx.put("kept", {"n": 1}))

        def fail(tx: Tx) -> None:
            tx.append(PlainEvent("happened", {}))
            tx.put("kept", {"n": 2})
            tx.put("new", {})
            tx.push("queue", {}, "item")
            assert tx.acquire("lease", "holder", 60)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.run(fail)
        assert store.since(START, 10) == []
        assert [d.body for d in store.read(lambda reader: reader.scan(""))] == [{"n": 1}]
        assert store.read(lambda reader: reader.items("queue")) == []
        assert store.read(lambda reader: reader.leases("")) == []
        assert store.run(lambda tx: tx.push("queue", {}, "item")) == "item"

    def test_the_host_is_the_same_for_the_store_and_all_that_it_runs(self, opener: Opener) -> None:
        store = opener()
        assert store.run(lambda tx: tx.host) == store.read(lambda reader: reader.host) == store.host

    def test_an_error_that_the_function_catches_does_not_undo_the_rest(self, opener: Opener) -> None:
        store = opener()

        def catch(tx: Tx) -> None:
            tx.put("key", {"n": 1})
            with pytest.raises(ConflictError):
                tx.put("key", {"n": 2}, revision=7)
            tx.append(PlainEvent("went_on", {}))

        store.run(catch)
        assert store.read(lambda reader: reader.get("key")) is not None
        assert [event.kind for event in store.since(START, 10)] == ["went_on"]

    def test_the_result_of_the_function_is_returned(self, opener: Opener) -> None:
        assert opener().run(lambda tx: "result") == "result"
        assert opener().read(lambda reader: "result") == "result"

    def test_a_transaction_sees_its_own_writes_and_others_see_them_after_it(self, opener: Opener) -> None:
        store, other = opener(), opener()

        def write(tx: Tx) -> None:
            tx.put("key", {"n": 1})
            assert tx.get("key") is not None
            assert other.read(lambda reader: reader.get("key")) is None

        store.run(write)
        assert other.read(lambda reader: reader.get("key")) is not None

    def test_a_reader_sees_one_instant_however_long_it_reads(self, opener: Opener) -> None:
        store, other = opener(), opener()
        store.run(lambda tx: tx.put("key", {"n": 1}))

        def look(reader: Reader) -> list[Any]:
            first = reader.get("key")
            other.run(lambda tx: (tx.put("key", {"n": 2}), tx.append(PlainEvent("changed", {}))))
            return [first, reader.get("key"), reader.recent(5)]

        first, second, recent = store.read(look)
        assert first == second
        assert recent == []

    def test_now_is_the_moment_of_the_transaction(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        clock.advance(5)
        assert store.run(lambda tx: tx.now) == clock.now()

    def test_a_transaction_inside_another_of_the_same_store_is_refused(self, opener: Opener) -> None:
        store = opener()
        with pytest.raises(LedgerError):
            store.run(lambda tx: store.run(lambda inner: inner.put("key", {})))
        assert store.run(lambda tx: tx.put("key", {})) == 1

    def test_a_transaction_that_is_over_writes_nothing_more(self, opener: Opener) -> None:
        store = opener()
        over = store.run(lambda tx: tx)
        with pytest.raises(LedgerError):
            over.put("late", {})
        assert store.read(lambda reader: reader.scan("")) == []

    @pytest.mark.parametrize(
        "body",
        [
            {"n": float("nan")},
            {"n": float("inf")},
            {"n": object()},
            {"n": {1, 2}},
            {"n": b"bytes"},
            {1: "a key that is no text"},
            {"n": {"deep": [{None: 1}]}},
            ["no object"],
            DEEP,
            {"large": "x" * (1024 * 1024)},
        ],
        ids=["nan", "infinity", "object", "set", "bytes", "number-key", "deep-key", "list", "deep", "large"],
    )
    def test_a_body_that_is_not_strict_json_or_too_large_is_refused(self, opener: Opener, body: Any) -> None:
        store = opener()
        for write in (
            lambda tx: tx.append(PlainEvent("kind", body)),
            lambda tx: tx.put("key", body),
            lambda tx: tx.push("queue", body),
        ):
            with pytest.raises(UsageError):
                store.run(write)
        assert store.since(START, 10) == []

    def test_every_json_value_comes_back_as_it_was(self, opener: Opener) -> None:
        store = opener()
        body = {
            "text": "naïve \u2028 \U0001f436 \x00 \x1b \ud800 \"'\\\n",
            "large": "x" * 900_000,
            "numbers": [0, -1, 2**70, 1.5, 1e300],
            "nested": {"": [True, False, None, [], {}]},
        }
        store.run(lambda tx: (tx.append(PlainEvent("kind", body)), tx.put("key", body), tx.push("queue", body)))
        assert store.since(START, 1)[0].body == body
        assert [d.body for d in store.read(lambda reader: reader.scan("key"))] == [body]
        assert [i.body for i in store.read(lambda reader: reader.items("queue"))] == [body]

    @pytest.mark.parametrize("name", ["", "x" * 2000, "nul\0", "\ud800"], ids=["empty", "long", "nul", "surrogate"])
    def test_a_name_that_no_engine_could_hold_is_refused(self, opener: Opener, name: str) -> None:
        store = opener()
        for write in (
            lambda tx: tx.append(name, {}),
            lambda tx: tx.put(name, {}),
            lambda tx: tx.push(name, {}),
            lambda tx: tx.acquire(name, "holder", 1),
            lambda tx: tx.acquire("lease", name, 1),
            lambda tx: tx.claim("queue", name, 1),
        ):
            with pytest.raises(UsageError):
                store.run(write)

    @pytest.mark.parametrize("ttl_s", [0, -1, float("nan"), float("inf")])
    def test_a_time_to_live_must_be_positive_and_finite(self, opener: Opener, ttl_s: float) -> None:
        store = opener()
        for write in (
            lambda tx: tx.acquire("lease", "holder", ttl_s),
            lambda tx: tx.push("queue", {}, ttl_s=ttl_s),
            lambda tx: tx.claim("queue", "holder", ttl_s),
        ):
            with pytest.raises(UsageError):
                store.run(write)

    def test_closing_twice_is_no_error(self, opener: Opener) -> None:
        store = opener()
        store.run(lambda tx: tx.append(PlainEvent("kind", {})))
        store.wait(0)
        store.close()
        store.close()
