"""The labelled corpus on a virtual clock: each case with several numbers, judged by dogwatch's own policy."""

from __future__ import annotations

import pytest
from bench.accuracy_cases import CASES
from bench.accuracy_form import Case, variations
from bench.accuracy_verdict import judge_trace
from bench.accuracy_virtual import SEED, watched

EACH = 2
DEVELOPMENT = [case for case in CASES if not case.final]


def errors(case: Case) -> list[str]:
    found = []
    for parameters in variations(case, EACH, SEED):
        verdict = judge_trace(watched(case, parameters).trace)
        if verdict.void or verdict.missed or verdict.wrong or verdict.false_actions:
            found.append(f"{verdict.as_json()} with {parameters}")
    return found


@pytest.mark.parametrize("case", DEVELOPMENT, ids=lambda case: case.name)
def test_a_case_is_seen_for_what_it_is_and_only_what_may_be_done_is_done(case: Case) -> None:
    found = errors(case)
    assert not found, "\n".join(found)


def test_the_same_numbers_give_the_same_trace() -> None:
    case = next(case for case in CASES if case.name == "two-agents-ask-each-other")
    parameters = variations(case, 1, SEED)[0]
    first, second = (watched(case, parameters).trace for _ in range(2))
    assert (first.said, first.acts, first.deeds) == (second.said, second.acts, second.deeds)
    assert first.acts
