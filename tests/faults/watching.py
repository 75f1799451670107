"""What tests of the watchdog's eye have in common: agents side by side, what was seen of them, and a person's keys."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from dogwatch.ledger.records import load, load_all
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentWatch, CheckResult, ChecksRecord, DecisionRecord, WatchRecord
from dogwatch.world.processes import life
from support.fleet import Fleet
from support.helpers import wait_for

TOUCHES = (
    "agent_probed",
    "agent_stalled",
    "agent_nudged",
    "agent_restarted",
    "agent_interrupted",
    "agent_quarantined",
    "task_returned",
    "task_released",
    "task_rescued",
)
"""What is done to an agent; alerts, holds and calls for a person leave it alone."""


def beside(*workers: str, idle: Sequence[str] = (), limits: Mapping[str, float]) -> dict[str, Any]:
    """One phase with a task for each worker, who all work at once. Those in `idle` have nothing to do. The first
    worker's file is the deliverable."""
    dispatches = [{"name": f"{w}-task", "to": w, "task": "Write it.", "outputs": [f"{w}.md"]} for w in workers]
    return {
        "roles": {name: {} for name in (*workers, *idle)},
        "phases": [{"name": "work", "dispatches": dispatches}],
        "deliverable": {"path": f"{workers[0]}.md"},
        "limits": dict(limits),
    }


def on_dispatch(
    *steps: Any, incarnation: int | None = None, work_s: float = 0.3, launcher: bool = False
) -> dict[str, Any]:
    """A scenario in which a dispatch leads to these steps; with a launcher, its shell stays when the client is gone."""
    rule = {"on": "dispatch", "do": list(steps), **({"incarnation": incarnation} if incarnation else {})}
    return {"work_s": work_s, "shell": launcher, "rules": [rule]}


def until(path: Path) -> dict[str, Any]:
    """A step that lasts until there is such a file."""
    return {"tool": {"command": ["sh", "-c", f"until [ -e {path} ]; do sleep 0.1; done"]}}


def watch(fleet: Fleet, run: str) -> WatchRecord:
    """What the watchdog saw last."""
    return fleet.ledger.read(lambda reader: load(reader, WatchRecord, f"watch/{run}")) or WatchRecord(
        run=run, at=fleet.events()[0].at
    )


def self_check(fleet: Fleet, run: str, name: str) -> CheckResult | None:
    """What the captain's own check of this name says."""
    record = fleet.ledger.read(lambda reader: load(reader, ChecksRecord, f"checks/{run}"))
    return next((one for one in record.results if one.name == name), None) if record else None


def wait_seen(fleet: Fleet, run: str, agent: str, kind: str, timeout_s: float = 60) -> AgentWatch:
    """Waits until the watchdog sees the agent as this."""

    def look() -> AgentWatch | None:
        seen = watch(fleet, run).agents.get(agent)
        return seen if seen is not None and seen.kind == kind else None

    found = wait_for(look, timeout_s, lambda: f"{agent} seen as {kind}: {watch(fleet, run).agents}\n{fleet.tail()}")
    assert found is not None
    return found


def decisions(fleet: Fleet, run: str, agent: str) -> list[tuple[str, str]]:
    """What was decided about the agent and has been verified: the actions with their outcomes."""
    records = fleet.ledger.read(lambda reader: load_all(reader, DecisionRecord, f"decision/{run}/"))
    mine = sorted((one for one in records if one.agent == agent), key=lambda one: one.at.mono)
    return [(one.action, one.outcome) for one in mine]


def process_of(fleet: Fleet, run: str, agent: str) -> ProcessId:
    """The agent's process as the ledger has it; it lives. A client may be ready before the captain has noted it."""
    process = wait_for(lambda: fleet.view(run).agents[agent].process, 60, fleet.tail)
    assert process is not None
    assert life(process, fleet.boot) == "alive"
    return process


def press(fleet: Fleet, run: str, agent: str, key: str) -> None:
    """A person presses a key in the agent's pane."""
    target = fleet.view(run).agents[agent].pane
    subprocess.run(["tmux", "-S", fleet.home.tmux(run), "send-keys", "-t", target, key], check=True)


def child_named(text: str) -> tuple[str, int]:
    """The process that a sentence names: `sleep (pid 4711)`."""
    found = re.search(r"(\S+) \(pid (\d+)\)", text)
    assert found is not None, text
    return found[1], int(found[2])


def assert_untouched(fleet: Fleet, *agents: str, but: Collection[str] = ()) -> None:
    """Nothing was done to these agents but what is named: each is its first incarnation, started once."""
    for agent in agents:
        touched = [event for kind in TOUCHES if kind not in but for event in fleet.events(kind, agent)]
        assert not touched, fleet.tail()
        assert [deed["incarnation"] for deed in fleet.deeds(agent, "started")] == [1]


def assert_unnoticed(fleet: Fleet, *agents: str) -> None:
    """Not even a word was said of these agents."""
    assert_untouched(fleet, *agents)
    for agent in agents:
        assert not fleet.events("alert_raised", agent), fleet.tail()
        assert not fleet.events("person_called", agent), fleet.tail()
