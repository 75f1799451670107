"""A diagnosis, all that it rests on, and what the questions about open turns and idle prompts have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.records import AgentRecord, OverdueSubagent
from dogwatch.model.sight import SCREEN, STATE_FILE, Child, Sight, Subagent, Wait
from dogwatch.model.view import Duty
from dogwatch.policy.diagnoses import DIAGNOSES, Action, Kind, Traits
from dogwatch.values import dataclass

CERTAIN, SURE, TOLD, LIKELY = 1.0, 0.95, 0.85, 0.7
"""How sure a diagnosis is that rests on the process, on the client's hooks, on its state file, on its screen alone."""
SOURCES = ("process", "hooks", STATE_FILE, SCREEN, "files", "ledger", "mail", "tmux")
"""What a line of evidence begins with, and a colon."""
CONTEXT_FULL = "context_full"
"""The failure of a turn into whose context nothing more fits."""
Owed = Duty | None | Callable[[], Duty | None]
"""What an agent owes, or the way to find it."""
IDLE_CORES = 0.05
"""Who uses less cpu than this only waits."""


@dataclass(frozen=True, slots=True)
class Late:
    """A sub-agent that has run past its time: how long, how long it may, and what its parent was told of it so far."""

    subagent: Subagent
    ran_s: float
    limit_s: float
    told: OverdueSubagent | None = None


# Not frozen, though nobody changes one: a frozen one takes three times as long to make, for every agent in every sweep.
@dataclass(slots=True, kw_only=True)
class Diagnosis:
    """What an agent is doing. `stall` names this very stall: it changes with any progress, so that one stall gives
    one alert. `action` is empty where nothing should be done, and `advice` says the same in words. `own_fault` is
    whether the agent itself has failed; `waits_for` is whom or what it waits for; with `retell` it may have forgotten
    what it was told. `late` is the sub-agent that it is about."""

    kind: Kind
    confidence: float = SURE
    evidence: tuple[str, ...] = ()
    quiet_s: float = 0.0
    action: Action = ""
    advice: str = "nothing to do"
    stall: str = ""
    own_fault: bool = True
    waits_for: str = ""
    retell: bool = False
    late: Late | None = None

    @property
    def traits(self) -> Traits:
        """What holds for every diagnosis of this kind."""
        return DIAGNOSES[self.kind]

    @property
    def source(self) -> str:
        """What it rests on first of all; empty where it has no evidence of that form."""
        head = self.evidence[0].partition(":")[0] if self.evidence else ""
        return head if head in SOURCES else ""


@dataclass(slots=True)
class Case:
    """All that a diagnosis rests on. `awaited` are the letters and sent tasks of this agent's that others have not
    settled, `ring` the agents that wait for one another, this one included; `time_limits` is the pipeline's table,
    `overdue` what the ledger has of this incarnation's sub-agents that were late, by id, `coming` the newest sign that
    mail for it is coming. What the agent owes may be given as the way to find it: most diagnoses do not ask."""

    agent: AgentRecord
    owed: Owed
    sight: Sight
    limits: Limits
    now: Moment
    awaited: Sequence[Wait] = ()
    ring: Sequence[str] = ()
    time_limits: Mapping[str, float] = field(default_factory=dict)
    overdue: Mapping[str, OverdueSubagent] = field(default_factory=dict)
    coming: Wait | None = None

    @property
    def duty(self) -> Duty | None:
        """What the agent owes now."""
        return self.owed if self.owed is None or isinstance(self.owed, Duty) else self.owed()

    def age(self, mono: float) -> float:
        """Seconds since then."""
        return max(0.0, self.now.mono - mono)

    @property
    def shown(self) -> float:
        """How sure it is what the client shows that it is doing."""
        return TOLD if self.sight.source == STATE_FILE else LIKELY

    def stall(self, *parts: object) -> str:
        """The name of a stall of this incarnation."""
        return f"#{self.agent.incarnation}:" + ":".join(str(part) for part in parts)

    def approval(self, duty: Duty) -> str:
        """What was approved, and what has come of it."""
        return f"ledger: {duty.approved} was approved, and nothing of {duty.subject} is written since"

    @property
    def chain(self) -> str:
        """The ring in words."""
        return " waits for ".join((*self.ring, self.ring[0]))

    @property
    def next_in_ring(self) -> str:
        """Whom this agent waits for there."""
        return self.ring[(list(self.ring).index(self.agent.agent) + 1) % len(self.ring)]


def any_new(sight: Sight) -> bool:
    """Whether any expected output was written since the dispatch."""
    return any(output.is_new for output in sight.outputs)


def file_mono(case: Case, changed: float | None = None) -> float:
    """When an output last changed, on the monotonic clock. Files have wall times: one from the future says nothing."""
    changed = case.sight.outputs_changed if changed is None else changed
    return case.now.mono - (case.now.wall - changed) if 0 < changed <= case.now.wall else 0.0


def has_client(case: Case) -> bool:
    """Whether the process that the hooks name is still there; true where that cannot be told."""
    tree, pid = case.sight.tree, case.sight.turn.pid
    if tree is None or not pid or case.agent.process is None:
        return True
    return pid == case.agent.process.pid or any(child.pid == pid for child in tree.children)


def tool_child(case: Case) -> Child | None:
    """The oldest process that was started since the oldest open tool call was. What earlier calls have left running
    says nothing of this one."""
    tree, turn = case.sight.tree, case.sight.turn
    if tree is None or not turn.tools:
        return None
    begun_s = case.now.mono - min([tool.since for tool in turn.tools.values()]) + 1.0
    for child in tree.children:
        if child.age_s <= begun_s and child.pid != turn.pid:
            return child
    return None


def is_alive(case: Case, child: Child | None) -> bool:
    """Whether there is a sign of life under an open turn: a tool's process, cpu time, a screen that changes."""
    tree = case.sight.tree
    if tree is not None and tree.stopped:
        return False
    return child is not None or case.age(max(case.sight.life, case.sight.watched_since)) < case.limits.nudge_s


def stalled(case: Case, quiet_s: float) -> Diagnosis:
    """A turn is open, and nothing at all comes from it: no hook, no cpu, no child, a screen that stands still."""
    tree = case.sight.tree
    state = "its process is stopped by a signal" if tree and tree.stopped else "no cpu, no tool"
    open_ = "a turn is open" if case.sight.turn.state == "working" else "no turn is open, the screen shows work"
    return Diagnosis(
        kind="stalled",
        evidence=(f"hooks: {open_}, nothing for {quiet_s:.0f} s", f"process: {state}", "screen: it stands still"),
        quiet_s=quiet_s,
        action="PROBE",
        advice="ask for a sign of life, then start it again",
        stall=case.stall("hang", f"{case.sight.turn.newest:.3f}"),
    )
