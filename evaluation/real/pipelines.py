"""The pipelines of the experiment, and how large everything is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many pipelines of how many agents, how much each agent takes, for how long, and how large the machine is.

    A researcher takes `first_mb` in its first task and `full_mb` in its second one, over `grow_s`; an editor a quarter
    more. What a task has taken is kept until the next one, as clients do.
    """

    rounds: int
    researchers: int
    first_mb: int
    full_mb: int
    grow_s: float
    hold_s: float
    limit_mb: int
    end_s: float
    """What is not over by then is ended, and counts as lost."""
    is_short: bool = False
    """One task for each agent, which begins for all that are there at one moment; a death costs the run, so that nobody
    has to wait for the fourth one; and what agents take is given, instead of being learnt in a first run."""

    @property
    def runs(self) -> int:
        return self.rounds * len(TOPICS)

    @property
    def agents(self) -> int:
        """In all runs."""
        return self.runs * (self.researchers + 1)


TOPICS = ("tides", "eels")
LONG = Size(rounds=6, researchers=2, first_mb=60, full_mb=90, grow_s=5, hold_s=16, limit_mb=2600, end_s=1500)
SHORT = Size(
    rounds=4, researchers=1, first_mb=0, full_mb=100, grow_s=1, hold_s=6, limit_mb=1680, end_s=500, is_short=True
)
GO = "go"
"""The file that the agents of the short version wait for."""
CLIENT_MB = 22
"""What a scripted agent and its commands take besides."""


def write(folder: Path, size: Size) -> list[Path]:
    """The pipeline files with their scenarios."""
    for role, times in (("researcher", 1.0), ("editor", 1.25)):
        (folder / f"{role}.json").write_text(json.dumps(_scenario(size, times)))
    return [_pipeline(folder, topic, size) for topic in TOPICS]


def _scenario(size: Size, times: float) -> dict[str, Any]:
    def task(mb: int) -> list[dict[str, Any] | str]:
        grow = {"grow": {"mb": round(mb * times), "seconds": size.grow_s}}
        return ["release", grow, {"work": size.hold_s}, "continue"]

    if size.is_short:
        start = {"tool": {"command": ["sh", "-c", f'until [ -e "$DOGWATCH_PROJECT/{GO}" ]; do sleep 0.1; done']}}
        tasks = {"report*": [start, *task(size.full_mb)]}
    else:
        tasks = {"notes*": task(size.first_mb), "report*": task(size.full_mb)}
    return {"work_s": 0.2, "rules": [{"on": "dispatch", "subject": name, "do": do} for name, do in tasks.items()]}


def _pipeline(folder: Path, topic: str, size: Size) -> Path:
    roles = {
        "researcher": {"harness": "scripted", "script": "researcher.json", "count": size.researchers},
        "editor": {"harness": "scripted", "script": "editor.json"},
    }
    text = {
        "name": topic,
        "roles": roles,
        "phases": [_phase(name) for name in (("report",) if size.is_short else ("notes", "report"))],
        "deliverable": {"path": "report-editor.md"},
        "limits": {"restarts_max": 0} if size.is_short else {},
    }
    path = folder / f"{topic}.yaml"
    path.write_text(json.dumps(text, indent=1))
    return path


def _phase(name: str) -> dict[str, Any]:
    """All agents work in each phase, so that all are needed from the beginning to the end."""
    return {
        "name": name,
        "dispatches": [
            {
                "name": f"{name}-{role}",
                "to": f"all {role}",
                "task": f"Write your part of the {name}.",
                "outputs": [f"{name}-{{agent}}.md"],
            }
            for role in ("researcher", "editor")
        ],
    }
