"""Whether what the ledger keeps of the runs agrees with what it says has happened."""

from __future__ import annotations

from collections.abc import Iterator

from dogwatch.ledger.api import Reader, Record
from dogwatch.ledger.copying import all_events
from dogwatch.model import keys
from dogwatch.model.codec import decode
from dogwatch.model.events import KINDS
from dogwatch.model.lifecycle import RUN
from dogwatch.model.plan import Plan
from dogwatch.model.records import (
    AgentRecord,
    CheckpointRecord,
    CrewRecord,
    GateRecord,
    MessageRecord,
    RunRecord,
    TaskRecord,
)
from dogwatch.model.versions import DispatchCount, InstructionsRecord, ReadingRecord

_KINDS: dict[str, type[Record] | type[Plan]] = {
    "run": RunRecord,
    "plan": Plan,
    "agent": AgentRecord,
    "task": TaskRecord,
    "checkpoint": CheckpointRecord,
    "message": MessageRecord,
    "gate": GateRecord,
    "crew": CrewRecord,
    "instructions": InstructionsRecord,
    "reading": ReadingRecord,
    "dispatches": DispatchCount,
}


class _Story:
    """What the events say."""

    def __init__(self, reader: Reader) -> None:
        self.operations: set[str] = set()
        self.ends: dict[str, list[str]] = {}
        self.accepted: set[tuple[str, str]] = set()
        self.unknown: set[str] = set()
        for event in all_events(reader):
            self.operations.add(event.op_id)
            if event.kind not in KINDS:
                self.unknown.add(event.kind)
            elif event.kind == "run_ended":
                self.ends.setdefault(event.run, []).append(str(event.body.get("state")))
            elif event.kind == "task_accepted":
                self.accepted.add((event.run, str(event.body.get("task"))))


def disagreements(reader: Reader) -> Iterator[str]:
    """What is wrong, one line each."""
    story = _Story(reader)
    yield from (f"events of a kind that this version does not know: {kind}" for kind in sorted(story.unknown))
    records: dict[str, object] = {}
    for document in reader.scan(""):
        kind = _KINDS.get(document.key.partition("/")[0])
        if kind is None:
            continue
        try:
            records[document.key] = decode(kind, document.body)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            yield f"{document.key} cannot be read: {error}"
    active = {document.key.removeprefix(keys.ACTIVE) for document in reader.scan(keys.ACTIVE)}
    for key, record in records.items():
        if isinstance(record, RunRecord):
            yield from _run(record, story, active)
            if keys.plan(record.run) not in records:
                yield f"{key} has no plan"
        elif isinstance(record, TaskRecord | AgentRecord | CheckpointRecord | GateRecord | MessageRecord):
            if keys.run(record.run) not in records:
                yield f"{key} belongs to no run"
            yield from _part(record, story)
    yield from (f"{keys.active(run)} belongs to no run" for run in sorted(active) if keys.run(run) not in records)


def _run(run: RunRecord, story: _Story, active: set[str]) -> Iterator[str]:
    if f"created:{run.run}" not in story.operations:
        yield f"{run.key} is there, but no event says that it was made"
    ends = story.ends.get(run.run, [])
    if run.state not in RUN.table:
        yield f"{run.key} is in a state that does not exist: {run.state}"
    elif run.over and ends != [run.state]:
        yield f"{run.key} is {run.state}, but the events say: {', '.join(ends) or 'not ended'}"
    elif not run.over and ends:
        yield f"{run.key} is {run.state}, but the events say that it ended: {', '.join(ends)}"
    if not run.over and run.run not in active:
        yield f"{run.key} is {run.state}, and nobody is told to look after it"


def _part(
    record: TaskRecord | AgentRecord | CheckpointRecord | GateRecord | MessageRecord, story: _Story
) -> Iterator[str]:
    if isinstance(record, TaskRecord) and record.state == "accepted":
        if (record.run, record.task) not in story.accepted:
            yield f"{record.key} is accepted, but no event says so"
    elif isinstance(record, AgentRecord) and record.process is not None:
        if f"spawned:{record.key}:{record.incarnation}" not in story.operations:
            yield f"{record.key} has a process, but no event says that it was started"
    elif isinstance(record, MessageRecord) and f"message:{record.key}" not in story.operations:
        yield f"{record.key} is there, but no event says that it was sent"
