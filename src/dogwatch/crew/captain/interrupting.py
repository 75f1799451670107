"""Interrupts: the key is sent, what is left of the turn runs dry, and its end is recorded, for no client tells of it.

A turn that goes on all the same costs the agent its incarnation. So whatever the agent held is free again in either
case: for the agent itself, which is at its prompt, or for the next incarnation.
"""

from __future__ import annotations

import contextlib

from dogwatch.coordination.recovery import end_interrupt, give_up_interrupt, note_press, what_was_interrupted
from dogwatch.crew.captain.helm import Helm
from dogwatch.harness import harness
from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
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
    interrupt = agent.interrupt
    if interrupt is None:
        return
    found = effect(interrupt, sight, view.limits_of(agent.agent), helm.now)
    if found == "ended":
        helm.record(lambda tx: end_interrupt(tx, agent, interrupt, ["hooks: the turn has ended"]))
    elif found == "drained":
        evidence = [*what_was_interrupted(interrupt, sight), f"screen: {sight.screen}, hooks: nothing more"]
        if helm.world.hands.end_turn(agent, sight.turn, interrupt.diagnosis):
            helm.record(lambda tx: end_interrupt(tx, agent, interrupt, evidence))
    elif found == "again":
        helm.record(lambda tx: note_press(tx, agent, interrupt))
        press(helm, view, agent)
    elif found == "ignored":
        helm.record(lambda tx: give_up_interrupt(tx, view, agent, interrupt, sight))
