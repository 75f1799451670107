"""The watchdog: one for each run. It looks at every agent and says what it means; it has no code to touch one."""

from __future__ import annotations

from dogwatch.crew.log import Log
from dogwatch.crew.membership import SILENT_S, beat, place
from dogwatch.crew.queues import alerts_queue
from dogwatch.crew.worlds import WatchdogWorld
from dogwatch.ledger.api import Lease, Store, Tx
from dogwatch.ledger.records import load_run
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView
from dogwatch.policy.diagnose import Diagnosis, diagnose


class Watchdog:
    """Holds its lease; everything else is on the ledger."""

    def __init__(self, run: str, lease: Lease, log: Log) -> None:
        self.run = run
        self.lease = lease
        self.log = log

    def step(self, world: WatchdogWorld, ledger: Store, now: Moment) -> float | None:
        self.lease = beat(ledger, self.lease, now)
        view = ledger.read(lambda reader: load_run(reader, self.run))
        if view.run.cleared:
            ledger.run(lambda tx: tx.release(self.lease))
            return None
        spawned = [agent for agent in view.agents.values() if agent.process is not None and agent.state != "ERROR"]
        world.eyes.watch([agent.process for agent in spawned if agent.process is not None])
        if not view.run.over:
            self._sweep(world, ledger, view, spawned, now)
            self._watch_captain(ledger, now)
        return view.plan.limits.sweep_s

    def _sweep(
        self, world: WatchdogWorld, ledger: Store, view: RunView, agents: list[AgentRecord], now: Moment
    ) -> None:
        sights = world.eyes.look(view, [agent.agent for agent in agents], screens=False)
        for agent in agents:
            found = diagnose(agent, view.duty_of(agent.agent), sights[agent.agent], view.plan.limits, now)
            if found.action:
                self._alert(ledger, agent, found)

    def _alert(self, ledger: Store, agent: AgentRecord, found: Diagnosis) -> None:
        """Once for each stall: the same stall has the same id, also for a watchdog that starts anew."""
        body = {
            "agent": agent.agent,
            "incarnation": agent.incarnation,
            "diagnosis": found.kind,
            "action": found.action,
            "quiet_s": round(found.quiet_s, 3),
            "evidence": list(found.evidence),
        }
        item_id = f"{agent.agent}{found.stall}"

        def fn(tx: Tx) -> bool:
            tx.check(self.lease)
            if tx.push(alerts_queue(self.run), body, item_id) is None:
                return False
            return tx.append("alert_raised", {**body, "alert": item_id}, run=self.run, agent=agent.agent)

        if ledger.run(fn):
            self.log.info("alert_raised", agent=agent.agent, diagnosis=found.kind, action=found.action)

    def _watch_captain(self, ledger: Store, now: Moment) -> None:
        """A captain that lives and makes no progress is reported; the dispatcher ends it."""
        name = place("captain", self.run)
        held = next((lease for lease in ledger.read(lambda r: r.leases(name)) if lease.name == name), None)
        if held is not None and now.since(held.renewed) > SILENT_S:
            self.log.error("captain_silent", silent_s=round(now.since(held.renewed), 1), holder=held.holder)
