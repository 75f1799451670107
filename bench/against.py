"""Two revisions side by side: `python -m bench --against REVISION [NAME] [--rounds N]`.

Both are set up alike, each in a folder and with a virtual environment of its own: the old one as it was committed, the
new one as it lies here, with what is not committed. Each runs its own benchmarks, in turns, and each round begins with
the other one. For every figure that both have, what counts is the median of the rounds' ratios, turned so that more
than 1 is worse than before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from bench import provenance
from bench.harness import RESULTS, machine, scratch

WORSE_MAX = 1.10
ROUNDS = 5
ROUNDS_MAX = 99
PATH = "bench/results/against.json"
PATIENCE_S = 30.0
SAID_MAX = 15
"""So many of the last lines are shown of what has failed."""
_NUMBER = re.compile(r"\d[\d,.]*")


class AgainstError(Exception):
    """What went wrong, and what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A figure as a results file has it."""

    name: str
    value: float
    unit: str
    smaller_is_better: bool


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A figure of both revisions, with the values of all rounds."""

    benchmark: str
    name: str
    unit: str
    smaller_is_better: bool
    old: Sequence[float]
    new: Sequence[float]

    @property
    def ratio(self) -> float:
        """How much worse it is: the median of the rounds."""
        pairs = zip(self.old, self.new, strict=True)
        return median(worse(old, new, smaller_is_better=self.smaller_is_better) for old, new in pairs)

    @property
    def met(self) -> bool:
        return self.ratio <= WORSE_MAX

    def as_json(self) -> dict[str, Any]:
        """The figure with its rounds. JSON has no infinity."""
        return {
            "benchmark": self.benchmark,
            "name": self.name,
            "unit": self.unit,
            "better": "smaller" if self.smaller_is_better else "larger",
            "old": median(self.old),
            "new": median(self.new),
            "ratio": None if self.ratio == inf else round(self.ratio, 4),
            "met": self.met,
            "old_rounds": list(self.old),
            "new_rounds": list(self.new),
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All figures of both, and those that only one of them has."""

    figures: Sequence[Compared]
    only_old: Sequence[str]
    only_new: Sequence[str]

    @property
    def met(self) -> bool:
        return all(figure.met for figure in self.figures)


Round = Mapping[str, Sequence[Measured]]
"""The figures of one revision in one round, by benchmark."""


def worse(old: float, new: float, *, smaller_is_better: bool) -> float:
    """How many times worse the new value is; below 1 it is better."""
    good, bad = (old, new) if smaller_is_better else (new, old)
    if good == bad:
        return 1.0
    return bad / good if good else inf


def read(text: str) -> list[Measured]:
    """The figures of a results file."""
    return [
        Measured(
            name=figure["name"],
            value=float(figure["value"]),
            unit=figure["unit"],
            smaller_is_better=figure.get("comparison", "<=") == "<=",
        )
        for figure in json.loads(text)["figures"]
    ]


def match(old: Sequence[Measured], new: Sequence[Measured]) -> list[tuple[Measured, Measured]]:
    """The figures that both have: by name, or by name but for its numbers where that leaves no choice. Some names count
    what was measured, and a corpus grows."""
    by_name = {figure.name: figure for figure in old}
    pairs = {figure.name: by_name[figure.name] for figure in new if figure.name in by_name}
    rest_old = [figure for figure in old if figure.name not in pairs]
    rest_new = [figure for figure in new if figure.name not in pairs]
    for figure in rest_new:
        alike = [one for one in rest_old if _form(one) == _form(figure)]
        if len(alike) == 1 and sum(_form(one) == _form(figure) for one in rest_new) == 1:
            pairs[figure.name] = alike[0]
    return [(pairs[figure.name], figure) for figure in new if figure.name in pairs]


def _form(figure: Measured) -> str:
    return _NUMBER.sub("#", figure.name)


def compare(old: Sequence[Round], new: Sequence[Round]) -> Comparison:
    """What the rounds say. A figure that is not in all of them counts in those that have it."""
    found: dict[tuple[str, str], list[tuple[Measured, Measured]]] = {}
    only_old: dict[str, None] = {}
    only_new: dict[str, None] = {}
    for before, after in zip(old, new, strict=True):
        for benchmark in {**before, **after}:
            there, here = before.get(benchmark, ()), after.get(benchmark, ())
            pairs = match(there, here)
            for pair in pairs:
                found.setdefault((benchmark, pair[1].name), []).append(pair)
            matched = {figure.name for pair in pairs for figure in pair}
            only_old |= {f"{benchmark}: {figure.name}": None for figure in there if figure.name not in matched}
            only_new |= {f"{benchmark}: {figure.name}": None for figure in here if figure.name not in matched}
    figures = [
        Compared(
            benchmark=benchmark,
            name=name,
            unit=pairs[0][1].unit,
            smaller_is_better=pairs[0][1].smaller_is_better,
            old=[before.value for before, _ in pairs],
            new=[after.value for _, after in pairs],
        )
        for (benchmark, name), pairs in found.items()
    ]
    return Comparison(figures=figures, only_old=tuple(only_old), only_new=tuple(only_new))


def table(found: Comparison) -> list[str]:
    """The comparison for people."""
    names = [f"{figure.benchmark}: {figure.name}" for figure in found.figures]
    width = max(map(len, names), default=0)
    lines = [f"{'figure':{width}}  {'old':>10}  {'new':>10}  {'worse by':>8}  within {WORSE_MAX:g}"]
    for name, figure in zip(names, found.figures, strict=True):
        values = f"{median(figure.old):>10.4g}  {median(figure.new):>10.4g}"
        lines.append(f"{name:{width}}  {values}  {figure.ratio:>8.3f}  {'yes' if figure.met else 'NO'}")
    lines += [f"only in the old revision: {name}" for name in found.only_old]
    lines += [f"only in the new one: {name}" for name in found.only_new]
    return lines


def run(revision: str, benchmarks: Sequence[str], rounds: int) -> bool:
    """Measures both, prints the comparison and keeps it; True when no figure has become worse than it may."""
    commit = _commit(revision)
    before = provenance.take(PATH)
    with scratch() as folder:
        sides = {"old": folder / "old", "new": folder / "new"}
        _say(f"setting up both: {revision} ({commit[:10]}) and what lies here")
        _checkout(commit, sides["old"])
        _copy(sides["new"])
        for name, side in sides.items():
            _call(["scripts/setup", "bench"], side, f"set up the {name} revision")
        measured: dict[str, list[Round]] = {name: [] for name in sides}
        for number in range(rounds):
            order = list(sides) if number % 2 == 0 else list(reversed(sides))
            figures: dict[str, dict[str, Sequence[Measured]]] = {name: {} for name in sides}
            for benchmark in benchmarks:
                for name in order:
                    begin = time.monotonic()
                    figures[name][benchmark] = _measure(sides[name], name, benchmark)
                    _say(f"round {number + 1} of {rounds}: {benchmark}, {name}: {time.monotonic() - begin:.0f} s")
            for name in sides:
                measured[name].append(figures[name])
    found = compare(measured["old"], measured["new"])
    if not found.figures:
        raise AgainstError(f"{revision} and what lies here have no figure in common", "choose a later revision")
    print("\n".join(table(found)))
    _keep(found, revision, commit, benchmarks, rounds, provenance.measured(PATH, before))
    return found.met


def _keep(
    found: Comparison, revision: str, commit: str, benchmarks: Sequence[str], rounds: int, measured: Mapping[str, Any]
) -> None:
    content = {
        "benchmark": "against",
        "met": found.met,
        "against": {"revision": revision, "commit": commit},
        "benchmarks": list(benchmarks),
        "rounds": rounds,
        "worse_max": WORSE_MAX,
        **measured,
        "machine": machine(),
        "figures": [figure.as_json() for figure in found.figures],
        "only_old": list(found.only_old),
        "only_new": list(found.only_new),
    }
    RESULTS.mkdir(exist_ok=True)
    (provenance.ROOT / PATH).write_text(json.dumps(content, indent=2) + "\n")


def _measure(side: Path, name: str, benchmark: str) -> Sequence[Measured]:
    """One benchmark of one revision. Whether it meets its targets is not asked here; a revision that does not have it
    has no figures."""
    if not (side / "bench" / f"{benchmark}.py").exists():
        return ()
    results = side / "bench" / "results" / f"{benchmark}.json"
    results.unlink(missing_ok=True)
    _call([".venv/bin/python", "-m", "bench", benchmark], side, f"{benchmark} of the {name} revision", fine=(0, 1))
    if not results.exists():
        raise AgainstError(f"{benchmark} of the {name} revision has written no results", "run it there by hand")
    return read(results.read_text())


def _commit(revision: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(provenance.ROOT), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise AgainstError("git cannot be run", "install git: the old revision comes from it") from error
    if done.returncode != 0:
        hint = "give a commit, a branch or a tag of this repository; git log --oneline lists the commits"
        raise AgainstError(f"there is no revision {revision}", hint)
    return done.stdout.strip()


def _checkout(commit: str, target: Path) -> None:
    root = str(provenance.ROOT)
    _call(["git", "clone", "-q", "--no-checkout", root, str(target)], provenance.ROOT, "clone the repository")
    _call(["git", "checkout", "-q", "--detach", commit], target, "check the old revision out")
    if not (target / "bench" / "__main__.py").exists() or not (target / "scripts" / "setup").exists():
        raise AgainstError(f"{commit[:10]} has no benchmarks yet", "choose a later revision")


def _copy(target: Path) -> None:
    """What lies here, without what git ignores."""
    listed = subprocess.run(
        ["git", "-C", str(provenance.ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source = provenance.ROOT / name
        if source.is_file() and not any(part.startswith(".scratch-") for part in Path(name).parts):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def _call(command: Sequence[str], folder: Path, what: str, fine: Sequence[int] = (0,)) -> None:
    """In a session of its own: what is interrupted is told so once, has time to clean up, and is ended then."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            said, _ = child.communicate()
        except BaseException:
            _end(child)
            raise
    if child.returncode not in fine:
        last = "\n".join(f"  {line}" for line in said.strip().splitlines()[-SAID_MAX:])
        raise AgainstError(f"could not {what} (exit code {child.returncode}):\n{last}", "see what it says above")


def _end(child: subprocess.Popen[str]) -> None:
    """As Ctrl-C in a terminal does, for all of its processes; and for good where that does not help."""
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
