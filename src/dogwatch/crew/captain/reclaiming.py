"""RECLAIM, the captain's side: looks again, and sends the idle worker to rest or says why not.

The worker's next incarnation begins when there is work or mail for it, through the gate like any other.
"""

from __future__ import annotations

from dogwatch.coordination.agents import reclaim, refuse_reclaim
from dogwatch.crew.captain.helm import Helm
from dogwatch.ledger.api import Item
from dogwatch.model.view import RunView
from dogwatch.policy.judge import judge
from dogwatch.policy.reclaim import refusal
from dogwatch.policy.waits import waits
from dogwatch.world.tmux import ProbeFailedError


def obey_reclaim(helm: Helm, view: RunView, item: Item) -> bool:
    """Looks again, and sends the worker to rest or says why not. After a kill in between, its process is dead and the
    order still there: the record is made then."""
    name = str(item.body["agent"])
    agent = view.agents.get(name)
    if agent is None or agent.incarnation != item.body["incarnation"] or agent.process is None:
        return helm.record(lambda tx: refuse_reclaim(tx, helm.run, item, "that incarnation is gone"))
    sight = helm.world.eyes.look(view, [name], screens=True)[name]
    found = judge(view, name, sight, waits(view, {name: sight}, helm.now), helm.now)
    if why := refusal(view, name, found.kind, sight):
        return helm.record(lambda tx: refuse_reclaim(tx, helm.run, item, why))
    try:
        helm.world.hands.dismiss(agent)
    except ProbeFailedError as error:
        helm.log.error("agent_dismissal_unknown", agent=name, error=str(error))
        return False
    return helm.record(lambda tx: reclaim(tx, view, agent, item))
