"""Tasks: dispatched or offered, claimed, judged by their outputs, returned, accepted or given up."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from dogwatch.coordination.instructions import brief_line, note_brief
from dogwatch.coordination.mail import send
from dogwatch.coordination.runs import learn, reach_milestones
from dogwatch.ledger.api import Reader, Tx
from dogwatch.ledger.records import change, load, load_all, save
from dogwatch.model import brief, keys, plan
from dogwatch.model.events.clients import AgentError
from dogwatch.model.events.tasks import (
    DispatchMiscounted,
    TaskAccepted,
    TaskDispatched,
    TaskFailed,
    TaskOffered,
    TaskRescued,
    TaskReturned,
)
from dogwatch.model.lifecycle import AGENT, TASK
from dogwatch.model.plan import Output
from dogwatch.model.records import AgentRecord, TaskRecord
from dogwatch.model.tally import Failure
from dogwatch.model.versions import DispatchCount
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.policy.markers import OPEN, miscounts


def dispatch(tx: Tx, view: RunView, task: TaskRecord, agent: AgentRecord, marker: dict[str, str]) -> None:
    """The task goes to the agent. `marker` is what its outputs look like now."""
    taken = assign(tx, view, task, agent, marker)
    body = dispatch_text(view, taken, agent)
    # The moment makes it another message where the record of an earlier dispatch was lost.
    message = send(tx, agent, "dispatch", task.task, body, key=f"{task.task}:{taken.sends}:{tx.now.wall:.6f}")
    event = TaskDispatched(
        task=task.task,
        attempt=taken.attempt,
        incarnation=agent.incarnation,
        message=message.id,
        expect_s=task.expect_s,
        expect_from=task.expect_from,
        outputs=tuple(output.path for output in taken.outputs),
        sender=task.sender,
        run=task.run,
        agent=agent.agent,
    )
    tx.append(event)
    check_counter(tx, task.run)


def offer(tx: Tx, view: RunView, task: TaskRecord, agent: AgentRecord) -> None:
    """The task is offered to the agent; whoever claims it first has it."""
    text = brief.offer(task.task, fill(task.text, view, agent))
    message = send(tx, agent, "offer", task.task, text, key=task.task)
    event = TaskOffered(task=task.task, message=message.id, run=task.run, agent=agent.agent)
    tx.append(event, f"offer:{message.id}")


def assign(tx: Tx, view: RunView, task: TaskRecord, agent: AgentRecord, marker: dict[str, str]) -> TaskRecord:
    """The task is the agent's from now on; its marker says what the outputs looked like before."""
    note_brief(tx, view, agent)
    count_dispatch(tx, agent.run, agent.agent)
    taken = replace(
        task,
        state=TASK.step(task.state, "claimed"),
        agent=agent.agent,
        former="",
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
    change(tx, AgentRecord, agent.key, lambda a: _begun(tx, a))
    return taken


def dispatch_text(view: RunView, task: TaskRecord, agent: AgentRecord) -> str:
    """The words of a dispatch to this agent."""
    outputs = tuple((output.path, output.kind) for output in task.outputs)
    role = view.role_of(agent.agent)
    prompt = fill(role.prompt, view, agent) if role else ""
    given = f"This task was given to you by {task.sender}, in about {task.expect_s:g} s:" if task.sender else ""
    # What another agent has written stays as it is: braces in it are its own.
    text = task.text if task.sender else fill(task.text, view, agent)
    words = [word for word in (prompt, brief_line(view, agent), given, text) if word]
    return brief.dispatch(task.task, "\n".join(words), outputs, task.note)


def accept(tx: Tx, view: RunView, task: TaskRecord) -> None:
    """The task is done: its outputs are as they must be. Who has sent it is told."""
    count_end(tx, task)
    done = save(tx, replace(task, state=TASK.step(task.state, "accepted"), finished=tx.now, note=""))
    took_s = tx.now.since(done.dispatched) if done.dispatched else 0.0
    event = TaskAccepted(
        task=task.task,
        attempt=task.attempt,
        rescued=task.rescued,
        took_s=round(took_s, 3),
        run=task.run,
        agent=task.agent,
    )
    tx.append(event)
    release_agent(tx, task)
    tell_sender(tx, task, brief.result(task.task, task.agent, ", ".join(o.path for o in task.outputs), ""))
    learn(tx, view, done, took_s)
    reach_milestones(tx, view, done)


def reject(tx: Tx, task: TaskRecord, reason: str) -> None:
    """The task was reported, and its outputs are not as they must be: that is an error of the agent's."""
    failure = Failure("validation_failure", "report", reason)
    event = AgentError(
        incarnation=task.incarnation,
        severity=failure.severity,
        count=task.attempt,
        type=failure.type,
        tool=failure.tool,
        message=f"{task.task}: {reason}",
        run=task.run,
        agent=task.agent,
    )
    tx.append(event)
    return_or_fail(tx, task, reason)


def revise(tx: Tx, task: TaskRecord, note: str, told: str) -> None:
    """Accepted work goes back to its author with the note; `told` is what the event says of it."""
    save(tx, replace(task, state=TASK.step(task.state, "returned"), attempt=0, note=note))
    tx.append(TaskReturned(task=task.task, note=told, run=task.run, agent=task.agent))


def return_or_fail(tx: Tx, task: TaskRecord, reason: str) -> bool:
    """The task goes back for another attempt, or is given up where there have been enough."""
    if task.attempt >= task.attempts_max:
        return fail_task(tx, task, reason)
    count_end(tx, task)
    save(tx, replace(task, state=TASK.step(task.state, "returned"), note=reason))
    tx.append(TaskReturned(task=task.task, note=reason, run=task.run, agent=task.agent))
    release_agent(tx, task)
    return True


def rescue_task(tx: Tx, task: TaskRecord, diagnosis: str, evidence: Sequence[str]) -> None:
    """The task counts as reported: its outputs are there, and only the report is missing."""
    save(tx, replace(task, state=TASK.step(task.state, "reported"), rescued=True))
    event = TaskRescued(task=task.task, diagnosis=diagnosis, evidence=tuple(evidence), run=task.run, agent=task.agent)
    tx.append(event)


def fail_task(tx: Tx, task: TaskRecord, reason: str) -> bool:
    """The task is given up; who has sent it is told."""
    count_end(tx, task)
    tell_sender(tx, task, brief.result(task.task, task.agent or task.holders[0], "", reason))
    save(tx, replace(task, state=TASK.step(task.state, "failed"), finished=tx.now, note=reason))
    holder = task.agent or task.former
    tx.append(TaskFailed(task=task.task, note=reason, run=task.run, agent=holder), f"failed:{task.key}")
    release_agent(tx, task)
    return True


def release_agent(tx: Tx, task: TaskRecord) -> None:
    """The holder of the task has nothing to do for now."""
    if task.agent:
        rest(tx, keys.agent(task.run, task.agent))


def ask_reviewer(tx: Tx, view: RunView, checkpoint: str, round_: int, agent: AgentRecord) -> None:
    """One reviewer's request, for its current incarnation."""
    plan = route.checkpoint_plan(view, checkpoint)
    question = "\n".join(filter(None, (brief_line(view, agent), fill(plan.question, view, agent))))
    text = brief.checkpoint(plan.name, plan.artifact, question)
    note_brief(tx, view, agent)
    send(tx, agent, "checkpoint", plan.name, text, key=f"{plan.name}:{round_}")
    change(tx, AgentRecord, agent.key, lambda a: _begun(tx, a))


def outputs_for(view: RunView, task: TaskRecord, agent: AgentRecord) -> tuple[Output, ...]:
    """The task's outputs with the agent's name filled in."""
    named = route.dispatch_of(view, task).outputs
    return tuple(replace(output, path=fill(output.path, view, agent)) for output in named)


def count_dispatch(tx: Tx, run: str, agent: str) -> None:
    """One more dispatch of the agent is under way."""
    count = load(tx, DispatchCount, keys.dispatches(run, agent)) or DispatchCount(run=run, agent=agent)
    save(tx, replace(count, dispatched=count.dispatched + 1))


def count_end(tx: Tx, task: TaskRecord) -> None:
    """The dispatch of this task, as it was until now, is over; nothing is where it was not under way."""
    if task.state in OPEN:
        known = load(tx, DispatchCount, keys.dispatches(task.run, task.agent))
        count = known or DispatchCount(run=task.run, agent=task.agent, dispatched=1)
        save(tx, replace(count, finished=count.finished + 1))


def check_counter(tx: Tx, run: str) -> None:
    """After each dispatch: all that were made are finished or open. A mismatch is told once for the same figures."""
    wrong = miscounts(*counted(tx, run))
    if wrong:
        digest = hashlib.sha256("\n".join(wrong).encode()).hexdigest()[:16]
        tx.append(DispatchMiscounted(figures=tuple(wrong), run=run), f"miscounted:{run}:{digest}")


def correct_counter(tx: Tx, run: str) -> None:
    """What is lost and was told of is over, so that the next loss is seen."""
    counts, tasks = counted(tx, run)
    for agent, count in counts.items():
        is_open = sum(task.state in OPEN and task.agent == agent for task in tasks)
        save(tx, replace(count, finished=count.dispatched - is_open))


def counted(reader: Reader, run: str) -> tuple[dict[str, DispatchCount], list[TaskRecord]]:
    """The counters of dispatches by agent, and the tasks that they must agree with."""
    counts = {one.agent: one for one in load_all(reader, DispatchCount, keys.all_dispatches(run))}
    return counts, load_all(reader, TaskRecord, keys.tasks(run))


def tell_sender(tx: Tx, task: TaskRecord, text: str) -> None:
    """Mail to the agent that has sent the task, or to who stands in its place now."""
    sender = load(tx, AgentRecord, keys.agent(task.run, task.sender)) if task.sender else None
    while sender is not None and sender.successor:
        sender = load(tx, AgentRecord, keys.agent(task.run, sender.successor))
    if sender is not None and not sender.is_over:
        send(tx, sender, "mail", "from-captain", text, key=f"result:{task.key}:{task.sends}")


def fill(text: str, view: RunView, agent: AgentRecord) -> str:
    """The text with the places for agent, role and run filled in."""
    return plan.fill(text, agent=agent.place, role=agent.role, run=view.run.run)


def rest(tx: Tx, agent_key: str) -> None:
    """The agent has nothing to do for now."""
    change(tx, AgentRecord, agent_key, lambda a: _with_news(tx, replace(a, busy=False)))


def _begun(tx: Tx, agent: AgentRecord) -> AgentRecord:
    """The agent has something new to do."""
    if agent.state != "BUSY":
        AGENT.step(agent.state, "BUSY")
    return _with_news(tx, replace(agent, busy=True).while_running(lambda life: replace(life, nudges=0)))


def _with_news(tx: Tx, agent: AgentRecord) -> AgentRecord:
    """How far it said it was is not how far it is with what it does from now on."""
    return replace(agent.while_running(lambda life: replace(life, progress_percent=None)), last_task_update=tx.now)
