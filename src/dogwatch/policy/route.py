"""What a run needs next, from what the ledger says of it: the captain's routing, as values.

`decide` looks at one snapshot and returns everything that can be done now. Each decision is safe to make again: the
captain checks it against the ledger once more in the transaction that records it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from dogwatch.model.life import Finished, GivenUp, NotStarted, Resting, Running, Starting
from dogwatch.model.lifecycle import RunEnd
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Checkpoint, Dispatch, Gate, Limits, Phase
from dogwatch.model.records import AgentRecord, RunRecord, TaskRecord, Verdict
from dogwatch.model.view import RunView
from dogwatch.policy.needs import SETTLED, has_work, is_needed
from dogwatch.policy.thresholds import OVERDUE_FACTOR
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True)
class SpawnAgent:
    """The agent's current incarnation is to be started."""

    agent: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class DismissAgent:
    """The agent was given up: what is left of it is to be ended."""

    agent: str


@dataclass(frozen=True, slots=True)
class BeginWork:
    """All agents are there that the gate lets start for now: SPAWN becomes RUNNING."""


@dataclass(frozen=True, slots=True)
class OpenPhase:
    """The phase's tasks and checkpoints get their records."""

    phase: int


@dataclass(frozen=True, slots=True)
class SendTask:
    """The task goes to this agent with its marker."""

    task: str
    agent: str


@dataclass(frozen=True, slots=True)
class OfferTask:
    """The task is offered to this agent; whoever claims it first has it."""

    task: str
    agent: str


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """The task was reported: its outputs are to be read."""

    task: str


@dataclass(frozen=True, slots=True)
class FailTask:
    """The task cannot be done any more."""

    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class AskCheckpoint:
    """The reviewers are asked for the next round."""

    checkpoint: str
    round: int


@dataclass(frozen=True, slots=True)
class CloseCheckpoint:
    """The round is over: approved, revised (the author's tasks are returned with the notes), failed or skipped."""

    checkpoint: str
    state: str
    notes: str = ""


@dataclass(frozen=True, slots=True)
class RunGate:
    """The gate is to be run."""

    phase: int
    gate: str


@dataclass(frozen=True, slots=True)
class EndPhase:
    """Everything of the phase is done and gated; the next one may begin."""

    phase: int


@dataclass(frozen=True, slots=True)
class VerifyDeliverable:
    """All phases are done: the deliverable is to be read."""

    partial: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """The run is over."""

    state: RunEnd
    cause: str


Decision = (
    SpawnAgent
    | DismissAgent
    | BeginWork
    | OpenPhase
    | SendTask
    | OfferTask
    | JudgeReport
    | FailTask
    | AskCheckpoint
    | CloseCheckpoint
    | RunGate
    | EndPhase
    | VerifyDeliverable
    | EndRun
)


def decide(view: RunView, now: Moment) -> tuple[Decision, ...]:
    """Everything that can be done now."""
    if view.run.over:
        return ()
    if late := overdue(view.run, now):
        return (EndRun("FAILED", late),)
    # What an agent has given to another and has failed is for its sender to judge.
    failed = [task for task in view.tasks.values() if task.state == "failed" and not task.sender]
    if failed and view.plan.on_task_failure == "fail":
        return (EndRun("FAILED", f"task {failed[0].task} failed: {failed[0].note}"),)
    staffing = _staff(view, now)
    if view.run.state == "SPAWN":
        living = [agent for agent in view.agents.values() if not agent.is_given_up]
        there = [agent for agent in living if agent.running]
        # Who has to wait at the gate may have to wait for those who are there: they begin without it.
        ready = all(agent.gate_reason or isinstance(agent.life, Resting) for agent in living if not agent.running)
        return (BeginWork(),) if ready and (there or not living) and not _lost(view) else staffing
    if view.run.state == "RUNNING":
        return staffing + _work(view)
    return (VerifyDeliverable(", ".join(f"task {task.task} failed: {task.note}" for task in failed)),)


def overdue(run: RunRecord, now: Moment) -> str:
    """That the run's deadline has passed, in words; empty where it has not."""
    late = now.since(run.started or run.admitted or run.created) > run.deadline_s
    return f"deadline: not finished within {run.deadline_s:g} s" if late else ""


def quiet(run: RunRecord, tasks: Iterable[TaskRecord], progress: Moment, limits: Limits, now: Moment) -> float:
    """How long nothing has moved beyond what is allowed; negative while it is. A task that is expected to take long
    may take long."""
    expected = [OVERDUE_FACTOR * task.expect_s for task in tasks if task.state == "claimed"]
    since = min((progress, run.started or run.admitted or run.created), key=now.since)
    return now.since(since) - max([limits.run_quiet_s, *expected])


def _staff(view: RunView, now: Moment) -> tuple[Decision, ...]:
    missing = [a for a in view.agents.values() if _needs_spawn(view, a, now)]
    if len(missing) > 1:
        missing.sort(key=lambda agent: not is_needed(view, agent.agent))
    return (*_lost(view), *(SpawnAgent(agent.agent, agent.incarnation) for agent in missing))


def _lost(view: RunView) -> tuple[Decision, ...]:
    return tuple(DismissAgent(a.agent) for a in view.agents.values() if a.is_given_up and a.process is not None)


def _needs_spawn(view: RunView, agent: AgentRecord, now: Moment) -> bool:
    match agent.life:
        case Starting():
            return True
        case Resting():
            return has_work(view, agent.agent)
        case NotStarted(not_before=not_before):
            return not_before is None or not now.is_before(not_before)
        case Running() | GivenUp() | Finished():
            return False
        case _:
            assert_never(agent.life)


def _work(view: RunView) -> tuple[Decision, ...]:
    phase = view.phase
    if phase is None:
        return ()
    if waiting := _gates(view, [gate for gate in phase.gates if gate.partitions]):
        return waiting
    tasks = view.phase_tasks()
    opened = expected_tasks(view, phase) <= {task.task for task in tasks}
    if not opened or not {checkpoint.name for checkpoint in phase.checkpoints} <= set(view.checkpoints):
        return (OpenPhase(view.run.phase),)
    found: list[Decision] = []
    free = _free_agents(view)
    for task in tasks:
        found += _task(view, task, free)
    # Work of a later phase that was under way when the run was sent back, and what agents have sent others for it.
    for task in view.tasks.values():
        if task.phase > view.run.phase and (task.state == "reported" or task.sender):
            found += _task(view, task, free)
    if any(task.state not in ("accepted", "failed") for task in tasks):
        return tuple(found)
    found += [d for checkpoint in phase.checkpoints for d in _review(view, checkpoint_plan(view, checkpoint.name))]
    if any(view.checkpoints[c.name].state not in SETTLED for c in phase.checkpoints):
        return tuple(found)
    return tuple(found) or _close(view, phase)


def expected_tasks(view: RunView, phase: Phase) -> set[str]:
    """The names of all tasks that the phase must have: one for each dispatch, or for each holder it addresses."""
    return {name for dispatch in phase.dispatches for name in task_names(view, dispatch)}


def task_names(view: RunView, dispatch: Dispatch) -> dict[str, tuple[str, ...]]:
    """The tasks of a dispatch, each with the agents of the pipeline file that may hold it."""
    holders = view.plan.holders(dispatch)
    if dispatch.address != "all" or len(holders) == 1:
        return {dispatch.name: holders}
    return {f"{dispatch.name}.{holder}": (holder,) for holder in holders}


def _free_agents(view: RunView) -> set[str]:
    """Agents that live and neither hold a task nor have a task or review on its way to them."""
    busy = {task.agent for task in view.tasks.values() if task.state in ("claimed", "reported")}
    for message in view.messages.values():
        if message.kind == "offer" and message.state == "queued":
            busy.add(message.to)
    for checkpoint in view.checkpoints.values():
        if checkpoint.state == "asked":
            plan = checkpoint_plan(view, checkpoint.checkpoint)
            busy |= {agent for agent in plan.reviewers if not checkpoint.has_voted(agent)}
    ready = (a for a in view.agents.values() if a.running)
    return {agent.agent for agent in ready if agent.agent not in busy}


def tasks_before(view: RunView, task: TaskRecord) -> list[TaskRecord]:
    """The tasks that must be accepted before this one may begin."""
    dispatch = dispatch_of(view, task)
    return [other for other in view.tasks.values() if other.dispatch in dispatch.after]


def _task(view: RunView, task: TaskRecord, free: set[str]) -> list[Decision]:
    if task.state == "reported":
        return [JudgeReport(task.task)]
    if task.state not in ("pending", "returned"):
        return []
    earlier = tasks_before(view, task)
    broken = [other for other in earlier if other.state == "failed"]
    if broken:
        return [FailTask(task.task, f"it needs {broken[0].task}, which failed")]
    lost = [view.agents[agent] for agent in task.holders if agent in view.agents and view.agents[agent].is_given_up]
    if len(lost) == len(task.holders):
        return [FailTask(task.task, lost[0].cause)]
    if any(other.state != "accepted" for other in earlier):
        return []
    candidates = [agent for agent in task.holders if agent in free]
    if task.is_on_offer and len(task.holders) > 1:
        asked = {
            m.to
            for m in view.messages.values()
            if m.kind == "offer" and m.subject == task.task and m.incarnation == view.agents[m.to].incarnation
        }
        offered = [agent for agent in candidates if agent not in asked]
        free.difference_update(offered)
        return [OfferTask(task.task, agent) for agent in offered]
    # The next incarnation of who held it last goes on with the conversation in which the work was begun.
    if (task.agent or task.former) in candidates:
        candidates = [task.agent or task.former]
    if not candidates:
        return []
    free.discard(candidates[0])
    return [SendTask(task.task, candidates[0])]


def _review(view: RunView, plan: Checkpoint) -> list[Decision]:
    record = view.checkpoints[plan.name]
    authored = [task for task in view.tasks.values() if task.dispatch == plan.author]
    if record.state in SETTLED:
        return []
    if all(task.state == "failed" for task in authored):
        return [CloseCheckpoint(plan.name, "skipped", f"{plan.author} failed")]
    asked = plan.reviewers
    # A verdict of a round that is closed does not serve for the next.
    voted = [agent for agent in asked if record.state == "asked" and record.has_voted(agent)]
    lost = [agent for agent in asked if view.agents[agent].is_given_up and agent not in voted]
    if lost:
        return [CloseCheckpoint(plan.name, "failed", f"reviewer {lost[0]} is lost: {view.agents[lost[0]].cause}")]
    if record.state in ("open", "revised"):
        return [AskCheckpoint(plan.name, record.round + 1)]
    verdicts = [record.verdicts[agent] for agent in asked if record.has_voted(agent)]
    if len(verdicts) < len(asked):
        return []
    # Sub-agents have no vote, but their objections count.
    objections = [v for name, v in record.verdicts.items() if "/" in name and record.has_voted(name) and not v.approve]
    if all(verdict.approve for verdict in (*verdicts, *objections)):
        return [CloseCheckpoint(plan.name, "approved")]
    if record.round >= plan.rounds_max + record.reopened:
        # It becomes the cause of the run's end, where a sensitive pipeline tells nothing of what agents say.
        told = _notes(verdicts if view.run.sensitive else [*verdicts, *objections])
        return [CloseCheckpoint(plan.name, "failed", f"not approved in {record.round} rounds: {told}")]
    return [CloseCheckpoint(plan.name, "revised", _notes([*verdicts, *objections]) or "please revise")]


def _notes(verdicts: Iterable[Verdict]) -> str:
    return "; ".join(verdict.note for verdict in verdicts if not verdict.approve and verdict.note)


def _close(view: RunView, phase: Phase) -> tuple[Decision, ...]:
    for checkpoint in phase.checkpoints:
        review = view.checkpoints[checkpoint.name]
        if review.state == "failed":
            return (EndRun("FAILED", f"checkpoint {checkpoint.name} failed: {review.notes}"),)
    return _gates(view, phase.gates) or (EndPhase(view.run.phase),)


def _gates(view: RunView, gates: Iterable[Gate]) -> tuple[Decision, ...]:
    """What the first gate that has not passed asks for."""
    for gate in gates:
        record = view.gates.get((view.run.phase, gate.name))
        if record is None or record.state == "intended":
            return (RunGate(view.run.phase, gate.name),)
        if record.state == "failed":
            return (EndRun("FAILED", f"gate {gate.name} failed: {record.reason}"),)
    return ()


def dispatch_of(view: RunView, task: TaskRecord) -> Dispatch:
    """The dispatch that the task comes from; one that an agent has sent is its own."""
    if task.sender:
        return Dispatch(name=task.dispatch, to=task.holders[0], task=task.text, outputs=task.outputs)
    return next(d for d in view.plan.phases[task.phase].dispatches if d.name == task.dispatch)


def checkpoint_plan(view: RunView, name: str) -> Checkpoint:
    """The checkpoint of that name as the pipeline file has it, with who stands in its reviewers' places now."""
    found = next(c for phase in view.plan.phases for c in phase.checkpoints if c.name == name)
    return replace(found, reviewers=tuple(dict.fromkeys(view.current(agent) for agent in found.reviewers)))
