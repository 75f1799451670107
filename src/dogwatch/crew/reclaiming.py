"""RECLAIM: the dispatcher orders that an idle worker rests, its captain looks again and does it.

The worker's next incarnation begins when there is work or mail for it, through the gate like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from dogwatch.crew.helm import Helm
from dogwatch.crew.queues import orders_queue, settle
from dogwatch.crew.succession import restart
from dogwatch.crew.zoning import MemoryWatch
from dogwatch.ledger.api import Item, Lease, Reader, Store, Tx
from dogwatch.ledger.records import load, load_all, load_run
from dogwatch.model.admission import WaitRecord
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, WatchRecord
from dogwatch.model.view import RunView
from dogwatch.policy.admission import CAPS, MEMORY_LIMITS
from dogwatch.policy.judge import judge
from dogwatch.policy.reclaim import Reclaim, choose, refusal
from dogwatch.policy.waits import waits
from dogwatch.world.tmux import ProbeFailedError

RECLAIM = "reclaim"


def order_reclaim(
    ledger: Store, lease: Lease, memory: MemoryWatch, host: HostRecord, runs: Sequence[str], now: Moment
) -> Reclaim | None:
    """At most one order, and none while an earlier one is open."""
    found = ledger.read(lambda reader: _choose(reader, host, runs, now))
    if found is None:
        return None
    body = {
        "order": RECLAIM,
        "agent": found.agent,
        "incarnation": found.incarnation,
        "cause": found.why,
        "by": "dispatcher",
    }

    def fn(tx: Tx) -> None:
        tx.check(lease)
        item = tx.push(orders_queue(found.run), body)
        tx.append("order_given", {**body, "order": item}, run=found.run, agent=found.agent)
        memory.note_reclaim(tx)

    ledger.run(fn)
    return found


def _choose(reader: Reader, host: HostRecord, runs: Sequence[str], now: Moment) -> Reclaim | None:
    held = [wait for wait in load_all(reader, WaitRecord, "waits/") if wait.launch.needed]
    # A run that waits in the queue is no reason to send anybody to rest who will be needed again: only agents starve.
    waited = [0.0 if wait.launch.kind == "run" else now.since(wait.since) for wait in held if _lacks_memory(wait)]
    waiting_s = max(waited, default=None)
    if waiting_s is None and host.zone != "RED":
        return None
    if any(item.body.get("order") == RECLAIM for run in runs for item in reader.items(orders_queue(run))):
        return None
    views = [view for run in runs if not (view := load_run(reader, run)).run.over]
    seen = {run: load(reader, WatchRecord, f"watch/{run}") for run in runs}
    watched = {run: record.agents for run, record in seen.items() if record is not None}
    return choose(views, watched, host, waiting_s, now)


def _lacks_memory(wait: WaitRecord) -> bool:
    return wait.answer.limit in MEMORY_LIMITS or wait.answer.limit in CAPS


def obey_reclaim(helm: Helm, view: RunView, item: Item) -> bool:
    """Looks again, and sends the worker to rest or says why not. After a kill in between, its process is dead and the
    order still there: the record is made then."""
    name = str(item.body["agent"])
    agent = view.agents.get(name)
    if agent is None or agent.incarnation != item.body["incarnation"] or agent.process is None:
        return helm.record(lambda tx: _refuse(tx, helm.run, item, "that incarnation is gone"))
    sight = helm.world.eyes.look(view, [name], screens=True)[name]
    found = judge(view, name, sight, waits(view, {name: sight}, helm.now), helm.now)
    if why := refusal(view, name, found.kind, sight):
        return helm.record(lambda tx: _refuse(tx, helm.run, item, why))
    try:
        helm.world.hands.dismiss(agent)
    except ProbeFailedError as error:
        helm.log.error("agent_dismissal_unknown", agent=name, error=str(error))
        return False
    return helm.record(lambda tx: _rest(tx, view, agent, item))


def _rest(tx: Tx, view: RunView, agent: AgentRecord, item: Item) -> bool:
    settle(tx, item)
    cause = str(item.body["cause"])
    return restart(tx, view, agent, cause, [f"order {item.id} of the dispatcher"], counts=False, rests=True)


def _refuse(tx: Tx, run: str, item: Item, why: str) -> bool:
    settle(tx, item)
    return tx.append("reclaim_refused", {"order": item.id, "why": why}, run=run, agent=str(item.body["agent"]))
