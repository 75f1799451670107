"""The dispatcher: one for each host. Every run that is not over has a living captain."""

from __future__ import annotations

from dogwatch.crew.log import Log
from dogwatch.crew.membership import Reviver, beat, note_loss, place
from dogwatch.crew.worlds import DispatcherWorld
from dogwatch.ledger.api import Lease, Store
from dogwatch.ledger.records import load
from dogwatch.model.moment import Moment
from dogwatch.model.records import CrewRecord

CADENCE_S = 1.0
LINGER_S = 60.0
"""How long a dispatcher stays without any run to look after."""


class Dispatcher:
    """Holds its lease and the memory of its latest starts; everything else is on the ledger."""

    def __init__(self, lease: Lease, log: Log, since: Moment) -> None:
        self.lease = lease
        self.log = log
        self._captains = Reviver("captain")
        self._busy = since

    def step(self, world: DispatcherWorld, ledger: Store, now: Moment) -> float | None:
        self.lease = beat(ledger, self.lease, now)
        runs = [document.key.removeprefix("active/") for document in ledger.read(lambda r: r.scan("active/"))]
        captains = ledger.read(lambda r: {run: load(r, CrewRecord, f"crew/{run}/captain") for run in runs})
        for run, captain in captains.items():
            self._keep_captain(world, ledger, run, captain, now)
        world.eyes.watch([captain.process for captain in captains.values() if captain is not None])
        if runs:
            self._busy = now
        if now.since(self._busy) > LINGER_S:
            self.log.info("nothing_to_do", lingered_s=LINGER_S)
            ledger.run(lambda tx: tx.release(self.lease))
            return None
        return CADENCE_S

    def _keep_captain(
        self, world: DispatcherWorld, ledger: Store, run: str, captain: CrewRecord | None, now: Moment
    ) -> None:
        name = place("captain", run)
        lease = next((held for held in ledger.read(lambda r: r.leases(name)) if held.name == name), None)
        life = world.eyes.life(captain.process) if captain else "dead"
        need = self._captains.needs(captain, lease, life, now, run)
        if not need:
            return
        if captain is not None:
            ledger.run(lambda tx: note_loss(tx, captain, need))
            if need == "silent":
                world.hands.end_silent_crew(captain.process)
        self.log.info("captain_started", run=run, because=need)
        world.hands.start_crew("captain", run)
        self._captains.note_start(run, now)
