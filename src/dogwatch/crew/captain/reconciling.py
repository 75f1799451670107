"""What sub-agents have said against work in the end: the watchdog hears it and queues it, the captain acts on it."""

from __future__ import annotations

from functools import partial

from dogwatch.coordination.reviews import hear
from dogwatch.crew.captain.helm import Helm
from dogwatch.model.keys import verdicts_queue

VERDICTS_MAX = 20
"""So many are heard in one step."""


def reconcile(helm: Helm) -> None:
    """Acts on what sub-agents have said, oldest first; each sees what the one before has changed. What is too much for
    one step waits for the next."""
    for item in helm.ledger.read(lambda reader: reader.items(verdicts_queue(helm.run)))[:VERDICTS_MAX]:
        helm.record(partial(hear, item=item))
