"""A run from its creation, with its plan, its record and its agents, to its end, and what later runs learn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dogwatch.coordination.notices import push_notice
from dogwatch.coordination.staffing import staff
from dogwatch.coordination.subagents import close_overdue
from dogwatch.coordination.usage import AgentTally, close_tallies
from dogwatch.errors import RefusedError
from dogwatch.ledger.api import Lease, Reader, Tx
from dogwatch.ledger.records import change, load, save
from dogwatch.model import keys
from dogwatch.model.admission import QueuedRun
from dogwatch.model.codec import encode
from dogwatch.model.events.alerts import SelfCheckFailed
from dogwatch.model.events.runs import MilestoneReached, RunCleared, RunCreated, RunEnded, RunNotCleared, RunStarted
from dogwatch.model.folders import EVERYWHERE, folder_at
from dogwatch.model.life import Finished, GivenUp
from dogwatch.model.lifecycle import RUN, RunEnd
from dogwatch.model.plan import Plan
from dogwatch.model.records import AgentRecord, CheckResult, ChecksRecord, RunRecord, Stage, TaskRecord
from dogwatch.model.view import RunView
from dogwatch.policy.learning import SAMPLES_MAX


def create_run(
    tx: Tx,
    plan: Plan,
    project: str,
    output: str,
    spec_path: str,
    stage: Stage | None = None,
    *,
    root: str = EVERYWHERE,
    name: str = "",
    group: str = "",
    ceiling: int = 0,
) -> RunRecord:
    """A new run at the end of the queue, a rehearsal where it has a stage. `output` is the folder that holds all runs'
    outputs. `root` is the folder that other hosts may have somewhere else, such as the user's own. Without a name it
    gets that of its pipeline and the next free number; of a group only `ceiling` run at once (0: no such limit)."""
    number = _next(tx, keys.counter(plan.name))
    if name and tx.get(keys.run(name)) is not None:
        raise RefusedError(f"there is a run {name} already", hint="dogwatch status shows it; choose another --prefix")
    while not name or tx.get(keys.run(name)) is not None:
        name = f"{plan.name}-{number}"
        number += 1
    run = RunRecord(
        run=name,
        spec=spec_path,
        project_folder=folder_at(project, root),
        output_folder=folder_at(f"{output}/{name}", project, root),
        created=tx.now,
        sensitive=plan.sensitive,
        deadline_s=plan.limits.deadline_s,
        stage=stage,
    )
    tx.put(keys.plan(name), encode(plan), 0)
    tx.put(keys.active(name), {}, 0)
    save(tx, QueuedRun(run=name, number=_next(tx, keys.QUEUE_NUMBER), group=group, ceiling=ceiling))
    save(tx, run)
    view = RunView(plan=plan, run=run)
    for role in plan.roles:
        for agent in role.agents():
            staff(tx, view, agent, role.name)
    event = RunCreated(
        spec=spec_path,
        agents=tuple(plan.agents()),
        phases=tuple(phase.name for phase in plan.phases),
        output=run.output,
        rehearsal=stage is not None,
        run=name,
    )
    tx.append(event, f"created:{name}")
    return run


def begin(tx: Tx, run: str) -> None:
    """All agents are there that the gate lets start for now: the work begins."""
    tx.append(RunStarted(run=run), f"started:{run}")
    change(tx, RunRecord, keys.run(run), lambda r: replace(r, state=RUN.step(r.state, "RUNNING"), started=tx.now))


def end(tx: Tx, run: str, state: RunEnd, cause: str, sha256: str = "") -> bool:
    """The run is over, with a named cause where it is not complete; False where it was over before."""
    record = load(tx, RunRecord, keys.run(run))
    if record is None or record.over:
        return False
    save(tx, replace(record, state=RUN.step(record.state, state), ended=tx.now, cause=cause, sha256=sha256))
    tx.append(RunEnded(state=state, cause=cause, sha256=sha256, run=run), f"ended:{run}")
    if not sha256:
        push_notice(tx, run, "ended", "run", f"the run ended as {state}", cause)
    for document in tx.scan(keys.agents(run)):
        change(tx, AgentRecord, document.key, lambda a: _final(a, state, cause))
    return True


def clear(tx: Tx, view: RunView, found: Mapping[str, AgentTally], processes: int) -> None:
    """Nothing of the run is left on the machine: so many processes were ended for that. What its agents have used is
    counted for the last time, and nobody is waited for any more."""
    close_tallies(tx, view, found)
    close_overdue(tx, view)
    tx.append(RunCleared(processes=processes, run=view.run.run), f"cleared:{view.run.run}")
    change(tx, RunRecord, view.run.key, lambda r: replace(r, cleared=True))


def leave(tx: Tx, lease: Lease, run: str, not_cleared: str = "") -> None:
    """Nobody looks after the run any more; `not_cleared` says why something of it may still be on the machine."""
    if not_cleared:
        tx.append(RunNotCleared(reason=not_cleared, run=run), f"cleared:{run}")
    change(tx, RunRecord, keys.run(run), lambda r: replace(r, cleared=True))
    tx.delete(keys.active(run))
    tx.release(lease)


def reach_milestones(tx: Tx, view: RunView, done: TaskRecord) -> None:
    """Those that this task, accepted just now, was the last for."""
    accepted = {**view.tasks, done.task: done}
    for milestone in view.plan.milestones:
        if done.dispatch not in milestone.after:
            continue
        needed = [task for task in accepted.values() if task.dispatch in milestone.after]
        if {task.dispatch for task in needed} == set(milestone.after) and all(t.state == "accepted" for t in needed):
            op_id = f"milestone:{view.run.run}:{milestone.name}"
            tx.append(MilestoneReached(milestone=milestone.name, run=view.run.run), op_id)


def learn(tx: Tx, view: RunView, task: TaskRecord, took_s: float) -> None:
    """Keeps how long the task took, for later runs of the pipeline. One that was rescued took less than it seems, what
    agents give one another is not the pipeline's, and a rehearsal teaches nothing."""
    role = view.role_of(task.agent)
    if role is not None and not task.rescued and not task.sender and view.run.stage is None:
        kept = [*learned(tx, view, role.name), round(took_s, 3)][-SAMPLES_MAX:]
        tx.put(_history(view, role.name), {"took_s": kept})


def learned(reader: Reader, view: RunView, role: str) -> Sequence[float]:
    """How long the role's tasks took in earlier runs of the pipeline, oldest first."""
    past = reader.get(_history(view, role))
    return list(past.body["took_s"]) if past is not None else []


def note_checks(tx: Tx, record: ChecksRecord, failed: Sequence[CheckResult]) -> None:
    """The captain's latest round of checks; what has just failed is an event."""
    save(tx, record)
    for one in failed:
        tx.append(SelfCheckFailed(check=one.name, detail=one.detail, run=record.run))


def _final(agent: AgentRecord, state: str, cause: str) -> AgentRecord:
    if agent.is_over:
        return agent
    if state == "FAILED":
        return agent.become(GivenUp(cause=f"the run failed: {cause}", last=agent.running))
    return agent.become(Finished(last=agent.running))


def _history(view: RunView, role: str) -> str:
    return keys.history(view.plan.name, role)


def _next(tx: Tx, key: str) -> int:
    counter = tx.get(key)
    number = int(counter.body["last"]) + 1 if counter else 1
    tx.put(key, {"last": number})
    return number
