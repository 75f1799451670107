"""Records in and out of the ledger, and everything that is kept of a run as one view."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, overload

from dogwatch.errors import NotFoundError
from dogwatch.ledger.api import Reader, Record, Tx
from dogwatch.model import keys
from dogwatch.model.plan import Plan
from dogwatch.model.records import (
    AgentRecord,
    CheckpointRecord,
    CrewRecord,
    GateRecord,
    MessageRecord,
    OverdueSubagent,
    RunRecord,
    TaskRecord,
)
from dogwatch.model.versions import InstructionsRecord, ReadingRecord
from dogwatch.model.view import RunView

R = TypeVar("R", bound=Record)


@overload
def load(reader: Reader, kind: type[R], key: str) -> R | None: ...
@overload
def load(reader: Reader, kind: type[Plan], key: str) -> Plan | None: ...
def load(reader: Reader, kind: type, key: str) -> object:
    """The record of `kind` under `key`, or None."""
    return reader.record(kind, key)


def load_all(reader: Reader, kind: type[R], prefix: str) -> list[R]:
    """All records of `kind` whose key begins with `prefix`, ordered by key."""
    return reader.records(kind, prefix)


def save(tx: Tx, record: R) -> R:
    """Writes the record and returns it."""
    tx.put_record(record)
    return record


def change(tx: Tx, kind: type[R], key: str, fn: Callable[[R], R]) -> R:
    """Reads a record, changes it with `fn` and writes it, all as of this transaction."""
    changed = tx.change_record(kind, key, fn)
    if changed is None:
        raise NotFoundError(f"there is no {key} in the ledger", hint="dogwatch status lists what there is")
    return changed


UNREADABLE = (TypeError, ValueError, KeyError, AttributeError)
"""What is raised where a record is not what it should be."""
VIEWED = frozenset(
    (
        *("run", "plan", "agent", "task", "checkpoint", "message", "gate", "crew", "overdue"),
        *("instructions", "reading"),
    )
)
"""The first words of the keys of everything that is in the view of a run; the run is the second."""


def load_run(reader: Reader, run: str) -> RunView:
    """Everything the ledger keeps of a run."""
    return reader.view(run, lambda: _load_run(reader, run))


def load_plan(reader: Reader, run: str) -> Plan | None:
    """The run's plan; None also where it cannot be read: one broken run must not stop who looks after all."""
    try:
        return load(reader, Plan, keys.plan(run))
    except UNREADABLE:
        return None


def load_whole(reader: Reader, run: str) -> RunView | None:
    """The same as `load_run`; None where something of it cannot be read."""
    try:
        return load_run(reader, run)
    except (NotFoundError, *UNREADABLE):
        return None


def _load_run(reader: Reader, run: str) -> RunView:
    record = load(reader, RunRecord, keys.run(run))
    plan = load(reader, Plan, keys.plan(run))
    if record is None or plan is None:
        raise NotFoundError(f"there is no run {run!r}", hint="dogwatch status lists all runs")
    versioned = any(role.instructions for role in plan.roles)
    instructions = load_all(reader, InstructionsRecord, keys.all_instructions(run)) if versioned else ()
    readings = load_all(reader, ReadingRecord, keys.readings(run)) if versioned else ()
    return RunView(
        plan=plan,
        run=record,
        agents={r.agent: r for r in load_all(reader, AgentRecord, keys.agents(run))},
        tasks={r.task: r for r in load_all(reader, TaskRecord, keys.tasks(run))},
        checkpoints={r.checkpoint: r for r in load_all(reader, CheckpointRecord, keys.checkpoints(run))},
        messages={r.id: r for r in load_all(reader, MessageRecord, keys.messages(run))},
        gates={(r.phase, r.gate): r for r in load_all(reader, GateRecord, keys.gates(run))},
        crew={r.member: r for r in load_all(reader, CrewRecord, keys.crews(run))},
        overdue=load_all(reader, OverdueSubagent, keys.overdue_subagents(run)),
        instructions={r.role: r for r in instructions},
        readings={r.agent: r for r in readings},
    )
