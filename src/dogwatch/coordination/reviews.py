"""Reviews: a checkpoint is asked for, closed and opened again; a DISAGREE that counts sends the work back.

Before the approval a DISAGREE is an objection in that round, after it the step is opened again. Each word counts once,
however often it is heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dogwatch.coordination import gates
from dogwatch.coordination.notices import push_notice
from dogwatch.coordination.phases import reopen_phase
from dogwatch.coordination.tasks import ask_reviewer, rest, revise
from dogwatch.errors import RefusedError
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import load, load_run, save
from dogwatch.model.events.alerts import PersonCalled
from dogwatch.model.events.reviews import CheckpointAnswered, CheckpointAsked, CheckpointClosed, CheckpointReopened
from dogwatch.model.lifecycle import CHECKPOINT
from dogwatch.model.plan import Checkpoint
from dogwatch.model.records import AgentRecord, CheckpointRecord, MessageRecord, Verdict
from dogwatch.model.redact import Redactor
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.policy.verdicts import OBJECTION_MAX, disagrees, objected_by_mail, objected_by_subagent


def ask(tx: Tx, view: RunView, checkpoint: str, round_: int) -> None:
    """The reviewers are asked for the next round."""
    plan = route.checkpoint_plan(view, checkpoint)
    # What was decided before it may have failed to start a reviewer: that has another incarnation now, or is lost.
    found = [load(tx, AgentRecord, view.agents[name].key) for name in plan.reviewers]
    asked = [agent for agent in found if agent is not None and not agent.is_over]
    if len(asked) < len(plan.reviewers):
        return
    record = view.checkpoints[plan.name]
    save(tx, replace(record, state=CHECKPOINT.step(record.state, "asked"), round=round_))
    for agent in asked:
        ask_reviewer(tx, view, plan.name, round_, agent)
    event = CheckpointAsked(
        checkpoint=plan.name,
        round=round_,
        artifact=plan.artifact,
        reviewers=tuple(agent.agent for agent in asked),
        run=record.run,
    )
    tx.append(event, f"ask:{record.key}:{round_}")


def close(tx: Tx, view: RunView, checkpoint: str, state: str, notes: str) -> None:
    """The round is over: approved, revised (the author's work goes back to it with the notes), failed or skipped."""
    plan = route.checkpoint_plan(view, checkpoint)
    record = view.checkpoints[plan.name]
    closed = replace(record, state=CHECKPOINT.step(record.state, state), notes=notes)
    save(tx, replace(closed, closed=tx.now))
    if state == "revised":
        return_work(tx, view, plan, notes)
    for name in plan.reviewers:
        rest(tx, view.agents[name].key)
    # A sub-agent's words may be among those that led to a revision.
    told = "" if state == "revised" and view.run.sensitive else notes
    event = CheckpointClosed(checkpoint=plan.name, round=record.round, state=state, notes=told, run=record.run)
    tx.append(event, f"close:{record.key}:{record.round}:{state}")


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
        revise(tx, task, note, plan.name if view.run.sensitive else note)
    back_to = min((task.phase for task in authored), default=view.run.phase)
    if back_to < view.run.phase:
        reopen_phase(tx, view, back_to, plan.name)


def hear(tx: Tx, item: Item) -> None:
    """What a sub-agent said in the end, as the watchdog has queued it."""
    claimed = tx.claim(item.queue, "captain", 60.0, item.id)
    if claimed is None:
        return
    tx.ack(claimed)
    agent, kind, text = (str(item.body[name]) for name in ("agent", "type", "text"))
    view = load_run(tx, str(item.body["run"]))
    # Its start is on the monotonic clock of the boot in which its end was told.
    since = item.pushed.plus(float(item.body["since"]) - item.pushed.mono)
    names = objected_by_subagent(view, agent, kind, since, text)
    object_to(tx, view, names, f"{agent}/{kind}", text, item.id)


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
            gates.reset(tx, gate)
    return True


def _told(view: RunView, note: str) -> str:
    """What agents say must not be kept in events where the pipeline is sensitive."""
    return "" if view.run.sensitive else note


def vote(
    tx: Tx,
    view: RunView,
    agent: AgentRecord,
    checkpoint: str,
    verdict: Literal["approve", "revise"],
    note: str,
    op_id: str,
) -> str:
    """Takes the agent's verdict; returns the state of the checkpoint."""
    record = view.checkpoints.get(checkpoint)
    if record is None:
        raise RefusedError(
            f"there is no checkpoint {checkpoint!r} open", hint=f"open: {', '.join(view.checkpoints) or 'none'}"
        )
    plan = route.checkpoint_plan(view, checkpoint)
    authors = {view.current(task.agent) for task in view.tasks.values() if task.dispatch == plan.author}
    if agent.agent in authors:
        raise RefusedError(f"{agent.agent} is the author of {plan.artifact} and may not review it")
    if agent.agent not in plan.reviewers:
        raise RefusedError(f"{agent.agent} is no reviewer of {checkpoint}")
    if record.state == "approved" and verdict == "revise":
        return _disagree(tx, view, agent, record, note, op_id)
    if record.has_voted(agent.agent):
        return record.state
    if record.state != "asked":
        raise RefusedError(f"{checkpoint} is {record.state}: nobody was asked")
    event = CheckpointAnswered(
        checkpoint=checkpoint,
        verdict=verdict,
        round=record.round,
        note=note,
        run=agent.run,
        agent=agent.agent,
    )
    if tx.append(event, op_id):
        given = Verdict(approve=verdict == "approve", note=note, round=record.round)
        save(tx, replace(record, verdicts={**record.verdicts, agent.agent: given}))
    return record.state


def _disagree(tx: Tx, view: RunView, agent: AgentRecord, record: CheckpointRecord, note: str, op_id: str) -> str:
    """A reviewer has changed its mind after the approval: the step is opened again."""
    event = CheckpointAnswered(
        checkpoint=record.checkpoint,
        verdict="revise",
        round=record.round,
        note=note,
        run=agent.run,
        agent=agent.agent,
    )
    if tx.append(event, op_id):
        reopen(tx, view, record, agent.agent, note or "please revise", op_id)
    found = load(tx, CheckpointRecord, record.key)
    return found.state if found is not None else record.state
