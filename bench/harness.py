"""The frame of every benchmark: figures with their targets, a table, a plot and a JSON file."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import platform
import signal
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from bench import provenance

RESULTS = Path(__file__).parent / "results"
PLOT_COLUMNS_MAX = 3
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


@dataclass(frozen=True)
class Rate:
    """How often in a second a system does something, all writers together: the median of its rounds, and these."""

    system: str
    operation: str
    writers: int
    per_s: float
    rounds: Sequence[float]

    def as_json(self) -> dict[str, Any]:
        """The rate with its rounds."""
        rounds = [round(per_s, 1) for per_s in self.rounds]
        return {**dataclasses.asdict(self), "per_s": round(self.per_s, 1), "rounds": rounds}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number with the target it must meet, and the times in ms or the rates that it was made of."""

    name: str
    value: float
    unit: str
    target: float
    comparison: Literal["<=", ">="] = "<="
    times_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    rates: Sequence[Rate] = ()

    @property
    def met(self) -> bool:
        return self.value <= self.target if self.comparison == "<=" else self.value >= self.target

    def as_json(self) -> dict[str, Any]:
        """The figure with a summary of its times."""
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "comparison": self.comparison,
            "target": self.target,
            "met": self.met,
            "times_ms": {series: summary(times) for series, times in self.times_ms.items()},
        }


def summary(times: Sequence[float]) -> dict[str, float]:
    """What a series of times comes down to."""
    ordered = sorted(times)
    return {
        "count": len(ordered),
        "median": round(statistics.median(ordered), 4),
        "mean": round(statistics.fmean(ordered), 4),
        "p99": round(ordered[int(0.99 * (len(ordered) - 1))], 4),
        "max": round(ordered[-1], 4),
    }


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the same disk as the project: the system's own may be in memory, where a sync costs nothing."""
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix=".scratch-") as folder:
        yield Path(folder)


def run(benchmark: str, measure: Callable[[], Sequence[Figure]]) -> bool:
    """Measures, prints the figures, writes `results/NAME.json` and `.png`; True when all targets are met."""
    path = f"bench/results/{benchmark}.json"
    before = provenance.take(path)
    figures = measure()
    measured = provenance.measured(path, before)
    if measured[provenance.KEY] is None:
        print(f"warning: the sources of {benchmark} have changed meanwhile, so its results name none")
    return report(benchmark, figures, measured)


def report(benchmark: str, figures: Sequence[Figure], measured: Mapping[str, Any]) -> bool:
    """The second half of `run`."""
    met = all(figure.met for figure in figures)
    rates = [rate for figure in figures for rate in figure.rates]
    _print(benchmark, figures)
    _print_rates(rates)
    RESULTS.mkdir(exist_ok=True)
    content = {
        "benchmark": benchmark,
        "met": met,
        **measured,
        "machine": machine(),
        "figures": [figure.as_json() for figure in figures],
        "operations_per_s": [rate.as_json() for rate in rates],
    }
    (RESULTS / f"{benchmark}.json").write_text(json.dumps(content, indent=2) + "\n")
    _plot(benchmark, [figure for figure in figures if figure.times_ms], rates)
    return met


def clean_up_when_interrupted() -> None:
    """Each of the signals becomes a KeyboardInterrupt, once: cleaning up takes some seconds, and is not to be
    interrupted. Children that were forked meanwhile end by the signal as ever."""
    owner = os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        print("\ninterrupted; everything is being ended", file=sys.stderr, flush=True)
        raise KeyboardInterrupt

    for number in SIGNALS:
        signal.signal(number, interrupt)


def machine() -> dict[str, Any]:
    """What the figures depend on, and nothing that names the machine."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def _print(benchmark: str, figures: Sequence[Figure]) -> None:
    width = max(len(figure.name) for figure in figures)
    print(f"{benchmark}\n{'figure':{width}}  {'value':>10}  {'target':>12}  met")
    for figure in figures:
        value, target = f"{figure.value:.3g} {figure.unit}", f"{figure.comparison} {figure.target:g} {figure.unit}"
        print(f"{figure.name:{width}}  {value:>10}  {target:>12}  {'yes' if figure.met else 'NO'}")
        for series, times in figure.times_ms.items():
            print(f"  {series}: " + ", ".join(f"{key} {number:g}" for key, number in summary(times).items()) + " (ms)")


def _print_rates(rates: Sequence[Rate]) -> None:
    """A row for each piece of work, a column for each system."""
    table: dict[str, dict[str, float]] = {}
    for rate in rates:
        table.setdefault(_work(rate), {})[rate.system] = rate.per_s
    systems = list(dict.fromkeys(rate.system for rate in rates))
    width = max(map(len, table), default=0)
    if table:
        print(f"{'operations/s':{width}}" + "".join(f"  {system:>13}" for system in systems))
    for work, row in table.items():
        print(f"{work:{width}}" + "".join(f"  {row[s]:>13,.0f}" if s in row else f"  {'':13}" for s in systems))


def _work(rate: Rate) -> str:
    return f"{rate.operation}, {rate.writers} writer{'s' if rate.writers > 1 else ''}"


def _plot(benchmark: str, figures: Sequence[Figure], rates: Sequence[Rate]) -> None:
    """For each figure, which share of the operations was done within which time; and all rates side by side."""
    if not figures and not rates:
        return
    # Only `scripts/setup bench` installs matplotlib, so it is imported where it is needed; and by name, because the
    # types are checked without it.
    importlib.import_module("matplotlib").use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")

    count = len(figures) + bool(rates)
    columns = min(count, PLOT_COLUMNS_MAX)
    rows = -(-count // columns)
    drawing, axes = pyplot.subplots(rows, columns, figsize=(7 * columns, 4.5 * rows), squeeze=False)
    places = [place for row in axes for place in row]
    for axis, figure in zip(places, figures, strict=False):
        for series, times in figure.times_ms.items():
            ordered = sorted(times)
            axis.step(ordered, [(position + 1) / len(ordered) for position in range(len(ordered))], label=series)
        axis.set_xscale("log")
        axis.set_xlabel("time of one operation in ms")
        axis.set_ylabel("share of operations done")
        verdict = "met" if figure.met else "not met"
        goal = f"{figure.comparison} {figure.target:g} {figure.unit}: {verdict}"
        axis.set_title(f"{figure.name}: {figure.value:.3g} {figure.unit} ({goal})", fontsize=10)
        axis.grid(alpha=0.3)
        axis.legend(loc="lower right")
    if rates:
        _plot_rates(places[len(figures)], rates)
    for axis in places[count:]:
        axis.axis("off")
    drawing.tight_layout()
    drawing.savefig(RESULTS / f"{benchmark}.png", dpi=110)
    pyplot.close(drawing)


def _plot_rates(axis: Any, rates: Sequence[Rate]) -> None:
    """A group of bars for each piece of work, a bar for each system."""
    work = list(dict.fromkeys(map(_work, rates)))
    systems = list(dict.fromkeys(rate.system for rate in rates))
    height = 0.8 / len(systems)
    for number, system in enumerate(systems):
        mine = [rate for rate in rates if rate.system == system]
        middles = [work.index(_work(rate)) + number * height for rate in mine]
        axis.barh(middles, [rate.per_s for rate in mine], height, label=system)
    axis.set_yticks([place + height * (len(systems) - 1) / 2 for place in range(len(work))], work, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("operations/s")
    axis.grid(alpha=0.3)
    axis.legend(loc="best")
