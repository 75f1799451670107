"""Snapshots for decisions: what the ledger says of a run, and what was seen of its agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace
from typing import Any, Literal

from dogwatch.model.life import NotStarted
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits, Phase, Plan, Role
from dogwatch.model.records import (
    AgentRecord,
    CheckpointRecord,
    CrewRecord,
    GateRecord,
    MessageRecord,
    OverdueSubagent,
    RunRecord,
    TaskRecord,
)
from dogwatch.model.versions import InstructionsRecord, ReadingRecord
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True)
class Duty:
    """What an agent owes now: a task, a review, an answer to an offer or to a letter, and when it was told of it."""

    kind: Literal["task", "checkpoint", "offer", "mail"]
    subject: str
    delivered: Moment | None
    risk: str = "normal"
    expect_s: float = 0.0
    approved: str = ""
    """The checkpoint whose approval this task has waited for, and when it was given."""
    approved_at: Moment | None = None
    asked: Moment | None = None
    """When it was sent on its way, which is before it was delivered."""
    message: str = ""
    """The letter or the offer, which may need no answer; nudges for it are counted with it, not with the agent."""
    nudges: int = 0


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
    instructions: Mapping[str, InstructionsRecord] = field(default_factory=dict)
    """The newest version of each role's instructions, by role."""
    readings: Mapping[str, ReadingRecord] = field(default_factory=dict)
    """Which version each agent has, by agent."""
    overdue: Sequence[OverdueSubagent] = ()
    """Sub-agents that ran past their time, the settled ones too."""
    _index: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was looked up once: a sweep asks for every agent, and a search for each would take the square of it."""

    @property
    def phase(self) -> Phase | None:
        """The phase under way, or None when all are done."""
        return self.plan.phases[self.run.phase] if self.run.phase < len(self.plan.phases) else None

    def latest(self, now: Moment) -> Moment:
        """When the run or one of its tasks last took a step."""
        moments: list[Moment] | None = self._index.get("moments")
        if moments is None:
            known = [self.run.created, self.run.admitted, self.run.started]
            for task in self.tasks.values():
                known += [task.dispatched, task.delivered, task.finished]
            moments = self._index["moments"] = [moment for moment in known if moment is not None]
            if {moment.boot for moment in moments} == {now.boot}:
                # Of one boot, the latest stays the latest whenever it is asked for.
                self._index["latest"] = max(moments, key=lambda moment: moment.mono)
        latest: Moment | None = self._index.get("latest")
        return latest if latest is not None and latest.boot == now.boot else min(moments, key=now.since)

    def phase_tasks(self) -> tuple[TaskRecord, ...]:
        """The tasks of the phase under way."""
        return tuple(task for task in self.tasks.values() if task.phase == self.run.phase)

    def next_spawn_s(self, now: Moment) -> float:
        """Seconds until the earliest agent whose start was put off may start; a day where there is none."""
        put_off = [a.life.not_before for a in self.agents.values() if isinstance(a.life, NotStarted)]
        waits = [moment.mono - now.mono for moment in put_off if moment is not None and now.is_before(moment)]
        return min(waits, default=86400.0)

    def task_of(self, agent: str) -> TaskRecord | None:
        """The task that `agent` holds and has not yet reported, or None."""
        return self._held().get(agent)

    def _held(self) -> Mapping[str, TaskRecord]:
        held: dict[str, TaskRecord] | None = self._index.get("tasks")
        if held is None:
            claimed = [task for task in self.tasks.values() if task.state == "claimed"]
            held = self._index["tasks"] = {task.agent: task for task in reversed(claimed)}
        return held

    def sent_tasks(self) -> Sequence[TaskRecord]:
        """The tasks that agents have given to others and that are not settled."""
        sent: Sequence[TaskRecord] | None = self._index.get("sent")
        if sent is None:
            given = (task for task in self.tasks.values() if task.sender)
            sent = self._index["sent"] = tuple(task for task in given if task.state not in ("accepted", "failed"))
        return sent

    def messages_to(self, agent: str) -> Sequence[MessageRecord]:
        """All open messages to the current incarnation of `agent`, oldest first."""
        sorted_out: dict[str, list[MessageRecord]] | None = self._index.get("messages")
        if sorted_out is None:
            sorted_out = self._index["messages"] = {}
            for message in sorted(self.messages.values(), key=lambda m: (m.queued.wall, m.id)):
                receiver = self.agents.get(message.to)
                if receiver is not None and receiver.incarnation == message.incarnation:
                    sorted_out.setdefault(message.to, []).append(message)
        return sorted_out.get(agent, ())

    @property
    def not_running(self) -> Set[str]:
        """The agents that were not started yet, whose start is not confirmed, or that have come to their end."""
        found: frozenset[str] | None = self._index.get("not_running")
        if found is None:
            others = [name for name, agent in self.agents.items() if not agent.running]
            found = self._index["not_running"] = frozenset(others)
        return found

    def role_of(self, agent: str) -> Role | None:
        """The role that `agent` holds, or None where there is no such agent."""
        record = self.agents.get(agent)
        if record is None:
            return self.plan_role_of(agent)
        roles: dict[str, Role] | None = self._index.get("roles")
        if roles is None:
            roles = self._index["roles"] = {role.name: role for role in self.plan.roles}
        return roles.get(record.role)

    def plan_role_of(self, agent: str) -> Role | None:
        """The role that the plan gives to an agent of that name, or None where the plan does not name it."""
        named: dict[str, Role] | None = self._index.get("named")
        if named is None:
            named = self._index["named"] = {name: role for role in self.plan.roles for name in role.agents()}
        return named.get(agent)

    def current(self, agent: str) -> str:
        """Who stands in the agent's place now: itself, or who has replaced it."""
        while (record := self.agents.get(agent)) is not None and record.successor:
            agent = record.successor
        return agent

    def limits_of(self, agent: str) -> Limits:
        """The limits that hold for the agent now: those of what it does, of its role, of the pipeline."""
        if "plain" not in self._index:
            own_ones = [role.limits for role in self.plan.roles]
            own_ones += [dispatch.limits for phase in self.plan.phases for dispatch in phase.dispatches]
            self._index["plain"] = not any(own_ones)
        if self._index["plain"]:
            return self.plan.limits
        role, task = self.role_of(agent), self.task_of(agent)
        own = dict(role.limits) if role is not None else {}
        if task is not None:
            own |= next((d.limits for d in self.plan.phases[task.phase].dispatches if d.name == task.dispatch), {})
        return replace(self.plan.limits, **own) if own else self.plan.limits  # type: ignore[arg-type]

    def reading_of(self, agent: str) -> ReadingRecord | None:
        """Which version the agent's current incarnation was told of; None where it was told of none."""
        found = self.readings.get(agent)
        return found if found is not None and found.incarnation == self.agents[agent].incarnation else None

    def overdue_of(self, agent: str) -> dict[str, OverdueSubagent]:
        """The overdue sub-agents of the agent's current incarnation, by id."""
        if not self.overdue:
            return {}
        incarnation = self.agents[agent].incarnation
        return {one.id: one for one in self.overdue if (one.agent, one.incarnation) == (agent, incarnation)}

    def owes(self, agent: str) -> bool:
        """Whether there is anything that the agent may have to do: a task, or any message to it."""
        return agent in self._held() or bool(self.messages and self.messages_to(agent))

    def duty_of(self, agent: str) -> Duty | None:
        """What `agent` owes now, or None where it may be idle for ever."""
        duties: dict[str, Duty | None] = self._index.setdefault("duties", {})
        if agent not in duties:
            duties[agent] = self._duty_of(agent)
        return duties[agent]

    def _duty_of(self, agent: str) -> Duty | None:
        task = self.task_of(agent)
        if task is not None:
            approval = self._approval_before(task)
            name, given = (approval.checkpoint, approval.closed) if approval is not None else ("", None)
            return Duty("task", task.task, task.delivered, task.risk, task.expect_s, name, given, task.dispatched)
        optional: Duty | None = None
        for message in reversed(self.messages_to(agent)):
            if message.kind == "checkpoint":
                record = self.checkpoints[message.subject]
                if record.state == "asked" and not record.has_voted(agent):
                    return Duty("checkpoint", message.subject, message.told, asked=message.queued)
            optional = optional or self._optional(message)
        return optional

    def _optional(self, message: MessageRecord) -> Duty | None:
        more: dict[str, Any] = {"asked": message.queued, "message": message.id, "nudges": message.nudges}
        if message.kind == "offer" and self.tasks[message.subject].is_on_offer:
            return Duty("offer", message.subject, message.told, **more)
        if message.kind == "mail" and message.state in ("delivered", "read"):
            return Duty("mail", message.id, message.told, **more)
        return None

    def _approval_before(self, task: TaskRecord) -> CheckpointRecord | None:
        """The latest checkpoint that was approved before the task was sent."""
        if not self.checkpoints or task.dispatched is None:
            return None
        closed = [(c.closed.wall, c) for c in self.checkpoints.values() if c.state == "approved" and c.closed]
        before = [(wall, c) for wall, c in closed if wall <= task.dispatched.wall]
        return max(before, key=lambda pair: pair[0])[1] if before else None

    def waiting_messages(self, agent: str) -> tuple[MessageRecord, ...]:
        """What is queued for the current incarnation of `agent`, oldest first; before it, what is being typed: that
        must be brought to its end, also where the agent has read it in the meantime."""
        queues: dict[str, tuple[MessageRecord, ...]] = self._index.setdefault("waiting", {})
        if agent not in queues:
            waiting = [message for message in self.messages_to(agent) if message.step or message.state == "queued"]
            queues[agent] = tuple(sorted(waiting, key=lambda message: not message.step))
        return queues[agent]
