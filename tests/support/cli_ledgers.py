"""Ledgers for the tests of the reading commands, filled as a captain would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from dogwatch.coordination.ledgers import open_home_ledger
from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Store, Tx
from dogwatch.ledger.records import change, save
from dogwatch.model.life import Running
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Milestone, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import (
    AgentRecord,
    CheckpointRecord,
    CrewRecord,
    GateRecord,
    RunRecord,
    TaskRecord,
    Verdict,
)
from dogwatch.testing.events import PlainEvent
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.processes import identify

PLAN = Plan(
    name="tide",
    roles=(Role(name="writer", command=("true",)), Role(name="auditor", count=2, command=("true",))),
    phases=(
        Phase(name="draft", dispatches=(Dispatch(name="draft", to="writer", task="Write."),)),
        Phase(
            name="audit",
            dispatches=(Dispatch(name="audit", to="auditor", address="all", task="Audit.", after=("draft",)),),
            checkpoints=(Checkpoint(name="review", artifact="draft.md", author="draft", reviewers=("auditor",)),),
        ),
    ),
    deliverable=ByteCheck(path="draft.md"),
    milestones=(Milestone(name="drafted", after=("draft",)), Milestone(name="audited", after=("audit",))),
)


@contextmanager
def short_home() -> Iterator[Path]:
    """A home whose path leaves room for sockets, unlike pytest's own folders."""
    with TemporaryDirectory(prefix="dw") as folder:
        yield Path(folder)


@contextmanager
def ledger_at(folder: Path) -> Iterator[Store]:
    """The ledger of a home."""
    store = open_home_ledger(Home(str(folder)), SystemClock())
    try:
        yield store
    finally:
        store.close()


def add_run(store: Store) -> str:
    """A run that has just been made."""
    return store.run(lambda tx: create_run(tx, PLAN, "/p", "/p/out", "/p/pipeline.yaml")).run


def admit_run(store: Store, run: str) -> None:
    """The dispatcher has let the run in."""
    store.run(lambda tx: _admit(tx, run))


def _admit(tx: Tx, run: str) -> None:
    change(tx, RunRecord, f"run/{run}", lambda r: replace(r, admitted=tx.now))
    tx.delete(f"queued/{run}")


def end_run(store: Store, run: str, state: str = "COMPLETED", cause: str = "") -> None:
    """The run is over and cleared."""

    def fn(tx: Tx) -> None:
        ended = partial(replace, state=state, ended=tx.now, cause=cause, cleared=True, phase=2)
        change(tx, RunRecord, f"run/{run}", ended)
        tx.append(PlainEvent("run_ended", {"state": state, "cause": cause, "sha256": ""}, run=run), f"ended:{run}")
        tx.append(PlainEvent("run_cleared", {"processes": 3}, run=run), f"cleared:{run}")
        tx.delete(f"active/{run}")
        tx.delete(f"queued/{run}")

    store.run(fn)


def go_halfway(store: Store, run: str, pid: int) -> None:
    """The draft is accepted; one auditor works in its second incarnation, the other reviews. `pid` is everybody's."""
    now = SystemClock().now()
    process = identify(pid, now.boot)
    assert process is not None

    def fn(tx: Tx) -> None:
        _admit(tx, run)
        change(tx, RunRecord, f"run/{run}", lambda r: replace(r, state="RUNNING", phase=1, started=tx.now))
        for agent in ("writer", "auditor-1", "auditor-2"):
            life = Running(since=tx.now, process=process)
            alive = partial(replace, busy=agent != "writer", life=life)
            change(tx, AgentRecord, f"agent/{run}/{agent}", alive)
        life = replace(life, nudges=1, progress_percent=62.5)
        second = partial(replace, incarnation=2, restarts=(tx.now,), life=life)
        change(tx, AgentRecord, f"agent/{run}/auditor-1", second)
        draft = TaskRecord(run=run, task="draft", dispatch="draft", phase=0, holders=("writer",), text="Write.")
        save(tx, replace(draft, state="accepted", agent="writer", attempt=1, dispatched=tx.now, finished=tx.now))
        audit = replace(draft, task="audit.auditor-1", dispatch="audit", phase=1, holders=("auditor-1",))
        save(tx, replace(audit, state="claimed", agent="auditor-1", attempt=1, dispatched=tx.now, finished=None))
        verdicts = {"auditor-1": Verdict(approve=True, note="fine", round=1)}
        save(tx, CheckpointRecord(run=run, checkpoint="review", phase=1, state="asked", round=1, verdicts=verdicts))
        asked = {"checkpoint": "review", "round": 1, "artifact": "draft.md", "reviewers": ["auditor-1", "auditor-2"]}
        tx.append(PlainEvent("checkpoint_asked", asked, run=run))
        save(tx, GateRecord(run=run, phase=0, gate="counted", state="passed", exit_code=0))
        tx.append(PlainEvent("milestone_reached", {"milestone": "drafted"}, run=run), f"milestone:{run}:drafted")
        save(tx, CrewRecord(host=tx.host, member="captain", run=run, process=process, started=tx.now, starts=2))
        save(
            tx,
            CrewRecord(host=tx.host, member="watchdog", run=run, process=ProcessId(now.boot, pid, 1), started=tx.now),
        )
        save(tx, CrewRecord(host=tx.host, member="dispatcher", run="", process=process, started=tx.now))
        tx.acquire(f"captain/{run}", "captain", 30.0)

    store.run(fn)
