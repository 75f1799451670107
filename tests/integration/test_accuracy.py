"""Some cases of the labelled corpus on real screens: each is seen for what it is, and nobody is touched in error."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from bench.accuracy_cases import CASES
from bench.accuracy_real import play
from bench.accuracy_verdict import Trace, judge_trace

UNIT = 1.5
"""Longer than in the benchmark: other tests run beside these."""
WATCH_UNITS_MAX = 8
PAIRS = (
    ("falls-silent-after-work", "permission-below-an-old-error"),
    ("prompt-flashes-between-tools", "report-is-lost"),
    ("killed-over-a-living-tool", "session-killed-at-work"),
)
"""Two at a time, each on a crew of its own: they wait more than they work."""


def story(trace: Trace) -> str:
    """All that was said and done, and when."""
    begin = trace.begin or 0.0
    lines = [(said.mono, f"said {said.kind}") for said in trace.said]
    lines += [(act.mono, f"did {act.action} because of {act.because}") for act in trace.acts]
    lines += [(deed.mono, f"truth: {deed.did}") for deed in trace.deeds]
    return "\n".join(f"{mono - begin:8.2f} {what}" for mono, what in sorted(lines))


@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_a_case_is_seen_for_what_it_is_and_only_what_may_be_done_is_done(names: tuple[str, str]) -> None:
    found = {case.name: case for case in CASES}
    cases = [replace(found[name], watch_s=min(found[name].watch_s, WATCH_UNITS_MAX)) for name in names]
    leave = threading.Event()
    with ThreadPoolExecutor(len(cases)) as pool:
        traces = list(pool.map(lambda case: play(case, leave, UNIT), cases))
    for trace in traces:
        # Among other tests the machine is always late. These cases bear it, so they are judged all the same.
        trace.late = ""
        verdict = judge_trace(trace)
        told = f"{trace.case.name}\n{story(trace)}"
        assert not verdict.void, f"{verdict.void}\n{told}"
        assert not verdict.false_actions, told
        assert not verdict.wrong, f"{verdict.wrong}\n{told}"
        assert not verdict.missed, told
        assert verdict.noticed_s is not None, told
