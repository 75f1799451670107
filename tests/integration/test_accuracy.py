"""Some cases of the labelled corpus on real screens: each is seen for what it is, and nobody is touched in error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.accuracy_cases import CASES
from bench.accuracy_form import Case
from bench.accuracy_real import play
from bench.accuracy_verdict import Trace, judge_trace

UNIT = 1.5
"""Longer than in the benchmark: other tests run beside these."""
WATCH_UNITS_MAX = 8
NAMES = (
    "prompt-flashes-between-tools",
    "falls-silent-after-work",
    "report-is-lost",
    "permission-below-an-old-error",
    "killed-over-a-living-tool",
    "session-killed-at-work",
)


def story(trace: Trace) -> str:
    """All that was said and done, and when."""
    begin = trace.begin or 0.0
    lines = [(said.mono, f"said {said.kind}") for said in trace.said]
    lines += [(act.mono, f"did {act.action} because of {act.because}") for act in trace.acts]
    lines += [(deed.mono, f"truth: {deed.did}") for deed in trace.deeds]
    return "\n".join(f"{mono - begin:8.2f} {what}" for mono, what in sorted(lines))


@pytest.mark.parametrize("case", [case for case in CASES if case.name in NAMES], ids=lambda case: case.name)
def test_a_case_is_seen_for_what_it_is_and_only_what_may_be_done_is_done(case: Case) -> None:
    trace = play(replace(case, watch_s=min(case.watch_s, WATCH_UNITS_MAX)), UNIT)
    verdict = judge_trace(trace)
    assert not verdict.void, f"{verdict.void}\n{story(trace)}"
    assert not verdict.false_actions, story(trace)
    assert not verdict.wrong, f"{verdict.wrong}\n{story(trace)}"
    assert not verdict.missed, story(trace)
    assert verdict.noticed_s is not None, story(trace)
