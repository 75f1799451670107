"""Orders to a run's captain: end a run or an agent, let an agent rest, ask one a question; and the operator's mark that
everything is to be down."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.coordination.agents import restart
from dogwatch.coordination.queues import RECLAIM
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load_run, save
from dogwatch.model import keys
from dogwatch.model.events.operator import CheckInAsked, OrderGiven
from dogwatch.model.keys import checkins_queue, orders_queue
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.policy.reclaim import Reclaim


def order_end(tx: Tx, run: str, agent: str = "", cause: str = "", item_id: str = "") -> None:
    """The captain is to end the run, or the current incarnation of an agent. `item_id` is the order's id; empty for a
    new one."""
    body = {"agent": agent, "cause": cause, "by": "operator"}
    item = tx.push(orders_queue(run), body, item_id) or ""
    tx.append(OrderGiven(cause=cause, by="operator", order=item, run=run, agent=agent))


def order_rest(tx: Tx, found: Reclaim, host: HostRecord | None) -> Moment:
    """The captain is to let an idle worker rest; the host's record says when that was, which is also returned."""
    body = {
        "order": RECLAIM,
        "agent": found.agent,
        "incarnation": found.incarnation,
        "cause": found.why,
        "by": "dispatcher",
    }
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
    if host is not None:
        save(tx, replace(host, reclaimed=tx.now))
    return tx.now


def ask_agent(tx: Tx, run: str, agent: str, to: str, question: str, item_id: str = "") -> str:
    """The captain is to ask the agent without disturbing it; the answer becomes mail to `to`. Returns the question's
    id; `item_id` is that id where it is not a new one."""
    item = tx.push(checkins_queue(run), {"agent": agent, "to": to, "question": question}, item_id) or ""
    tx.append(CheckInAsked(check_in=item, to=to, question=question, run=run, agent=agent))
    return item


def take_down(tx: Tx, by: int) -> None:
    """From here on nobody can take a place in this host's crew. `by` is the operator's process."""
    tx.put(keys.down(tx.host), {"by": by})


def bring_up(tx: Tx) -> None:
    """Places in the crew can be taken again."""
    tx.delete(keys.down(tx.host))


def stop_agents(tx: Tx, run: str) -> None:
    """The agents of the run are gone, and not by a failure of theirs: each waits for its next incarnation."""
    view = load_run(tx, run)
    for agent in view.agents.values():
        if agent.process is not None and not view.run.over:
            restart(tx, view, agent, "down", ["dogwatch was taken down"], counts=False)
