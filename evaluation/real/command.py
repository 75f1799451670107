"""Starts more pipelines than the machine can hold, naively and with admission; docs/evaluation-real.md explains it.

Exit code 0 when the naive start loses runs and admission delivers all of them, 1 when not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from bench import provenance

from dogwatch.cli.framework import INTERRUPTED, new_parser
from dogwatch.errors import UsageError
from dogwatch.policy.zones import REFERENCE_AGENT_BYTES, REFERENCE_BYTES, TABLE
from dogwatch.world.memory import memory
from evaluation.progress import Progress
from evaluation.real.fleet import admission, naive
from evaluation.real.pipelines import CLIENT_MB, LONG, MB, SHORT, Size
from evaluation.real.plot import draw
from evaluation.real.report import about, broken, table

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
RESULTS = "docs/evaluation-real.json"
"""Where the results are kept when they are written into the docs."""
TOO_SMALL = 69
SMALLER = "--short needs less; python -m evaluation overnight simulates it and needs next to nothing"
EXAMPLE = "python -m evaluation real --short --folder results"


def main(arguments: Sequence[str]) -> int:
    """The whole experiment."""
    flags = _flags(arguments)
    size = SHORT if flags.short else LONG
    size = replace(size, rounds=flags.rounds or size.rounds)
    if needed := _lacks(size):
        print(f"error: {needed}\nhint: {SMALLER}", file=sys.stderr)
        return TOO_SMALL
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    print(about(size), flush=True)
    before = provenance.take(RESULTS)
    try:
        found = [_try(size, name) for name in ("naive", "admission")]
    except KeyboardInterrupt:
        print("\ninterrupted; everything was ended", file=sys.stderr)
        return INTERRUPTED
    wrong = show(size, found, Path(flags.folder), provenance.measured(RESULTS, before))
    return 1 if wrong else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Once: cleaning up takes some seconds, and is not to be interrupted."""
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def _try(size: Size, name: str) -> dict[str, Any]:
    progress = Progress(name, sys.stdout)
    try:
        return {"naive": naive, "admission": admission}[name](size, progress)
    finally:
        progress.clear()


def show(
    size: Size, found: Sequence[dict[str, Any]], folder: Path, measured: Mapping[str, Any] | None = None
) -> list[str]:
    """Prints and writes everything; returns what is not as it should be."""
    wrong = broken(*found)
    print("\n".join(["", *table(found), "", f"What ended processes that took too much: {found[0]['ended_by']}"]))
    for one in found:
        for cause, count in one["causes"].items():
            print(f"{one['name']}: {count} lost: {cause}")
        for why in one["dogwatch_reds"]:
            print(f"{one['name']}: RED: {why}")
    folder.mkdir(parents=True, exist_ok=True)
    limit_bytes = size.limit_mb * MB
    result = {"about": about(size), **(measured or {}), "limit_bytes": limit_bytes, "starts": found, "wrong": wrong}
    text = re.sub(r"\[\s+([\d.]+),\s+(\d+)\s+\]", r"[\1, \2]", json.dumps(result, indent=1))  # one look, one line
    (folder / "evaluation.json").write_text(text + "\n")
    (folder / "evaluation.svg").write_text(draw(f"Memory left: {about(size)}", found, limit_bytes))
    print(f"written: {folder / 'evaluation.json'}, {folder / 'evaluation.svg'}")
    print("\n".join(f"NOT AS EXPECTED: {one}" for one in wrong) or "the naive start loses runs, admission delivers all")
    return wrong


def _lacks(size: Size) -> str:
    """Why this computer is too small: the naive start must look harmless to whoever sees all of it."""
    seen = memory()
    each = size.full_mb * MB + CLIENT_MB * MB
    share = TABLE[1].yellow * REFERENCE_AGENT_BYTES / REFERENCE_BYTES
    needed = size.agents * each / share
    if seen.size_bytes is not None and seen.size_bytes < needed:
        return f"this machine has {seen.size_bytes / 1024**3:.1f} GB of memory, {needed / 1024**3:.1f} GB are needed"
    if seen.left_bytes is not None and seen.left_bytes < 2 * size.limit_mb * MB:
        return f"{seen.left_bytes // MB} MB of memory are free, {2 * size.limit_mb} MB are needed"
    return ""


def _flags(arguments: Sequence[str]) -> argparse.Namespace:
    parser = new_parser(prog="python -m evaluation real", description=__doc__, epilog=f"example:\n  {EXAMPLE}")
    parser.add_argument("--short", action="store_true", help="the version of the tests: two minutes instead of ten")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="so many runs of each of the two pipelines")
    folder = os.path.join("build", "evaluation")
    parser.add_argument("--folder", default=folder, metavar="DIR", help=f"where the results go ({folder})")
    flags = parser.parse_args(arguments)
    if flags.rounds < 0:
        raise UsageError("--rounds cannot be negative")
    return flags
