"""Reviews: a DISAGREE that counts sends the work back.

Before the approval a DISAGREE is an objection in that round, after it the step is opened again. Each word counts once,
however often it is heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dogwatch.coordination.notices import push_notice
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load_run, save
from dogwatch.model.events.alerts import PersonCalled
from dogwatch.model.events.reviews import CheckpointAnswered, CheckpointReopened
from dogwatch.model.events.runs import PhaseReopened
from dogwatch.model.events.tasks import TaskReturned
from dogwatch.model.lifecycle import CHECKPOINT, TASK
from dogwatch.model.plan import Checkpoint
from dogwatch.model.records import CheckpointRecord, GateRecord, MessageRecord, Verdict
from dogwatch.model.redact import Redactor
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.policy.verdicts import OBJECTION_MAX, disagrees, objected_by_mail


def return_work(tx: Tx, view: RunView, plan: Checkpoint, notes: str) -> None:
    """The author's work goes back to it with the notes. What comes of it must be approved and gated anew: by everybody
    who had approved the earlier work, and from the author's phase on."""
    for phase in view.plan.phases:
        for other in phase.checkpoints:
            record = view.checkpoints.get(other.name)
            if other.author == plan.author and other.name != plan.name and record and record.state == "approved":
                save(tx, replace(record, state=CHECKPOINT.step(record.state, "revised")))
    note = f"{plan.name}: {notes}"
    authored = [t for t in view.tasks.values() if t.dispatch == plan.author and t.state == "accepted"]
    for task in authored:
        save(tx, replace(task, state=TASK.step(task.state, "returned"), attempt=0, note=note))
        told = plan.name if view.run.sensitive else note
        tx.append(TaskReturned(task=task.task, note=told, run=task.run, agent=task.agent))
    back_to = min((task.phase for task in authored), default=view.run.phase)
    if back_to < view.run.phase:
        for gate in view.gates.values():
            if gate.phase >= back_to:
                save(tx, GateRecord(run=gate.run, phase=gate.phase, gate=gate.gate, attempt=gate.attempt + 1))
        save(tx, replace(view.run, phase=back_to, returns=view.run.returns + 1))
        event = PhaseReopened(phase=view.plan.phases[back_to].name, because=plan.name, run=view.run.run)
        tx.append(event)


def hear_mail(tx: Tx, view: RunView, message: MessageRecord, redactor: Redactor) -> None:
    """A letter that has gone out, whenever that was: what a reviewer or a validator says in it to the author counts."""
    if disagrees(message.body):
        about = objected_by_mail(view, view.current(message.sender), view.current(message.to), message.body)
        object_to(tx, view, about, message.sender, redactor.text(message.body)[:OBJECTION_MAX], message.id)


def object_to(tx: Tx, view: RunView, checkpoints: Sequence[str], by: str, note: str, key: str) -> None:
    """Somebody disagrees with the work of these checkpoints. `key` names the occasion: the same counts once."""
    for name in checkpoints:
        view = load_run(tx, view.run.run)  # the one before may have sent the run back, and opened this one too
        record = view.checkpoints[name]
        if record.state == "approved":
            reopen(tx, view, record, by, note, key)
        elif record.state == "asked":
            event = CheckpointAnswered(
                checkpoint=name,
                verdict="disagree",
                round=record.round,
                by=by,
                note=_told(view, note),
                run=record.run,
            )
            if tx.append(event, f"objection:{record.key}:{key}"):
                given = Verdict(approve=False, note=f"{by}: {note}", round=record.round)
                save(tx, replace(record, verdicts={**record.verdicts, by: given}))


def reopen(tx: Tx, view: RunView, record: CheckpointRecord, by: str, note: str, key: str) -> bool:
    """The step is opened again: its author gets the note, the run goes back to it, and who approved is asked anew. Not
    more often than the checkpoint has rounds: then a person must say who is right."""
    plan = route.checkpoint_plan(view, record.checkpoint)
    if view.run.state != "RUNNING":
        return False
    if record.reopened >= plan.rounds_max:
        called = PersonCalled(
            diagnosis="disagreement",
            checkpoint=plan.name,
            evidence=(f"{by}: {_told(view, note)}",),
            advice=f"{plan.name} was opened again {record.reopened} times: decide who is right",
            run=record.run,
        )
        if tx.append(called, f"disagree:{record.key}:{key}"):
            title = f"{by} disagrees with {plan.name} again"
            push_notice(tx, record.run, "escalation", f"disagree:{plan.name}:{key}", title, note)
        return False
    event = CheckpointReopened(checkpoint=plan.name, by=by, round=record.round, note=_told(view, note), run=record.run)
    if not tx.append(event, f"reopened:{record.key}:{key}"):
        return False
    opened = replace(record, state=CHECKPOINT.step(record.state, "revised"), notes=note, reopened=record.reopened + 1)
    save(tx, opened)
    return_work(tx, view, plan, f"{by} disagrees: {note}")
    for gate in view.gates.values():
        # Whatever has passed in this phase has passed for the earlier work.
        is_data = any(one.partitions for one in view.plan.phases[gate.phase].gates if one.name == gate.gate)
        if gate.phase == view.run.phase and not is_data:
            save(tx, GateRecord(run=gate.run, phase=gate.phase, gate=gate.gate, attempt=gate.attempt + 1))
    return True


def _told(view: RunView, note: str) -> str:
    """What agents say must not be kept in events where the pipeline is sensitive."""
    return "" if view.run.sensitive else note
