"""Moments: durations that neither a step of the wall clock nor a reboot can falsify."""

from __future__ import annotations

from dogwatch.model.moment import Moment
from dogwatch.testing.clock import ManualClock
from dogwatch.world.clock import SystemClock


def test_within_one_boot_only_the_monotonic_clock_counts() -> None:
    clock = ManualClock()
    start = clock.now()
    clock.advance(10)
    clock.step_wall(-7200)
    assert clock.now().since(start) == 10


def test_across_a_reboot_the_wall_clock_counts() -> None:
    clock = ManualClock()
    start = clock.now()
    clock.advance(10)
    clock.reboot()
    clock.advance(5)
    assert clock.now().since(start) == 15


def test_a_duration_is_never_negative() -> None:
    earlier, later = Moment("a", 5.0, 50.0), Moment("a", 9.0, 90.0)
    assert earlier.since(later) == 0
    assert Moment("b", 0.0, 10.0).since(earlier) == 0


def test_adding_seconds_moves_both_clocks() -> None:
    assert Moment("a", 1.0, 2.0).plus(3) == Moment("a", 4.0, 5.0)


def test_each_reboot_gives_a_new_boot_id_and_a_young_monotonic_clock() -> None:
    clock = ManualClock()
    boots = [clock.now().boot]
    for _ in range(3):
        clock.reboot()
        boots.append(clock.now().boot)
        assert clock.now().mono == 0
    assert len(set(boots)) == 4


def test_the_system_clock_goes_forward_within_one_boot() -> None:
    clock = SystemClock()
    first, second = clock.now(), clock.now()
    assert first.boot == second.boot != ""
    assert second.mono >= first.mono


def test_two_system_clocks_agree_on_the_boot() -> None:
    assert SystemClock().now().boot == SystemClock().now().boot
