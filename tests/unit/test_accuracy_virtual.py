"""The labelled corpus on a virtual clock: each case with several numbers, judged by dogwatch's own policy."""

from __future__ import annotations

import pytest
from bench.accuracy_cases import CASES, Case, variations
from bench.accuracy_verdict import judge_trace
from bench.accuracy_virtual import SEED, watched

EACH = 4
NOT_RIGHT_YET: dict[str, str] = {
    "compaction-in-the-middle": "a compaction gives no hook and no movement: `stalled` after `nudge_s`",
    "stopped-for-a-moment": "`stalled` is said after `nudge_s`, long before anything would be done about it",
    "thinks-before-its-first-prompt-is-free": "an open turn without a Stop, at an idle prompt, is `stalled`",
    "interrupted-without-a-stop": "an open turn without a Stop, at an idle prompt, is `stalled`",
    "provider-hiccup": "the account is held at the first retry",
    "waits-for-mail-on-its-way": "`idle` until `nudge_s`, although it is known at once whom it waits for",
    "waits-for-a-partner-that-died": "`idle` until `nudge_s`, although it is known at once whom it waits for",
    "hangs-before-its-first-task": "a busy screen without a turn is `working` for ever",
    "outputs-with-another-name": "outputs are looked for under their exact names",
    "approved-and-nothing-written": "the time since the approval begins anew with each incarnation",
    "crash-that-leaves-a-shell": "only the pane's own process is looked at, which lives on as a shell",
}
"""Cases that dogwatch does not get right, and why."""

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
    if case.name in NOT_RIGHT_YET:
        assert found, f"{case.name} is right now: take it from the list"
    else:
        assert not found, "\n".join(found)


def test_the_same_numbers_give_the_same_trace() -> None:
    case = next(case for case in CASES if case.name == "two-agents-ask-each-other")
    parameters = variations(case, 1, SEED)[0]
    first, second = (watched(case, parameters).trace for _ in range(2))
    assert (first.said, first.acts, first.deeds) == (second.said, second.acts, second.deeds)
    assert first.acts
