"""How fast an agent's memory grows: robust against what a tool takes for a moment, and silent before it can know."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.model.memory import GB, AgentMemory, Readings
from dogwatch.model.process import ProcessId
from dogwatch.policy.growth import GROWTH_MIN_BYTES, LOOKS_MAX, MB, WINDOW_S, Growth, leaker

WRITER = "t1/writer"


def watched(size: Callable[[float], float], seconds: float, every_s: float = 5.0) -> Growth:
    """A look every few seconds at an agent of that size."""
    growth = Growth()
    for number in range(int(seconds / every_s) + 1):
        growth.note(WRITER, 1000 + number * every_s, int(size(number * every_s)))
    return growth


def test_a_leak_has_its_slope() -> None:
    assert watched(lambda at: GB + at / 60 * 310 * MB, 300).rate(WRITER) == pytest.approx(310 * MB, rel=0.01)
    assert watched(lambda at: 4 * GB - at / 60 * 100 * MB, 300).rate(WRITER) == pytest.approx(-100 * MB, rel=0.01)
    assert watched(lambda at: 2 * GB, 300).rate(WRITER) == 0


@pytest.mark.parametrize("every_s", [0.5, 2.0, 7.3, 15.0, 60.0])
def test_how_often_it_is_looked_at_does_not_matter(every_s: float) -> None:
    rate = watched(lambda at: GB + at / 60 * 50 * MB, 600, every_s).rate(WRITER)
    assert rate == pytest.approx(50 * MB, rel=0.01)


def test_nothing_is_said_before_a_minute_and_five_looks() -> None:
    assert Growth().rate(WRITER) is None
    assert watched(lambda at: at * MB, 55).rate(WRITER) is None, "twelve looks in less than a minute"
    assert watched(lambda at: at * MB, 90, 30).rate(WRITER) is None, "four looks in 90 seconds"
    assert watched(lambda at: at * MB, 60).rate(WRITER) == pytest.approx(60 * MB)
    assert watched(lambda at: at * MB, 120, 30).rate(WRITER) == pytest.approx(60 * MB)


def test_what_a_tool_takes_for_a_moment_is_no_growth() -> None:
    for begin in range(0, 240, 20):
        spiked = watched(lambda at, begin=begin: GB + (3 * GB if begin <= at < begin + 60 else 0), 300)  # type: ignore[misc]
        assert spiked.rate(WRITER) == 0


def test_a_leak_under_noise_is_still_one() -> None:
    noise = random.Random(7)
    rate = watched(lambda at: GB + at / 60 * 300 * MB + noise.uniform(0, 200 * MB), 300).rate(WRITER)
    assert rate == pytest.approx(300 * MB, rel=0.15)


def test_only_the_last_minutes_count() -> None:
    grown = watched(lambda at: GB + min(at, 600) / 60 * 300 * MB, 600 + WINDOW_S + 5)
    assert grown.rate(WRITER) == 0
    paused = watched(lambda at: GB + at * MB, 300)
    paused.note(WRITER, 1300 + WINDOW_S + 1, 9 * GB)
    assert paused.rate(WRITER) is None, "nobody looked for longer than the window"


def test_another_process_begins_anew() -> None:
    growth = Growth()
    first, second = ProcessId("boot", 7, 1), ProcessId("boot", 7, 900)
    for number in range(30):
        growth.note(WRITER, number * 5.0, GB + number * 30 * MB, first)
    assert growth.rate(WRITER) == pytest.approx(360 * MB)
    growth.note(WRITER, 150.0, GB, second)
    assert growth.rate(WRITER) is None
    for number in range(13):
        growth.note(WRITER, 155 + number * 5.0, GB, second)
    assert growth.rate(WRITER) == 0


def test_a_look_at_the_same_instant_is_the_same_look() -> None:
    growth = watched(lambda at: GB + at * MB, 100)
    before = growth.rate(WRITER)
    growth.note(WRITER, 1100.0, 0)
    growth.note(WRITER, 5.0, 0)
    assert growth.rate(WRITER) == before


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 2**50)), max_size=60))
def test_whatever_is_seen_has_a_rate_or_none(looks: list[tuple[float, int]]) -> None:
    growth = Growth()
    for mono, rss_bytes in looks:
        growth.note(WRITER, mono, rss_bytes)
    rate = growth.rate(WRITER)
    assert rate is None or abs(rate) < 1e20


def test_the_looks_are_limited() -> None:
    every_s = WINDOW_S / LOOKS_MAX / 10
    rate = watched(lambda at: GB + at / 60 * 10 * MB, 300, every_s).rate(WRITER)
    assert rate is None, f"{LOOKS_MAX} looks are less than a minute here"


def test_readings_get_the_growth_of_each_agent_and_the_gone_are_forgotten() -> None:
    growth = Growth()
    roots = {"t1/writer": ProcessId("boot", 7, 1), "t1/judge": ProcessId("boot", 8, 1)}

    def at(mono: float, *agents: str) -> Readings:
        sizes = {agent: AgentMemory(rss_bytes=int(GB + mono * MB * (agent == "t1/writer"))) for agent in agents}
        readings = Readings(processes=3, agents=sizes)
        growth.note_all(readings, mono, roots)
        return growth.rated(readings)

    for number in range(12):
        assert at(number * 5.0, *roots).agents["t1/writer"].growth_bytes_min is None
    known = at(60.0, *roots)
    assert known.processes == 3
    assert known.agents["t1/writer"].growth_bytes_min == pytest.approx(60 * MB)
    assert known.agents["t1/judge"] == AgentMemory(rss_bytes=GB, growth_bytes_min=0.0)
    assert leaker(known) == "t1/writer grows by 60 MB a minute (1.1 GB now)"
    assert list(at(65.0, "t1/judge").agents) == ["t1/judge"]
    assert growth.rate("t1/writer") is None
    assert at(70.0, *roots).agents["t1/writer"].growth_bytes_min is None, "it came back"


def test_the_fastest_grower_is_named_with_its_growth() -> None:
    def grown(**agents: float | None) -> Readings:
        return Readings(
            agents={
                f"t1/{name}": AgentMemory(rss_bytes=int(6.2 * GB), growth_bytes_min=None if by is None else by * MB)
                for name, by in agents.items()
            }
        )

    assert leaker(grown(writer=310, judge=40, data=None)) == "t1/writer grows by 310 MB a minute (6.2 GB now)"
    assert leaker(grown(writer=310, judge=2048)) == "t1/judge grows by 2.0 GB a minute (6.2 GB now)"
    quiet = GROWTH_MIN_BYTES / MB - 1
    for nobody in (Readings(), grown(writer=None), grown(writer=0, judge=quiet), grown(writer=-500)):
        assert leaker(nobody) == ""
