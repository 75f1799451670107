"""The frame of every benchmark: figures with their targets, a table, a plot and a JSON file."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sqlite3
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number with the target it must meet, and the times in ms that it was made of."""

    name: str
    value: float
    unit: str
    target: float
    comparison: Literal["<=", ">="] = "<="
    times_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)

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


def report(benchmark: str, figures: Sequence[Figure]) -> bool:
    """Prints the figures, writes `results/NAME.json` and `results/NAME.png`; True when all targets are met."""
    met = all(figure.met for figure in figures)
    _print(benchmark, figures)
    RESULTS.mkdir(exist_ok=True)
    content = {
        "benchmark": benchmark,
        "met": met,
        "machine": machine(),
        "figures": [figure.as_json() for figure in figures],
    }
    (RESULTS / f"{benchmark}.json").write_text(json.dumps(content, indent=2) + "\n")
    _plot(benchmark, [figure for figure in figures if figure.times_ms])
    return met


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


def _plot(benchmark: str, figures: Sequence[Figure]) -> None:
    """For each figure, which share of the operations was done within which time."""
    # Only `scripts/setup bench` installs matplotlib, so it is imported where it is needed; and by name, because the
    # types are checked without it.
    importlib.import_module("matplotlib").use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")

    drawing, axes = pyplot.subplots(1, len(figures), figsize=(7 * len(figures), 4.5), squeeze=False)
    for axis, figure in zip(axes[0], figures, strict=True):
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
    drawing.tight_layout()
    drawing.savefig(RESULTS / f"{benchmark}.png", dpi=110)
    pyplot.close(drawing)
