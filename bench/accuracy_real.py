"""The corpus on real screens: tmux, the scripted agent and the real crew, with thresholds in seconds.

Each case is a run of its own with a home of its own, so that no case can hold up another. What was said of the worker
comes from the watchdog's record and its alerts, what was done from the captain's events, what was true from the
agent's own log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.accuracy_form import COMMON, Case, limits, partner, scenario
from bench.accuracy_verdict import Act, Deed, Said, Trace, product_limits
from bench.lateness import Lateness
from dogwatch.ledger.api import START, StoredEvent
from dogwatch.ledger.records import load
from dogwatch.model.records import WatchRecord
from dogwatch.world import census

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.fleet import Fleet

UNIT = 1.0
POLL_S = 0.05
LATE_S = 0.5
"""What a busy machine may add to the time between two looks."""
START_S_MAX = 90.0
STARTING = threading.BoundedSemaphore(2)
"""So many cases start at a time: starting is nearly all the work that they make, and would hold up all others."""
STARTING_S_MAX = 15.0
SIZES = ((100, 30), (160, 48))


class InterruptedPlayError(Exception):
    """Whoever plays the cases wants to leave."""


class Play:
    """One case on its own crew."""

    def __init__(self, case: Case, unit: float, fleet: Fleet, leave: threading.Event) -> None:
        self.case, self.unit, self.fleet, self.leave = case, unit, fleet, leave
        own = limits(case)
        self._lateness = Lateness(own["sweep_s"] * unit)
        self.trace = Trace(case=case, unit=unit, late_s=2 * own["sweep_s"] * unit + LATE_S, early_s=LATE_S)
        self.run = ""
        self._said: list[Said] = []
        self._read_bytes = 0
        self._pid = 0
        self._cursor = START
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._is_armed = bool(case.outside)

    def play(self) -> None:
        """From the launch to the end of the label."""
        spec = self.fleet.spec(_pipeline(self.case, self.unit), _scenarios(self.case, self.unit))
        with STARTING:
            if self.leave.is_set():
                raise InterruptedPlayError
            self.run = self.fleet.launch(spec)
            self._look_until(lambda: bool(self.trace.deeds), STARTING_S_MAX)
        self._look_until(self._is_over, START_S_MAX + 2 * self.case.watch_s * self.unit)
        self._look()
        self.trace.end = time.monotonic()
        if self._lateness.worst_s > LATE_S:
            self.trace.late = f"the machine was too busy: something was {self._lateness.worst_s:.1f} s late"
        for said in sorted(self._said, key=lambda one: one.mono):
            self.trace.add(said)

    def _look_until(self, done: Callable[[], bool], timeout_s: float) -> None:
        give_up = time.monotonic() + timeout_s
        while not done() and time.monotonic() < give_up:
            self._look()
            if self.leave.wait(POLL_S):
                raise InterruptedPlayError

    def _look(self) -> None:
        self._read_beat()
        self._read_events()
        self._read_truth()
        self._read_watch()
        now = time.monotonic()
        due = [deed for mono, deed in self._due if mono <= now]
        self._due = [(mono, deed) for mono, deed in self._due if mono > now]
        for deed in due:
            deed()

    def _is_over(self) -> bool:
        trace, now = self.trace, time.monotonic()
        if trace.begin is None:
            return False
        trace.end = now
        window = trace.window()
        tail = self.unit if self.case.healthy else 4 * self.unit
        # As long as the label holds, its window ends with the present.
        return window is not None and now >= window[1] + tail

    def _read_beat(self) -> None:
        try:
            _, mono = Path(self.fleet.home.beat("watchdog", self.run)).read_text().split()
        except (OSError, ValueError):
            return
        self._lateness.beat(float(mono), time.monotonic())

    def _read_truth(self) -> None:
        path = self.fleet.truth / "worker.jsonl"
        if not path.exists():
            return
        with open(path, "rb") as file:
            file.seek(self._read_bytes)
            whole, newline, _ = file.read().rpartition(b"\n")
        if not newline:
            return
        self._read_bytes += len(whole) + 1
        for line in whole.split(b"\n"):
            deed = json.loads(line)
            self._pid = deed["pid"]
            found = Deed(deed["mono"], deed["did"], line.decode())
            self.trace.deeds.append(found)
            if found.did == "started":
                self._lateness.start(found.mono)
            if self._is_armed and found.matches(self.case.outside_after):
                self._is_armed = False
                self._due.append((found.mono + self._number("outside_s"), self._outside))

    def _read_watch(self) -> None:
        record = self.fleet.ledger.read(lambda reader: load(reader, WatchRecord, f"watch/{self.run}"))
        seen = record.agents.get("worker") if record is not None else None
        if seen is None:
            return
        said = Said(seen.since.mono, seen.kind, "; ".join(seen.evidence))
        if not self._said or self._said[-1] != said:
            self._said.append(said)

    def _read_events(self) -> None:
        while page := self.fleet.ledger.since(self._cursor, 500):
            self._cursor = page[-1].cursor
            for event in page:
                if event.agent == "worker":
                    self._take(event)

    def _take(self, event: StoredEvent) -> None:
        mono, body, acts = event.at.mono, event.body, self.trace.acts
        if event.kind == "alert_raised":
            # It may have been replaced in the record before that was looked at.
            if not any(said.kind == body["diagnosis"] and mono - said.mono < 1.0 for said in self._said):
                self._said.append(Said(mono, body["diagnosis"], "; ".join(body["evidence"])))
        elif event.kind == "action_taken":
            acts.append(Act(mono, body["action"], body["diagnosis"]))
        elif event.kind == "agent_restarted":
            if not any(act.action == "RESTART" and mono - act.mono < 0.1 for act in acts):
                acts.append(Act(mono, "RESTART", body["reason"]))
        elif event.kind == "agent_replaced":
            acts.append(Act(mono, "REPLACE", body["reason"]))
        elif event.kind == "agent_spawn_intended":
            self._lateness.intend(mono)
        elif event.kind == "task_accepted":
            self.trace.accepted.append(mono)

    # From outside

    def _number(self, name: str) -> float:
        return {**COMMON, **self.case.numbers}[name].value * self.unit

    def _outside(self) -> None:
        word = self.case.outside
        self.trace.deeds.append(Deed(time.monotonic(), "outside", word))
        if word == "sigkill":
            os.kill(self._pid, signal.SIGKILL)
        elif word.startswith("sigstop"):
            os.kill(self._pid, signal.SIGSTOP)
            if word == "sigstop_briefly":
                pid = self._pid
                resume = time.monotonic() + self._number("stopped_s")
                self._due.append((resume, lambda: os.kill(pid, signal.SIGCONT)))
        elif word == "kill_session":
            self._tmux("kill-session", "-t", f"={self.run}-worker")
        elif word == "kill_tool":
            self._kill_tool()
        elif word == "escape":
            self._tmux("send-keys", "-t", self._pane(), "Escape")
        elif word == "resize":
            for number in range(10):
                due = time.monotonic() + number * self.unit
                self._due.append((due, lambda size=SIZES[number % 2]: self._resize(*size)))  # type: ignore[misc]

    def _kill_tool(self) -> None:
        """The agent's child that has a process group of its own."""
        for name in os.listdir("/proc"):
            try:
                entry = census.parse((Path("/proc") / name / "stat").read_bytes()) if name.isdecimal() else None
                if entry is not None and entry.parent == self._pid and os.getpgid(entry.pid) == entry.pid:
                    os.killpg(entry.pid, signal.SIGKILL)
            except (OSError, ValueError):
                continue

    def _resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-t", self._pane(), "-x", str(columns), "-y", str(rows))

    def _pane(self) -> str:
        return self.fleet.view(self.run).agents["worker"].pane

    def _tmux(self, *words: str) -> None:
        subprocess.run(["tmux", "-S", self.fleet.home.tmux(self.run), *words], check=False, capture_output=True)


def with_compiled_modules() -> None:
    """As installed. An environment without them makes each process of a fleet compile everything anew, which is more
    work than all the rest."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def play(case: Case, leave: threading.Event, unit: float = UNIT) -> Trace:
    """One case, from a new home to nothing left of it, or broken off when it is time to leave."""
    fleet = Fleet()
    player = Play(case, unit, fleet, leave)
    try:
        player.play()
    except InterruptedPlayError:
        player.trace.problem = "interrupted"
    except Exception as error:
        player.trace.problem = f"{type(error).__name__}: {error}"
    try:
        fleet.close()
    except Exception as error:
        player.trace.problem = player.trace.problem or f"no clean end: {type(error).__name__}: {error}"
    return player.trace


def _scenarios(case: Case, unit: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "worker": scenario(case, unit=unit),
        "keeper": {"rules": [{"on": "dispatch", "do": [{"wait": 3600}]}]},
    }
    if case.pipeline in ("two agents mailing", "review"):
        found["partner"] = partner(case, unit=unit)
    return found


def _pipeline(case: Case, unit: float) -> dict[str, Any]:
    """The pipeline file that the case's word for it stands for."""
    own = limits(case)

    def dispatch(name: str, to: str, *outputs: str, **more: Any) -> dict[str, Any]:
        expect_s = own["expect_s"] * unit
        task = {"name": name, "to": to, "task": "Do it.", "outputs": list(outputs), "expect_s": expect_s}
        return {**task, "attempts": 9, **more}

    keep = dispatch("keep", "keeper", "keeper.md", expect_s=3600)
    later: Mapping[str, Any] = {"after": ["keep"]} if case.pipeline == "later task" else {}
    analyse = dispatch("analyse", "worker", "report.md", "data.json", **later)
    phases = [{"name": "first", "dispatches": [keep] if case.pipeline == "nothing" else [keep, analyse]}]
    if case.pipeline == "two agents mailing":
        phases[0]["dispatches"].append(dispatch("collect", "partner", "facts.md"))  # type: ignore[attr-defined]
    if case.pipeline == "review":
        reading = {"name": "reading", "artifact": "report.md", "reviewers": ["partner"]}
        publish = dispatch("publish", "worker", "final.md")
        phases = [
            {"name": "first", "dispatches": [analyse], "checkpoints": [reading]},
            {"name": "second", "dispatches": [publish, keep]},
        ]
    return {
        "roles": {"worker": {}, "keeper": {}, **({"partner": {}} if len(_scenarios(case, unit)) > 2 else {})},
        "phases": phases,
        "deliverable": {"path": "keeper.md"},
        "on_task_failure": "partial",
        "limits": {**product_limits(own, unit), "restarts_max": 5},
    }
