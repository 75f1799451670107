"""Random operations, compared one by one with a model in plain Python."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.parts.opener import Opener
from dogwatch.errors import StaleError
from dogwatch.ledger.api import Item, Lease, Store
from dogwatch.testing.clock import ManualClock

HOLDERS = st.sampled_from("ab")
TTLS = st.sampled_from((2, 5))
OPERATIONS = st.one_of(
    st.tuples(st.just("advance"), st.sampled_from((1, 2, 3))),
    st.tuples(st.just("acquire"), HOLDERS, TTLS),
    st.tuples(st.just("renew"), HOLDERS, TTLS),
    st.tuples(st.just("release"), HOLDERS),
    st.tuples(st.just("push"), st.sampled_from("xyz")),
    st.tuples(st.just("claim"), HOLDERS, TTLS),
    st.tuples(st.just("ack"), HOLDERS),
    st.tuples(st.just("give_back"), HOLDERS),
)
EXAMPLES = itertools.count()


@dataclass
class Model:
    """One mutex and one queue, as simple as can be: a lease is (holder, fence, end), an item the same and done."""

    now: float = 0
    fence: int = 0
    lease: tuple[str, int, float] = ("", 0, 0)
    queue: dict[str, tuple[str, int, float, bool]] = field(default_factory=dict)

    def holds(self, holder: str, fence: int) -> bool:
        return self.lease[:2] == (holder, fence) and self.lease[2] > self.now

    def acquire(self, holder: str, ttl_s: float) -> int | None:
        if self.lease[2] > self.now:
            if self.lease[0] != holder:
                return None
        else:
            self.fence += 1
        self.lease = (holder, self.fence, self.now + ttl_s)
        return self.fence

    def claim(self, holder: str, ttl_s: float) -> tuple[str, int] | None:
        for name, (_, fence, end, done) in self.queue.items():
            if not done and end <= self.now:
                self.queue[name] = (holder, fence + 1, self.now + ttl_s, False)
                return name, fence + 1
        return None

    def has(self, item: Item) -> bool:
        holder, fence, end, done = self.queue[item.id]
        return (holder, fence) == (item.holder, item.fence) and end > self.now and not done


class ModelContract:
    """What any engine does with leases and queues, whatever the order."""

    # Every engine's class runs this same method, so its executors differ.
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
    )
    @given(operations=st.lists(OPERATIONS, max_size=25))
    def test_any_sequence_of_operations_does_what_the_model_does(
        self, opener: Opener, operations: list[tuple[Any, ...]]
    ) -> None:
        clock = ManualClock()
        store = opener(clock)
        model, name = Model(), f"example-{next(EXAMPLES)}"
        leases: dict[str, Lease] = {}
        items: dict[str, Item] = {}
        for operation, *arguments in operations:
            if operation == "advance":
                clock.advance(arguments[0])
                model.now += arguments[0]
            elif operation in ("acquire", "renew", "release"):
                _lease_step(store, model, name, leases, operation, *arguments)
            else:
                _queue_step(store, model, name, items, operation, *arguments)
            held = [(lease.holder, lease.fence) for lease in store.read(lambda reader: reader.leases(name))]
            assert held == ([model.lease[:2]] if model.lease[2] > model.now else [])
            shown = [(item.id, item.fence, item.state) for item in store.read(lambda reader: reader.items(name))]
            assert shown == [
                (identity, fence, "claimed" if end > model.now else "ready")
                for identity, (_, fence, end, done) in model.queue.items()
                if not done
            ]
        store.close()


def _lease_step(
    store: Store, model: Model, name: str, leases: dict[str, Lease], operation: str, holder: str, ttl_s: float = 0
) -> None:
    if operation == "acquire":
        lease = store.run(lambda tx: tx.acquire(name, holder, ttl_s))
        assert (lease.fence if lease else None) == model.acquire(holder, ttl_s)
        if lease:
            leases[holder] = lease
    elif holder in leases:
        lease = leases[holder]
        stands = model.holds(holder, lease.fence)
        if operation == "release":
            store.run(lambda tx: tx.release(lease))
            if stands:
                model.lease = ("", model.fence, 0)
        else:
            assert _succeeds(store, lambda tx: tx.renew(lease, ttl_s)) == stands
            if stands:
                model.lease = (holder, lease.fence, model.now + ttl_s)


def _queue_step(
    store: Store, model: Model, name: str, items: dict[str, Item], operation: str, who: str, ttl_s: float = 0
) -> None:
    if operation == "push":
        assert (store.run(lambda tx: tx.push(name, {}, who)) is None) == (who in model.queue)
        model.queue.setdefault(who, ("", 0, 0, False))
    elif operation == "claim":
        item = store.run(lambda tx: tx.claim(name, who, ttl_s))
        assert ((item.id, item.fence) if item else None) == model.claim(who, ttl_s)
        if item:
            items[who] = item
    elif who in items:
        item = items[who]
        stands = model.has(item)
        assert _succeeds(store, lambda tx: getattr(tx, operation)(item)) == stands
        if stands:
            model.queue[item.id] = (who, item.fence, 0, operation == "ack")


def _succeeds(store: Store, fn: Any) -> bool:
    try:
        store.run(fn)
    except StaleError:
        return False
    return True
