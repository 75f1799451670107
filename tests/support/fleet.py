"""A whole dogwatch of its own for a test: short home, project folder, CLI, events, ground truth, and a clean end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dogwatch.coordination.ledgers import open_home_ledger
from dogwatch.ledger.api import START, Store, StoredEvent
from dogwatch.ledger.records import load, load_run
from dogwatch.model import keys
from dogwatch.model.process import ProcessId
from dogwatch.model.records import RunRecord
from dogwatch.model.view import RunView
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.processes import life, marked
from support.commands import call
from support.helpers import events_since, wait_for

ROOT = Path(__file__).resolve().parents[2]
SECONDS = {
    "sweep_s": 0.3,
    "nudge_s": 2,
    "peek_s": 2,
    "startup_s": 60,
    "restart_backoff_s": 0.2,
    "restarts_max": 5,
    "receipt_s": 6,
    "deadline_s": 240,
}


class Fleet:
    """One home with everything that belongs to it."""

    def __init__(self, ledger_url: str = "") -> None:
        self.base = Path(tempfile.mkdtemp(prefix="dw"))
        self.home = Home(str(self.base / "h"), ledger_url)
        self.project = self.base / "p"
        self.project.mkdir()
        self.truth = self.base / "truth"
        self.truth.mkdir()
        self.boot = SystemClock().now().boot
        self._ledger: Store | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        self._events: list[StoredEvent] = []
        self._cursor = START

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOGWATCH_", "TMUX"))}
        own = {"DOGWATCH_HOME": self.home.path, "DOGWATCH_LEDGER": self.home.ledger_url, "HOME": str(self.base)}
        return {**kept, **own, "PYTHONPATH": str(ROOT / "src")}

    @property
    def ledger(self) -> Store:
        if self._ledger is None:
            wait_for(lambda: self.home.has_ledger, 60, "the ledger")
            self._ledger = open_home_ledger(self.home, SystemClock())
        return self._ledger

    def settings(self, **lines: object) -> None:
        """What the operator has set for this host; before anything is started."""
        Path(self.home.path).mkdir(mode=0o700, exist_ok=True)
        Path(self.home.host).write_text("".join(f"{name}: {value}\n" for name, value in lines.items()))

    def spec(self, text: dict[str, Any], scenarios: Mapping[str, Any]) -> Path:
        """Writes a pipeline file with its scenarios (JSON is YAML), thresholds in seconds and a ground-truth log."""
        for role, scenario in scenarios.items():
            (self.project / f"{role}.json").write_text(json.dumps(scenario))
            body = text["roles"].setdefault(role, {})
            body.setdefault("harness", "scripted")
            body.setdefault("script", f"{role}.json")
            body["environment"] = {"SCRIPTED_TRUTH": str(self.truth / f"{role}.jsonl"), **body.get("environment", {})}
        text = {"name": "t", **text, "limits": {**SECONDS, **text.get("limits", {})}}
        path = self.project / "pipeline.yaml"
        path.write_text(json.dumps(text, ensure_ascii=False))
        return path

    def cli(self, *words: str, check: bool = True, timeout_s: float = 280) -> subprocess.CompletedProcess[str]:
        """One call of the command line, to its end."""
        done = call(words, self.environment, self.project, timeout_s=timeout_s)
        output, errors = done.stdout.decode(), done.stderr.decode()
        if check:
            assert done.returncode == 0, f"dogwatch {' '.join(words)}: {done.returncode}\n{output}\n{errors}"
        return subprocess.CompletedProcess(done.args, done.returncode, output, errors)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """A call of the command line that goes on."""
        child = subprocess.Popen(
            [sys.executable, "-m", "dogwatch", *words],
            env=self.environment,
            cwd=self.project,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._children.append(child)
        return child

    def as_agent(
        self,
        run: str,
        agent: str,
        *words: str,
        incarnation: int = 1,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """One call of the command line as if from inside an agent; `variables` change its environment."""
        mark = {
            "DOGWATCH_RUN": run,
            "DOGWATCH_ROLE": agent,
            "DOGWATCH_INCARNATION": str(incarnation),
            "DOGWATCH_DOOR": self.home.door(run),
            "DOGWATCH_DOOR_WAIT_S": "60",
        }
        environment = {**self.environment, **mark, **(variables or {})}
        return call(words, environment, self.project, stdin, timeout_s=120)

    def launch(self, spec: Path, *words: str) -> str:
        """Starts one run and leaves it to the crew; returns its name."""
        return self.cli("run", str(spec), "--detach", *words).stdout.strip()

    def view(self, run: str) -> RunView:
        return self.ledger.read(lambda reader: load_run(reader, run))

    def events(self, kind: str = "", agent: str = "") -> list[StoredEvent]:
        """All events, in the order of their commits; of `kind` and `agent` only where these are given."""
        new = events_since(self.ledger, self._cursor)
        self._events += new
        self._cursor = new[-1].cursor if new else self._cursor
        return [e for e in self._events if (not kind or e.kind == kind) and (not agent or e.agent == agent)]

    def forget(self) -> None:
        """What has happened so far belongs to other tests."""
        self.events()
        self._events = []

    def deeds(self, agent: str, did: str = "") -> list[dict[str, Any]]:
        """What the scripted agent really did, from its own ground-truth log."""
        path = self.truth / f"{agent}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [deed for line in lines if (deed := json.loads(line)) and (not did or deed["did"] == did)]

    def wait_event(self, kind: str, agent: str = "", timeout_s: float = 120) -> StoredEvent:
        return wait_for(lambda: self.events(kind, agent), timeout_s, f"{kind} of {agent or 'anybody'}")[0]

    def wait_over(self, run: str, timeout_s: float = 240) -> RunView:
        """Waits until the run is over and cleared."""

        def is_cleared() -> bool:
            record = self.ledger.read(lambda reader: load(reader, RunRecord, f"run/{run}"))
            return record is not None and record.cleared

        wait_for(is_cleared, timeout_s, lambda: f"the end of {run}:\n{self.tail()}")
        return self.view(run)

    def crew(self, member: str, run: str = "") -> ProcessId | None:
        """The living process of a crew member."""
        document = self.ledger.read(
            lambda reader: reader.get(keys.crew(run, member) if run else keys.dispatcher(reader.host))
        )
        if document is None:
            return None
        process = ProcessId(**document.body["process"])
        return process if life(process, self.boot) == "alive" else None

    def kill(self, process: ProcessId, number: signal.Signals = signal.SIGKILL) -> None:
        """Kills what this fleet has started, by pid and start time."""
        if life(process, self.boot) == "alive":
            os.kill(process.pid, number)

    def tail(self) -> str:
        return "\n".join(f"{e.at.mono:.2f} {e.agent} {e.kind} {json.dumps(e.body)[:200]}" for e in self.events()[-25:])

    def leftovers(self, runs: Sequence[str]) -> list[str]:
        """What is left of the runs: marked processes, tmux servers, sockets."""
        found = [f"process {process}" for run in runs for process, _ in marked(self.boot, self.home.path, run)]
        for run in runs:
            found += [path for path in (self.home.tmux(run), self.home.door(run)) if os.path.exists(path)]
        return found

    def processes(self) -> list[str]:
        """All living processes of this home, crew and agents alike."""
        needle = f"DOGWATCH_HOME={self.home.path}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if needle in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
            except OSError:
                continue
        return [command for command in found if command]

    def close(self) -> None:
        """Ends everything and shows that nothing of it is left."""
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()
        if self.home.has_ledger:
            self.cli("down", check=False)
            runs = [d.key.removeprefix("run/") for d in self.ledger.read(lambda reader: reader.scan("run/"))]
            left = [f"process {process}" for run in runs for process, _ in marked(self.boot, self.home.path, run)]
            assert not left, f"left behind: {left}"
        if self._ledger is not None:
            self._ledger.close()
        shutil.rmtree(self.base, ignore_errors=True)


def fleets(ledger_url: str = "") -> Iterator[Fleet]:
    """For a fixture."""
    fleet = Fleet(ledger_url)
    try:
        yield fleet
    finally:
        fleet.close()
