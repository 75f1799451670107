"""Interrupts: the key is sent, what is left of the turn runs dry, and its end is recorded, for no client tells of it.

A turn that goes on all the same costs the agent its incarnation. So whatever the agent held is free again in either
case: for the agent itself, which is at its prompt, or for the next incarnation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from dogwatch.coordination.agents import restart
from dogwatch.coordination.decisions import decide
from dogwatch.coordination.tasks import rescue_task
from dogwatch.crew.captain.helm import Helm
from dogwatch.harness import harness
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change
from dogwatch.model.events.agents import TurnEnded
from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy.diagnoses import traits_of
from dogwatch.policy.interrupts import effect
from dogwatch.world.probe import ProbeFailedError


def press(helm: Helm, view: RunView, agent: AgentRecord) -> bool:
    """Sends its client's keys, after the intent was recorded; False where they did not arrive, which is found out
    later."""
    role = view.role_of(agent.agent)
    with contextlib.suppress(ProbeFailedError):
        return role is not None and helm.world.hands.press(agent, harness(role.harness).interrupt_keys)
    return False


def tend_interrupt(helm: Helm, view: RunView, agent: AgentRecord, sight: Sight) -> None:
    """Looks for the end of a turn that was interrupted, within the time in which a sign of life is waited for."""
    limits = view.limits_of(agent.agent)
    found = effect(agent.interrupts, agent.interrupted, sight, limits, helm.now)
    if found == "ended":
        helm.record(lambda tx: _ended(tx, agent, ["hooks: the turn has ended"]))
    elif found == "drained":
        evidence = [*_why(agent, sight), f"screen: {sight.screen}, hooks: nothing more"]
        if helm.world.hands.end_turn(agent, sight.turn, agent.interrupted):
            helm.record(lambda tx: _ended(tx, agent, evidence))
    elif found == "again":
        helm.record(lambda tx: _note_press(tx, agent))
        press(helm, view, agent)
    elif found == "ignored":
        helm.record(lambda tx: _give_up(tx, view, agent, sight))


def _note_press(tx: Tx, agent: AgentRecord) -> None:
    change(tx, AgentRecord, agent.key, lambda a: replace(a, interrupts=(*a.interrupts, tx.now)))


def _ended(tx: Tx, agent: AgentRecord, evidence: Sequence[str]) -> None:
    """The agent is at its prompt: what it holds is mended like any work that somebody has stopped over."""
    change(tx, AgentRecord, agent.key, lambda a: replace(a, interrupts=()))
    _tell(tx, agent, "interrupted", evidence)


def _give_up(tx: Tx, view: RunView, agent: AgentRecord, sight: Sight) -> None:
    """A new incarnation. What is written already is taken first, as it would be from one that has died. A tool that
    goes on is none: it is reported again."""
    if not traits_of(agent.interrupted).interrupts_turn:
        change(tx, AgentRecord, agent.key, lambda a: replace(a, interrupts=()))
        return
    seconds = tx.now.since(agent.interrupts[0])
    evidence = [*_why(agent, sight), f"hooks: {len(agent.interrupts)} interrupts within {seconds:.0f} s had no effect"]
    alert = f"{agent.agent}#{agent.incarnation}:interrupted"
    task = view.task_of(agent.agent)
    if task is not None and sight.outputs_fresh:
        rescue_task(tx, task, agent.interrupted, evidence)
        decide(tx, view, agent, "RESCUE", agent.interrupted, evidence, f"{alert}:rescue", subject=task.task)
        return
    _tell(tx, agent, "restarted", evidence)
    decide(tx, view, agent, "RESTART", agent.interrupted, evidence, alert)
    restart(tx, view, agent, agent.interrupted, evidence)


def _why(agent: AgentRecord, sight: Sight) -> list[str]:
    if not traits_of(agent.interrupted).interrupts_turn:
        return [f"hooks: {tool} was interrupted" for tool in sight.turn.tools.values()]
    return [f"hooks: {sight.turn.stops} times in one turn it tried to stop after a hook had held it"]


def _tell(tx: Tx, agent: AgentRecord, how: str, evidence: Sequence[str]) -> None:
    event = TurnEnded(
        diagnosis=agent.interrupted,
        how=how,
        incarnation=agent.incarnation,
        evidence=tuple(evidence),
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, f"turn-ended:{agent.key}:{agent.incarnation}:{agent.interrupts[0].mono:.6f}")
