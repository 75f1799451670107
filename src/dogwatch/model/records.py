"""What the ledger keeps of a run: one frozen record for each thing, under one key.

Only the captain that holds the run's lease writes them; everybody may read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field

from dogwatch.model import keys
from dogwatch.model.jobs import JobRecord
from dogwatch.model.lifecycle import AGENT, CHECKPOINT, HEALTH, MESSAGE, RUN, TASK
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Output
from dogwatch.model.process import ProcessId
from dogwatch.model.sight import Wait
from dogwatch.model.values import dataclass


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
    project: str
    output: str
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
    def over(self) -> bool:
        return self.state in RUN.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """A holder of a role: its current incarnation, that incarnation's process, and its past.

    `intended` without `process` is a spawn under way; both make the spawn registry's entry. `server` is the tmux
    server that holds it. `alerts` counts the alerts that were settled, `stall` is what the latest was about. `health`
    is an axis of its own; `probed` is since when the agent owes a sign of life, `interrupts` when its open turn was
    interrupted, until that turn has ended. `replaces` is the agent of the pipeline file whose place this one took,
    `successor` the one that took this one's.
    """

    run: str
    agent: str
    role: str
    state: str = AGENT.first
    incarnation: int = 0
    name: str = ""
    intended: Moment | None = None
    process: ProcessId | None = None
    pane: str = ""
    server: ProcessId | None = None
    confirmed: Moment | None = None
    nudges: int = 0
    restarts: tuple[Moment, ...] = ()
    not_before: Moment | None = None
    alerts: int = 0
    stall: str = ""
    stall_again: Moment | None = None
    cause: str = ""
    health: str = HEALTH.first
    probed: Moment | None = None
    interrupts: tuple[Moment, ...] = ()
    interrupted: str = ""
    """What its open turn was interrupted for."""
    stalled: Moment | None = None
    stall_count: int = 0
    replacement_count: int = 0
    last_heartbeat: Moment | None = None
    last_task_update: Moment | None = None
    progress_percent: float | None = None
    """How far it last said it was with what it does now."""
    guarded: int = 0
    """The incarnation whose guard was seen to fire."""
    sandboxed: bool = False
    conversation: int = 1
    """The incarnation that began the conversation which the current one goes on with."""
    answered: Moment | None = None
    """When another agent last acknowledged a letter of this one's: its answer may be on its way."""
    replaces: str = ""
    successor: str = ""
    held: str = ""
    """Why the gate does not let the incarnation start yet."""
    resting: str = ""
    """Why it is not started until there is work for it: it was reclaimed."""

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
        return rings(sandboxed=self.sandboxed, guarded=self.guarded == self.incarnation > 0)

    def was_alerted(self, stall: str, now: Moment) -> bool:
        """Whether this very stall was settled a short while ago, and what was done about it may still work."""
        return self.stall == stall and self.stall_again is not None and now.is_before(self.stall_again)

    @property
    def session(self) -> str:
        return f"{self.run}-{self.agent}"


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
    """A message to an agent. `step` is how far the typing of it has come: pasting, pasted, entering, entered.

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
    state: str = MESSAGE.first
    step: str = ""
    step_at: Moment | None = None
    tries: int = 0
    delivered: Moment | None = None
    read: Moment | None = None
    acknowledged: Moment | None = None
    nudges: int = 0
    """How often the agent was asked for an answer, where it may also leave it at that."""

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
    """One of dogwatch's own processes: which one it is now, and since when. `run` is empty for the dispatcher.

    `notifies` is whether its environment, which was read when it started, names a way to tell a person.
    """

    member: str
    run: str
    process: ProcessId
    started: Moment
    starts: int = 1
    notifies: bool = False

    @property
    def key(self) -> str:
        return keys.crew(self.run, self.member)


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
