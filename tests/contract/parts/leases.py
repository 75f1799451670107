"""Leases: slots, expiry, and fences that only ever grow."""

from __future__ import annotations

import dataclasses

import pytest

from contract.parts.opener import Opener
from dogwatch.errors import StaleError, UsageError
from dogwatch.ledger.api import Lease, Store, Tx
from dogwatch.testing.clock import ManualClock


def acquire(store: Store, holder: str, slots: int = 1, name: str = "lease", ttl_s: float = 10) -> Lease | None:
    return store.run(lambda tx: tx.acquire(name, holder, ttl_s, slots))


def granted(store: Store, holder: str, slots: int = 1, name: str = "lease", ttl_s: float = 10) -> Lease:
    lease = acquire(store, holder, slots, name, ttl_s)
    assert lease is not None
    return lease


def renew(store: Store, lease: Lease) -> Lease:
    return store.run(lambda tx: tx.renew(lease, 10))


def check(store: Store, lease: Lease) -> None:
    store.run(lambda tx: tx.check(lease))


def release(store: Store, lease: Lease) -> None:
    store.run(lambda tx: tx.release(lease))


class LeaseContract:
    """What any engine promises about leases."""

    def test_one_holder_at_a_time(self, opener: Opener) -> None:
        clock = ManualClock()
        store, other = opener(clock), opener(clock)
        lease = granted(store, "a")
        assert (lease.holder, lease.slot, lease.renewed) == ("a", 0, clock.now())
        assert lease.expires == clock.now().plus(10)
        assert acquire(other, "b") is None
        assert acquire(other, "b", name="lease-2") is not None

    def test_a_semaphore_grants_its_slots_and_no_more(self, opener: Opener) -> None:
        store = opener(ManualClock())
        leases = [granted(store, holder, slots=3) for holder in "abc"]
        assert [lease.slot for lease in leases] == [0, 1, 2]
        assert len({lease.fence for lease in leases}) == 3
        assert acquire(store, "d", slots=3) is None
        release(store, leases[1])
        assert granted(store, "d", slots=3).slot == 1

    def test_a_smaller_semaphore_counts_the_holders_of_the_larger_one(self, opener: Opener) -> None:
        store = opener(ManualClock())
        leases = [granted(store, holder, slots=3) for holder in "abc"]
        release(store, leases[0])
        release(store, leases[1])
        assert acquire(store, "d", slots=1) is None
        assert granted(store, "d", slots=2).slot == 0

    def test_the_holder_gets_its_lease_again_renewed_with_the_same_fence(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        first = granted(store, "a", slots=2)
        clock.advance(6)
        again = granted(store, "a", slots=2)
        assert (again.slot, again.fence) == (first.slot, first.fence)
        assert again.expires == clock.now().plus(10)
        clock.advance(6)
        check(store, first)

    def test_a_renewed_lease_stands_longer(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        lease = granted(store, "a")
        for _ in range(3):
            clock.advance(9)
            lease = renew(store, lease)
        assert lease.renewed == clock.now()
        assert acquire(store, "b") is None

    def test_an_expired_lease_is_taken_over_with_a_higher_fence(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        old = granted(store, "a")
        clock.advance(9.5)
        assert acquire(store, "b") is None
        clock.advance(0.5)
        new = granted(store, "b")
        assert new.fence > old.fence
        for late in (renew, check):
            with pytest.raises(StaleError):
                late(store, old)
        release(store, old)
        check(store, new)

    def test_an_expired_lease_is_not_renewed_though_nobody_has_taken_it(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        lease = granted(store, "a")
        clock.advance(10)
        with pytest.raises(StaleError) as caught:
            renew(store, lease)
        assert caught.value.hint
        assert granted(store, "a").fence > lease.fence

    def test_a_stale_check_undoes_the_whole_transaction(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        lease = granted(store, "a")
        clock.advance(10)

        def write(tx: Tx) -> None:
            tx.put("key", {})
            tx.check(lease)

        with pytest.raises(StaleError):
            store.run(write)
        assert store.read(lambda reader: reader.get("key")) is None

    def test_fences_grow_over_release_expiry_and_reopening(self, opener: Opener) -> None:
        clock = ManualClock()
        fences = []
        for turn in range(6):
            store = opener(clock)
            lease = granted(store, "a")
            fences.append(lease.fence)
            if turn % 2:
                clock.advance(11)
            else:
                release(store, lease)
            store.close()
        assert fences == sorted(set(fences))

    def test_a_released_grant_is_stale_though_its_holder_has_a_new_one(self, opener: Opener) -> None:
        store = opener(ManualClock())
        old = granted(store, "a")
        release(store, old)
        new = granted(store, "a")
        with pytest.raises(StaleError):
            check(store, old)
        release(store, old)
        check(store, new)

    def test_nobody_checks_in_with_the_fence_of_another(self, opener: Opener) -> None:
        store = opener(ManualClock())
        forged = dataclasses.replace(granted(store, "a"), holder="b")
        with pytest.raises(StaleError):
            check(store, forged)

    def test_a_reboot_ends_every_lease(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        lease = granted(store, "a", ttl_s=1000)
        clock.reboot()
        assert store.read(lambda reader: reader.leases("")) == []
        with pytest.raises(StaleError):
            renew(store, lease)
        assert granted(store, "b").fence > lease.fence

    def test_a_step_of_the_wall_clock_changes_no_lease(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        lease = granted(store, "a")
        for step in (86400, -2 * 86400):
            clock.step_wall(step)
            check(store, lease)
            assert acquire(store, "b") is None

    def test_leases_lists_those_held_now_by_name_and_slot(self, opener: Opener) -> None:
        clock = ManualClock()
        store = opener(clock)
        granted(store, "a", name="run/short", ttl_s=1)
        expected = [granted(store, holder, slots=2, name="run/two") for holder in "ab"]
        granted(store, "a", name="runner")
        first = granted(store, "c", name="run/one")
        clock.advance(1)
        assert store.read(lambda reader: reader.leases("run/")) == [first, *expected]

    def test_a_lease_needs_a_slot(self, opener: Opener) -> None:
        with pytest.raises(UsageError):
            acquire(opener(), "a", slots=0)
