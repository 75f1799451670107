"""When what is seen cannot be trusted: nothing is done but to look again, and what stays so is believed."""

from __future__ import annotations

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.sight import Sight
from dogwatch.policy.doubt import Doubt

START = Moment("boot", 100.0, 1000.0)
LIMITS = Limits(mass_hold_s=10)


def fleet(dead: int, of: int, blind: bool = False) -> dict[str, Sight]:
    if blind:
        return {f"a{n}": Sight(process="unknown") for n in range(of)}
    return {f"a{n}": Sight(process="dead" if n < dead else "alive") for n in range(of)}


def test_a_few_deaths_are_believed_at_once() -> None:
    doubt = Doubt()
    assert doubt.about(fleet(0, 9), LIMITS, START) == ""
    assert doubt.about(fleet(4, 9), LIMITS, START.plus(2)) == ""
    assert doubt.about(fleet(4, 4), LIMITS, START.plus(4)) == "", "four are too few to doubt"


def test_most_of_a_fleet_dead_at_one_instant_is_doubted_for_a_while_and_then_believed() -> None:
    doubt = Doubt()
    doubt.about(fleet(0, 8), LIMITS, START)
    why = doubt.about(fleet(5, 8), LIMITS, START.plus(2))
    assert why == "5 of 8 agents seem dead at one instant"
    name = doubt.number
    assert doubt.about(fleet(5, 8), LIMITS, START.plus(4)) == why
    assert doubt.about(fleet(5, 8), LIMITS, START.plus(11.9)) == why
    assert doubt.number == name, "one alert for one doubt"
    assert doubt.about(fleet(5, 8), LIMITS, START.plus(12)) == ""


def test_half_of_a_fleet_is_not_most_of_it() -> None:
    doubt = Doubt()
    doubt.about(fleet(0, 10), LIMITS, START)
    assert doubt.about(fleet(5, 10), LIMITS, START.plus(2)) == ""


def test_the_dead_of_earlier_looks_are_not_counted_again() -> None:
    doubt = Doubt()
    for seconds, dead in enumerate((2, 4, 6, 8)):
        assert doubt.about(fleet(dead, 9), LIMITS, START.plus(seconds)) == ""


def test_a_clock_that_jumps_is_doubted_in_both_directions_and_ordinary_drift_is_not() -> None:
    for step in (-3600.0, 3600.0):
        doubt = Doubt()
        doubt.about(fleet(0, 2), LIMITS, START)
        jumped = Moment("boot", START.mono + 2, START.wall + 2 + step)
        assert doubt.about(fleet(0, 2), LIMITS, jumped) == f"the clock jumped by {step:.0f} s"
    doubt = Doubt()
    doubt.about(fleet(0, 2), LIMITS, START)
    assert doubt.about(fleet(0, 2), LIMITS, Moment("boot", START.mono + 3600, START.wall + 3610)) == ""


def test_a_reboot_is_no_jump() -> None:
    doubt = Doubt()
    doubt.about(fleet(0, 2), LIMITS, START)
    assert doubt.about(fleet(0, 2), LIMITS, Moment("other", 5.0, START.wall + 9999)) == ""


def test_a_look_that_sees_nobody_is_doubted() -> None:
    assert Doubt().about(fleet(0, 3, blind=True), LIMITS, START) == "no process could be looked at"
    assert Doubt().about({}, LIMITS, START) == ""
