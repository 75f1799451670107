"""What `dogwatch sim overnight` does: the three policies on the same seeds, as a table, JSON and plots."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from statistics import median

from dogwatch.cli.framework import print_json
from dogwatch.cli.table import columns
from dogwatch.errors import UsageError
from evaluation.overnight.comparison import (
    GOAL,
    HEADING,
    Comparison,
    Effect,
    effects_plain,
    nights,
    sensitivity,
    sensitivity_plot,
)
from evaluation.overnight.night import PIPELINES, POLICIES
from evaluation.overnight.parameters import world

Show = Callable[[int, int], None]


def compare(arguments: argparse.Namespace, show: Show) -> int:
    """Exit code 0 where (c) meets its goal on every seed, else 1."""
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    pipelines = arguments.runs or PIPELINES
    tasks = [(policy, seed, world(), pipelines) for seed in seeds for policy in POLICIES]
    comparison = Comparison()
    for done, outcome in enumerate(nights(tasks, arguments.jobs), 1):
        comparison.add(outcome)
        show(done // len(POLICIES), 0)
    effects: list[Effect] = []
    if arguments.sensitivity:
        effects = list(sensitivity(seeds[: arguments.sensitivity], pipelines, arguments.jobs))
    if arguments.plots:
        files = comparison.plots()
        _write(arguments.plots, files | ({"overnight-sensitivity.svg": sensitivity_plot(effects)} if effects else {}))
    show(0, 0)
    if arguments.json:
        print_json({**comparison.plain(), "sensitivity": effects_plain(effects)})
    else:
        print("\n".join(_told(comparison, effects)))
    sys.stdout.flush()
    return 0 if comparison.met == len(seeds) else 1


def _told(comparison: Comparison, effects: list[Effect]) -> list[str]:
    lines = columns(HEADING, comparison.rows(), colour=False, width=None)
    ratios, number = comparison.ratios, len(comparison.ratios)
    span = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    lines += ["", f"(c) is {span} times as fast as (b); the goal ({GOAL:g} times, 12 of 12, no RED, nobody at work "]
    lines[-1] += f"ended) is met on {comparison.met} of {number} seeds"
    if effects:
        rows = [effect.row() for effect in effects]
        lines += ["", *columns(("world", "(b)/(c)", "delivered", "RED in"), rows, colour=False, width=None)]
    return lines


def _write(folder: str, files: dict[str, str]) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"the plots cannot be written: {error}") from error
