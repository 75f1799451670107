"""Looks after sub-agents that ran past their time: which were started again, have ended or were lost."""

from __future__ import annotations

from functools import partial

from dogwatch.coordination.subagents import forget, settle
from dogwatch.crew.captain.helm import Helm
from dogwatch.model.view import RunView
from dogwatch.policy.subagents import is_gone, settled_by


def look_after_overdue(helm: Helm, view: RunView) -> None:
    """Finds out which of the overdue ones were started again, have ended after all, or were lost with their parent. Of
    one that is settled and runs no more, the events tell all: its record goes."""
    if not view.overdue:
        return
    parents = {known.agent for known in view.overdue if view.agents[known.agent].incarnation == known.incarnation}
    names = [name for name in parents if view.agents[name].running]
    sights = helm.world.eyes.look(view, names, screens=False) if names else {}
    for known in view.overdue:
        sight, agent = sights.get(known.agent), view.agents.get(known.agent)
        turn = sight.turn if sight is not None else None
        how = "" if known.settled else settled_by(known, agent, turn)
        if how:
            helm.record(partial(settle, known=known, how=how))
        if (known.settled or how) and is_gone(known, agent, turn):
            helm.record(partial(forget, known=known))
