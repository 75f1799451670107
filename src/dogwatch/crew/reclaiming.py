"""RECLAIM: the dispatcher orders that an idle worker rests, its captain looks again and does it.

The worker's next incarnation begins when there is work or mail for it, through the gate like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dogwatch.crew.helm import Helm
from dogwatch.crew.queues import orders_queue, settle
from dogwatch.crew.succession import restart
from dogwatch.crew.zoning import MemoryWatch
from dogwatch.ledger.api import Item, Lease, Reader, Store, Tx
from dogwatch.ledger.records import load, load_all, load_whole
from dogwatch.model.admission import WaitRecord
from dogwatch.model.events.admission import ReclaimRefused
from dogwatch.model.events.operator import OrderGiven
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, WatchRecord
from dogwatch.model.view import RunView
from dogwatch.policy.judge import judge
from dogwatch.policy.reclaim import Reclaim, choose, refusal, want_of
from dogwatch.policy.waits import waits
from dogwatch.world.tmux import ProbeFailedError

RECLAIM = "reclaim"


def order_reclaim(
    ledger: Store, lease: Lease, memory: MemoryWatch, host: HostRecord, runs: Sequence[str], now: Moment
) -> Reclaim | None:
    """At most one order, and none while an earlier one is open."""
    is_red = host.zone == "RED" and not memory.is_calming
    found = ledger.read(lambda reader: _choose(reader, host, runs, now, is_red=is_red, asked=memory.asked(now)))
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
        item = tx.push(orders_queue(found.run), body) or ""
        event = OrderGiven(
            incarnation=found.incarnation,
            cause=found.why,
            by="dispatcher",
            order=item,
            run=found.run,
            agent=found.agent,
        )
        tx.append(event)
        memory.note_reclaim(tx)

    ledger.run(fn)
    memory.note_asked((found.run, found.agent, found.incarnation), now)
    return found


def _choose(
    reader: Reader,
    host: HostRecord,
    runs: Sequence[str],
    now: Moment,
    *,
    is_red: bool,
    asked: Collection[tuple[str, str, int]],
) -> Reclaim | None:
    held = [wait for wait in load_all(reader, WaitRecord, "waits/") if wait.launch.needed]
    wants = [want for wait in held if (want := want_of(wait, host.settings, now)) is not None]
    if not wants and not is_red:
        return None
    if any(item.body.get("order") == RECLAIM for run in runs for item in reader.items(orders_queue(run))):
        return None
    found = (load_whole(reader, run) for run in runs)
    views = [view for view in found if view is not None and not view.run.over]
    seen = {run: load(reader, WatchRecord, f"watch/{run}") for run in runs}
    watched = {run: record.agents for run, record in seen.items() if record is not None}
    return choose(views, watched, host, wants, now, is_red=is_red, asked=asked)


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
    return tx.append(ReclaimRefused(order=item.id, why=why, run=run, agent=str(item.body["agent"])))
