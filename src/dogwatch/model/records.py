"""What the ledger keeps of a run: one frozen record for each thing, under one key.

Only the captain that holds the run's lease writes them; everybody may read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from dogwatch.model import keys
from dogwatch.model.delivery import Acknowledged, Delivered, Delivery, Expired, Read, Step, Typing
from dogwatch.model.folders import Folder
from dogwatch.model.jobs import JobRecord
from dogwatch.model.life import Finished, GivenUp, Interrupt, Life, NotStarted, Resting, Running
from dogwatch.model.lifecycle import AGENT, CHECKPOINT, HEALTH, MESSAGE, RUN, TASK
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Output
from dogwatch.model.process import ProcessId
from dogwatch.model.sight import Wait
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where a rehearsal plays: the folder with its scenario, its clients' homes and its copy of the project, and the
    port of the scripted model, which stays the same for as long as the run lives."""

    folder: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run: where it stands, where its files are, and how it ended. `returns` counts how often a review has sent it
    back to an earlier phase. A rehearsal has a `stage`."""

    run: str
    spec: str
    project_folder: Folder
    output_folder: Folder
    created: Moment
    state: str = RUN.first
    phase: int = 0
    returns: int = 0
    sensitive: bool = False
    deadline_s: float = 86400.0
    started: Moment | None = None
    ended: Moment | None = None
    cause: str = ""
    sha256: str = ""
    cleared: bool = False
    stage: Stage | None = None
    admitted: Moment | None = None
    """When it was let in from the queue; until then it has no captain and no agents."""

    @property
    def key(self) -> str:
        return keys.run(self.run)

    @property
    def project(self) -> str:
        """Where its agents work, on this host."""
        return self.project_folder.absolute

    @property
    def output(self) -> str:
        """Where its outputs go, on this host."""
        return self.output_folder.absolute

    @property
    def over(self) -> bool:
        return self.state in RUN.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledStall:
    """The stall that the latest alert was about. What was done about it may take until `again`; only then is the same
    stall told of once more."""

    stall: str
    again: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """A holder of a role: its current incarnation with its life, and its past.

    `life` is what becomes of its process, `busy` whether it has something to do, `health` an axis of its own. `host` is
    where its latest incarnation was started, `server` the tmux server there; both outlive the incarnation. `alerts`
    counts the alerts that were settled. `replaces` is the agent of the pipeline file whose place this one took.
    """

    run: str
    agent: str
    role: str
    incarnation: int = 0
    name: str = ""
    life: Life
    busy: bool = False
    host: str = ""
    server: ProcessId | None = None
    restarts: tuple[Moment, ...] = ()
    alerts: int = 0
    settled: SettledStall | None = None
    health: str = HEALTH.first
    stalled: Moment | None = None
    stall_count: int = 0
    replacement_count: int = 0
    last_heartbeat: Moment | None = None
    last_task_update: Moment | None = None
    conversation: int = 1
    """The incarnation that began the conversation which the current one goes on with."""
    answered: Moment | None = None
    """When another agent last acknowledged a letter of this one's: its answer may be on its way."""
    replaces: str = ""

    @property
    def state(self) -> str:
        """Its state in the lifecycle `AGENT`, for readers."""
        return agent_state(self.life.kind, busy=self.busy)

    @property
    def running(self) -> Running | None:
        """What is known of its process, while the agent is one of the living: the one place to ask that."""
        return self.life if isinstance(self.life, Running) else None

    @property
    def last(self) -> Running | None:
        """The same, also of an agent that has come to its end."""
        return self.life.last if isinstance(self.life, _ENDS) else self.running

    @property
    def process(self) -> ProcessId | None:
        """Its process, which may have to be ended also where the agent has come to its end."""
        life = self.life
        if isinstance(life, Running):
            return life.process
        if not isinstance(life, _ENDS) or life.last is None or (isinstance(life, GivenUp) and life.dismissed):
            return None
        return life.last.process

    @property
    def pane(self) -> str:
        """The tmux pane in which it runs."""
        return self.life.pane if isinstance(self.life, Running) else ""

    @property
    def is_given_up(self) -> bool:
        return isinstance(self.life, GivenUp)

    @property
    def is_over(self) -> bool:
        return isinstance(self.life, _ENDS)

    @property
    def cause(self) -> str:
        """Why it was given up."""
        return self.life.cause if isinstance(self.life, GivenUp) else ""

    @property
    def successor(self) -> str:
        """The agent that took its place."""
        return self.life.successor if isinstance(self.life, GivenUp) else ""

    @property
    def gate_reason(self) -> str:
        """Why the gate does not let the incarnation start yet."""
        return self.life.gate_reason if isinstance(self.life, _WAITING) else ""

    @property
    def nudges(self) -> int:
        """How often it was asked to go on with what it has to do now."""
        return self.life.nudges if isinstance(self.life, Running) else 0

    @property
    def probed(self) -> Moment | None:
        """Since when it owes a sign of life."""
        return self.life.probed if isinstance(self.life, Running) else None

    @property
    def interrupt(self) -> Interrupt | None:
        """How its open turn was interrupted."""
        return self.life.interrupt if isinstance(self.life, Running) else None

    def become(self, life: Life) -> AgentRecord:
        """The record with another life. An illegal step raises, and nothing happens."""
        changed = replace(self, life=life)
        if changed.state != self.state:
            before = AGENT.step(self.state, "HANDED_OFF") if isinstance(life, Finished) else self.state
            AGENT.step(before, changed.state)
        return changed

    def while_running(self, fn: Callable[[Running], Running]) -> AgentRecord:
        """The record with its running life changed by `fn`; as it is where it does not run."""
        return replace(self, life=fn(self.life)) if isinstance(self.life, Running) else self

    @property
    def place(self) -> str:
        """The agent of the pipeline file that it is or stands for."""
        return self.replaces or self.agent

    @property
    def key(self) -> str:
        return keys.agent(self.run, self.agent)

    @property
    def rings(self) -> tuple[str, ...]:
        """What keeps it from harming others, outermost first."""
        last = self.last
        return rings(sandboxed=last is not None and last.sandboxed, guarded=last is not None and last.guarded)

    def was_alerted(self, stall: str, now: Moment) -> bool:
        """Whether this very stall was settled a short while ago, and what was done about it may still work."""
        return self.settled is not None and self.settled.stall == stall and now.is_before(self.settled.again)

    @property
    def session(self) -> str:
        return f"{self.run}-{self.agent}"


_WAITING = (NotStarted, Resting)
_ENDS = (GivenUp, Finished)
_STATES = {"given_up": "ERROR", "finished": "SUCCEEDED"}


def agent_state(life: str, *, busy: bool) -> str:
    """The state in the lifecycle `AGENT` of an agent with a life of that kind."""
    return _STATES.get(life) or ("BUSY" if busy else "WAITING" if life == "running" else "CREATED")


def rings(*, sandboxed: bool, guarded: bool) -> tuple[str, ...]:
    """The guard's rings that hold for an agent. The wrappers are on every agent's PATH."""
    return (*(("namespace",) if sandboxed else ()), *(("hook",) if guarded else ()), "wrappers")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """The unit of work. `agent` is its holder, empty while any of `holders` may claim it; `former` is who held it last,
    where that one died or stalled.

    `marker` is what the expected outputs looked like when the task was dispatched: an output counts as written only
    where it looks different now, so that neither an old file nor a step of the wall clock can pass for a result.
    `expect_from` is where its expected time comes from. `sender` is the agent that has given it to another, by the call
    `op` at the door; empty for the captain's own.
    """

    run: str
    task: str
    dispatch: str
    phase: int
    holders: tuple[str, ...]
    text: str
    outputs: tuple[Output, ...] = ()
    risk: str = "normal"
    expect_s: float = 1800.0
    expect_from: str = ""
    attempts_max: int = 2
    state: str = TASK.first
    agent: str = ""
    former: str = ""
    incarnation: int = 0
    attempt: int = 0
    sends: int = 0
    dispatched: Moment | None = None
    delivered: Moment | None = None
    finished: Moment | None = None
    marker: Mapping[str, str] = field(default_factory=dict)
    rescued: bool = False
    note: str = ""
    sender: str = ""
    op: str = ""

    @property
    def key(self) -> str:
        return keys.task(self.run, self.task)

    @property
    def is_on_offer(self) -> bool:
        """Whether whoever was offered it may claim it. Once it was held, only the captain gives it out: the run may
        have been sent back to an earlier phase since."""
        return self.state == "pending" and not self.former


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a reviewer said of an artifact, in which round."""

    approve: bool
    note: str
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A review under way or done."""

    run: str
    checkpoint: str
    phase: int
    state: str = CHECKPOINT.first
    round: int = 0
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    notes: str = ""
    closed: Moment | None = None
    reopened: int = 0
    """How often a late DISAGREE has opened it again."""

    @property
    def key(self) -> str:
        return keys.checkpoint(self.run, self.checkpoint)

    def has_voted(self, agent: str) -> bool:
        """Whether the agent's verdict of the current round is there."""
        verdict = self.verdicts.get(agent)
        return verdict is not None and verdict.round == self.round


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A message to an agent: how far it has come with its reader, and while it is being typed or lies in the post box,
    how far on that way.

    `incarnation` is the one it is addressed to; a message for an earlier one is never delivered to a later.
    """

    run: str
    id: str
    to: str
    sender: str
    kind: str
    subject: str
    body: str
    queued: Moment
    incarnation: int
    delivery: Delivery
    typing: Typing | None = None
    tries: int = 0
    nudges: int = 0
    """How often the agent was asked for an answer, where it may also leave it at that."""

    @property
    def state(self) -> str:
        """Its state in the lifecycle `MESSAGE`."""
        return self.delivery.kind

    @property
    def is_over(self) -> bool:
        return isinstance(self.delivery, Acknowledged | Expired)

    @property
    def step(self) -> Step | None:
        """How far it has come on its way into the client; None where it is not on its way."""
        return self.typing.step if self.typing is not None else None

    @property
    def told(self) -> Moment | None:
        """When its reader got to know of it: from its client, or by reading it together with another."""
        match self.delivery:
            case Delivered(at=at):
                return at
            case Read(at=at, delivered=delivered):
                return delivered or at
            case _:
                return None

    def become(self, delivery: Delivery) -> MessageRecord:
        """The record with another delivery. An illegal step raises, and nothing happens."""
        if delivery.kind != self.delivery.kind:
            MESSAGE.step(self.delivery.kind, delivery.kind)
        return replace(self, delivery=delivery)

    @property
    def key(self) -> str:
        return keys.message(self.run, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRecord(JobRecord):
    """A gate's latest attempt: intended, then passed or failed."""

    phase: int
    gate: str
    state: str = "intended"
    exit_code: int | None = None
    reason: str = ""

    @property
    def key(self) -> str:
        return keys.gate(self.run, self.phase, self.gate)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewRecord:
    """One of dogwatch's own processes: which one it is now, on which host, and since when. `run` is empty for the
    dispatcher.

    `notifies` is whether its environment, which was read when it started, names a way to tell a person.
    """

    member: str
    run: str
    host: str
    process: ProcessId
    started: Moment
    starts: int = 1
    notifies: bool = False

    @property
    def key(self) -> str:
        return keys.crew(self.run, self.member) if self.run else keys.dispatcher(self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One action of the captain's: what it rested on, what else could have been done, and what came of it.

    `outcome` is empty until the effect was looked for: recovered, not_recovered or unverified.
    """

    run: str
    id: str
    agent: str
    incarnation: int
    action: str
    diagnosis: str
    alert: str
    subject: str = ""
    evidence: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    at: Moment
    verify_by: Moment
    outcome: str = ""
    seen: str = ""

    @property
    def key(self) -> str:
        named = keys.decision if self.outcome else keys.open_decision
        return named(self.run, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueSubagent:
    """A sub-agent that ran past its time without output: its parent was told, so many times, the last time at `told`.

    It is open until `settled` says how it ended: started_again, skipped (with a note), ended, lost or run_ended.
    """

    run: str
    agent: str
    incarnation: int
    id: str
    type: str
    limit_s: float
    ran_s: float
    opened: Moment
    told: Moment
    mails: int = 0
    called: bool = False
    settled: str = ""
    note: str = ""

    @property
    def key(self) -> str:
        # The client, and so the agent, chooses the id.
        digest = hashlib.sha256(f"{self.incarnation}:{self.id}".encode(errors="replace")).hexdigest()
        return keys.overdue_subagent(self.run, self.agent, digest[:16])


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWatch:
    """What the watchdog makes of an agent, since when, and how serious its silence is."""

    kind: str
    since: Moment
    confidence: float
    evidence: tuple[str, ...] = ()
    quiet_s: float = 0.0
    action: str = ""
    advice: str = ""
    stall: str = ""
    tier: int = 0
    screen: str = "unknown"
    source: str = ""
    waits_for: str = ""
    rss_bytes: int = 0
    context: float | None = None
    heard: float = 0.0
    """When its client's newest hook ran, on the monotonic clock; 0 for none."""
    subagents: int = 0
    """How many sub-agents run or are about to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRecord:
    """The watchdog's latest view of its run; only the watchdog writes it. `held` is why nothing is done for now,
    `written` the wall time of the newest output that was seen."""

    run: str
    at: Moment
    written: float = 0.0
    agents: Mapping[str, AgentWatch] = field(default_factory=dict)
    waits: tuple[Wait, ...] = ()
    held: str = ""

    @property
    def key(self) -> str:
        return keys.watch(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One of the captain's self-checks: ok, failed, unknown or not applicable, and since when."""

    number: int
    name: str
    what: str
    result: str
    detail: str = ""
    since: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksRecord:
    """The captain's latest round of self-checks."""

    run: str
    at: Moment
    results: tuple[CheckResult, ...] = ()

    @property
    def key(self) -> str:
        return keys.checks(self.run)
