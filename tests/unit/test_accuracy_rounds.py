"""What cannot be judged is played again, a stated number of times, and never dropped; the test's outcome says all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat

import pytest
from bench import accuracy_rounds
from bench.accuracy_cases import CASES
from bench.accuracy_check import check, failed
from bench.accuracy_form import Case
from bench.accuracy_rounds import PLAYS_MAX, Player, is_void, play_all
from bench.accuracy_verdict import Act, Deed, Said, Trace, judge_trace
from bench.lateness import Lateness

PATIENCE_S = 60.0
HEALTHY = next(case for case in CASES if case.healthy and not case.final)
DEATH = next(case for case in CASES if case.truth == ("exited",) and not case.final)
FAULT = next(case for case in CASES if case.truth == ("silent_turn",) and not case.final)

Outcome = Callable[[Case], Trace]


def begun(case: Case) -> Trace:
    """A trace in which the label has come to hold, and held for as long as it is watched."""
    word, _, rest = case.since.partition(" ")
    end = 10.0 + case.watch_s
    return Trace(case=case, unit=1.0, late_s=0.9, early_s=0.5, deeds=[Deed(10.0, word, rest)], end=end)


def right(case: Case) -> Trace:
    trace = begun(case)
    trace.said.append(Said(10.0, case.truth[0]))
    return trace


def wrong(case: Case) -> Trace:
    trace = right(case)
    trace.said.insert(0, Said(10.0, "rate_limited"))
    trace.said[1] = Said(trace.end - 1, case.truth[0])
    return trace


def harmed(case: Case) -> Trace:
    trace = right(case)
    trace.acts.append(Act(12.0, "REPLACE", "stalled"))
    return trace


def late(case: Case) -> Trace:
    trace = right(case)
    trace.late = "the machine was too busy"
    return trace


def late_and_harmed(case: Case) -> Trace:
    trace = harmed(case)
    trace.late = "the machine was too busy"
    return trace


def never_begun(case: Case) -> Trace:
    return Trace(case=case, unit=1.0, late_s=0.9, early_s=0.5, end=90.0)


def never_begun_and_harmed(case: Case) -> Trace:
    trace = never_begun(case)
    trace.acts.append(Act(12.0, "REPLACE", "stalled"))
    return trace


def missed(case: Case) -> Trace:
    return begun(case)


def broken(case: Case) -> Trace:
    trace = never_begun(case)
    trace.problem = "AssertionError: dogwatch run"
    return trace


def player(**outcomes: list[Outcome]) -> tuple[Player, Counter[str]]:
    """Plays what is told for a case, one after the other, and the last one from then on; and how often it was asked."""
    plays: Counter[str] = Counter()
    coming: dict[str, Iterator[Outcome]] = {
        name.replace("_", "-"): chain(all_of, repeat(all_of[-1])) for name, all_of in outcomes.items()
    }

    def play(case: Case, leave: threading.Event) -> Trace:
        plays[case.name] += 1
        return next(coming.get(case.name, repeat(right)))(case)

    return play, plays


def named(case: Case, *outcomes: Outcome) -> dict[str, list[Outcome]]:
    return {case.name.replace("-", "_"): list(outcomes)}


def test_the_outcomes_are_what_their_names_say() -> None:
    for case in (HEALTHY, DEATH, FAULT):
        assert not judge_trace(right(case)).void
        assert not judge_trace(right(case)).wrong
        assert judge_trace(wrong(case)).wrong
        assert judge_trace(late(case)).void
        assert judge_trace(never_begun(case)).void
    assert judge_trace(harmed(HEALTHY)).false_actions
    assert judge_trace(missed(DEATH)).missed
    assert judge_trace(missed(FAULT)).missed


@pytest.mark.parametrize("outcome", [late, late_and_harmed, never_begun, broken])
def test_a_void_play_is_played_again_and_the_latest_counts(outcome: Outcome) -> None:
    play, plays = player(**named(HEALTHY, outcome, right))
    told: list[tuple[str, bool]] = []
    traces = play_all([HEALTHY, DEATH], play, 2, lambda trace, again: told.append((trace.case.name, again)))
    assert [trace.case for trace in traces] == [HEALTHY, DEATH]
    assert plays == {HEALTHY.name: 2, DEATH.name: 1}
    assert not any(is_void(trace) for trace in traces)
    assert sorted(told) == sorted([(HEALTHY.name, True), (HEALTHY.name, False), (DEATH.name, False)])


def test_what_stays_void_is_played_so_often_and_then_kept_as_void() -> None:
    play, plays = player(**named(HEALTHY, late))
    told: list[bool] = []
    (trace,) = play_all([HEALTHY], play, 4, lambda trace, again: told.append(again))
    assert plays[HEALTHY.name] == PLAYS_MAX == 3
    assert told == [True, True, False]
    assert judge_trace(trace).void


@pytest.mark.parametrize("outcome", [harmed, never_begun_and_harmed, wrong, right])
def test_what_was_done_on_a_machine_that_was_not_too_busy_stands(outcome: Outcome) -> None:
    play, plays = player(**named(HEALTHY, outcome, right))
    play_all([HEALTHY], play, 1)
    assert plays[HEALTHY.name] == 1


def lateness(*beats: float, now: float = 0.0) -> float:
    """With a look every 0.2 s, from the moment on that an agent was to be started."""
    found = Lateness(0.2)
    found.beat(1.0, 1.0)
    found.beat(9.0, 9.0)
    found.intend(9.0)
    for beat in beats:
        found.beat(beat, max(beat, now))
    return found.worst_s


def test_a_machine_is_as_late_as_the_latest_look_and_not_before_there_is_somebody_to_look_at() -> None:
    assert lateness() == 0
    assert lateness(9.2, 9.4) == pytest.approx(0)
    assert lateness(9.2, 10.2, 10.4) == pytest.approx(0.8)
    assert lateness(9.2, now=11.0) == pytest.approx(1.6), "it does not look at all any more"


def test_a_process_that_begins_late_is_a_late_machine_in_each_life() -> None:
    found = Lateness(0.2)
    found.start(5.0)
    assert found.worst_s == 0
    found.intend(6.0)
    found.start(6.3)
    found.intend(20.0)
    found.start(20.1)
    assert found.worst_s == pytest.approx(0.3)
    found.intend(30.0)
    found.start(32.0)
    assert found.worst_s == pytest.approx(2.0)


def test_each_round_has_half_as_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, width: int) -> None:
            super().__init__(width)
            widths.append(width)

    monkeypatch.setattr(accuracy_rounds, "ThreadPoolExecutor", Pool)
    for jobs, expected in ((16, [16, 8, 4]), (2, [2, 1, 1])):
        widths.clear()
        play_all([HEALTHY, DEATH], player(**named(HEALTHY, late))[0], jobs)
        assert widths == expected


def test_the_longest_begin_first() -> None:
    order: list[float] = []

    def play(case: Case, leave: threading.Event) -> Trace:
        order.append(case.watch_s)
        return right(case)

    play_all(CASES[:20], play, 1)
    assert order == sorted(order, reverse=True)
    assert len(set(order)) > 1


def test_an_interrupt_breaks_off_every_play_and_waits_until_each_has_cleaned_up() -> None:
    playing, cleaned = threading.Barrier(4), []

    def play(case: Case, leave: threading.Event) -> Trace:
        if case is HEALTHY:
            playing.wait(PATIENCE_S)
            return right(case)
        playing.wait(PATIENCE_S)
        assert leave.wait(PATIENCE_S)
        cleaned.append(case.name)
        return broken(case)

    def interrupted(trace: Trace, again: bool) -> None:
        raise KeyboardInterrupt

    cases = [HEALTHY, *(case for case in CASES if case is not HEALTHY)][:4]
    with pytest.raises(KeyboardInterrupt):
        play_all(cases, play, 4, interrupted)
    assert sorted(cleaned) == sorted(case.name for case in cases[1:])


# The outcome of the test


def outcome_of(capsys: pytest.CaptureFixture[str], **outcomes: list[Outcome]) -> tuple[int, str, str]:
    play, _ = player(**outcomes)
    code = check([case for case in CASES if not case.final], play, 4)
    lines = capsys.readouterr().out.splitlines()
    return code, lines[-1], "\n".join(lines)


COUNT = sum(not case.final for case in CASES)


def test_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    code, last, lines = outcome_of(capsys)
    assert (code, last) == (0, f"{COUNT} passed, 0 failed")
    assert f"[{COUNT:3}/{COUNT}" in lines


@pytest.mark.parametrize(
    ("case", "outcome"), [(HEALTHY, harmed), (HEALTHY, late), (HEALTHY, broken), (DEATH, missed), (FAULT, missed)]
)
def test_one_case_fails_the_test(case: Case, outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    code, last, lines = outcome_of(capsys, **named(case, outcome))
    assert (code, last) == (1, f"{COUNT - 1} passed, 1 failed")
    assert f"FAILED {case.name}" in lines


def test_a_late_machine_fails_nothing_where_the_next_play_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    code, last, lines = outcome_of(capsys, **named(HEALTHY, late_and_harmed, right))
    assert (code, last) == (0, f"{COUNT} passed, 0 failed")
    assert f"again  {HEALTHY.name}" in lines


def test_wrong_words_fail_the_test_where_they_are_more_than_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    healthy = [case for case in CASES if case.healthy and not case.final and judge_trace(wrong(case)).wrong]
    one, three = (
        named(healthy[0], wrong),
        {key: value for case in healthy[:3] for key, value in named(case, wrong).items()},
    )
    code, last, lines = outcome_of(capsys, **one)
    assert (code, last) == (0, f"{COUNT} passed, 0 failed")
    assert f"tolerated {healthy[0].name}" in lines
    code, last, lines = outcome_of(capsys, **three)
    assert (code, last) == (1, f"{COUNT - 3} passed, 3 failed")
    assert lines.count("MISSED") == 1


def test_the_final_cases_have_targets_of_their_own() -> None:
    final = next(case for case in CASES if case.final and case.healthy and judge_trace(wrong(case)).wrong)
    verdicts = [judge_trace(wrong(case) if case is final else right(case)) for case in CASES]
    assert [one.case for one in failed(verdicts)] == [final]
