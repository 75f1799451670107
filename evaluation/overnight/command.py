"""The three policies on the same seeds, as a table, JSON and plots; docs/evaluation.md explains all of it.

Nothing real is started or touched. Exit code 0 when dogwatch's own admission meets its goal on every seed, 1 when not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

from dogwatch.cli.framework import INTERRUPTED, new_parser, print_json
from dogwatch.cli.table import columns
from dogwatch.errors import UsageError
from evaluation.overnight.comparison import (
    GOAL,
    HEADING,
    Comparison,
    Effect,
    Task,
    effect,
    effects_plain,
    nights,
    sensitivity_plot,
    variations,
)
from evaluation.overnight.night import PIPELINES, POLICIES, Outcome
from evaluation.overnight.parameters import world
from evaluation.progress import Progress

EXAMPLE = "python -m evaluation overnight --seeds 100 --jobs 4 --plots out"
VARIED_POLICIES = "bc"


def main(words: Sequence[str]) -> int:
    """The whole experiment, as far as it comes before somebody interrupts it."""
    arguments = _arguments(words)
    folder = _made(arguments.plots) if arguments.plots else None
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    varied = variations() if arguments.sensitivity else {}
    few = seeds[: arguments.sensitivity]
    tasks: list[Task] = [(policy, seed, world(), arguments.pipelines) for seed in seeds for policy in POLICIES]
    tasks += [
        (policy, seed, within, arguments.pipelines)
        for within in varied.values()
        for seed in few
        for policy in VARIED_POLICIES
    ]
    comparison, effects, code = Comparison(), list[Effect](), 0
    progress = Progress("overnight", sys.stderr)
    try:
        with closing(nights(tasks, arguments.jobs)) as results:
            found = _counted(results, len(tasks), progress)
            for _ in seeds:
                comparison.add(*(next(found) for _ in POLICIES))
            for name in varied:
                effects.append(effect(name, [(next(found), next(found)) for _ in few]))
    except KeyboardInterrupt:
        code = INTERRUPTED
    progress.clear()
    if code:
        print(f"interrupted: {len(comparison.ratios)} of {len(seeds)} seeds were done", file=sys.stderr)
    if comparison.ratios:
        _show(comparison, effects, folder, as_json=arguments.json)
    return code or (0 if comparison.met == len(seeds) else 1)


def _made(name: str) -> Path:
    """The folder for the plots, made first: nobody wants to hear after a hundred seeds that it cannot be."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the plots cannot be written: {error}", hint="--plots DIR names another folder") from error
    return folder


def _counted(found: Iterator[Outcome], whole: int, progress: Progress) -> Iterator[Outcome]:
    progress(f"0 of {whole} nights")
    for done, outcome in enumerate(found, 1):
        progress(f"{done} of {whole} nights")
        yield outcome


def _show(comparison: Comparison, effects: Sequence[Effect], folder: Path | None, *, as_json: bool) -> None:
    if folder is not None:
        files = comparison.plots() | ({"overnight-sensitivity.svg": sensitivity_plot(effects)} if effects else {})
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    if as_json:
        print_json({**comparison.plain(), "sensitivity": effects_plain(effects)})
    else:
        print("\n".join(_told(comparison, effects)))
    sys.stdout.flush()


def _told(comparison: Comparison, effects: Sequence[Effect]) -> list[str]:
    lines = columns(HEADING, comparison.rows(), colour=False, width=None)
    ratios, number = comparison.ratios, len(comparison.ratios)
    span = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    lines += ["", f"(c) is {span} times as fast as (b); the goal ({GOAL:g} times, 12 of 12, no RED, nobody at work "]
    lines[-1] += f"ended) is met on {comparison.met} of {number} seeds"
    if effects:
        rows = [one.row() for one in effects]
        lines += ["", *columns(("world", "(b)/(c)", "delivered", "RED in"), rows, colour=False, width=None)]
    return lines


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = new_parser(prog="python -m evaluation overnight", description=__doc__, epilog=f"example:\n  {EXAMPLE}")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default: 0)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many seeds, one after the other")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many processes share the nights")
    parser.add_argument(
        "--pipelines", type=int, default=PIPELINES, metavar="N", help=f"only the first N (default: all {PIPELINES})"
    )
    parser.add_argument("--sensitivity", type=int, default=0, metavar="N", help="vary each parameter too, with N seeds")
    parser.add_argument("--plots", default="", metavar="DIR", help="write the plots there, as SVG")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON document")
    arguments = parser.parse_args(words)
    for name in ("seeds", "jobs"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name} must be at least 1")
    if arguments.seed < 0:
        raise UsageError("--seed cannot be negative")
    if not 1 <= arguments.pipelines <= PIPELINES:
        raise UsageError(f"--pipelines must be between 1 and {PIPELINES}")
    if not 0 <= arguments.sensitivity <= arguments.seeds:
        raise UsageError("--sensitivity takes no more seeds than --seeds", hint="raise --seeds as well")
    return arguments
