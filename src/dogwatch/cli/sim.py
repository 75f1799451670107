"""Run the crew's own steps on a virtual machine and clock, with faults drawn from a seed.

Nothing real is started or touched. While it runs, invariants are checked all the time: no healthy agent is killed, no
task is lost, every run ends, and more. Each seed that breaks one is told with the one line that does the same again.
Exit code 0 when all seeds hold, 1 when one does not. docs/simulator.md explains all of it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

from dogwatch.cli.framework import INTERRUPTED, print_json
from dogwatch.cli.table import duration
from dogwatch.errors import UsageError
from dogwatch.sim.scenarios import Setup
from dogwatch.sim.seeds import Summary, simulate_all
from dogwatch.sim.simulation import Result, Simulation

EXAMPLE = "dogwatch sim --seeds 1000 --jobs 4"
BAR = 30


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default: 0)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many seeds, one after the other")
    parser.add_argument("--runs", type=int, default=0, metavar="N", help="runs at once (default: the seed decides)")
    parser.add_argument("--agents", type=int, default=0, metavar="N", help="agents in each run (default: the same)")
    parser.add_argument("--hours", type=float, default=1.0, metavar="H", help="how long a run may take (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many processes share the seeds")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON document")
    parser.add_argument("--trace", default="", metavar="FILE", help="write all events and faults of one seed, in lines")


def execute(arguments: argparse.Namespace) -> int:
    _check(arguments)
    setups = [
        Setup(seed=seed, runs=arguments.runs, agents=arguments.agents, hours=arguments.hours)
        for seed in range(arguments.seed, arguments.seed + arguments.seeds)
    ]
    summary, began, code = Summary(), time.monotonic(), 0
    bar = Bar(sys.stderr, len(setups))
    results = _traced(setups[0], arguments.trace) if arguments.trace else simulate_all(setups, arguments.jobs)
    latest: Result | None = None
    try:
        for latest in results:
            summary.add(latest)
            if latest.violations and not arguments.json:
                bar.clear()
                print(f"{latest.setup.command}  # {latest.violations[0]}".split("\n")[0])
                sys.stdout.flush()
            bar.show(summary.seeds, len(summary.failed))
        code = 1 if summary.failed else 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    bar.clear()
    seconds = time.monotonic() - began
    one = latest if arguments.seeds == 1 else None
    if arguments.json:
        print_json(_plain(summary, seconds, one))
    else:
        print("\n".join(_told(summary, seconds, one)))
    return code


def _check(arguments: argparse.Namespace) -> None:
    for name in ("seeds", "jobs"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name} must be at least 1")
    for name in ("seed", "runs", "agents"):
        if getattr(arguments, name) < 0:
            raise UsageError(f"--{name} cannot be negative")
    if not 0.1 <= arguments.hours <= 1000:
        raise UsageError("--hours must be between 0.1 and 1000")
    if arguments.trace and arguments.seeds > 1:
        raise UsageError("--trace is for one seed", hint="leave out --seeds")


def _traced(setup: Setup, path: str) -> Iterator[Result]:
    try:
        with open(path, "w", encoding="utf-8") as file:
            yield Simulation(setup, trace=file).run()
    except OSError as error:
        raise UsageError(f"the trace cannot be written: {error}") from error


class Bar:
    """A line that says how far it is, on a terminal only."""

    def __init__(self, stream: IO[str], whole: int) -> None:
        self._stream = stream
        self._whole = whole
        self._is_shown = stream.isatty() and whole > 1

    def show(self, done: int, failed: int) -> None:
        """So many of all are done."""
        if self._is_shown:
            filled = BAR * done // self._whole
            broken = f", {failed} failed" if failed else ""
            self._write(f"[{'#' * filled}{'.' * (BAR - filled)}] {done} of {self._whole} seeds{broken}")

    def clear(self) -> None:
        """The line is empty again."""
        if self._is_shown:
            self._write("")

    def _write(self, text: str) -> None:
        width = 79
        with contextlib.suppress(OSError):
            width = os.get_terminal_size(self._stream.fileno()).columns - 1
        # A terminal of unknown width says 0.
        self._stream.write(f"\r\x1b[K{text[: width if width > 0 else 79]}")
        self._stream.flush()


def _told(summary: Summary, seconds: float, one: Result | None) -> Iterator[str]:
    if one is not None:
        for violation in one.violations:
            yield f"{violation}"
        yield f"sha256   {one.sha256}"
    runs = ", ".join(f"{number} {state}" for state, number in sorted(summary.runs.items()))
    yield f"seeds    {summary.seeds}, {len(summary.failed)} failed"
    yield f"runs     {sum(summary.runs.values())}: {runs or 'none'}"
    faults = ", ".join(f"{name} {number}" for name, number in sorted(summary.faults.items()))
    yield f"faults   {sum(summary.faults.values())}: {faults or 'none'}"
    speed = f"{summary.virtual_s / seconds:,.0f} times real time" if seconds > 0 else ""
    yield f"virtual  {duration(summary.virtual_s)} in {duration(seconds)}, {speed}"


def _plain(summary: Summary, seconds: float, one: Result | None) -> dict[str, Any]:
    whole = {
        "seeds": summary.seeds,
        "virtual_s": round(summary.virtual_s, 3),
        "seconds": round(seconds, 3),
        "steps": summary.steps,
        "events": summary.events,
        "runs": dict(sorted(summary.runs.items())),
        "faults": dict(sorted(summary.faults.items())),
        "failed": [
            {
                "command": result.setup.command,
                "violations": [{"name": v.name, "what": v.what, "at_s": v.at_s} for v in result.violations],
            }
            for result in summary.failed
        ],
    }
    return {**whole, "sha256": one.sha256} if one is not None else whole
