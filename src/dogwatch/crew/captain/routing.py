"""Carries out the routing decisions: each is one transaction, or intent, act and confirmation."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination.admission import note_process, process_of
from dogwatch.coordination.agents import fail_spawn
from dogwatch.coordination.launches import agent_holder
from dogwatch.coordination.mail import send
from dogwatch.coordination.notices import push_notice
from dogwatch.coordination.reviews import return_work
from dogwatch.coordination.tasks import (
    ask_reviewer,
    assign,
    check_counter,
    correct_counter,
    count_end,
    dispatch_text,
    fail_task,
    fill,
    outputs_for,
    release_agent,
    rest,
    return_or_fail,
    tell_sender,
)
from dogwatch.crew.captain.admitting import admit_agent, waits_still
from dogwatch.crew.captain.gating import run_gate
from dogwatch.crew.captain.helm import Helm
from dogwatch.errors import DogwatchError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, load, save
from dogwatch.model import brief
from dogwatch.model.events.agents import AgentSpawned, AgentSpawnIntended
from dogwatch.model.events.clients import AgentError
from dogwatch.model.events.reviews import CheckpointAsked, CheckpointClosed
from dogwatch.model.events.runs import MilestoneReached, PhaseEnded, PhaseOpened, RunEnded, RunStarted
from dogwatch.model.events.tasks import DispatchDropped, TaskAccepted, TaskDispatched, TaskOffered
from dogwatch.model.lifecycle import AGENT, CHECKPOINT, RUN, TASK, RunEnd
from dogwatch.model.records import AgentRecord, CheckpointRecord, RunRecord, TaskRecord
from dogwatch.model.tally import Failure
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.policy.learning import SAMPLES_MAX, expectation
from dogwatch.policy.time_limits import time_limit
from dogwatch.world.tmux import ProbeFailedError


def carry_out(helm: Helm, view: RunView, decision: route.Decision) -> bool:
    """Does what was decided; True where the ledger has changed, so that it is worth deciding again."""
    match decision:
        case route.SpawnAgent():
            return spawn_agent(helm, view, decision)
        case route.DismissAgent():
            return dismiss_agent(helm, view, decision)
        case route.BeginWork():
            return begin_work(helm)
        case route.OpenPhase():
            return open_phase(helm, view, decision)
        case route.SendTask():
            return send_task(helm, view, decision)
        case route.OfferTask():
            return offer_task(helm, view, decision)
        case route.JudgeReport():
            return judge_report(helm, view, decision)
        case route.FailTask():
            return helm.record(lambda tx: fail_task(tx, view.tasks[decision.task], decision.reason))
        case route.AskCheckpoint():
            return ask_checkpoint(helm, view, decision)
        case route.CloseCheckpoint():
            return close_checkpoint(helm, view, decision)
        case route.RunGate():
            return run_gate(helm, view, decision)
        case route.EndPhase():
            return end_phase(helm, view, decision)
        case route.VerifyDeliverable():
            return verify_deliverable(helm, view, decision)
        case route.EndRun():
            return end_run(helm, decision.state, decision.cause)


def spawn_agent(helm: Helm, view: RunView, decision: route.SpawnAgent) -> bool:
    """Permit and intent, act, confirm. After a kill in between, the act finds what the last one has done."""
    key = view.agents[decision.agent].key
    if waits_still(helm, view, view.agents[decision.agent]):
        _end_earlier(helm, view.agents[decision.agent])
        return False

    def intend(tx: Tx) -> AgentRecord | None:
        if not admit_agent(helm, tx, view, view.agents[decision.agent]):
            return None
        event = AgentSpawnIntended(incarnation=decision.incarnation, run=helm.run, agent=decision.agent)
        tx.append(event, f"spawn:{key}:{decision.incarnation}")
        return change(tx, AgentRecord, key, lambda a: replace(a, intended=a.intended or tx.now, held="", resting=""))

    agent = helm.record(intend)
    if agent is None:
        _end_earlier(helm, view.agents[decision.agent])
        return True
    try:
        spawned = helm.world.hands.spawn(view.run, view.plan, agent)
    except ProbeFailedError as error:
        helm.log.error("agent_spawn_unknown", agent=agent.agent, error=str(error))
        return False
    except DogwatchError as error:
        reason = error.message
        helm.log.error("agent_spawn_failed", agent=agent.agent, error=str(error))
        return helm.record(lambda tx: fail_spawn(tx, view, agent, reason))

    def confirm(tx: Tx) -> bool:
        event = AgentSpawned(
            incarnation=agent.incarnation,
            name=agent.name,
            role=agent.role,
            session=agent.session,
            process=spawned.process,
            adopted=spawned.adopted,
            sandboxed=spawned.sandboxed,
            limit_bytes=spawned.limit_bytes,
            run=helm.run,
            agent=agent.agent,
        )
        tx.append(event, f"spawned:{key}:{agent.incarnation}")
        note_process(tx, agent_holder(agent.run, agent.agent), spawned.process)
        change(
            tx,
            AgentRecord,
            key,
            lambda a: replace(
                a,
                process=spawned.process,
                pane=spawned.pane,
                server=spawned.server,
                sandboxed=spawned.sandboxed,
                confirmed=tx.now,
                state=AGENT.step(a.state, "WAITING") if a.state == "CREATED" else a.state,
            ),
        )
        return True

    return helm.record(confirm)


def _end_earlier(helm: Helm, agent: AgentRecord) -> None:
    """While an incarnation waits at the gate, the one before it must not work on, nor take memory."""
    process = helm.ledger.read(lambda reader: process_of(reader, agent_holder(agent.run, agent.agent)))
    if process is None or helm.world.eyes.life(process) == "dead":
        return
    try:
        helm.world.hands.dismiss(agent)
    except ProbeFailedError as error:
        # It is tried again in the next step, as long as the agent waits.
        helm.log.error("agent_dismissal_unknown", agent=agent.agent, error=str(error))


def dismiss_agent(helm: Helm, view: RunView, decision: route.DismissAgent) -> bool:
    """A given-up agent must not work on: what it would write belongs to others now."""
    agent = view.agents[decision.agent]
    helm.world.hands.dismiss(agent)
    helm.record(lambda tx: change(tx, AgentRecord, agent.key, lambda a: replace(a, process=None, confirmed=None)))
    return True


def begin_work(helm: Helm) -> bool:
    def fn(tx: Tx) -> bool:
        tx.append(RunStarted(run=helm.run), f"started:{helm.run}")
        change(
            tx, RunRecord, f"run/{helm.run}", lambda r: replace(r, state=RUN.step(r.state, "RUNNING"), started=tx.now)
        )
        return True

    return helm.record(fn)


def open_phase(helm: Helm, view: RunView, decision: route.OpenPhase) -> bool:
    phase = view.plan.phases[decision.phase]

    def fn(tx: Tx) -> bool:
        dropped = []
        for dispatch in phase.dispatches:
            role = view.role_of(view.plan.holders(dispatch)[0])
            past = tx.get(_history(view, role.name)) if role is not None else None
            took_s = past.body["took_s"] if past is not None else []
            role_name = role.name if role else dispatch.to
            for name, holders in route.task_names(view, dispatch).items():
                limit = time_limit((role_name, *holders), view.plan.time_limits)
                expect_s, expect_from = expectation(dispatch.expect_s, role_name, took_s, limit)
                task = TaskRecord(
                    run=helm.run,
                    task=name,
                    dispatch=dispatch.name,
                    phase=decision.phase,
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
            record = CheckpointRecord(run=helm.run, checkpoint=checkpoint.name, phase=decision.phase)
            if load(tx, CheckpointRecord, record.key) is None:
                save(tx, record)
        event = PhaseOpened(phase=phase.name, number=decision.phase + 1, of=len(view.plan.phases), run=helm.run)
        if not tx.append(event, f"phase:{helm.run}:{decision.phase}") and dropped:
            expected = len(route.expected_tasks(view, phase))
            missing = DispatchDropped(
                phase=phase.name,
                tasks=tuple(dropped),
                expected=expected,
                found=expected - len(dropped),
                run=helm.run,
            )
            tx.append(missing)
            correct_counter(tx, helm.run)
        return True

    return helm.record(fn)


def send_task(helm: Helm, view: RunView, decision: route.SendTask) -> bool:
    task, agent = view.tasks[decision.task], view.agents[decision.agent]
    outputs = outputs_for(view, task, agent)
    marker = helm.world.eyes.marker(view.run.output, outputs)

    def fn(tx: Tx) -> bool:
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
            outputs=tuple(output.path for output in outputs),
            sender=task.sender,
            run=helm.run,
            agent=agent.agent,
        )
        tx.append(event)
        check_counter(tx, helm.run)
        return True

    return helm.record(fn)


def offer_task(helm: Helm, view: RunView, decision: route.OfferTask) -> bool:
    task, agent = view.tasks[decision.task], view.agents[decision.agent]

    def fn(tx: Tx) -> bool:
        text = brief.offer(task.task, fill(task.text, view, agent))
        message = send(tx, agent, "offer", task.task, text, key=task.task)
        event = TaskOffered(task=task.task, message=message.id, run=helm.run, agent=agent.agent)
        tx.append(event, f"offer:{message.id}")
        return True

    return helm.record(fn)


def judge_report(helm: Helm, view: RunView, decision: route.JudgeReport) -> bool:
    """The bytes decide: an output that is missing, unchanged or too small returns the task, whatever was reported."""
    task = view.tasks[decision.task]
    reason = helm.world.eyes.unwritten(view.run.output, task.outputs, task.marker)

    def fn(tx: Tx) -> bool:
        if reason:
            _note_failed(tx, task, reason)
            return return_or_fail(tx, task, reason)
        count_end(tx, task)
        done = save(tx, replace(task, state=TASK.step(task.state, "accepted"), finished=tx.now, note=""))
        took_s = tx.now.since(done.dispatched) if done.dispatched else 0.0
        event = TaskAccepted(
            task=task.task,
            attempt=task.attempt,
            rescued=task.rescued,
            took_s=round(took_s, 3),
            run=helm.run,
            agent=task.agent,
        )
        tx.append(event)
        release_agent(tx, task)
        tell_sender(tx, task, brief.result(task.task, task.agent, ", ".join(o.path for o in task.outputs), ""))
        _learn(tx, view, done, took_s)
        _reach_milestones(tx, view, done)
        return True

    return helm.record(fn)


def _note_failed(tx: Tx, task: TaskRecord, reason: str) -> None:
    """The agent's own claim did not stand: that is an error of its."""
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


def ask_checkpoint(helm: Helm, view: RunView, decision: route.AskCheckpoint) -> bool:
    plan = route.checkpoint_plan(view, decision.checkpoint)

    def fn(tx: Tx) -> bool:
        # What was decided before it may have failed to start a reviewer: that has another incarnation now, or is lost.
        found = [load(tx, AgentRecord, view.agents[name].key) for name in plan.reviewers]
        asked = [agent for agent in found if agent is not None and agent.state not in AGENT.ends]
        if len(asked) < len(plan.reviewers):
            return True
        record = view.checkpoints[plan.name]
        save(tx, replace(record, state=CHECKPOINT.step(record.state, "asked"), round=decision.round))
        for agent in asked:
            ask_reviewer(tx, view, plan.name, decision.round, agent)
        event = CheckpointAsked(
            checkpoint=plan.name,
            round=decision.round,
            artifact=plan.artifact,
            reviewers=tuple(agent.agent for agent in asked),
            run=helm.run,
        )
        tx.append(event, f"ask:{record.key}:{decision.round}")
        return True

    return helm.record(fn)


def close_checkpoint(helm: Helm, view: RunView, decision: route.CloseCheckpoint) -> bool:
    plan = route.checkpoint_plan(view, decision.checkpoint)

    def fn(tx: Tx) -> bool:
        record = view.checkpoints[plan.name]
        closed = replace(record, state=CHECKPOINT.step(record.state, decision.state), notes=decision.notes)
        save(tx, replace(closed, closed=tx.now))
        if decision.state == "revised":
            return_work(tx, view, plan, decision.notes)
        for name in plan.reviewers:
            rest(tx, view.agents[name].key)
        # A sub-agent's words may be among those that led to a revision.
        notes = "" if decision.state == "revised" and view.run.sensitive else decision.notes
        event = CheckpointClosed(
            checkpoint=plan.name, round=record.round, state=decision.state, notes=notes, run=helm.run
        )
        tx.append(event, f"close:{record.key}:{record.round}")
        return True

    return helm.record(fn)


def end_phase(helm: Helm, view: RunView, decision: route.EndPhase) -> bool:
    """No phase ends without its artifacts: they are looked for once more, after the gates."""
    phase = view.plan.phases[decision.phase]
    for task in view.phase_tasks():
        # What one agent has done for another is that one's to use up.
        is_due = task.state == "accepted" and not task.sender
        missing = helm.world.eyes.unwritten(view.run.output, task.outputs, {}) if is_due else ""
        if missing:
            return end_run(helm, "FAILED", f"phase {phase.name} cannot end: {missing} (task {task.task})")

    def fn(tx: Tx) -> bool:
        last = decision.phase + 1 == len(view.plan.phases)
        op_id = f"phase-end:{helm.run}:{decision.phase}:{view.run.returns}"
        tx.append(PhaseEnded(phase=phase.name, run=helm.run), op_id)
        change(
            tx,
            RunRecord,
            view.run.key,
            lambda r: replace(r, phase=decision.phase + 1, state=RUN.step(r.state, "REPORT") if last else r.state),
        )
        return True

    return helm.record(fn)


def verify_deliverable(helm: Helm, view: RunView, decision: route.VerifyDeliverable) -> bool:
    """The run's last act: the deliverable is read, whatever anybody said about it."""
    reason, digest = helm.world.eyes.failed_check(view.run.output, view.plan.deliverable)
    if reason:
        return end_run(helm, "FAILED", f"deliverable: {reason}" + (f"; {decision.partial}" if decision.partial else ""))
    return end_run(helm, "PARTIAL" if decision.partial else "COMPLETED", decision.partial, digest)


def end_run(helm: Helm, state: RunEnd, cause: str, sha256: str = "") -> bool:
    """The run is over, with a named cause where it is not complete."""

    def fn(tx: Tx) -> bool:
        run = load(tx, RunRecord, f"run/{helm.run}")
        if run is None or run.over:
            return False
        save(tx, replace(run, state=RUN.step(run.state, state), ended=tx.now, cause=cause, sha256=sha256))
        tx.append(RunEnded(state=state, cause=cause, sha256=sha256, run=helm.run), f"ended:{helm.run}")
        if not sha256:
            push_notice(tx, helm.run, "ended", "run", f"the run ended as {state}", cause)
        for document in tx.scan(f"agent/{helm.run}/"):
            change(tx, AgentRecord, document.key, lambda a: _final(a, state, cause))
        return True

    return helm.record(fn)


def _final(agent: AgentRecord, state: str, cause: str) -> AgentRecord:
    if agent.state in AGENT.ends:
        return agent
    if state == "FAILED":
        return replace(agent, state=AGENT.step(agent.state, "ERROR"), cause=agent.cause or f"the run failed: {cause}")
    handed_off = agent.state if agent.state == "HANDED_OFF" else AGENT.step(agent.state, "HANDED_OFF")
    return replace(agent, state=AGENT.step(handed_off, "SUCCEEDED"))


def _history(view: RunView, role: str) -> str:
    return f"history/{view.plan.name}/{role}"


def _learn(tx: Tx, view: RunView, task: TaskRecord, took_s: float) -> None:
    """Keeps how long the task took, for later runs of the pipeline. One that was rescued took less than it seems, what
    agents give one another is not the pipeline's, and a rehearsal teaches nothing."""
    role = view.role_of(task.agent)
    if role is not None and not task.rescued and not task.sender and view.run.stage is None:
        past = tx.get(_history(view, role.name))
        known = list(past.body["took_s"]) if past is not None else []
        kept = [*known, round(took_s, 3)][-SAMPLES_MAX:]
        tx.put(_history(view, role.name), {"took_s": kept})


def _reach_milestones(tx: Tx, view: RunView, done: TaskRecord) -> None:
    accepted = {**view.tasks, done.task: done}
    for milestone in view.plan.milestones:
        if done.dispatch not in milestone.after:
            continue
        needed = [task for task in accepted.values() if task.dispatch in milestone.after]
        if {task.dispatch for task in needed} == set(milestone.after) and all(t.state == "accepted" for t in needed):
            op_id = f"milestone:{view.run.run}:{milestone.name}"
            tx.append(MilestoneReached(milestone=milestone.name, run=view.run.run), op_id)
