"""The labelled corpus holds what it promises: valid scenarios, known words, its shares, and variations that fit."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from bench.accuracy_cases import CASES, FAULTS, HEALTHY
from bench.accuracy_form import (
    ACTIONS,
    COMMON,
    DIAGNOSES,
    LIMITS,
    NAMES_WANTED,
    OUTSIDE,
    PIPELINES,
    STEPS_WANTED,
    Case,
    limits,
    partner,
    scenario,
    variations,
)

from dogwatch.testing.scenario import STEPS, Step, parse

TWO_KINDS = (*(name for name in DIAGNOSES if name not in ("working", "idle", "starting")), *NAMES_WANTED)
WITH_A_PARTNER = ("two agents mailing", "review")

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def steps(case: Case) -> list[Step]:
    return [step for file in (case.scenario, case.partner) for rule in parse(file).rules for step in rule.do]


def places(part: Any) -> set[str]:
    """The names of the numbers that a template uses."""
    return set(re.findall(r"<([a-z0-9_]+)>", repr(part)))


def test_there_are_enough_kinds_and_a_third_of_them_only_look_ill() -> None:
    assert len(CASES) >= 46
    assert len({case.name for case in CASES}) == len(CASES)
    assert 3 * len(HEALTHY) >= len(CASES)
    assert all(case.healthy and not case.allowed for case in HEALTHY)
    assert all(case.allowed and case.row and not case.healthy for case in FAULTS)


def test_every_diagnosis_has_two_kinds() -> None:
    kinds = Counter(label for case in CASES for label in case.truth)
    assert {label for label in TWO_KINDS if kinds[label] < 2} == set()
    assert not STEPS_WANTED.keys() & STEPS.keys()


def test_a_fifth_is_held_back_across_all_classes() -> None:
    final = [case for case in CASES if case.final]
    assert 0.18 <= len(final) / len(CASES) <= 0.3
    held_back = {label for case in final for label in case.truth}
    in_use = {label for case in CASES if not case.final for label in case.truth}
    assert set(TWO_KINDS) - held_back <= {"context_exhausted", "startup_stall"}
    assert held_back <= in_use
    assert 3 * sum(case.healthy for case in final) >= len(final)


@each_case
def test_its_words_are_known(case: Case) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", case.name)
    assert case.truth
    assert {*case.truth, *case.before} <= {*DIAGNOSES, *NAMES_WANTED}
    assert set(case.allowed) <= set(ACTIONS)
    assert case.pipeline in PIPELINES
    assert case.outside in OUTSIDE
    assert (case.outside == "") == ("outside_s" not in case.numbers)
    assert (case.outside == "sigstop_briefly") == ("stopped_s" in case.numbers)
    assert re.fullmatch(r"(F\d\d)?", case.row)
    assert case.what.endswith(".")
    assert case.why.endswith(".")
    assert case.settle_s < case.watch_s


@each_case
def test_its_scenarios_are_valid_on_every_scale(case: Case) -> None:
    assert case.scenario == scenario(case)
    assert steps(case) or not case.scenario["rules"]
    if case.pipeline not in WITH_A_PARTNER:
        assert case.partner == {}
    for unit in (0.1, 1, 10):
        parse(scenario(case, unit=unit))
        parse(partner(case, unit=unit))
    assert parse(scenario(case, unit=10)).work_s == pytest.approx(10 * parse(scenario(case, unit=1)).work_s)


@each_case
def test_its_numbers_are_used_and_lie_in_their_spans(case: Case) -> None:
    used = places([case.template, case.partner_template])
    assert used <= {*COMMON, *case.numbers}
    assert set(case.numbers) <= used | {"outside_s", "stopped_s", "cpu", *LIMITS}
    for span in case.numbers.values():
        assert span.low <= span.value <= span.high


@each_case
def test_its_variations_are_deterministic_distinct_and_valid(case: Case) -> None:
    twelve = variations(case, 12, seed=1)
    assert twelve == variations(case, 12, seed=1)
    assert twelve[:5] == variations(case, 5, seed=1)
    assert twelve != variations(case, 12, seed=2)
    assert len({tuple(sorted(one.items())) for one in twelve}) == 12
    for one in twelve:
        for name, span in {**COMMON, **case.numbers}.items():
            assert span.low <= one[name] <= span.high
        parse(scenario(case, one))
        parse(partner(case, one))
        assert limits(case, one)["sweep_s"] == one["sweep_s"]


@each_case
def test_a_swap_exchanges_two_steps_that_differ(case: Case) -> None:
    if case.swap is None:
        assert all("swapped" not in one for one in variations(case, 5, seed=1))
        return
    first, second = case.swap
    plain = parse(scenario(case, {"swapped": 0})).rules[0].do
    swapped = parse(scenario(case, {"swapped": 1})).rules[0].do
    assert (swapped[first], swapped[second]) == (plain[second], plain[first])
    assert swapped != plain
    assert {one["swapped"] for one in variations(case, 30, seed=1)} == {0, 1}


def test_a_number_with_the_name_of_a_limit_is_that_limit() -> None:
    case = next(case for case in CASES if "expect_s" in case.numbers)
    assert case.limits["expect_s"] == case.numbers["expect_s"].value != LIMITS["expect_s"]
    assert limits(case, {"expect_s": 17})["expect_s"] == 17
    assert limits(case, {"expect_s": 17})["nudge_s"] == LIMITS["nudge_s"]
