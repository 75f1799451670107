"""Carries out the routing decisions: each is one transaction, or intent, act and confirmation."""

from __future__ import annotations

from functools import partial
from typing import assert_never

from dogwatch.coordination import phases, reviews, runs, spawning, tasks
from dogwatch.coordination.admission import process_of
from dogwatch.coordination.agents import fail_spawn
from dogwatch.coordination.launches import agent_holder
from dogwatch.crew.captain.admitting import waits_still
from dogwatch.crew.captain.gating import run_gate
from dogwatch.crew.captain.helm import Helm
from dogwatch.errors import DogwatchError
from dogwatch.model.lifecycle import RunEnd
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.world.tmux import ProbeFailedError


def carry_out(helm: Helm, view: RunView, decision: route.Decision) -> bool:
    """Does what was decided; True where the ledger has changed, so that it is worth deciding again."""
    match decision:
        case route.SpawnAgent():
            return spawn_agent(helm, view, decision)
        case route.DismissAgent():
            dismiss_agent(helm, view, decision)
        case route.BeginWork():
            helm.record(partial(runs.begin, run=helm.run))
        case route.OpenPhase(phase):
            helm.record(partial(phases.open_phase, view=view, number=phase))
        case route.SendTask():
            send_task(helm, view, decision)
        case route.OfferTask(task, agent):
            helm.record(partial(tasks.offer, view=view, task=view.tasks[task], agent=view.agents[agent]))
        case route.JudgeReport():
            judge_report(helm, view, decision)
        case route.FailTask(task, reason):
            helm.record(partial(tasks.fail_task, task=view.tasks[task], reason=reason))
        case route.AskCheckpoint(checkpoint, round_):
            helm.record(partial(reviews.ask, view=view, checkpoint=checkpoint, round_=round_))
        case route.CloseCheckpoint(checkpoint, state, notes):
            helm.record(partial(reviews.close, view=view, checkpoint=checkpoint, state=state, notes=notes))
        case route.RunGate():
            return run_gate(helm, view, decision)
        case route.EndPhase():
            return end_phase(helm, view, decision)
        case route.VerifyDeliverable():
            return verify_deliverable(helm, view, decision)
        case route.EndRun(state, cause):
            return end_run(helm, state, cause)
        case _:
            assert_never(decision)
    return True


def spawn_agent(helm: Helm, view: RunView, decision: route.SpawnAgent) -> bool:
    """Permit and intent, act, confirm. After a kill in between, the act finds what the last one has done."""
    agent = view.agents[decision.agent]
    if waits_still(helm, view, agent):
        _end_earlier(helm, agent)
        return False
    intended = helm.record(partial(spawning.intend, view=view, agent=agent, life=helm.world.eyes.life))
    if intended is None:
        _end_earlier(helm, agent)
        return True
    try:
        spawned = helm.world.hands.spawn(view.run, view.plan, intended)
    except ProbeFailedError as error:
        helm.log.error("agent_spawn_unknown", agent=agent.agent, error=str(error))
        return False
    except DogwatchError as error:
        helm.log.error("agent_spawn_failed", agent=agent.agent, error=str(error))
        return helm.record(partial(fail_spawn, view=view, agent=intended, reason=error.message))
    confirm = partial(
        spawning.confirm,
        agent=intended,
        process=spawned.process,
        pane=spawned.pane,
        server=spawned.server,
        adopted=spawned.adopted,
        sandboxed=spawned.sandboxed,
        limit_bytes=spawned.limit_bytes,
    )
    helm.record(confirm)
    return True


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


def dismiss_agent(helm: Helm, view: RunView, decision: route.DismissAgent) -> None:
    """A given-up agent must not work on: what it would write belongs to others now."""
    agent = view.agents[decision.agent]
    helm.world.hands.dismiss(agent)
    helm.record(partial(spawning.dismiss, agent=agent))


def send_task(helm: Helm, view: RunView, decision: route.SendTask) -> None:
    """The marker says what the outputs looked like before."""
    task, agent = view.tasks[decision.task], view.agents[decision.agent]
    marker = helm.world.eyes.marker(view.run.output, tasks.outputs_for(view, task, agent))
    helm.record(partial(tasks.dispatch, view=view, task=task, agent=agent, marker=marker))


def judge_report(helm: Helm, view: RunView, decision: route.JudgeReport) -> None:
    """The bytes decide: an output that is missing, unchanged or too small returns the task, whatever was reported."""
    task = view.tasks[decision.task]
    reason = helm.world.eyes.unwritten(view.run.output, task.outputs, task.marker)
    if reason:
        helm.record(partial(tasks.reject, task=task, reason=reason))
    else:
        helm.record(partial(tasks.accept, view=view, task=task))


def end_phase(helm: Helm, view: RunView, decision: route.EndPhase) -> bool:
    """No phase ends without its artifacts: they are looked for once more, after the gates."""
    phase = view.plan.phases[decision.phase]
    for task in view.phase_tasks():
        # What one agent has done for another is that one's to use up.
        is_due = task.state == "accepted" and not task.sender
        missing = helm.world.eyes.unwritten(view.run.output, task.outputs, {}) if is_due else ""
        if missing:
            return end_run(helm, "FAILED", f"phase {phase.name} cannot end: {missing} (task {task.task})")
    helm.record(partial(phases.end_phase, view=view, number=decision.phase))
    return True


def verify_deliverable(helm: Helm, view: RunView, decision: route.VerifyDeliverable) -> bool:
    """The run's last act: the deliverable is read, whatever anybody said about it."""
    reason, digest = helm.world.eyes.failed_check(view.run.output, view.plan.deliverable)
    if reason:
        return end_run(helm, "FAILED", f"deliverable: {reason}" + (f"; {decision.partial}" if decision.partial else ""))
    return end_run(helm, "PARTIAL" if decision.partial else "COMPLETED", decision.partial, digest)


def end_run(helm: Helm, state: RunEnd, cause: str, sha256: str = "") -> bool:
    """The run is over, with a named cause where it is not complete."""
    return helm.record(partial(runs.end, run=helm.run, state=state, cause=cause, sha256=sha256))
