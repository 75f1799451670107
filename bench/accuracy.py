"""How well dogwatch tells what its agents are doing: the labelled corpus on real screens and on a virtual clock.

`make bench NAME=accuracy` runs everything. While something is being developed:
`python -m bench.accuracy --development [--real-only | --virtual-only] [--only NAME …] [--unit S] [--jobs N]`
`make test-accuracy` is the test that real screens still meet their targets (`bench/accuracy_check.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

from bench import accuracy_real, accuracy_virtual, provenance
from bench.accuracy_cases import CASES
from bench.accuracy_form import Case
from bench.accuracy_rounds import play_all
from bench.accuracy_verdict import DEAD, Score, Trace, Verdict, by_class, judge_trace, percentile, score
from bench.harness import RESULTS, Figure

RECALL_MIN = 0.99
WRONG_MAX = 0.02
DEAD_S_MAX = 1.0
JOBS = 4
"""Fewer real runs at a time than in the test: here times are measured too."""
DETAILS = "bench/results/accuracy-details.json"
SETS = (("development", False), ("final", True))


def measure() -> Sequence[Figure]:
    """All figures. What they are made of is in `results/accuracy-details.json`: each real run, and each virtual one in
    which something was not as it should be."""
    before = provenance.take(DETAILS)
    accuracy_real.with_compiled_modules()
    real = [judge_trace(trace) for trace in play_all(CASES, accuracy_real.play, JOBS, tell)]
    virtual, usual = accuracy_virtual.measure(CASES)
    _show("on real screens", real)
    _show("on a virtual clock", virtual)
    _show("the usual approach on a virtual clock (a poll every 5 minutes, three without a change are critical)", usual)
    _keep(real, virtual, usual, provenance.measured(DETAILS, before))
    return [
        *(figure for name, final in SETS for figure in _real_figures(f"real, {name}", of_set(real, final=final))),
        *(figure for name, final in SETS for figure in figures(f"virtual, {name}", of_set(virtual, final=final))),
    ]


def figures(name: str, verdicts: Sequence[Verdict]) -> list[Figure]:
    """What does not depend on how fast the machine is."""
    total = score(name, verdicts)
    classes = {one.name: [1000 * s for s in one.notice_s] for one in by_class(verdicts) if one.notice_s}
    return [
        Figure(name=f"{name}: false actions", value=total.false_actions, unit="", target=0),
        Figure(
            name=f"{name}: faults seen for what they are, of {total.faults}",
            value=total.recall,
            unit="",
            target=RECALL_MIN,
            comparison=">=",
            times_ms=classes,
        ),
        Figure(
            name=f"{name}: runs with a wrong diagnosis, of {total.count - total.void}",
            value=total.wrong_share,
            unit="",
            target=WRONG_MAX,
        ),
    ]


def _real_figures(name: str, verdicts: Sequence[Verdict]) -> list[Figure]:
    void = sum(bool(one.void) for one in verdicts)
    found = [
        *figures(name, verdicts),
        Figure(name=f"{name}: runs that could not be judged, of {len(verdicts)}", value=void, unit="", target=0),
    ]
    dead = score("dead", [one for one in verdicts if one.case.truth[0] in DEAD])
    if dead.faults:
        late = percentile(dead.notice_s, 95)
        times = {"from the death to the diagnosis": [1000 * s for s in dead.notice_s]} if dead.notice_s else {}
        found += [
            Figure(name=f"{name}: deaths missed", value=dead.faults - dead.noticed, unit="", target=0),
            Figure(
                name=f"{name}: a death is noticed within (p95)",
                value=late if late is not None else float("inf"),
                unit="s",
                target=DEAD_S_MAX,
                times_ms=times,
            ),
        ]
    return found


def of_set(verdicts: Sequence[Verdict], *, final: bool) -> list[Verdict]:
    """The development cases or the final ones."""
    return [one for one in verdicts if one.case.final == final]


def _show(title: str, verdicts: Sequence[Verdict]) -> None:
    """A table with a row for each class, development and final cases apart, and what was not as it should be."""
    for name, final in SETS:
        mine = of_set(verdicts, final=final)
        if not mine:
            continue
        print(f"\n{title}: {name}")
        head = ("runs", "void", "recall", "wrong", "false", "notice p50", "p95", "mended", "mend p50", "p95")
        print(f"{'class':28}" + "".join(f"{word:>11}" for word in head))
        for one in [*by_class(mine), score("all", mine)]:
            print(f"{one.name:28}" + "".join(f"{word:>11}" for word in _row(one)))
        _show_faults(mine)


def _row(one: Score) -> list[str]:
    def times(values: Sequence[float]) -> list[str]:
        found = [percentile(values, share) for share in (50, 95)]
        return ["-" if value is None else f"{value:.2f} s" for value in found]

    recall = f"{one.recall:.3f}" if one.faults else "-"
    counts = [str(one.count), str(one.void), recall, str(one.wrong), str(one.false_actions)]
    return [*counts, *times(one.notice_s), str(one.mended), *times(one.mend_s)]


def _show_faults(verdicts: Sequence[Verdict]) -> None:
    lines: dict[str, int] = {}
    for one in verdicts:
        line = sentence(one)
        if line:
            lines[line] = lines.get(line, 0) + 1
    for line, count in lines.items():
        print(f"  {line}" + (f" ({count} runs)" if count > 1 else ""))


def sentence(one: Verdict) -> str:
    """What is not as it should be, or nothing."""
    words = [f"void: {one.void}"] if one.void else []
    words += ["missed"] if one.missed else []
    words += [f"wrong: {', '.join(dict.fromkeys(kind for _, _, kind in one.wrong))}"] if one.wrong else []
    false = dict.fromkeys(f"{action} because of {because}" for _, action, because in one.false_actions)
    words += [f"false: {', '.join(false)}"] if false else []
    return f"{one.case.name} ({' or '.join(one.case.truth)}): {'; '.join(words)}" if words else ""


def _keep(
    real: Sequence[Verdict], virtual: Sequence[Verdict], usual: Sequence[Verdict], measured: Mapping[str, Any]
) -> None:
    RESULTS.mkdir(exist_ok=True)
    parts = {"real": real, "virtual": virtual, "usual": usual}
    content = {
        **measured,
        "not_modelled": dict(accuracy_virtual.NOT_MODELLED),
        **{
            part: {
                **{
                    name: [s.as_json() for s in [*by_class(mine), score("all", mine)]]
                    for name, final in SETS
                    if (mine := of_set(verdicts, final=final))
                },
                "runs": [one.as_json() for one in verdicts if part == "real" or sentence(one)],
            }
            for part, verdicts in parts.items()
        },
    }
    (provenance.ROOT / DETAILS).write_text(json.dumps(content, indent=1) + "\n")


def tell(trace: Trace, again: bool) -> None:
    said = sentence(judge_trace(trace)) or f"{trace.case.name}: as it should be"
    print(f"  {said}{'; it is played again' if again else ''}", flush=True)


def _explain(trace: Trace) -> None:
    """The whole story of one trace."""
    begin = trace.begin or (trace.deeds[0].mono if trace.deeds else 0.0)
    story = [(deed.mono, f"{deed.did} {deed.rest[-160:]}") for deed in trace.deeds]
    story += [(said.mono, f"    said: {said.kind} ({said.why[:200]})") for said in trace.said]
    story += [(act.mono, f"    done: {act.action} because of {act.because}") for act in trace.acts]
    for mono, what in sorted(story):
        print(f"{mono - begin:9.2f} {what}")


def main(arguments: Sequence[str]) -> int:
    """Some cases, for whoever works on them."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=measure.__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], help="cases by name")
    parser.add_argument("--development", action="store_true", help="leave the final cases alone")
    parser.add_argument("--real-only", action="store_true")
    parser.add_argument("--virtual-only", action="store_true")
    parser.add_argument("--unit", type=float, default=accuracy_real.UNIT, help="seconds of a unit on real screens")
    parser.add_argument("--jobs", type=int, default=JOBS, help="real runs at a time")
    parser.add_argument("--story", action="store_true", help="tell everything that happened on real screens")
    flags = parser.parse_args(arguments)
    cases = chosen(flags.only, development=flags.development)
    if not flags.virtual_only:
        traces = play_all(cases, partial(accuracy_real.play, unit=flags.unit), flags.jobs, tell)
        for trace in traces if flags.story else ():
            _explain(trace)
        _show("on real screens", [judge_trace(trace) for trace in traces])
    if not flags.real_only:
        virtual, usual = accuracy_virtual.measure(cases)
        _show("on a virtual clock", virtual)
        _show("the usual approach", usual)
    return 0


def chosen(names: Sequence[str], *, development: bool) -> list[Case]:
    """The cases of these names, or all."""
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        close = get_close_matches(min(unknown), [case.name for case in CASES], 1)
        print(f"error: there is no case {', '.join(sorted(unknown))}", file=sys.stderr)
        print(f"hint: {f'did you mean {close[0]}?' if close else 'bench/accuracy_*.py have them'}", file=sys.stderr)
        sys.exit(64)
    return [case for case in CASES if (not names or case.name in names) and not (development and case.final)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
