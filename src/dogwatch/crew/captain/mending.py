"""Alerts and orders are settled: the captain looks again at the moment of acting, and only then acts.

Each alert is settled in one transaction with what it leads to, so that a kill loses neither and repeats neither. Each
action is a decision record as well, and its effect is looked for later (`verifying.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dogwatch.coordination import alerts
from dogwatch.coordination.agents import restart_by_order
from dogwatch.coordination.queues import RECLAIM
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.interrupting import press
from dogwatch.crew.captain.reclaiming import obey_reclaim
from dogwatch.ledger.api import Item
from dogwatch.model.life import NotStarted, Starting
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy.diagnoses import traits_of
from dogwatch.policy.diagnosis import Case, Diagnosis, Late
from dogwatch.policy.judge import judge
from dogwatch.policy.ladder import Interrupt
from dogwatch.policy.subagents import asked_for_with
from dogwatch.policy.waits import waits


def settle_alert(helm: Helm, view: RunView, item: Item) -> bool:
    """Acts on what is seen now, or withdraws the alert where there is nothing to do. An `unknown` look leaves it."""
    name, incarnation = str(item.body["agent"]), int(item.body["incarnation"])
    agent = view.agents.get(name)
    if agent is None or agent.incarnation != incarnation or not agent.running:
        return helm.record(lambda tx: alerts.withdraw(tx, helm.run, item, "that incarnation is gone"))
    again = _diagnosed_again(helm, view, agent, item)
    if again is None:
        return False
    found, late = again
    step = helm.record(partial(alerts.answer, view=view, agent=agent, found=found, late=tuple(late), item=item))
    return press(helm, view, agent) if isinstance(step, Interrupt) else True


def _diagnosed_again(
    helm: Helm, view: RunView, agent: AgentRecord, item: Item
) -> tuple[Diagnosis, Sequence[Late]] | None:
    """What is seen now, and the late sub-agents that it is about; None where the look says nothing. For the time before
    it, the watchdog's alert vouches: how long a screen has stood there, and how long there was no sign of life."""
    name = agent.agent
    alive = [one.agent for one in view.agents.values() if one.running]
    sights = helm.world.eyes.look(
        view, alive if traits_of(str(item.body["diagnosis"])).is_ring else [name], screens=True
    )
    sight = sights[name]
    if sight.process == "alive" and sight.screen == "unknown" != item.body.get("pane", "unknown"):
        return None
    # The step may have begun before the alert was raised; what has lasted long enough then has not lasted shorter now.
    now = item.pushed if helm.now.is_before(item.pushed) else helm.now
    if item.pushed.boot == now.boot:
        before = item.pushed.mono - float(item.body["quiet_s"])
        if sight.screen == item.body.get("pane"):
            shown = item.pushed.mono - float(item.body.get("pane_s", 0.0))
            sight = replace(sight, screen_since=min(sight.screen_since, shown))
        # Whatever changed since a look of its own that is older than the silence proves nothing against it.
        sight = replace(sight, watched_since=min(sight.watched_since, before), life=min(sight.life, before))
    found = judge(view, name, sight, waits(view, sights, now), now)
    if found.kind == "unknown" and sight.hooks:
        return None
    return found, _late_ones(view, agent, sight, found, now)


def _late_ones(view: RunView, agent: AgentRecord, sight: Sight, found: Diagnosis, now: Moment) -> Sequence[Late]:
    """All sub-agents that the same is to be said of: the diagnosis names one of them."""
    if found.late is None:
        return ()
    duty, limits = view.duty_of(agent.agent), view.limits_of(agent.agent)
    overdue = view.overdue_of(agent.agent)
    case = Case(agent, duty, sight, limits, now, time_limits=view.plan.time_limits, overdue=overdue)
    return asked_for_with(case, found.late) or (found.late,)


def obey(helm: Helm, view: RunView, item: Item) -> bool:
    """An operator's order to end an agent's incarnation. One that is just being started is ended once it is there. The
    dispatcher orders that an idle one rests."""
    if item.body.get("order") == RECLAIM:
        return obey_reclaim(helm, view, item)
    name = str(item.body["agent"])
    agent = view.agents.get(name)
    is_next = agent is not None and isinstance(agent.life, NotStarted | Starting) and not agent.gate_reason
    if not name or is_next:
        # An order to end the whole run is obeyed at the beginning of a step: this one came in the middle.
        return False
    return helm.record(lambda tx: restart_by_order(tx, view, agent, item))
