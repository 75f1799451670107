"""The captain: one for each run. Routes the work, mends what the watchdog reports, serves the door, ends the run."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dogwatch.actions.spawn import PASSING
from dogwatch.coordination import runs
from dogwatch.coordination.crew import note_loss
from dogwatch.coordination.holds import account_of, held
from dogwatch.coordination.usage import AgentTally
from dogwatch.crew.captain.admitting import stop_waiting
from dogwatch.crew.captain.checkins import look_after_check_ins
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.mending import obey, settle_alert
from dogwatch.crew.captain.notices import send_notices, unsent
from dogwatch.crew.captain.posting import post
from dogwatch.crew.captain.reconciling import reconcile
from dogwatch.crew.captain.routing import carry_out, end_run
from dogwatch.crew.captain.selfchecking import CHECK_S, check
from dogwatch.crew.captain.subagents import look_after_overdue
from dogwatch.crew.captain.verifying import look_for_progress, verify
from dogwatch.crew.captain.versions import look_after_versions
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import BEAT_S, Awake, Reviver, allowed_silence_s, keep_dispatcher, renew, silent_s
from dogwatch.crew.shared.worlds import CaptainWorld
from dogwatch.door.answering import answer, load_verbs
from dogwatch.errors import LedgerError, StaleError
from dogwatch.ledger.api import Lease, Store
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.keys import alerts_queue, orders_queue
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.records import ChecksRecord, CrewRecord, RunRecord
from dogwatch.model.view import RunView
from dogwatch.policy.needs import waits_at_gate
from dogwatch.policy.route import SpawnAgent, decide, overdue

LEFT = -1.0
"""How a stage ends the step where the captain's work is over."""
AT_ONCE = 0.0
TYPING_WAIT_S = 0.1
FAILURE_WAIT_S = 1.0
DECISIONS_MAX = 20
FAILURES_MAX = 20
TALLY_ROUNDS_MAX = 200
"""At the end of a run so much of its transcripts is read at most, in rounds of `tallies.BYTES_MAX`."""


class Captain:
    """Holds its lease and the memory of its latest starts and checks; everything else is on the ledger."""

    def __init__(self, run: str, lease: Lease, log: Log) -> None:
        self.run = run
        self.lease = lease
        self.log = log
        self._watchdog = Reviver()
        self._dispatcher = Reviver()
        self._awake = Awake()
        self._checks: ChecksRecord | None = None
        self._checked: Moment | None = None
        self._prepared = False
        self._watched = False
        """Whether the watchdog lives, as of this step."""
        self._failures = 0
        self._holds: bool | None = None
        """Whether sub-agents are held; a captain that takes over does not know."""

    def step(self, world: CaptainWorld, ledger: Store, now: Moment) -> float | None:
        self._end_silent(world, ledger, now)
        try:
            self.lease = renew(ledger, self.lease, now)
            helm = Helm(world, ledger, self.lease, self.run, now, self.log)
            wait_s = self._command(helm)
        except LedgerError:
            self._awake.excuse()
            raise
        except StaleError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in PASSING:
                raise
            return self._count_failure(helm, error)
        self._failures = 0
        return wait_s

    def _command(self, helm: Helm) -> float | None:
        """Goes through the stages until one ends the step; the last one always does."""
        for stage in STAGES:
            ends = stage.do(self, helm)
            if ends is not None:
                return None if ends == LEFT else ends
        raise AssertionError("the last stage ends the step")

    # The stages, in their order in STAGES

    def _serve_door(self, helm: Helm) -> float | None:
        for request in helm.world.door.requests():
            request.answer(answer(helm, request.body))
        return None

    def _end(self, helm: Helm) -> float | None:
        run = helm.ledger.read(lambda r: load(r, RunRecord, keys.run(self.run)))
        if run is None or run.over:
            return self._finish(helm, helm.view())
        if cause := self._ending(helm, run):
            end_run(helm, "FAILED", cause)
            return AT_ONCE
        return None

    def _prepare(self, helm: Helm) -> float | None:
        run = helm.view().run
        if not self._prepared:
            helm.world.hands.prepare(run)
            load_verbs(self.log)
            self._prepared = True
        helm.world.hands.keep_model(run)
        self._hold_launches(helm)
        return None

    def _keep_crew(self, helm: Helm) -> float | None:
        self._watched = self._revive(helm, helm.view())
        return None

    def _settle(self, helm: Helm) -> float | None:
        """Orders and alerts, oldest first; each sees what the one before has changed."""
        for item in helm.ledger.read(lambda r: [*r.items(orders_queue(self.run)), *r.items(alerts_queue(self.run))]):
            helm.world.eyes.pulse()
            view = helm.view()
            if item.queue == orders_queue(self.run):
                obey(helm, view, item)
            else:
                settle_alert(helm, view, item)
        return None

    def _hear(self, helm: Helm) -> float | None:
        reconcile(helm)
        look_after_check_ins(helm)
        return None

    def _verify(self, helm: Helm) -> float | None:
        view = helm.view()
        look_after_overdue(helm, view)
        verify(helm, view)
        return None

    def _check(self, helm: Helm) -> float | None:
        view = helm.view()
        if view.run.started is not None and (self._checked is None or helm.now.since(self._checked) >= CHECK_S):
            self._checks, self._checked = check(helm, view, self._checks), helm.now
        look_after_versions(helm, view)
        return AT_ONCE if look_for_progress(helm, helm.view()) else None

    def _route(self, helm: Helm) -> float | None:
        """Decides until nothing is left to decide, or a step's share is used up. A person is told before the next."""
        share = DECISIONS_MAX
        changed = True
        while changed and share > 0:
            view = helm.view()
            decisions = [d for d in decide(view, helm.now) if self._may(helm, view, d)][:share]
            changed = False
            for decision in decisions:
                helm.world.eyes.pulse()
                changed = carry_out(helm, view, decision) or changed
            share -= len(decisions)
        view = helm.view()
        send_notices(helm, view)
        return AT_ONCE if view.run.over or changed else None

    def _post(self, helm: Helm) -> float | None:
        view = helm.view()
        if post(helm, view):
            return TYPING_WAIT_S
        return max(TYPING_WAIT_S, min(view.plan.limits.sweep_s, BEAT_S, view.next_spawn_s(helm.now)))

    def _hold_launches(self, helm: Helm) -> None:
        """In RED no sub-agent starts either: what agents start by themselves is told by the guard in their turns."""
        host = helm.ledger.read(lambda reader: load(reader, HostRecord, keys.host(reader.host)))
        why = f"memory is RED: {host.why}" if host is not None and host.zone == "RED" else ""
        if bool(why) == self._holds:
            return
        try:
            helm.world.hands.hold_launches(self.run, why)
        except OSError as error:
            self.log.error("launches_not_held", error=str(error))  # it is tried again in the next step
        else:
            self._holds = bool(why)

    def _count_failure(self, helm: Helm, error: Exception) -> float:
        """A step that cannot be made is tried again; a run whose steps cannot be made ends, and says why."""
        self._failures += 1
        what = f"{type(error).__name__}: {error}"
        self.log.error("step_failed", error=what, failures=self._failures, trace=traceback.format_exc())
        if self._failures >= FAILURES_MAX:
            run = helm.ledger.read(lambda r: load(r, RunRecord, keys.run(self.run)))
            if run is not None and run.over:
                helm.record(lambda tx: runs.leave(tx, self.lease, self.run, not_cleared=what))
            else:
                end_run(helm, "FAILED", f"the captain could not go on: {what}")
            self._failures = 0
        return FAILURE_WAIT_S

    def _ending(self, helm: Helm, run: RunRecord) -> str:
        """What ends the run whatever else there is: its deadline, or the operator."""
        orders = helm.ledger.read(lambda r: r.items(orders_queue(self.run)))
        ordered = [str(item.body.get("cause") or "killed by the operator") for item in orders if not item.body["agent"]]
        if late := overdue(run, helm.now):
            return "; ".join(filter(None, (late, waits_at_gate(helm.view()))))
        return ordered[0] if ordered else ""

    def _may(self, helm: Helm, view: RunView, decision: object) -> bool:
        """Whether the decision can be carried out now. No agent starts before the watchdog watches, or on an account
        whose provider refuses work."""
        if not isinstance(decision, SpawnAgent):
            return True
        account = account_of(view, view.agents[decision.agent])
        if not self._watched or helm.ledger.read(lambda r: held(r, self.run, account, helm.now)) is not None:
            stop_waiting(helm, view.agents[decision.agent])
            return False
        return True

    def _end_silent(self, world: CaptainWorld, ledger: Store, now: Moment) -> None:
        """Before anything is written: a member that is stopped in the middle of a transaction holds the ledger."""
        if not self._awake.can_judge(now, allowed_silence_s(world.eyes)):
            return
        others = (keys.crew(self.run, "watchdog"), keys.dispatcher(ledger.host))
        for record in ledger.read(lambda r: [load(r, CrewRecord, key) for key in others]):
            quiet_s = silent_s(world.eyes, record, now)
            if record is not None and quiet_s is not None:
                self.log.error("crew_silent", silent=record.member, pid=record.process.pid)
                world.hands.end_silent_crew(record.process)
                ledger.run(partial(note_loss, record=record, need="silent", quiet_s=quiet_s))

    def _revive(self, helm: Helm, view: RunView) -> bool:
        """Revives the watchdog and a dead dispatcher; True while the watchdog lives."""
        eyes, hands = helm.world.eyes, helm.world.hands
        watchdog = view.crew.get("watchdog")
        life = eyes.life(watchdog.process) if watchdog else "dead"
        if self._watchdog.may_start(watchdog, life, helm.now, self.run):
            if watchdog is not None:
                helm.record(lambda tx: note_loss(tx, watchdog, "dead"))
            hands.start_crew("watchdog", self.run)
            self._watchdog.note_start(self.run, helm.now)
        dispatcher = keep_dispatcher(eyes, hands, helm.ledger, self._dispatcher, self.lease.holder, helm.now)
        intended = [gate for gate in view.gates.values() if gate.state == "intended" and gate.host == helm.ledger.host]
        gates = [gate.process for gate in intended if gate.process is not None]
        eyes.watch([record.process for record in (watchdog, dispatcher) if record is not None] + gates)
        return life == "alive"

    def _finish(self, helm: Helm, view: RunView) -> float:
        """The run is over: nothing of it stays on the machine, and who wants to be told is told before the captain
        leaves. The watchdog leaves by itself once the first is recorded."""
        if not view.run.cleared:
            servers = {agent.server for agent in view.agents.values() if agent.server is not None}
            ended = helm.world.hands.clear(self.run, list(servers))
            found = self._count_once_more(helm, view)
            helm.record(lambda tx: runs.clear(tx, view, found, ended))
        send_notices(helm, view)
        if unsent(helm):
            return BEAT_S
        helm.record(lambda tx: runs.leave(tx, self.lease, self.run))
        return LEFT

    def _count_once_more(self, helm: Helm, view: RunView) -> dict[str, AgentTally]:
        """What the agents have used until their end."""
        for _ in range(TALLY_ROUNDS_MAX):
            helm.world.eyes.pulse()
            found = helm.world.eyes.tallies(view, list(view.agents))
            if not any(one.behind for one in found.values()):
                break
        return found


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of every step, and why it stands where it does. It returns how long to wait where it ends the step."""

    do: Callable[[Captain, Helm], float | None]
    reason: str


STAGES = (
    Stage(Captain._serve_door, "agents wait for their answers, and what they report changes what is decided below"),
    Stage(Captain._end, "nothing is started or mended in a run that is over, past its deadline or ended by order"),
    Stage(Captain._prepare, "folders, scripted model and the hold on launches must be there before anybody starts"),
    Stage(Captain._keep_crew, "no agent starts unwatched, so the watchdog is looked after before anything is routed"),
    Stage(Captain._settle, "orders and alerts come before routine: what they change is routed in the same step"),
    Stage(Captain._hear, "objections and answers may open work again that would otherwise count as finished"),
    Stage(Captain._verify, "the effect of earlier actions is looked for before new ones are taken"),
    Stage(Captain._check, "self-checks, instructions, the run's own progress: what is wrong is known before routing"),
    Stage(Captain._route, "all that is known now decides who starts, who gets work and what ends"),
    Stage(Captain._post, "what the stages above have queued is typed last: nothing goes out that was overtaken"),
)
