"""Snapshots for decisions: what the ledger says of a run, and what was seen of its agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Phase, Plan
from dogwatch.model.records import (
    AgentRecord,
    CheckpointRecord,
    CrewRecord,
    GateRecord,
    MessageRecord,
    RunRecord,
    TaskRecord,
)


@dataclass(frozen=True, slots=True)
class Duty:
    """What an agent owes now: a task, a review, or an answer to an offer, and when it was told of it."""

    kind: Literal["task", "checkpoint", "offer"]
    subject: str
    delivered: Moment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """Everything the ledger keeps of one run, as of one instant."""

    plan: Plan
    run: RunRecord
    agents: Mapping[str, AgentRecord] = field(default_factory=dict)
    tasks: Mapping[str, TaskRecord] = field(default_factory=dict)
    checkpoints: Mapping[str, CheckpointRecord] = field(default_factory=dict)
    messages: Mapping[str, MessageRecord] = field(default_factory=dict)
    gates: Mapping[tuple[int, str], GateRecord] = field(default_factory=dict)
    crew: Mapping[str, CrewRecord] = field(default_factory=dict)

    @property
    def phase(self) -> Phase | None:
        """The phase under way, or None when all are done."""
        return self.plan.phases[self.run.phase] if self.run.phase < len(self.plan.phases) else None

    def phase_tasks(self) -> tuple[TaskRecord, ...]:
        """The tasks of the phase under way."""
        return tuple(task for task in self.tasks.values() if task.phase == self.run.phase)

    def next_spawn_s(self, now: Moment) -> float:
        """Seconds until the earliest agent whose start was put off may start; a day where there is none."""
        put_off = [a.not_before for a in self.agents.values() if a.process is None and a.state != "ERROR"]
        waits = [moment.mono - now.mono for moment in put_off if moment is not None and now.is_before(moment)]
        return min(waits, default=86400.0)

    def task_of(self, agent: str) -> TaskRecord | None:
        """The task that `agent` holds and has not yet reported, or None."""
        return next((t for t in self.tasks.values() if t.agent == agent and t.state == "claimed"), None)

    def duty_of(self, agent: str) -> Duty | None:
        """What `agent` owes now, or None where it may be idle for ever."""
        task = self.task_of(agent)
        if task is not None:
            return Duty("task", task.task, task.delivered)
        incarnation = self.agents[agent].incarnation
        mine = (m for m in self.messages.values() if m.to == agent and m.incarnation == incarnation)
        for message in sorted(mine, key=lambda m: (m.queued.wall, m.id), reverse=True):
            if message.kind == "checkpoint":
                record = self.checkpoints[message.subject]
                if record.state == "asked" and not record.has_voted(agent):
                    return Duty("checkpoint", message.subject, message.delivered)
            if message.kind == "offer" and self.tasks[message.subject].state == "pending":
                return Duty("offer", message.subject, message.delivered)
        return None

    def waiting_messages(self, agent: str) -> tuple[MessageRecord, ...]:
        """What is queued for the current incarnation of `agent`, oldest first; before it, what is being typed: that
        must be brought to its end, also where the agent has read it in the meantime."""
        incarnation = self.agents[agent].incarnation
        mine = (m for m in self.messages.values() if m.to == agent and m.incarnation == incarnation)
        waiting = (m for m in mine if m.step or m.state == "queued")
        return tuple(sorted(waiting, key=lambda m: (not m.step, m.queued.wall, m.id)))


@dataclass(frozen=True, slots=True)
class Turn:
    """What the client's own hooks say: none (not started), idle or working, and since when on the monotonic clock.

    `receipts` are the ids of dogwatch's messages that the client has submitted, with the time.
    """

    state: Literal["none", "idle", "working"] = "none"
    since: float = 0.0
    newest: float = 0.0
    pid: int = 0
    receipts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was seen of an agent at one instant. `unknown` means that the look failed, never that nothing is there.

    `own_fault` is whether a death can be the agent's own failure: a reboot is nobody's. Without `hooks` the client
    says nothing of its turns: whatever it does looks alike.
    """

    process: Literal["alive", "dead", "unknown"] = "unknown"
    session: Literal["alive", "dead", "gone", "unknown"] = "unknown"
    own_fault: bool = True
    hooks: bool = True
    turn: Turn = Turn()
    screen: str = "unknown"
    composer: str | None = None
    lines: tuple[str, ...] = ()
    outputs_fresh: bool = False
    outputs_changed: float = 0.0
