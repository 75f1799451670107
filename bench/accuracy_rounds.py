"""Plays many cases at a time, and plays again whatever could not be judged.

A case is **void** where the machine was too busy for its times to mean anything, or where the label never came to
hold. It is played again, at most `PLAYS_MAX` times in all, each time with half as many beside it: mostly the other
cases were the load. What is void at the end stays void, and whoever counts must count it as failed.

Only this decides who is played again, never whether the verdict pleases: what was done wrongly on a machine that was
not too busy stands, also where the label never came.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing

from bench.accuracy_form import Case
from bench.accuracy_verdict import Trace, judge_trace

JOBS = 12
"""Cases at a time on two cores: they mostly wait."""
PLAYS_MAX = 3

Player = Callable[[Case, threading.Event], Trace]


def is_void(trace: Trace) -> bool:
    """Whether it has to be played again."""
    if trace.late:
        return True
    verdict = judge_trace(trace)
    return bool(verdict.void) and not verdict.false_actions


def play_all(
    cases: Sequence[Case],
    player: Player,
    jobs: int = JOBS,
    told: Callable[[Trace, bool], None] = lambda trace, again: None,
) -> list[Trace]:
    """The latest trace of each case. `told` hears of every play, and whether the case will be played again. When this
    is interrupted, all plays are broken off, and it returns to the caller when each of them has cleaned up."""
    found: dict[str, Trace] = {}
    waiting = list(cases)
    for number in range(PLAYS_MAX):
        with closing(_round(waiting, player, max(1, jobs >> number))) as traces:
            for trace in traces:
                found[trace.case.name] = trace
                told(trace, is_void(trace) and number + 1 < PLAYS_MAX)
        waiting = [case for case in waiting if is_void(found[case.name])]
        if not waiting:
            break
    return [found[case.name] for case in cases]


def _round(cases: Sequence[Case], player: Player, jobs: int) -> Generator[Trace, None, None]:
    """Each case once, those that are watched for long first: else the last one would be waited for alone."""
    leave = threading.Event()
    ordered = sorted(cases, key=lambda case: -case.watch_s)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for play in as_completed([pool.submit(player, case, leave) for case in ordered]):
                yield play.result()
        finally:
            # Where nothing was raised, all plays are over and this does nothing.
            leave.set()
            pool.shutdown(wait=False, cancel_futures=True)
