"""What agents do with tasks: they report those they hold, take those that are offered, give one another new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from dogwatch.coordination.instructions import debt
from dogwatch.coordination.tasks import assign, check_counter, dispatch_text, return_or_fail
from dogwatch.errors import RefusedError, StaleError, UsageError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import save
from dogwatch.model.events.tasks import TaskClaimed, TaskReported, TaskSent
from dogwatch.model.lifecycle import TASK
from dogwatch.model.plan import Output
from dogwatch.model.records import AgentRecord, TaskRecord
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.policy.markers import imitates_header, wrong_task

TASK_BYTES_MAX = 64 * 1024


def report(
    tx: Tx, view: RunView, agent: AgentRecord, name: str, result: Literal["done", "failed"], note: str, op_id: str
) -> tuple[str, str]:
    """The agent says how its task ended: the one of this name, or without one the task that it holds. Returns the
    task's name and its state."""
    task = _own_task(view, agent, name)
    if task.state in ("reported", "accepted"):
        return task.task, task.state
    if task.state != "claimed":
        raise RefusedError(f"{task.task} is {task.state}, not yours to report")
    event = TaskReported(task=task.task, result=result, note=note, run=agent.run, agent=agent.agent)
    if not tx.append(event, op_id):
        # The same call came before and its answer was lost; since then the task has been given out anew.
        return task.task, task.state
    if result == "failed":
        return_or_fail(tx, task, note or "reported as failed")
        return task.task, "failed"
    save(tx, replace(task, state=TASK.step(task.state, "reported"), note=note))
    return task.task, "reported"


def _own_task(view: RunView, agent: AgentRecord, name: str) -> TaskRecord:
    if not name:
        held = view.task_of(agent.agent)
        if held is None:
            raise RefusedError(f"{agent.agent} holds no task", hint="name the task: dogwatch report done --task NAME")
        return held
    task = view.tasks.get(name)
    if task is None or task.agent != agent.agent:
        raise RefusedError(f"{name} is not a task of {agent.agent}")
    if task.incarnation != agent.incarnation and task.state == "claimed":
        raise StaleError(f"{name} was given to incarnation {task.incarnation}")
    return task


def offered(view: RunView, agent: AgentRecord, name: str) -> TaskRecord | None:
    """The task of this name, where it is or was offered to the agent."""
    task = view.tasks.get(name)
    return task if task is not None and agent.agent in task.holders else None


def take(tx: Tx, view: RunView, agent: AgentRecord, name: str, marker: Mapping[str, str], op_id: str) -> str:
    """The agent takes an offered task; `marker` is what its outputs look like now. Returns the task's text."""
    task = offered(view, agent, name)
    if task is None:
        raise RefusedError(f"{name} is not offered to {agent.agent}")
    if task.state == "claimed" and task.agent == agent.agent and task.incarnation == agent.incarnation:
        return dispatch_text(view, task, agent)
    if not task.is_on_offer:
        state = f"{task.state} already" if task.state != "pending" else "offered no more"
        raise RefusedError(f"{task.task} is {state}", hint="wait for the next offer")
    early = [other.task for other in route.tasks_before(view, task) if other.state != "accepted"]
    if early or task.phase != view.run.phase:
        after = f": {early[0]} comes first" if early else ""
        raise RefusedError(f"{task.task} cannot begin yet{after}", hint="wait until it is offered")
    held = view.task_of(agent.agent)
    if held is not None:
        raise RefusedError(f"{agent.agent} holds {held.task} already", hint="report it first")
    taken = replace(assign(tx, view, task, agent, dict(marker)), delivered=tx.now)
    save(tx, taken)
    check_counter(tx, agent.run)
    tx.append(TaskClaimed(task=task.task, run=agent.run, agent=agent.agent), op_id)
    return dispatch_text(view, taken, agent)


def give(
    tx: Tx, view: RunView, agent: AgentRecord, to: str, text: str, expect_s: float, outputs: Sequence[str], op_id: str
) -> str:
    """One agent's task for another becomes a task of the run; returns its name. Its marker was looked at before."""
    known = next((task for task in view.tasks.values() if task.op and task.op == op_id), None)
    if known is not None:
        return known.task  # the same call came before and its answer was lost
    if imitates_header(text):
        raise RefusedError("a line of it looks like a header of the captain's", hint="leave out [dogwatch:…]")
    if len(text.encode()) > TASK_BYTES_MAX:
        raise UsageError(f"the task is larger than {TASK_BYTES_MAX} bytes", hint="write a file and name its path")
    if debt(tx, agent) is not None:
        path = view.instructions[agent.role].path
        raise RefusedError("what you send to others is held", hint=f"read {path} first, then send it again")
    if wrong := wrong_task(view, agent, to, outputs):
        raise RefusedError(wrong, hint=f"agents: {', '.join(view.agents)}")
    number = sum(task.sender == agent.agent for task in view.tasks.values()) + 1
    task = TaskRecord(
        run=agent.run,
        task=f"{agent.agent}.{number}",
        dispatch=f"{agent.agent}.{number}",
        phase=view.run.phase,
        holders=(view.current(to),),
        text=text,
        outputs=tuple(Output(path=path) for path in outputs),
        expect_s=expect_s,
        expect_from=f"given by {agent.agent}",
        sender=agent.agent,
        op=op_id,
    )
    save(tx, task)
    event = TaskSent(
        task=task.task,
        to=task.holders[0],
        expect_s=task.expect_s,
        outputs=tuple(outputs),
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, op_id)
    return task.task
