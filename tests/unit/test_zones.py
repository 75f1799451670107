"""Memory zones: the one table, whatever sensor it is, and no flapping (F74)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.model.memory import CALM_S, GB, ZONES, HostRecord, Largest, Readings, Zone
from dogwatch.model.moment import Moment
from dogwatch.policy.zones import TABLE, Sensor, ZoneState, judge, next_state, processes_max, room_bytes, worst

SIZE = 223 * GB
LOOK_S = 5.0
START = Moment("boot", 1000.0, 1_700_000_000.0)
FINE = Readings(
    size_bytes=SIZE,
    left_bytes=SIZE // 2,
    swap_total_bytes=100 * GB,
    swap_free_bytes=100 * GB,
    pressure_some_percent=0.0,
    pressure_full_percent=0.0,
    processes=10,
    largest=Largest(rss_bytes=2 * GB, pid=7, name="node"),
)


def left(share: float) -> Readings:
    return replace(FINE, left_bytes=ceil(share * SIZE))


def swap(share: float) -> Readings:
    return replace(FINE, swap_free_bytes=round(share * 100 * GB))


def processes(count: int) -> Readings:
    return replace(FINE, processes=count)


def largest(gigabytes: float) -> Readings:
    return replace(FINE, largest=Largest(rss_bytes=round(gigabytes * GB), pid=7, name="node"))


def some(percent: float) -> Readings:
    return replace(FINE, pressure_some_percent=percent)


def full(percent: float) -> Readings:
    return replace(FINE, pressure_full_percent=percent)


def zone_of(readings: Readings, agent_bytes: int = 0) -> tuple[Zone, str]:
    state = next_state(ZoneState(), readings, agent_bytes, START)
    return state.zone, state.sensor


def after(state: ZoneState, *looks: Readings, every_s: float = LOOK_S, now: Moment = START) -> ZoneState:
    """The state after these looks, one after another."""
    for number, readings in enumerate(looks):
        state = next_state(state, readings, 0, now.plus(number * every_s))
    return state


def calm(readings: Readings) -> list[Readings]:
    """As many looks as it takes to believe them."""
    return [readings] * (int(CALM_S / LOOK_S) + 1)


@pytest.mark.parametrize(
    ("readings", "zone", "sensor"),
    [
        (FINE, "GREEN", ""),
        (left(0.20), "GREEN", ""),
        (left(0.1999), "YELLOW", "available"),
        (left(0.10), "YELLOW", "available"),
        (left(0.0999), "RED", "available"),
        (left(0.0), "RED", "available"),
        (processes(36), "GREEN", ""),
        (processes(37), "YELLOW", "processes"),
        (processes(45), "YELLOW", "processes"),
        (processes(46), "RED", "processes"),
        (swap(0.40), "GREEN", ""),
        (swap(0.3999), "YELLOW", "swap"),
        (swap(0.25), "YELLOW", "swap"),
        (swap(0.2499), "RED", "swap"),
        (largest(8), "GREEN", ""),
        (largest(8.01), "YELLOW", "largest"),
        (largest(12), "YELLOW", "largest"),
        (largest(12.01), "RED", "largest"),
        (some(20), "GREEN", ""),
        (some(20.5), "YELLOW", "pressure"),
        (some(40.5), "RED", "pressure"),
        (full(5), "GREEN", ""),
        (full(5.5), "YELLOW", "full pressure"),
        (full(15.5), "RED", "full pressure"),
    ],
)
def test_f74_any_one_sensor_sets_the_zone_at_its_line(readings: Readings, zone: Zone, sensor: str) -> None:
    assert zone_of(readings) == (zone, sensor)


def test_f74_memory_looks_fine_and_swap_or_pressure_does_not() -> None:
    for readings, sensor in ((swap(0.0), "swap"), (some(90), "pressure"), (full(60), "full pressure")):
        assert readings.left_bytes == SIZE // 2
        state = next_state(ZoneState(), readings, 0, START)
        assert (state.zone, state.sensor) == ("RED", sensor)
        assert "RED" in state.why


def test_the_worst_sensor_counts_and_of_equals_the_first_of_the_table() -> None:
    both = replace(left(0.15), pressure_some_percent=50.0)
    assert zone_of(both) == ("RED", "pressure")
    assert zone_of(replace(left(0.15), processes=40)) == ("YELLOW", "available")
    assert worst(judge(both)) == max(judge(both), key=lambda one: ZONES.index(one.zone))


def test_the_reason_names_the_sensor_its_reading_and_its_line() -> None:
    state = next_state(ZoneState(), left(0.08), 0, START)
    assert state.why == "memory available: 8%, RED below 10%"
    assert next_state(ZoneState(), largest(9.5), 0, START).why == "the largest process: 9.5 GB, YELLOW above 8.0 GB"
    assert next_state(ZoneState(), FINE, 0, START).why == ""


@pytest.mark.parametrize(
    ("size_gb", "agent_gb", "yellow", "red"),
    [
        (223, 0, 36, 45),
        (223, 2.1, 36, 45),
        (446, 2.1, 72, 90),
        (223, 4.2, 18, 22),
        (223, 1.05, 72, 90),
        (111.5, 4.2, 9, 11),
        (4, 2.1, 3, 4),
        (0.5, 40, 3, 4),
    ],
)
def test_the_lines_for_processes_follow_the_machine_and_its_agents(
    size_gb: float, agent_gb: float, yellow: int, red: int
) -> None:
    readings, agent_bytes = (
        replace(FINE, size_bytes=int(size_gb * GB), left_bytes=int(size_gb * GB)),
        int(agent_gb * GB),
    )
    found = {count: zone_of(replace(readings, processes=count), agent_bytes)[0] for count in range(120)}
    assert (max(n for n in found if found[n] == "GREEN"), max(n for n in found if found[n] == "YELLOW")) == (
        yellow,
        red,
    )
    host = HostRecord(host="", at=START, since=START, readings=readings, agent_bytes=agent_bytes)
    assert processes_max(host) == yellow, "the gate and the zone mean the same line"


def test_a_machine_that_does_not_tell_its_size_has_the_lines_of_the_table() -> None:
    readings = Readings(processes=37)
    assert zone_of(readings, agent_bytes=GB) == ("YELLOW", "processes")
    assert zone_of(Readings(processes=36), agent_bytes=GB) == ("GREEN", "")


def test_a_machine_without_swap_misses_nothing_and_is_not_judged_by_it() -> None:
    without = replace(FINE, swap_total_bytes=0, swap_free_bytes=0)
    assert zone_of(without) == ("GREEN", "")
    assert without.missing == ()
    assert "swap" not in {one.sensor for one in judge(without)}


def test_missing_sensors_are_left_out_and_the_others_decide() -> None:
    bare = Readings(size_bytes=SIZE, left_bytes=SIZE // 20)
    assert zone_of(bare) == ("RED", "available")
    assert bare.missing == ("swap", "pressure")
    assert {one.sensor for one in judge(bare)} == {"available", "processes"}
    assert zone_of(Readings()) == ("GREEN", "")


@pytest.mark.parametrize("blind", [Readings(), Readings(processes=3), Readings(pressure_some_percent=0.0)])
def test_a_look_that_does_not_tell_what_is_left_makes_no_shortage_better(blind: Readings) -> None:
    red = next_state(ZoneState(), left(0.05), 0, START)
    assert after(red, *[blind] * 1000) == red
    assert after(red, *[blind] * 1000, *calm(FINE)).zone == "GREEN"


def test_a_look_without_sensors_does_not_keep_a_zone_that_agents_alone_have_set() -> None:
    many = next_state(ZoneState(), Readings(processes=50), 0, START)
    assert (many.zone, many.sensor) == ("RED", "processes")
    assert after(many, *calm(Readings(processes=1))).zone == "GREEN"
    big = next_state(ZoneState(), largest(20), 0, START)
    assert after(big, *calm(replace(FINE, largest=None))).zone == "GREEN", "the agent is gone"


def test_swap_that_is_switched_off_is_no_shortage_of_it() -> None:
    short = next_state(ZoneState(), swap(0.1), 0, START)
    assert after(short, *calm(replace(FINE, swap_total_bytes=0, swap_free_bytes=0))).zone == "GREEN"


# How a zone is left.


def test_a_worse_zone_counts_at_once_and_a_better_one_after_a_minute() -> None:
    state = ZoneState()
    for readings, zone in ((left(0.15), "YELLOW"), (left(0.05), "RED")):
        state = next_state(state, readings, 0, START)
        assert state.zone == zone
    at_s = [number * LOOK_S for number in range(20)]
    zones = {}
    for second in at_s:
        state = next_state(state, FINE, 0, START.plus(second))
        zones[second] = state.zone
    assert {zones[second] for second in at_s if second < CALM_S} == {"RED"}
    assert {zones[second] for second in at_s if second >= CALM_S} == {"GREEN"}
    assert (state.sensor, state.why) == ("", "")


def test_red_becomes_yellow_where_that_is_what_the_sensors_say() -> None:
    red = next_state(ZoneState(), left(0.05), 0, START)
    state = after(red, *calm(left(0.15)))
    assert (state.zone, state.sensor) == ("YELLOW", "available")
    assert state.why == "memory available: 15%, YELLOW below 20%"


@pytest.mark.parametrize(
    ("bad", "almost", "enough"),
    [
        (left(0.19), left(0.229), left(0.231)),
        (left(0.09), left(0.129), left(0.131)),
        (swap(0.39), swap(0.449), swap(0.451)),
        (swap(0.24), swap(0.299), swap(0.301)),
        (processes(37), processes(35), processes(34)),
        (processes(46), processes(43), processes(42)),
        (largest(8.1), largest(7.3), largest(7.1)),
        (largest(12.1), largest(10.9), largest(10.7)),
        (some(21), some(15.5), some(15)),
        (some(41), some(30.5), some(30)),
        (full(6), full(4), full(3.5)),
        (full(16), full(11.5), full(11)),
    ],
)
def test_a_reading_within_the_margin_is_not_better_however_long_it_lasts(
    bad: Readings, almost: Readings, enough: Readings
) -> None:
    state = next_state(ZoneState(), bad, 0, START)
    assert after(state, *[almost] * 100) == state
    better = after(state, *calm(enough))
    assert ZONES.index(better.zone) == ZONES.index(state.zone) - 1


def test_one_bad_look_begins_the_calm_anew() -> None:
    red = next_state(ZoneState(), left(0.05), 0, START)
    almost = [FINE] * int(CALM_S / LOOK_S)
    state = after(red, *almost, left(0.05), *almost)
    assert state.zone == "RED"
    state = after(red, *almost, left(0.11), *almost)
    assert state.zone == "RED", "back within the margin is not calm either"


def test_one_sensor_that_is_calm_does_not_speak_for_another() -> None:
    red = next_state(ZoneState(), replace(left(0.05), pressure_some_percent=50.0), 0, START)
    assert after(red, *[some(50)] * 100).zone == "RED"
    assert after(red, *calm(some(30))).zone == "YELLOW"


def test_a_dispatcher_that_starts_anew_waits_for_the_whole_calm_again() -> None:
    red = next_state(ZoneState(), left(0.05), 0, START)
    half = after(red, *[FINE] * int(CALM_S / LOOK_S / 2))
    assert half.calm_since is not None
    forgotten = replace(half, calm_since=None)
    assert after(forgotten, *[FINE] * int(CALM_S / LOOK_S)).zone == "RED"


def test_a_jump_of_the_wall_clock_is_no_calm() -> None:
    red = next_state(ZoneState(), left(0.05), 0, START)
    state = next_state(red, FINE, 0, START)
    state = next_state(state, FINE, 0, Moment(START.boot, START.mono + LOOK_S, START.wall + 1e6))
    assert state.zone == "RED"


LINES = [(sensor, line) for sensor in TABLE for line in (sensor.yellow, sensor.red)]
MAKE = {
    "available": left,
    "processes": lambda value: processes(round(value)),
    "swap": swap,
    "largest": lambda value: largest(value / GB),
    "pressure": some,
    "full pressure": full,
}


@given(st.sampled_from(LINES), st.lists(st.floats(-1, 1), min_size=1, max_size=300))
def test_f74_a_reading_that_hovers_at_its_line_changes_the_zone_once_at_most(
    line: tuple[Sensor, float], wobble: list[float]
) -> None:
    sensor, at = line
    width = sensor.margin if sensor.falls else sensor.margin * at
    state, zones = ZoneState(), ["GREEN"]
    for number, one in enumerate(wobble):
        value = at + 0.99 * one * width
        if one < 0 if sensor.falls else one > 0:
            # Beyond the line it may go as it likes, short of the next one.
            value = at + 0.3 * one * width
        state = next_state(state, MAKE[sensor.name](value), 0, START.plus(number * LOOK_S))
        zones.append(state.zone)
    changes = [(a, b) for a, b in pairwise(zones) if a != b]
    # The first readings may lie on the better side of the red line, which is yellow.
    assert len(changes) <= 2, zones
    assert all(ZONES.index(b) > ZONES.index(a) for a, b in changes), "it never got better"


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.floats(0, 1),
            st.integers(0, 60),
            st.floats(0, 20),
            st.floats(0, 100),
            st.booleans(),
        ),
        max_size=200,
    )
)
def test_f74_whatever_the_sensors_say_the_zone_gets_better_no_more_than_once_a_minute(
    looks: list[tuple[float, float, int, float, float, bool]],
) -> None:
    state, better = ZoneState(), []
    for number, (ram, swapped, count, big, pressed, seen) in enumerate(looks):
        readings = replace(
            left(ram),
            swap_free_bytes=round(swapped * 100 * GB),
            processes=count,
            largest=Largest(rss_bytes=round(big * GB), pid=1, name="x"),
            pressure_some_percent=pressed,
        )
        if not seen:
            readings = replace(readings, left_bytes=None, pressure_some_percent=None)
        now = START.plus(number * LOOK_S)
        before, state = state, next_state(state, readings, 0, now)
        top = worst(judge(readings))
        assert top is not None
        assert ZONES.index(state.zone) >= ZONES.index(top.zone), "never better than the worst sensor"
        assert (state.zone == "GREEN") == (state.sensor == "") == (state.why == "")
        if ZONES.index(state.zone) < ZONES.index(before.zone):
            better.append(now)
    assert all(later.since(earlier) >= CALM_S for earlier, later in pairwise(better))


# What the gate and the forecast take from the same table.


def test_the_room_is_what_is_left_above_the_yellow_line() -> None:
    host = HostRecord(host="", at=START, since=START, readings=replace(FINE, size_bytes=100 * GB, left_bytes=50 * GB))
    assert room_bytes(host) == 30 * GB
    assert room_bytes(replace(host, readings=replace(host.readings, left_bytes=5 * GB))) == 0
    assert room_bytes(replace(host, readings=Readings())) == float("inf")
