"""What must be true at every instant, whatever goes wrong: checked by somebody who sees the machine as it really is."""

from __future__ import annotations

import hashlib
import json
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from dogwatch.coordination.queues import RECLAIM
from dogwatch.ledger.api import Lease, Reader, StoredEvent
from dogwatch.ledger.records import load, load_all, load_run
from dogwatch.model import keys
from dogwatch.model.admission import PermitRecord
from dogwatch.model.brief import Header
from dogwatch.model.events import KINDS
from dogwatch.model.keys import notices_queue, orders_queue
from dogwatch.model.life import Starting
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.model.view import RunView
from dogwatch.policy.ladder import LOOK_AGAIN_S
from dogwatch.policy.route import expected_tasks
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.berths import Berth
from dogwatch.sim.faulty import FaultyMachine
from dogwatch.sim.machine import Witness

INVARIANTS = {
    "no_healthy_agent_killed": "No agent is given a new incarnation, replaced or given up while nothing is wrong with "
    "it, unless the operator ordered it or it was idle and reclaimed.",
    "every_end_is_recorded": "Whoever ends an agent's process has recorded before why: a later incarnation, an agent "
    "that was given up, or a run that is over.",
    "kill_table_holds": "A captain ends agents of its own run, its watchdog and the dispatcher, the dispatcher ends "
    "captains, and watchdogs that no captain can end, and a watchdog ends nobody.",
    "no_healthy_crew_ended": "No crew member is ended while it goes on making steps.",
    "one_process_for_each_incarnation": "No agent has two living processes, and no incarnation is started twice in one "
    "boot.",
    "incarnations_only_grow": "An agent's incarnation is followed by the next, and never by an earlier one.",
    "caps_hold": "There are never more living agents, nor permits for them, than the operator's cap.",
    "permits_are_for_one": "Every agent that lives has a permit, and nobody has two.",
    "no_task_is_lost": "A task that is on the ledger stays there, and all tasks of a run that was completed are "
    "accepted.",
    "every_run_ends": "Every run ends within its time, delivered or with a named cause.",
    "no_run_stands_still": "No run ends for want of progress while all its agents are well and idle, and nothing has "
    "gone wrong for a while.",
    "what_is_delivered_is_there": "The deliverable of a completed run is there with the recorded bytes.",
    "nothing_is_left": "When a run is cleared, none of its processes lives; in the end no permit, no queue and no crew "
    "is left.",
    "one_alert_for_each_tier_and_stall": "No alert is raised twice for the same tier of the same stall.",
    "fences_only_grow": "Each grant of a place has a higher fence than the one before, and no fence goes back.",
    "operations_are_unique": "No two events have the same operation id.",
    "messages_arrive_once": "No incarnation is given the same message twice.",
    "events_are_known": "Every kind of event is in the reference.",
    "steps_can_be_made": "No step and no call fails for another reason than a missing ledger, machine or place.",
    "records_are_not_changed": "Nobody changes a record that it has read.",
}

UNTOUCHED = ("provider", "dialog")
"""What is wrong with an agent and is no reason for a new incarnation."""
ENDS = ("agent_restarted", "agent_reclaimed", "agent_quarantined", "agent_replaced")
"""What is recorded when an incarnation shall not go on."""
STOOD_STILL = ("no progress", "deadline")
CALM_S, QUIET_S = 600.0, 300.0
"""How long nothing has gone wrong, and nobody has done anything."""
OVERDUE = ":overdue:"
ALWAYS_S = float("inf")
_ASKS = re.compile(r"/\d+$")
"""The end of an alert's name that asks the captain for an action: how many of them were settled before."""


def _again_s(alert: str) -> float:
    """How long nothing is heard of the same stall again."""
    return LOOK_AGAIN_S if _ASKS.search(alert) else ALWAYS_S


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold: which, what was seen, and when."""

    name: str
    what: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.name} at {self.at_s:.1f} s: {self.what}"


class Invariants(Witness):
    """Looks at everything that happens on one machine."""

    def __init__(self, machine: FaultyMachine) -> None:
        self.found: list[Violation] = []
        self.settings = machine.settings
        """What the operator allows."""
        self._machine = machine
        self._broken: set[tuple[str, str]] = set()
        self._operations: set[str] = set()
        self._alerts: dict[tuple[str, str], Moment] = {}
        self._incarnations: dict[str, int] = {}
        self._prompts: set[tuple[str, int, str]] = set()
        self._started: set[tuple[str, str, int]] = set()
        self._fences: dict[str, int] = {}
        self.tasks: dict[str, set[str]] = {}
        self._ordered: set[tuple[str, int]] = set()
        self._moved = False

    def broken(self, name: str, what: str) -> None:
        """It did not hold; told once for the same thing."""
        if name not in INVARIANTS:
            raise KeyError(name)
        if (name, what) not in self._broken:
            self._broken.add((name, what))
            self.found.append(Violation(name, what, round(self._machine.elapsed_s, 3)))
            self._machine.tell("violation", f"{name}: {what}")

    def ordered(self, agent: VirtualAgent) -> None:
        """The operator wants this incarnation to end."""
        self._ordered.add((agent.key, agent.incarnation))

    def _read(self, run: str) -> RunView:
        return self._machine.ledger.read(lambda reader: load_run(reader, run))

    # What happens on the machine.

    def prompted(self, agent: VirtualAgent, found: Sequence[Header]) -> None:
        for header in found:
            one = (agent.key, agent.incarnation, header.id)
            if one in self._prompts:
                self.broken("messages_arrive_once", f"{header} came twice to {agent.key}#{agent.incarnation}")
            self._prompts.add(one)

    def spawned(self, agent: VirtualAgent) -> None:
        once = (agent.process.boot, agent.key, agent.incarnation)
        if once in self._started:
            self.broken("one_process_for_each_incarnation", f"{agent.key}#{agent.incarnation} was started twice")
        self._started.add(once)
        living = [one for one in self._machine.clients.values() if one.lives]
        older = [one for one in self._machine.past if one.key == agent.key and one.lives]
        if older:
            self.broken("one_process_for_each_incarnation", f"{agent.key}#{older[0].incarnation} still lives")
        cap = self.settings.agents
        if cap and len(living) > cap:
            self.broken("caps_hold", f"{len(living)} agents live, {cap} may")

    def ended(self, agent: VirtualAgent, by: str, run: str, way: str) -> None:
        who = f"{agent.key}#{agent.incarnation}"
        if by != "captain" or run != agent.run.run:
            self.broken("kill_table_holds", f"{by} {run} ended {who}".replace("  ", " "))
        why = self._machine.ledger.read(lambda reader: self._reason(reader, agent, way))
        if not why:
            self.broken("every_end_is_recorded", f"{who} was ended ({way}), and nothing says why")
        if why == RECLAIM and agent.turn.state == "working":
            self.broken("no_healthy_agent_killed", f"{who} was at work and was reclaimed")

    def _reason(self, reader: Reader, agent: VirtualAgent, way: str) -> str:
        """Why the agent's process may be ended now, as the ledger has it; empty for no reason."""
        run = load(reader, RunRecord, keys.run(agent.run.run))
        record = load(reader, AgentRecord, keys.agent(agent.run.run, agent.name))
        if way == "clear":
            return "over" if run is not None and run.over else ""
        if record is not None and record.incarnation > agent.incarnation:
            return "restarted"
        if way != "dismiss" or record is None:
            return ""
        if record.is_given_up:
            return "given up"
        orders = [item.body for item in reader.items(orders_queue(agent.run.run))]
        asked = [one for one in orders if one.get("order") == RECLAIM and one["agent"] == agent.name]
        return RECLAIM if any(one["incarnation"] == agent.incarnation for one in asked) else ""

    def crew_ended(self, berth: Berth, by: str, run: str) -> None:
        who = f"{berth.name} {berth.run}".strip()
        allowed = {
            "captain": berth.name == "dispatcher" or (berth.name == "watchdog" and berth.run == run),
            # A stopped watchdog may hold the ledger; its captain would end it, but that is dead or stopped itself.
            "dispatcher": berth.name == "captain" or (berth.name == "watchdog" and not self._has_captain(berth.run)),
        }
        if not allowed.get(by, False):
            self.broken("kill_table_holds", f"{by} {run} ended {who}".replace("  ", " "))
        if not berth.stopped:
            self.broken("no_healthy_crew_ended", f"{who} was ended by {by} {run}".rstrip())

    def _has_captain(self, run: str) -> bool:
        """Whether the run has a captain that makes steps."""
        captain = self._machine.berth("captain", run)
        return captain is not None and not captain.stopped

    def joined(self, berth: Berth, lease: Lease) -> None:
        known = self._fences.get(lease.name, 0)
        if lease.fence <= known:
            self.broken("fences_only_grow", f"{lease.name} was granted with fence {lease.fence} after {known}")
        self._fences[lease.name] = max(lease.fence, known)

    def stepped(self, berth: Berth) -> None:
        lease = berth.member.lease if berth.member is not None else None
        if lease is not None:
            known = self._fences.get(lease.name, 0)
            # Who has lost its place is not told before its next write; then it leaves.
            if lease.fence > known:
                self._fences[lease.name] = lease.fence
        if self._moved:
            self._moved = False
            self._machine.ledger.read(lambda reader: self._look(reader, berth))

    def _look(self, reader: Reader, berth: Berth) -> None:
        """Looks at what the step may have changed."""
        if berth.run:
            tasks = set(reader.keys(keys.tasks(berth.run)))
            lost = self.tasks.get(berth.run, set()) - tasks
            if lost:
                self.broken("no_task_is_lost", f"{', '.join(sorted(lost))} is not on the ledger any more")
            self.tasks[berth.run] = tasks
        living = {key: agent for key, agent in self._machine.clients.items() if agent.lives}
        permits = load_all(reader, PermitRecord, keys.permits(reader.host, "agent"))
        permitted = [f"{one.launch.run}/{one.launch.agent}" for one in permits]
        # The permit of a dead one is given to somebody else.
        holders = [key for key in permitted if key in living or self._is_starting(reader, key)]
        cap = self.settings.agents
        if cap and len(holders) > cap:
            self.broken("caps_hold", f"{len(holders)} permits for agents, {cap} may be given")
        known = set(holders)
        if len(known) < len(holders):
            self.broken("permits_are_for_one", f"one of {', '.join(holders)} has two permits")
        missing = [key for key in living if key not in known]
        if missing:
            self.broken("permits_are_for_one", f"{missing[0]} lives and has no permit")

    def _is_starting(self, reader: Reader, key: str) -> bool:
        record = load(reader, AgentRecord, keys.agent(*key.split("/", 1)))
        return record is not None and isinstance(record.life, Starting)

    def failed(self, line: str) -> None:
        told = json.loads(line)
        if told.get("kind") not in ("LedgerLockedError", "ProbeFailedError"):
            where = f"{told['member']} {told.get('run', '')}: {told.get('error', '')}"
            self.broken("steps_can_be_made", f"{where}\n{told.get('trace', '')}".rstrip())

    def crashed(self, berth: Berth, error: Exception) -> None:
        """A step has ended its member's process."""
        trace = "".join(traceback.format_exception(error))
        self.broken("steps_can_be_made", f"{berth.name} {berth.run}: {type(error).__name__}: {error}\n{trace}")

    # What is recorded.

    def event(self, event: StoredEvent) -> None:
        self._moved = True
        if event.kind not in KINDS:
            self.broken("events_are_known", f"{event.kind} is not in the reference")
        if event.op_id:
            if event.op_id in self._operations:
                self.broken("operations_are_unique", f"{event.op_id} ({event.kind}) was recorded twice")
            self._operations.add(event.op_id)
        if event.kind in ENDS:
            self._judge_end(event)
        elif event.kind in ("agent_spawn_intended", "agent_spawned"):
            self._follow(f"{event.run}/{event.agent}", int(event.body["incarnation"]), restart=False)
        elif event.kind == "alert_raised":
            self._note_alert(event)
        elif event.kind == "run_ended" and event.body["state"] != "COMPLETED" and not event.body["cause"]:
            self.broken("every_run_ends", f"{event.run} is {event.body['state']} without a cause")
        elif event.kind == "run_ended" and str(event.body["cause"]).startswith(STOOD_STILL):
            self._judge_standstill(event)
        elif event.kind == "run_cleared":
            self._look_for_rest(event.run)
        elif event.kind in ("dispatch_dropped", "dispatch_miscounted"):
            self.broken("no_task_is_lost", f"{event.run}: {event.kind} {json.dumps(event.body)}")

    def _follow(self, key: str, incarnation: int, *, restart: bool) -> None:
        known = self._incarnations.get(key, 1)
        if incarnation != known + restart:
            self.broken("incarnations_only_grow", f"{key} has incarnation {incarnation} after {known}")
        self._incarnations[key] = max(known, incarnation)

    def _judge_end(self, event: StoredEvent) -> None:
        """Was it right to give this incarnation up?"""
        key, reason = f"{event.run}/{event.agent}", str(event.body["reason"])
        incarnation = self._incarnations.get(key, 1)
        if event.kind in ("agent_restarted", "agent_reclaimed"):
            self._follow(key, int(event.body["incarnation"]), restart=True)
        agent = self._machine.clients.get(key)
        if agent is None or not agent.lives or agent.incarnation != incarnation:
            return
        if (key, incarnation) in self._ordered and "operator" in reason:
            return
        who = f"{key}#{incarnation} ({event.kind}: {reason})"
        if not agent.ill:
            self.broken("no_healthy_agent_killed", f"nothing was wrong with {who}, turn {agent.turn.state}")
        elif agent.ill in UNTOUCHED:
            self.broken("no_healthy_agent_killed", f"{who} only waited: {agent.ill}")

    def _note_alert(self, event: StoredEvent) -> None:
        """An alert for people comes once for each tier of a stall; one that asks the captain for an action may come
        again a while after it was settled."""
        name, tier, action = str(event.body["alert"]), event.body["tier"], event.body["action"]
        if _ASKS.search(name):
            occasion = f"{event.agent}{event.body['stall']} {action}"
        else:
            occasion = f"{name} for people" if OVERDUE in name else f"{event.agent}{event.body['stall']} tier {tier}"
        for key, least_s in (((event.run, name), ALWAYS_S), ((event.run, occasion), _again_s(name))):
            before = self._alerts.get(key)
            if before is not None and (before.boot != event.at.boot or event.at.mono - before.mono < least_s):
                self.broken("one_alert_for_each_tier_and_stall", f"{event.run}: {key[1]} was raised again")
            self._alerts[key] = event.at

    def _judge_standstill(self, event: StoredEvent) -> None:
        """A run has ended because nothing moved. Was there any reason for that?"""
        agents = [one for one in self._machine.clients.values() if one.run.run == event.run and one.lives]
        waits = self._machine.ledger.read(lambda reader: reader.scan(keys.waits(reader.host)))
        if any(event.run in document.key for document in waits) or " waits: " in event.body["cause"] or not agents:
            return  # the gate holds what it needs, and the cause says so
        mono = self._machine.now.mono
        is_calm = self._machine.elapsed_s - self._machine.last_fault_s > CALM_S
        rests = [one.turn.state == "idle" and not one.ill and mono - one.turn.newest > QUIET_S for one in agents]
        if is_calm and all(rests):
            self.broken("no_run_stands_still", f"{event.run}: {event.body['cause']}, and nothing was wrong")

    def _look_for_rest(self, run: str) -> None:
        living = [one.key for one in self._machine.clients.values() if one.run.run == run and one.lives]
        jobs = [
            key for key, job in self._machine.jobs.items() if job.process in self._machine.alive and f"/{run}/" in key
        ]
        left = [*living, *(key for key in jobs if not key.startswith(keys.NOTICES))]
        if left:
            self.broken("nothing_is_left", f"{run} is cleared, and {', '.join(left)} lives")

    # In the end.

    def finish(self) -> None:
        """After everything, or when the time is over."""
        for run in self._machine.runs:
            view = self._read(run)
            if not view.run.over or not view.run.cleared:
                self.broken("every_run_ends", f"{run} is {view.run.state} after {self._machine.elapsed_s:.0f} s")
            elif view.run.state == "COMPLETED":
                self._look_at_delivery(view)
        left = self.leftovers() if not self.found else []
        if left:
            self.broken("nothing_is_left", f"in the end there is still {', '.join(left)}")
        for line in self._machine.ledger.integrity():
            self.broken("records_are_not_changed", line)

    def _look_at_delivery(self, view: RunView) -> None:
        run, plan = view.run, view.plan
        expected = {name for phase in plan.phases for name in expected_tasks(view, phase)}
        lost = sorted(name for name in expected if name not in view.tasks or view.tasks[name].state != "accepted")
        if lost:
            self.broken("no_task_is_lost", f"{run.run} is completed without {', '.join(lost)}")
        found = self._machine.files.get(f"{run.output}/{plan.deliverable.path}")
        if found is None or hashlib.sha256(found[1]).hexdigest() != run.sha256:
            self.broken("what_is_delivered_is_there", f"{run.output}/{plan.deliverable.path} is not what was recorded")

    def leftovers(self) -> list[str]:
        """What is still there of runs that are over."""
        machine = self._machine
        crew = [f"{berth.name} {berth.run}".strip() for berth in machine.crew]
        living = [one.key for one in machine.clients.values() if one.lives]

        def kept(reader: Reader) -> list[str]:
            prefixes = (keys.ACTIVE, keys.QUEUED, keys.permits(reader.host), keys.waits(reader.host))
            documents = [document.key for prefix in prefixes for document in reader.scan(prefix)]
            return documents + [item.id for run in machine.runs for item in reader.items(notices_queue(run))]

        return [*crew, *living, *machine.ledger.read(kept)]
