"""What is done for an agent that has stalled: it is nudged, probed, interrupted or started again, until it recovers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dogwatch.coordination.agents import change_running, replace_agent, restart
from dogwatch.coordination.decisions import decide
from dogwatch.coordination.mail import send
from dogwatch.coordination.queues import settle
from dogwatch.coordination.subagents import mail_parent
from dogwatch.coordination.tasks import dispatch_text, rescue_task
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import change, load, save
from dogwatch.model import brief, keys
from dogwatch.model.events.agents import (
    AgentInterrupted,
    AgentNudged,
    AgentProbed,
    AgentRecovered,
    AgentStalled,
    AgentUnresponsive,
    StallAlert,
    TurnEnded,
)
from dogwatch.model.life import Interrupt, Resting
from dogwatch.model.lifecycle import HEALTH
from dogwatch.model.records import AgentRecord, MessageRecord, TaskRecord, WatchRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import Duty, RunView
from dogwatch.policy.diagnoses import traits_of
from dogwatch.policy.diagnosis import Diagnosis, Late
from dogwatch.policy.judge import nudges_for
from dogwatch.policy.ladder import Restart
from dogwatch.policy.waits import waiters


def rescue(tx: Tx, view: RunView, agent: AgentRecord, task: TaskRecord, found: Diagnosis, item: Item) -> bool:
    """The outputs of the task that it holds are there: they count as its report."""
    settle(tx, item)
    rescue_task(tx, task, found.kind, found.evidence)
    decide(tx, view, agent, "RESCUE", found.kind, found.evidence, item.id, subject=task.task)
    return True


def nudge(tx: Tx, view: RunView, agent: AgentRecord, duty: Duty, found: Diagnosis, item: Item) -> bool:
    """The agent is asked to go on with what it owes. One that may have forgotten its task is told it again."""
    settle(tx, item)
    why = "\n".join(found.evidence[1:]) if found.traits.nudge_tells_why else ""
    task = view.tasks.get(duty.subject) if duty.kind == "task" else None
    if task is not None and found.retell:
        why = f"Your context was made shorter. This was your task:\n{dispatch_text(view, task, agent)}"
    send(tx, agent, "nudge", duty.subject, brief.nudge(duty.kind, duty.subject, why), key=item.id)
    nudges = nudges_for(agent, duty) + 1
    if duty.message:
        change(tx, MessageRecord, view.messages[duty.message].key, lambda m: replace(m, nudges=nudges))
    else:
        change_running(tx, agent, lambda life: replace(life, nudges=nudges))
    event = AgentNudged(
        diagnosis=found.kind,
        subject=duty.subject,
        nudges=nudges,
        evidence=found.evidence,
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event)
    decide(tx, view, agent, "NUDGE", found.kind, found.evidence, item.id, subject=duty.subject)
    return True


def nudge_parent(tx: Tx, view: RunView, agent: AgentRecord, late: Sequence[Late], found: Diagnosis, item: Item) -> bool:
    """The parent of sub-agents that are late is asked to do something about them, also in the middle of its turn."""
    settle(tx, item)
    mail_parent(tx, view, agent, late)
    decide(tx, view, agent, "NUDGE", found.kind, found.evidence, item.id)
    return True


def probe(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """Asks for a sign of life; what becomes of it is seen by close observation, not by the answer alone."""
    settle(tx, item)
    send(tx, agent, "health_check", agent.agent, brief.health_check(), key=item.id)
    change_running(tx, agent, lambda life: replace(life, probed=tx.now))
    tx.append(AgentProbed(diagnosis=found.kind, evidence=found.evidence, run=agent.run, agent=agent.agent))
    decide(tx, view, agent, "PROBE", found.kind, found.evidence, item.id)
    return True


def restart_for(tx: Tx, view: RunView, agent: AgentRecord, step: Restart, found: Diagnosis, item: Item) -> bool:
    """The agent gets a new incarnation for what was diagnosed. False where it was given up before."""
    settle(tx, item)
    decide(tx, view, agent, "RESTART", found.kind, found.evidence, item.id)
    return restart(tx, view, agent, found.kind, list(found.evidence), counts=step.counts, forgets=step.forgets)


def interrupt(tx: Tx, view: RunView, agent: AgentRecord, found: Diagnosis, item: Item) -> bool:
    """The intent, before the key is sent: a captain that is killed in between leaves a decision without effect, which
    is found out."""
    settle(tx, item)
    decide(tx, view, agent, "INTERRUPT", found.kind, found.evidence, item.id)
    tx.append(AgentInterrupted(diagnosis=found.kind, evidence=found.evidence, run=agent.run, agent=agent.agent))
    change_running(tx, agent, lambda life: replace(life, interrupt=Interrupt(diagnosis=found.kind, presses=(tx.now,))))
    return True


def note_press(tx: Tx, agent: AgentRecord, before: Interrupt) -> None:
    """The key is sent once more."""
    pressed = replace(before, presses=(*before.presses, tx.now))
    change_running(tx, agent, lambda life: replace(life, interrupt=pressed))


def end_interrupt(tx: Tx, agent: AgentRecord, interrupt: Interrupt, evidence: Sequence[str]) -> None:
    """The agent is at its prompt: what it holds is mended like any work that somebody has stopped over."""
    change_running(tx, agent, lambda life: replace(life, interrupt=None))
    _tell(tx, agent, interrupt, "interrupted", evidence)


def give_up_interrupt(tx: Tx, view: RunView, agent: AgentRecord, interrupt: Interrupt, sight: Sight) -> None:
    """A new incarnation. What is written already is taken first, as it would be from one that has died. A tool that
    goes on is none: it is reported again."""
    if not traits_of(interrupt.diagnosis).interrupts_turn:
        change_running(tx, agent, lambda life: replace(life, interrupt=None))
        return
    seconds = tx.now.since(interrupt.presses[0])
    vain = f"hooks: {len(interrupt.presses)} interrupts within {seconds:.0f} s had no effect"
    evidence = [*what_was_interrupted(interrupt, sight), vain]
    alert = f"{agent.agent}#{agent.incarnation}:interrupted"
    task = view.task_of(agent.agent)
    if task is not None and sight.outputs_fresh:
        rescue_task(tx, task, interrupt.diagnosis, evidence)
        decide(tx, view, agent, "RESCUE", interrupt.diagnosis, evidence, f"{alert}:rescue", subject=task.task)
        return
    _tell(tx, agent, interrupt, "restarted", evidence)
    decide(tx, view, agent, "RESTART", interrupt.diagnosis, evidence, alert)
    restart(tx, view, agent, interrupt.diagnosis, evidence)


def what_was_interrupted(interrupt: Interrupt, sight: Sight) -> list[str]:
    """What was interrupted, as evidence."""
    if not traits_of(interrupt.diagnosis).interrupts_turn:
        return [f"hooks: {tool} was interrupted" for tool in sight.turn.tools.values()]
    return [f"hooks: {sight.turn.stops} times in one turn it tried to stop after a hook had held it"]


def _tell(tx: Tx, agent: AgentRecord, interrupt: Interrupt, how: str, evidence: Sequence[str]) -> None:
    event = TurnEnded(
        diagnosis=interrupt.diagnosis,
        how=how,
        incarnation=agent.incarnation,
        evidence=tuple(evidence),
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, f"turn-ended:{agent.key}:{agent.incarnation}:{interrupt.presses[0].mono:.6f}")


def note_recovery(tx: Tx, agent: AgentRecord) -> None:
    """It has given a sign of life: nothing is owed any more."""
    health = agent.health if agent.health == "healthy" else HEALTH.step(agent.health, "healthy")
    change(tx, AgentRecord, agent.key, lambda a: _unprobed(replace(a, stalled=None, health=health)))
    tx.append(AgentRecovered(incarnation=agent.incarnation, run=agent.run, agent=agent.agent))


def _unprobed(agent: AgentRecord) -> AgentRecord:
    return agent.while_running(lambda life: replace(life, probed=None))


def declare_stalled(tx: Tx, view: RunView, agent: AgentRecord, sight: Sight) -> None:
    """Its claims go back, its first stall is told, and it gets a new incarnation."""
    evidence = [f"hooks: no sign of life for {tx.now.mono - sight.turn.newest:.0f} s, although it was asked for one"]
    event = AgentStalled(
        incarnation=agent.incarnation,
        stalls=agent.stall_count + 1,
        evidence=tuple(evidence),
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event)
    if not agent.stall_count:
        _tell_of_stall(tx, view, agent)
    health = agent.health if agent.health != "healthy" else HEALTH.step(agent.health, "stalled")
    counted = replace(agent, health=health, stalled=tx.now, stall_count=agent.stall_count + 1)
    stalled = save(tx, _unprobed(counted))
    alert = f"{agent.agent}#{agent.incarnation}:unanswered"
    if agent.stall_count and not agent.replaces:
        decide(tx, view, agent, "REPLACE", "stalled", evidence, alert)
        replace_agent(tx, view, stalled, "stalled again after a restart", evidence)
    else:
        decide(tx, view, agent, "RESTART", "stalled", evidence, alert)
        restart(tx, view, stalled, "stalled", evidence)


def _tell_of_stall(tx: Tx, view: RunView, agent: AgentRecord) -> None:
    """An event for all; a letter only to those that wait for it: each letter costs its reader a turn."""
    watch = load(tx, WatchRecord, keys.watch(agent.run))
    told = []
    for name in waiters(view, agent.agent, watch.waits if watch is not None else ()):
        # One that was started again in this very step has another incarnation than the view says.
        other = load(tx, AgentRecord, keys.agent(agent.run, name))
        if other is not None and not other.is_over and not isinstance(other.life, Resting):
            text = brief.stall_alert(agent.agent, "no sign of life")
            send(tx, other, "mail", "stall_alert", text, key=f"stall:{agent.agent}:{agent.incarnation}")
            told.append(name)
    event = StallAlert(incarnation=agent.incarnation, told=tuple(told), run=agent.run, agent=agent.agent)
    tx.append(event, f"stall_alert:{agent.key}")


def declare_unresponsive(tx: Tx, agent: AgentRecord) -> None:
    """It has been stalled for too long."""
    change(tx, AgentRecord, agent.key, lambda a: replace(a, health=HEALTH.step(a.health, "unresponsive")))
    tx.append(AgentUnresponsive(incarnation=agent.incarnation, run=agent.run, agent=agent.agent))
