"""A DISAGREE that counts: before the approval it is an objection in that round, after it the step is opened again.

The watchdog hears what sub-agents say in the end and queues it; each word counts once, however often it is heard.
"""

from __future__ import annotations

from functools import partial

from dogwatch.coordination.queues import verdicts_queue
from dogwatch.coordination.reviews import object_to
from dogwatch.crew.captain.helm import Helm
from dogwatch.ledger.api import Item, Tx
from dogwatch.ledger.records import load_run
from dogwatch.policy.verdicts import objected_by_subagent

VERDICTS_MAX = 20
"""So many are heard in one step."""


def reconcile(helm: Helm) -> None:
    """Acts on what sub-agents have said, oldest first; each sees what the one before has changed. What is too much for
    one step waits for the next."""
    for item in helm.ledger.read(lambda reader: reader.items(verdicts_queue(helm.run)))[:VERDICTS_MAX]:
        helm.record(partial(_hear, item=item))


def _hear(tx: Tx, item: Item) -> None:
    claimed = tx.claim(item.queue, "captain", 60.0, item.id)
    if claimed is None:
        return
    tx.ack(claimed)
    agent, kind, text = (str(item.body[name]) for name in ("agent", "type", "text"))
    view = load_run(tx, str(item.body["run"]))
    # Its start is on the monotonic clock of the boot in which its end was told.
    since = item.pushed.plus(float(item.body["since"]) - item.pushed.mono)
    names = objected_by_subagent(view, agent, kind, since, text)
    object_to(tx, view, names, f"{agent}/{kind}", text, item.id)
