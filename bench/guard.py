"""How good the guard is: what it misses and what it denies for no reason, on commands with labels."""

from __future__ import annotations

import json
from pathlib import Path

from bench.harness import Figure
from dogwatch.guard.judge import Caller, judge

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "guard"
SETS = {
    "own.jsonl": ("written with the guard", 0.0, 0.0),
    "apart.jsonl": ("written apart, used for mending", 0.0, 0.0),
    "apart2.jsonl": ("written apart, never looked at", 0.03, 0.01),
}
"""Each with what it is, and which share of misses and of false denials it may have."""


def measure() -> list[Figure]:
    """The shares of each set, as `dogwatch guard explain --as agent` judges it."""
    figures = []
    for name, (what, misses_max, denials_max) in SETS.items():
        lines = [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]
        harmful = [line["command"] for line in lines if not line["allowed"]]
        innocent = [line["command"] for line in lines if line["allowed"]]
        missed = sum(judge(command, Caller()).allowed for command in harmful)
        denied = sum(not judge(command, Caller()).allowed for command in innocent)
        figures += [
            _share(f"{what}: {missed} of {len(harmful)} missed", missed / len(harmful), misses_max),
            _share(f"{what}: {denied} of {len(innocent)} denied for no reason", denied / len(innocent), denials_max),
        ]
    return figures


def _share(name: str, value: float, target: float) -> Figure:
    return Figure(name=name, value=value, unit="share", target=target)
