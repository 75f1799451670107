"""Another process of the contract: `python compactor.py URL EVENTS` puts all events into the archive, in parts of so
many, until it is killed; each line printed is a part made."""

from __future__ import annotations

import math
import sys

from dogwatch.ledger import compaction, open_store
from dogwatch.world.clock import SystemClock

if __name__ == "__main__":
    store = open_store(sys.argv[1], SystemClock())
    vars(compaction)["PART_EVENTS_MAX"] = int(sys.argv[2])
    print(0, flush=True)
    while True:
        count, _, _ = store.run(lambda tx: compaction.compact_part(tx, math.inf))
        if count:
            print(count, flush=True)
        else:
            store.wait(0.05)
