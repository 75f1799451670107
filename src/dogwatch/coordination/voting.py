"""What reviewers say: approve or revise, once a round, and a change of mind after the approval."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dogwatch.coordination.reviews import reopen
from dogwatch.errors import RefusedError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load, save
from dogwatch.model.events.reviews import CheckpointAnswered
from dogwatch.model.records import AgentRecord, CheckpointRecord, Verdict
from dogwatch.model.view import RunView
from dogwatch.policy import route


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
