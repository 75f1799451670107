"""Tasks and reviews change hands: the transitions that routing, mending and the door have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dogwatch.crew.helm import send
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, save
from dogwatch.model import brief, plan
from dogwatch.model.lifecycle import AGENT, TASK
from dogwatch.model.plan import Output
from dogwatch.model.records import AgentRecord, TaskRecord
from dogwatch.model.view import RunView
from dogwatch.policy import route


def assign(tx: Tx, view: RunView, task: TaskRecord, agent: AgentRecord, marker: dict[str, str]) -> TaskRecord:
    """The task is the agent's from now on; its marker says what the outputs looked like before."""
    taken = replace(
        task,
        state=TASK.step(task.state, "claimed"),
        agent=agent.agent,
        incarnation=agent.incarnation,
        attempt=task.attempt + 1,
        sends=task.sends + 1,
        outputs=outputs_for(view, task, agent),
        marker=marker,
        dispatched=tx.now,
        delivered=None,
        rescued=False,
    )
    save(tx, taken)
    change(tx, AgentRecord, agent.key, lambda a: replace(a, state=_busy(a.state), nudges=0, last_task_update=tx.now))
    return taken


def dispatch_text(view: RunView, task: TaskRecord, agent: AgentRecord) -> str:
    """The words of a dispatch to this agent."""
    outputs = tuple((output.path, output.kind) for output in task.outputs)
    role = view.role_of(agent.agent)
    words = [fill(text, view, agent) for text in (role.prompt if role else "", task.text) if text]
    return brief.dispatch(task.task, "\n".join(words), outputs, task.note)


def return_or_fail(tx: Tx, task: TaskRecord, reason: str) -> bool:
    """The task goes back for another attempt, or is given up where there have been enough."""
    if task.attempt >= task.attempts_max:
        return fail_task(tx, task, reason)
    save(tx, replace(task, state=TASK.step(task.state, "returned"), note=reason))
    tx.append("task_returned", {"task": task.task, "note": reason}, run=task.run, agent=task.agent)
    release_agent(tx, task)
    return True


def rescue_task(tx: Tx, task: TaskRecord, diagnosis: str, evidence: Sequence[str]) -> None:
    """The task counts as reported: its outputs are there, and only the report is missing."""
    save(tx, replace(task, state=TASK.step(task.state, "reported"), rescued=True))
    body = {"task": task.task, "diagnosis": diagnosis, "evidence": list(evidence)}
    tx.append("task_rescued", body, run=task.run, agent=task.agent)


def fail_task(tx: Tx, task: TaskRecord, reason: str) -> bool:
    """The task is given up."""
    save(tx, replace(task, state=TASK.step(task.state, "failed"), finished=tx.now, note=reason))
    tx.append("task_failed", {"task": task.task, "note": reason}, f"failed:{task.key}", run=task.run, agent=task.agent)
    release_agent(tx, task)
    return True


def release_agent(tx: Tx, task: TaskRecord) -> None:
    """The holder of the task has nothing to do for now."""
    if task.agent:
        rest(tx, f"agent/{task.run}/{task.agent}")


def ask_reviewer(tx: Tx, view: RunView, checkpoint: str, round_: int, agent: AgentRecord) -> None:
    """One reviewer's request, for its current incarnation."""
    plan = route.checkpoint_plan(view, checkpoint)
    text = brief.checkpoint(plan.name, plan.artifact, fill(plan.question, view, agent))
    send(tx, agent, "checkpoint", plan.name, text, key=f"{plan.name}:{round_}")
    change(tx, AgentRecord, agent.key, lambda a: replace(a, state=_busy(a.state), nudges=0, last_task_update=tx.now))


def outputs_for(view: RunView, task: TaskRecord, agent: AgentRecord) -> tuple[Output, ...]:
    """The task's outputs with the agent's name filled in."""
    named = route.dispatch_of(view, task).outputs
    return tuple(replace(output, path=fill(output.path, view, agent)) for output in named)


def fill(text: str, view: RunView, agent: AgentRecord) -> str:
    """The text with the places for agent, role and run filled in."""
    return plan.fill(text, agent=agent.place, role=agent.role, run=view.run.run)


def rest(tx: Tx, agent_key: str) -> None:
    """The agent has nothing to do for now."""
    change(
        tx,
        AgentRecord,
        agent_key,
        lambda a: replace(a, state="WAITING" if a.state == "BUSY" else a.state, last_task_update=tx.now),
    )


def _busy(state: str) -> str:
    return state if state == "BUSY" else AGENT.step(state, "BUSY")
