"""`make test-accuracy`: the whole real set as a test. Exit code 0 when every target is met, 1 when one is not.

The targets are those of the benchmark that do not depend on how fast the machine is: no false action, no death missed,
nearly all faults seen for what they are, hardly a wrong word. How soon a death is noticed is measured by the benchmark
alone. A case that could not be judged in three plays has failed (`bench/accuracy_rounds.py`).

A missed fault or a wrong word fails its case where the share of its set is above the target. Below it, the case is
listed as tolerated, and passes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from bench import accuracy_real
from bench.accuracy import RECALL_MIN, SETS, WRONG_MAX, chosen, figures, of_set, sentence
from bench.accuracy_form import Case
from bench.accuracy_rounds import JOBS, Player, play_all
from bench.accuracy_verdict import DEAD, Trace, Verdict, judge_trace, score
from bench.harness import INTERRUPTED, clean_up_when_interrupted


def failed(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Whoever has to do with a target that is missed, or could not be judged."""
    found = []
    for _, final in SETS:
        mine = of_set(verdicts, final=final)
        total = score("", mine)
        too_few, too_many = total.recall < RECALL_MIN, total.wrong_share > WRONG_MAX
        found += [
            one
            for one in mine
            if one.void
            or one.false_actions
            or (one.missed and (too_few or one.case.truth[0] in DEAD))
            or (one.wrong and too_many)
        ]
    return found


def check(cases: Sequence[Case], player: Player, jobs: int) -> int:
    """Plays the cases and says what came of them."""
    verdicts = [judge_trace(trace) for trace in play_all(cases, player, jobs, _progress(len(cases)))]
    bad = failed(verdicts)
    print()
    for name, final in SETS:
        for figure in figures(name, mine) if (mine := of_set(verdicts, final=final)) else ():
            goal = f"{figure.comparison} {figure.target:g}"
            print(f"{figure.name}: {figure.value:.3g} (target {goal}){'' if figure.met else ': MISSED'}")
    for one in verdicts:
        if said := sentence(one):
            print(f"{'FAILED' if one in bad else 'tolerated'} {said}")
    print(f"{len(verdicts) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


def _progress(count: int) -> Callable[[Trace, bool], None]:
    """One line for each play."""
    begin, done = time.monotonic(), 0

    def told(trace: Trace, again: bool) -> None:
        nonlocal done
        done += not again
        said = sentence(judge_trace(trace))
        word = "again" if again else "ok" if not said else "not ok"
        after_s = time.monotonic() - begin
        print(f"[{done:3}/{count} {after_s:4.0f} s] {word:6} {said or trace.case.name}", flush=True)

    return told


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(64, f"error: {message}\nhint: python -m bench.accuracy_check --help\n")


def main(arguments: Sequence[str]) -> int:
    """All cases, or some for whoever works on them."""
    parser = _Parser(prog="python -m bench.accuracy_check", description="Whether real screens are read as they should.")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], help="cases by name")
    parser.add_argument("--development", action="store_true", help="leave the final cases alone")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help=f"cases at a time ({JOBS})")
    flags = parser.parse_args(arguments)
    accuracy_real.with_compiled_modules()
    cases = chosen(flags.only, development=flags.development)
    clean_up_when_interrupted()
    try:
        return check(cases, accuracy_real.play, flags.jobs)
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
