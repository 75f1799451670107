"""One way to start all pipelines, from the start to the end: a dogwatch of its own, and a machine of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dogwatch.coordination.ledgers import open_home_ledger
from dogwatch.ledger.api import START, Store, StoredEvent
from dogwatch.ledger.records import load_all, save
from dogwatch.model.admission import MemoryProfile
from dogwatch.model.records import RunRecord
from dogwatch.policy.forecast import ALL, SAMPLES_MIN
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from evaluation.real.machine import new_machine
from evaluation.real.pipelines import CLIENT_MB, GO, MB, Size, write

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "ev"
LOOK_S = 0.5
LEARNT_S = 90.0
YELLOW, RED = 0.20, 0.10
"""The lines of available memory, as in the table of zones."""

Say = Callable[[str], None]


class Fleet:
    """A home, a project, and a machine for the agents. The crew is outside of the machine: it is not scaled down."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.base = Path(tempfile.mkdtemp(prefix="dwe"))
        self.home = Home(str(self.base / "h"))
        self.project = self.base / "p"
        for folder in (self.project, self.base / "bin"):
            folder.mkdir()
        os.makedirs(self.home.path, mode=0o700)
        self.machine = new_machine(size.limit_mb * MB, self.home.path)
        # Every tmux server begins inside the machine, and so does everything that it starts.
        shim = self.base / "bin" / "tmux"
        shim.write_text(f'#!/bin/sh\n{self.machine.entrance()}\nexec {shutil.which("tmux")} "$@"\n')
        shim.chmod(0o700)
        self.files = [str(path) for path in write(self.project, size)]
        self._ledger: Store | None = None

    @property
    def ledger(self) -> Store:
        """Made where there is none yet."""
        if self._ledger is None:
            self._ledger = open_home_ledger(self.home, SystemClock())
        return self._ledger

    def tell(self, **settings: str) -> None:
        """What the operator says of the machine. The limit for each agent is off: their groups would be outside."""
        lines = [f"{name}: {value}" for name, value in {"agent_memory": "off", **settings}.items()]
        Path(self.home.host).write_text("\n".join(lines) + "\n")

    def dogwatch(self, *words: str) -> str:
        """One command, to its end; what it says."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOGWATCH_", "TMUX"))}
        own = {"DOGWATCH_HOME": self.home.path, "HOME": str(self.base), "PYTHONPATH": str(ROOT / "src")}
        path = f"{self.base / 'bin'}:{os.environ.get('PATH', os.defpath)}"
        done = subprocess.run(
            [sys.executable, "-m", "dogwatch", *words],
            env={**kept, **own, "PATH": path},
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,  # Ctrl-C is for the experiment, which ends everything in its order
        )
        if done.returncode:
            raise RuntimeError(f"dogwatch {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def runs(self) -> list[RunRecord]:
        return self.ledger.read(lambda reader: load_all(reader, RunRecord, "run/"))

    def events(self) -> list[StoredEvent]:
        found: list[StoredEvent] = []
        while page := self.ledger.since(found[-1].cursor if found else START, 500):
            found += page
        return found

    def close(self) -> None:
        """Nothing of it is left."""
        try:
            if self.home.has_ledger:
                with contextlib.suppress(RuntimeError):
                    self.dogwatch("down")
        finally:
            if self._ledger is not None:
                self._ledger.close()
            self._end_rest()
            self.machine.close()
            shutil.rmtree(self.base, ignore_errors=True)

    def _end_rest(self) -> None:
        """Whoever was just being started when all were ended."""
        mark = f"DOGWATCH_HOME={self.home.path}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)


class Gauge:
    """How much of the machine is left, twice a second."""

    def __init__(self, fleet: Fleet) -> None:
        self._machine = fleet.machine
        self._began = time.monotonic()
        self.left: list[tuple[float, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(LOOK_S):
            left = max(0, self._machine.limit_bytes - self._machine.used_bytes())
            self.left.append((round(time.monotonic() - self._began, 2), left))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def naive(size: Size, say: Say) -> dict[str, Any]:
    """All at once: dogwatch is not told how large the machine is, and takes the whole computer for it."""

    def start(fleet: Fleet, say: Say) -> None:
        _start_all(fleet)
        if size.is_short:
            _wait_there(fleet, say)
            (fleet.project / GO).touch()

    return _measure(size, "naive", say, start)


def admission(size: Size, say: Say) -> dict[str, Any]:
    """The same pipelines, and dogwatch knows how large the machine is. A first run teaches how much agents take."""

    def start(fleet: Fleet, say: Say) -> None:
        fleet.tell(memory=f"{size.limit_mb} MB")
        if size.is_short:
            _teach(fleet)
            (fleet.project / GO).touch()
        else:
            _learn(fleet, say)
        _start_all(fleet)

    return _measure(size, "admission", say, start)


def _start_all(fleet: Fleet) -> None:
    fleet.dogwatch("run", *fleet.files, "--rounds", str(fleet.size.rounds), "--prefix", PREFIX, "--detach")


def _learn(fleet: Fleet, say: Say) -> None:
    """The first of the runs alone, until what its agents took is on the ledger."""
    fleet.dogwatch("run", fleet.files[0], "--rounds", "1", "--prefix", PREFIX, "--detach")
    _wait_over(fleet, 1, say)
    until = time.monotonic() + LEARNT_S
    while time.monotonic() < until:
        profiles = fleet.ledger.read(lambda reader: load_all(reader, MemoryProfile, "profile/"))
        if any(not one.role and len(one.peaks.get(ALL, ())) >= SAMPLES_MIN for one in profiles):
            return
        time.sleep(LOOK_S)
    raise RuntimeError("the first run has taught nothing")


def _teach(fleet: Fleet) -> None:
    """What a first run would have taught, for a version of the experiment that has no time for one."""
    peaks = tuple(round((fleet.size.full_mb * times + CLIENT_MB) * MB) for times in (0.95, 1.0, 1.05, 1.2, 1.25, 1.3))
    fleet.ledger.run(lambda tx: save(tx, MemoryProfile(harness="scripted", peaks={ALL: peaks})))


def _wait_there(fleet: Fleet, say: Say) -> None:
    """Until every agent has got its task, or has lost its run before."""
    until = time.monotonic() + fleet.size.end_s
    while time.monotonic() < until:
        over = {run.run for run in fleet.runs() if run.over}
        there = {(e.run, e.agent) for e in fleet.events() if e.kind == "message_delivered" and e.run not in over}
        say(f"{len(there)} of {fleet.size.agents} agents are there")
        if len(there) >= fleet.size.agents - len(over) * (fleet.size.researchers + 1):
            return
        time.sleep(LOOK_S)


def _wait_over(fleet: Fleet, count: int, say: Say) -> None:
    until = time.monotonic() + fleet.size.end_s
    while time.monotonic() < until:
        runs = fleet.runs()
        over = [run for run in runs if run.cleared]
        going = sum(run.admitted is not None and not run.over for run in runs)
        delivered = sum(run.state == "COMPLETED" for run in over)
        used = fleet.machine.used_bytes() / MB
        say(
            f"{delivered} delivered, {len(over) - delivered} lost, {going} going, of {fleet.size.runs};"
            f" {used:.0f} of {fleet.size.limit_mb} MB used, {fleet.machine.kills()} killed"
        )
        if len(over) >= count:
            return
        time.sleep(LOOK_S)


def _measure(size: Size, name: str, say: Say, start: Callable[[Fleet, Say], None]) -> dict[str, Any]:
    fleet = Fleet(size)
    try:
        gauge = Gauge(fleet)
        began = time.monotonic()
        try:
            fleet.tell()
            start(fleet, say)
            _wait_over(fleet, size.runs, say)
        finally:
            gauge.close()
        return _figures(fleet, name, gauge, time.monotonic() - began)
    finally:
        fleet.close()


def _figures(fleet: Fleet, name: str, gauge: Gauge, seconds: float) -> dict[str, Any]:
    told = json.loads(fleet.dogwatch("status", "--prefix", PREFIX, "--json"))
    runs = fleet.runs()
    events = fleet.events()
    counts = Counter(event.kind for event in events)
    left = [bytes_left for _, bytes_left in gauge.left]
    return {
        "name": name,
        "delivered": told["delivered"],
        "of": told["of"],
        "minutes": round(seconds / 60, 2),
        "at_once_max": _at_once(runs),
        "lowest_left_bytes": min(left),
        "lowest_left_share": round(min(left) / fleet.machine.limit_bytes, 4),
        "machine_zones": _shares(left, fleet.machine.limit_bytes),
        "dogwatch_zones": told["zones"],
        "dogwatch_reds": [str(e.body["why"]) for e in events if e.kind == "zone_changed" and e.body["zone"] == "RED"],
        "kills": fleet.machine.kills(),
        "restarts": counts["agent_restarted"],
        "given_up": counts["agent_quarantined"],
        "reclaims": counts["agent_reclaimed"],
        "held": dict(Counter(str(e.body["limit"]) for e in events if e.kind == "launch_held")),
        "causes": dict(Counter(run.cause for run in runs if run.state != "COMPLETED")),
        "ended_by": fleet.machine.words,
        "left": gauge.left,
    }


def _shares(left: Sequence[int], limit_bytes: int) -> dict[str, float]:
    """The share of the time in which so little was really left, by the line of available memory alone."""
    red = sum(one < RED * limit_bytes for one in left) / len(left)
    yellow = sum(one < YELLOW * limit_bytes for one in left) / len(left) - red
    return {"GREEN": round(1 - yellow - red, 4), "YELLOW": round(yellow, 4), "RED": round(red, 4)}


def _at_once(runs: Sequence[RunRecord]) -> int:
    """How many runs were going at one moment at most."""
    began = [(run.admitted.mono, 1) for run in runs if run.admitted is not None]
    ended = [(run.ended.mono, -1) for run in runs if run.admitted is not None and run.ended is not None]
    going = most = 0
    for _, change in sorted(began + ended):
        going += change
        most = max(most, going)
    return most
