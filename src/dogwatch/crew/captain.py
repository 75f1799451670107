"""The captain: one for each run. Routes the work, mends what the watchdog reports, serves the door, ends the run."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.crew.helm import Helm
from dogwatch.crew.log import Log
from dogwatch.crew.membership import Reviver, beat, note_loss, place
from dogwatch.crew.mending import restart, settle_alert
from dogwatch.crew.posting import post
from dogwatch.crew.queues import alerts_queue, orders_queue
from dogwatch.crew.requests import answer
from dogwatch.crew.routing import carry_out, end_run
from dogwatch.crew.worlds import CaptainWorld
from dogwatch.ledger.api import Item, Lease, Store, Tx
from dogwatch.ledger.records import change, load
from dogwatch.model.moment import Moment
from dogwatch.model.records import CrewRecord, RunRecord
from dogwatch.model.view import RunView
from dogwatch.policy.route import SpawnAgent, decide

TYPING_WAIT_S = 0.1
DECISIONS_MAX = 20
REVIVE_LEASE_S = 10.0


class Captain:
    """Holds its lease and the memory of its latest starts; everything else is on the ledger."""

    def __init__(self, run: str, lease: Lease, log: Log) -> None:
        self.run = run
        self.lease = lease
        self.log = log
        self._watchdog = Reviver("watchdog")
        self._dispatcher = Reviver("dispatcher")
        self._prepared = False

    def step(self, world: CaptainWorld, ledger: Store, now: Moment) -> float | None:
        self.lease = beat(ledger, self.lease, now)
        helm = Helm(world, ledger, self.lease, self.run, now, self.log)
        for request in world.door.requests():
            request.answer(answer(helm, request.body))
        view = helm.view()
        if view.run.over:
            self._clear(helm, view)
            return None
        if not self._prepared:
            world.hands.prepare(view.run)
            self._prepared = True
        watched = self._keep_crew(helm, view)
        self._settle(helm)
        more = self._route(helm, watched)
        view = helm.view()
        if view.run.over or more:
            return 0.0
        return TYPING_WAIT_S if post(helm, view) else view.plan.limits.sweep_s

    def _settle(self, helm: Helm) -> None:
        """Alerts and orders, oldest first; each sees what the one before has changed."""
        for item in helm.ledger.read(lambda r: [*r.items(orders_queue(self.run)), *r.items(alerts_queue(self.run))]):
            view = helm.view()
            if view.run.over:
                return
            if item.queue == orders_queue(self.run):
                self._obey(helm, view, item)
            else:
                settle_alert(helm, view, item)

    def _obey(self, helm: Helm, view: RunView, item: Item) -> None:
        agent = str(item.body.get("agent") or "")

        def fn(tx: Tx) -> None:
            claimed = tx.claim(item.queue, "captain", 60.0, item.id)
            if claimed is None:
                return
            tx.ack(claimed)
            if agent in view.agents and view.agents[agent].process is not None:
                restart(tx, view, view.agents[agent], "killed by the operator", [f"order {item.id}"])

        if not agent:
            end_run(helm, "FAILED", str(item.body.get("cause") or "killed by the operator"))
        helm.record(fn)

    def _route(self, helm: Helm, watched: bool) -> bool:
        """Decides until nothing is left to decide; True where a step's share is used up and more may be left, so that
        two hundred spawns do not keep the heartbeat waiting. No agent starts before the watchdog watches."""
        share = DECISIONS_MAX
        while share > 0:
            view = helm.view()
            decisions = [d for d in decide(view, helm.now) if watched or not isinstance(d, SpawnAgent)][:share]
            changed = [carry_out(helm, view, decision) for decision in decisions]
            if not any(changed):
                return False
            share -= len(decisions)
        return True

    def _keep_crew(self, helm: Helm, view: RunView) -> bool:
        """Revives the watchdog and a dead dispatcher; True while the watchdog lives."""
        watchdog = view.crew.get("watchdog")
        life = helm.world.eyes.life(watchdog.process) if watchdog else "dead"
        need = self._watchdog.needs(watchdog, self._lease_of(helm, "watchdog", self.run), life, helm.now, self.run)
        if need:
            self._note_loss(helm, watchdog, need)
            helm.world.hands.start_crew("watchdog", self.run)
            self._watchdog.note_start(self.run, helm.now)
        dispatcher = helm.ledger.read(lambda r: load(r, CrewRecord, "crew//dispatcher"))
        self._keep_dispatcher(helm, dispatcher)
        watched = [record.process for record in (watchdog, dispatcher) if record is not None]
        gates = [gate.process for gate in view.gates.values() if gate.state == "intended" and gate.process is not None]
        helm.world.eyes.watch(watched + gates)
        return life == "alive"

    def _keep_dispatcher(self, helm: Helm, dispatcher: CrewRecord | None) -> None:
        """One captain at a time revives the dispatcher, and none while the operator wants it down."""
        life = helm.world.eyes.life(dispatcher.process) if dispatcher else "dead"
        need = self._dispatcher.needs(dispatcher, self._lease_of(helm, "dispatcher", ""), life, helm.now, "")
        if not need or helm.ledger.read(lambda r: r.get("down")) is not None:
            return
        if helm.record(lambda tx: tx.acquire("revive/dispatcher", str(self.lease.holder), REVIVE_LEASE_S)) is None:
            return
        self._note_loss(helm, dispatcher, need)
        helm.world.hands.start_crew("dispatcher")
        self._dispatcher.note_start("", helm.now)

    def _note_loss(self, helm: Helm, record: CrewRecord | None, need: str) -> None:
        """What was there is dead or silent. A silent one is ended before its successor starts."""
        if record is not None:
            helm.record(lambda tx: note_loss(tx, record, need))
            if need == "silent":
                helm.world.hands.end_silent_crew(record.process)

    def _lease_of(self, helm: Helm, member: str, run: str) -> Lease | None:
        name = place(member, run)
        return next((held for held in helm.ledger.read(lambda r: r.leases(name)) if held.name == name), None)

    def _clear(self, helm: Helm, view: RunView) -> None:
        """The run is over: nothing of it stays on the machine. The watchdog leaves by itself once this is recorded."""
        ended = helm.world.hands.clear(self.run)

        def fn(tx: Tx) -> None:
            tx.append("run_cleared", {"processes": ended}, f"cleared:{self.run}", run=self.run)
            change(tx, RunRecord, view.run.key, lambda r: replace(r, cleared=True))
            tx.delete(f"active/{self.run}")
            tx.release(self.lease)

        helm.record(fn)
