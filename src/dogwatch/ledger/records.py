"""Records in and out of the ledger: the one place that knows how a record becomes a document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, overload

from dogwatch.errors import NotFoundError
from dogwatch.ledger.api import Reader, Tx
from dogwatch.model.codec import decode, encode
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


class Record(Protocol):
    """Anything with a key."""

    @property
    def key(self) -> str: ...


R = TypeVar("R", bound=Record)


@overload
def load(reader: Reader, kind: type[R], key: str) -> R | None: ...
@overload
def load(reader: Reader, kind: type[Plan], key: str) -> Plan | None: ...
def load(reader: Reader, kind: type, key: str) -> object:
    """The record of `kind` under `key`, or None. A reader may remember those that it has made before, as the
    simulator's does."""
    remembered: Callable[[type, str], object] | None = getattr(reader, "record", None)
    if remembered:
        return remembered(kind, key)
    document = reader.get(key)
    return decode(kind, document.body) if document else None


def load_all(reader: Reader, kind: type[R], prefix: str) -> list[R]:
    """All records of `kind` whose key begins with `prefix`, ordered by key."""
    remembered: Callable[[type[R], str], list[R]] | None = getattr(reader, "records", None)
    return remembered(kind, prefix) if remembered else [decode(kind, one.body) for one in reader.scan(prefix)]


def save(tx: Tx, record: R) -> R:
    """Writes the record and returns it."""
    return _put(tx, record)


def change(tx: Tx, kind: type[R], key: str, fn: Callable[[R], R]) -> R:
    """Reads a record, changes it with `fn` and writes it, all as of this transaction."""
    remembered: Callable[[type[R], str], R | None] | None = getattr(tx, "record", None)
    document = None if remembered else tx.get(key)
    before = remembered(kind, key) if remembered else decode(kind, document.body) if document else None
    if before is None:
        raise NotFoundError(f"there is no {key} in the ledger", hint="dogwatch status lists what there is")
    return _put(tx, fn(before), document.revision if document else None)


def _put(tx: Tx, record: R, revision: int | None = None) -> R:
    tx.put(record.key, encode(record), revision)
    remember: Callable[[R], None] | None = getattr(tx, "remember", None)
    if remember:
        remember(record)
    return record


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
    """Everything the ledger keeps of a run. A reader may remember it for as long as nothing of it changes, as the
    simulator's does."""
    remembered: Callable[[str, Callable[[], RunView]], RunView] | None = getattr(reader, "view", None)
    return remembered(run, lambda: _load_run(reader, run)) if remembered else _load_run(reader, run)


def load_plan(reader: Reader, run: str) -> Plan | None:
    """The run's plan; None also where it cannot be read: one broken run must not stop who looks after all."""
    try:
        return load(reader, Plan, f"plan/{run}")
    except UNREADABLE:
        return None


def load_whole(reader: Reader, run: str) -> RunView | None:
    """The same as `load_run`; None where something of it cannot be read."""
    try:
        return load_run(reader, run)
    except (NotFoundError, *UNREADABLE):
        return None


def _load_run(reader: Reader, run: str) -> RunView:
    record = load(reader, RunRecord, f"run/{run}")
    plan = load(reader, Plan, f"plan/{run}")
    if record is None or plan is None:
        raise NotFoundError(f"there is no run {run!r}", hint="dogwatch status lists all runs")
    versioned = any(role.instructions for role in plan.roles)
    instructions = load_all(reader, InstructionsRecord, f"instructions/{run}/") if versioned else ()
    readings = load_all(reader, ReadingRecord, f"reading/{run}/") if versioned else ()
    return RunView(
        plan=plan,
        run=record,
        agents={r.agent: r for r in load_all(reader, AgentRecord, f"agent/{run}/")},
        tasks={r.task: r for r in load_all(reader, TaskRecord, f"task/{run}/")},
        checkpoints={r.checkpoint: r for r in load_all(reader, CheckpointRecord, f"checkpoint/{run}/")},
        messages={r.id: r for r in load_all(reader, MessageRecord, f"message/{run}/")},
        gates={(r.phase, r.gate): r for r in load_all(reader, GateRecord, f"gate/{run}/")},
        crew={r.member: r for r in load_all(reader, CrewRecord, f"crew/{run}/")},
        overdue=load_all(reader, OverdueSubagent, f"overdue/{run}/"),
        instructions={r.role: r for r in instructions},
        readings={r.agent: r for r in readings},
    )
