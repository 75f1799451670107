"""Phases: opened with their tasks and checkpoints, ended, and opened again where work is sent back."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination import gates
from dogwatch.coordination.runs import learned
from dogwatch.coordination.tasks import correct_counter
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, load, save
from dogwatch.model.events.runs import PhaseEnded, PhaseOpened, PhaseReopened
from dogwatch.model.events.tasks import DispatchDropped
from dogwatch.model.lifecycle import RUN
from dogwatch.model.records import CheckpointRecord, RunRecord, TaskRecord
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.policy.learning import expectation
from dogwatch.policy.time_limits import time_limit


def open_phase(tx: Tx, view: RunView, number: int) -> None:
    """The phase's tasks and checkpoints get their records. What an opened phase has lost of them is told."""
    run, phase = view.run.run, view.plan.phases[number]
    dropped = []
    for dispatch in phase.dispatches:
        role = view.role_of(view.plan.holders(dispatch)[0])
        took_s = learned(tx, view, role.name) if role is not None else []
        role_name = role.name if role else dispatch.to
        for name, holders in route.task_names(view, dispatch).items():
            limit = time_limit((role_name, *holders), view.plan.time_limits)
            expect_s, expect_from = expectation(dispatch.expect_s, role_name, took_s, limit)
            task = TaskRecord(
                run=run,
                task=name,
                dispatch=dispatch.name,
                phase=number,
                holders=tuple(view.current(holder) for holder in holders),
                text=dispatch.task,
                outputs=dispatch.outputs,
                risk=dispatch.risk,
                expect_s=expect_s,
                expect_from=expect_from,
                attempts_max=dispatch.attempts,
            )
            if load(tx, TaskRecord, task.key) is None:
                save(tx, task)
                dropped.append(name)
    for checkpoint in phase.checkpoints:
        record = CheckpointRecord(run=run, checkpoint=checkpoint.name, phase=number)
        if load(tx, CheckpointRecord, record.key) is None:
            save(tx, record)
    event = PhaseOpened(phase=phase.name, number=number + 1, of=len(view.plan.phases), run=run)
    if not tx.append(event, f"phase:{run}:{number}") and dropped:
        expected = len(route.expected_tasks(view, phase))
        missing = DispatchDropped(
            phase=phase.name, tasks=tuple(dropped), expected=expected, found=expected - len(dropped), run=run
        )
        tx.append(missing)
        correct_counter(tx, run)


def end_phase(tx: Tx, view: RunView, number: int) -> None:
    """The next phase may begin; after the last one the deliverable is to be read."""
    phase = view.plan.phases[number]
    last = number + 1 == len(view.plan.phases)
    op_id = f"phase-end:{view.run.run}:{number}:{view.run.returns}"
    tx.append(PhaseEnded(phase=phase.name, run=view.run.run), op_id)
    change(
        tx,
        RunRecord,
        view.run.key,
        lambda r: replace(r, phase=number + 1, state=RUN.step(r.state, "REPORT") if last else r.state),
    )


def reopen_phase(tx: Tx, view: RunView, number: int, because: str) -> None:
    """The run goes back to an earlier phase; all gates from there on must be passed again."""
    for gate in view.gates.values():
        if gate.phase >= number:
            gates.reset(tx, gate)
    save(tx, replace(view.run, phase=number, returns=view.run.returns + 1))
    event = PhaseReopened(phase=view.plan.phases[number].name, because=because, run=view.run.run)
    tx.append(event)
