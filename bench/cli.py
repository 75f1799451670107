"""The command line: what `dogwatch version` and `dogwatch status` cost against a Python that does nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from bench.harness import Figure, scratch
from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load_all, save
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.model.life import Finished, Running
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Output, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, TaskRecord
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock

RUNS = 50
UNFINISHED = 2
AGENTS = 20
EVENTS = 1_000_000
ROUNDS = 25


def measure() -> Sequence[Figure]:
    """All figures of the command line."""
    with scratch() as folder:
        _fill(folder / "ledger.db")
        # As installed: with compiled modules, which the first round writes where they are missing.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**kept, "DOGWATCH_HOME": str(folder)}
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "dogwatch version": [sys.executable, "-m", "dogwatch", "version"],
            "dogwatch status": [sys.executable, "-m", "dogwatch", "status"],
        }
        times = _in_turns(commands, environment)
    bare = times["python -c pass"]
    return [
        Figure(
            name=f"{command}{scale} against python -c pass",
            value=median(times[command]) / median(bare),
            unit="x",
            target=target,
            times_ms={command: times[command], "python -c pass": bare},
        )
        for command, scale, target in (
            ("dogwatch version", "", 2.5),
            ("dogwatch status", f" with {RUNS * AGENTS:,} agents and {EVENTS:,} events", 12.0),
        )
    ]


def _in_turns(commands: dict[str, list[str]], environment: dict[str, str]) -> dict[str, list[float]]:
    """Each command once a round, so that all see the same machine; the first round only fills the caches."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(ROUNDS + 1):
        for name, argv in commands.items():
            begin = time.perf_counter()
            done = subprocess.run(argv, env=environment, capture_output=True, check=True)
            spent_ms = (time.perf_counter() - begin) * 1000
            assert done.stdout or name == "python -c pass"
            if number:
                times[name].append(spent_ms)
    return times


def _fill(path: Path) -> None:
    """Runs through the real interface; the mass of events with plain SQL, which is all that this number allows."""
    clock = SystemClock()
    with closing(SqliteStore(str(path), clock)) as store:
        for number in range(RUNS):
            store.run(partial(_add_run, ended=number < RUNS - UNFINISHED))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO events (op_id, run, agent, kind, boot, mono, wall, body) VALUES ('', ?, ?, ?, ?, ?, ?, ?)",
            _events(clock.now()),
        )


def _add_run(tx: Tx, *, ended: bool) -> None:
    run = create_run(tx, _plan(), "/project", "/project/out", "/project/pipeline.yaml")
    process = ProcessId(tx.now.boot, 2, 1)
    for agent in load_all(tx, AgentRecord, f"agent/{run.run}/"):
        life = Running(since=tx.now, process=process)
        save(tx, replace(agent, busy=not ended, life=Finished(last=life) if ended else life))
        for phase in range(2):
            task = TaskRecord(
                run=run.run,
                task=f"part-{phase}.{agent.agent}",
                dispatch=f"part-{phase}",
                phase=phase,
                holders=(agent.agent,),
                text="Write your part. " * 20,
                state="accepted" if ended or not phase else "claimed",
                agent=agent.agent,
                attempt=1,
                dispatched=tx.now,
                finished=tx.now if ended else None,
            )
            save(tx, task)
    if ended:
        save(tx, replace(run, state="COMPLETED", phase=2, started=tx.now, ended=tx.now, cleared=True))
        tx.append(PlainEvent("run_ended", {"state": "COMPLETED", "cause": "", "sha256": ""}, run=run.run))
        tx.delete(f"active/{run.run}")
    else:
        save(tx, replace(run, state="RUNNING", phase=1, started=tx.now))


def _plan() -> Plan:
    phases = tuple(
        Phase(
            name=f"phase-{phase}",
            dispatches=(
                Dispatch(
                    name=f"part-{phase}",
                    to="author",
                    address="all",
                    task="Write your part. " * 20,
                    outputs=(Output(path=f"part-{phase}-{{agent}}.md"),),
                ),
            ),
        )
        for phase in range(2)
    )
    roles = (Role(name="author", count=AGENTS, command=("true",)),)
    return Plan(name="bench", roles=roles, phases=phases, deliverable=ByteCheck(path="report.md"))


def _events(now: Moment) -> Iterator[tuple[str, str, str, str, float, float, str]]:
    body = json.dumps({"task": "part-1", "progress_percent": 40}, separators=(",", ":"))
    kinds = ("heartbeat_received", "message_sent", "message_delivered", "task_reported", "task_accepted")
    for number in range(EVENTS):
        run, agent = f"bench-{number % RUNS + 1}", f"author-{number % AGENTS + 1}"
        yield run, agent, kinds[number % len(kinds)], now.boot, now.mono, now.wall, body
