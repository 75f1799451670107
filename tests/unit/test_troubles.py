"""Which errors and denials are told: a flood of them is counted, and a person is told of critical ones that repeat."""

from __future__ import annotations

from collections.abc import Iterable

from dogwatch.model.tally import Denial, Failure
from dogwatch.policy.troubles import REPEATS_S, STREAK_S, STREAKS_MAX, Trouble, Troubles, note

FAILED = Failure("tool_failed", "Bash", "Exit code 1")
KILL = Denial("kill.foreign", "critical", "not yours", "Bash", "kill 7")


def told(*found: tuple[float, Failure | Denial]) -> list[Trouble]:
    troubles, all_ = Troubles(), []
    for at, one in found:
        troubles, trouble = note(troubles, one, at)
        if trouble is not None:
            all_.append(trouble)
    return all_


def counts(troubles: Iterable[Trouble]) -> list[int]:
    return [one.count for one in troubles]


def test_of_a_thousand_the_same_four_are_told() -> None:
    assert counts(told(*((n * 0.1, FAILED) for n in range(1000)))) == [1, 10, 100, 1000]


def test_two_that_take_turns_are_counted_each() -> None:
    other = Failure("tool_failed", "Read", "no such file")
    found = told(*((n * 0.1, FAILED if n % 2 else other) for n in range(1000)))
    assert sorted(counts(found)) == [1, 1, 10, 10, 100, 100]


def test_after_a_pause_it_is_told_again() -> None:
    assert counts(told((0, FAILED), (STREAK_S - 1, FAILED), (2 * STREAK_S, FAILED))) == [1, 1]


def test_ever_new_words_are_no_way_around() -> None:
    found = told(*((n * 0.01, Failure("tool_failed", "Bash", f"line {n}")) for n in range(1000)))
    assert len(found) <= STREAKS_MAX + 3
    assert found[-1].count >= 100


def test_every_one_that_is_told_has_its_own_number() -> None:
    found = told((0, FAILED), (1, KILL), (2, Failure("api_error")), (3, FAILED))
    assert [one.number for one in found] == [1, 2, 3]


def test_three_critical_denials_within_an_hour_call_a_person_once() -> None:
    found = told(*((n * 60.0, Denial("kill.foreign", "critical", command=f"kill {n}")) for n in range(9)))
    assert [one.number for one in found if one.alarm] == [3]


def test_the_third_calls_a_person_even_where_it_is_the_same_command_again() -> None:
    found = told((0, KILL), (1, KILL), (2, KILL), (3, KILL))
    assert [(one.count, one.alarm) for one in found] == [(1, False), (3, True)]


def test_after_an_hour_a_person_is_called_again() -> None:
    times = [0.0, 1.0, 2.0, REPEATS_S + 10, REPEATS_S + 11, REPEATS_S + 12]
    assert sum(one.alarm for one in told(*((at, KILL) for at in times))) == 2


def test_rare_critical_denials_and_any_number_of_warnings_call_nobody() -> None:
    rare = told(*((n * REPEATS_S, KILL) for n in range(10)))
    warnings = told(*((n * 1.0, Denial("unresolved", "warning", command=str(n))) for n in range(50)))
    assert not any(one.alarm for one in (*rare, *warnings))
