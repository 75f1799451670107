"""The records of a run as they were at any time, made again from its events one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dogwatch.ledger.api import StoredEvent
from dogwatch.model.codec import decode
from dogwatch.model.delivery import Delivered, Queued, Read
from dogwatch.model.life import GivenUp, Interrupt, NotStarted, Running
from dogwatch.model.lifecycle import RUN, TASK
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Plan
from dogwatch.model.process import ProcessId
from dogwatch.model.records import (
    AgentRecord,
    CheckpointRecord,
    MessageRecord,
    OverdueSubagent,
    RunRecord,
    TaskRecord,
    Verdict,
)
from dogwatch.model.view import RunView

FORGOTTEN = ("canary", "refresh")
"""Messages that nothing is owed for once they are delivered."""


class Records:
    """What the ledger had of a run. `final` gives what never changes: the plan, and what the tasks are about."""

    def __init__(self, final: RunView) -> None:
        self._final = final
        first = {"state": RUN.first, "phase": 0, "returns": 0, "started": None, "ended": None, "cause": ""}
        self.run: RunRecord = replace(final.run, **first, sha256="", cleared=False)  # type: ignore[arg-type]
        roles = {name: role.name for role in final.plan.roles for name in role.agents()}
        self.agents = {
            name: AgentRecord(run=final.run.run, agent=name, role=role, incarnation=1, life=NotStarted())
            for name, role in roles.items()
        }
        self.tasks = {name: _unsent(task) for name, task in final.tasks.items() if not task.sender}
        self.checkpoints = {
            name: CheckpointRecord(run=one.run, checkpoint=name, phase=one.phase)
            for name, one in final.checkpoints.items()
        }
        self.messages: dict[str, MessageRecord] = {}
        self.overdue: dict[tuple[str, int, str], OverdueSubagent] = {}
        self.watched_since: Moment | None = None
        self.held_at: Moment | None = None
        self.progress: Moment | None = None
        self.unread = 0
        """How many events could not be understood."""
        self._views: dict[int, RunView] = {}

    def view(self, plan: Plan) -> RunView:
        """All of it as one snapshot, under this plan."""
        found = self._views.get(id(plan))
        if found is None:
            found = self._views[id(plan)] = RunView(
                plan=plan,
                run=self.run,
                agents=dict(self.agents),
                tasks=dict(self.tasks),
                checkpoints=dict(self.checkpoints),
                messages=dict(self.messages),
                overdue=tuple(self.overdue.values()),
            )
        return found

    def fold(self, event: StoredEvent) -> None:
        """One more event."""
        change = _CHANGES.get(event.kind)
        if change is None:
            return
        self._views = {}
        try:
            change(self, event, event.body)
        except (KeyError, TypeError, ValueError):
            # An older dogwatch has told less of it.
            self.unread += 1

    def _agent(self, name: str, **changes: Any) -> None:
        if name in self.agents:
            self.agents[name] = replace(self.agents[name], **changes)

    def _running(self, name: str, fn: Callable[[Running], Running]) -> None:
        if name in self.agents:
            self.agents[name] = self.agents[name].while_running(fn)

    def _task(self, name: object, **changes: Any) -> None:
        if str(name) in self.tasks:
            self.tasks[str(name)] = replace(self.tasks[str(name)], **changes)

    def _message(self, name: object, **changes: Any) -> None:
        if str(name) in self.messages:
            self.messages[str(name)] = replace(self.messages[str(name)], **changes)

    def _run_started(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self.run = replace(self.run, state="RUNNING", started=event.at)

    def _run_ended(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self.run = replace(self.run, state=str(body["state"]), ended=event.at, cause=str(body["cause"]))

    def _phase(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        names = [phase.name for phase in self._final.plan.phases]
        phase = names.index(str(body["phase"])) if body["phase"] in names else self.run.phase
        self.run = replace(self.run, phase=phase + (event.kind == "phase_ended"))
        if event.kind == "phase_opened":
            self.progress = event.at

    def _moved(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self.progress = event.at

    def _spawned(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        process = decode(ProcessId, body["process"])
        number = int(body["incarnation"])
        self._agent(event.agent, incarnation=number, life=Running(since=event.at, process=process))

    def _restarted(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        number = int(body["incarnation"])
        self._agent(event.agent, incarnation=number, life=NotStarted())
        for message in [one for one in self.messages.values() if one.to == event.agent and one.kind == "mail"]:
            self._message(message.id, incarnation=number, delivery=Queued())

    def _replaced(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        old, name = self.agents.get(event.agent), str(body["successor"])
        if old is None:
            return
        self._agent(old.agent, life=GivenUp(cause=str(body.get("reason", "")), successor=name))
        self.agents[name] = AgentRecord(
            run=old.run, agent=name, role=old.role, incarnation=1, life=NotStarted(), replaces=old.place
        )
        for task in [one for one in self.tasks.values() if one.agent == old.agent and one.state not in TASK.ends]:
            self._task(task.task, agent=name)
        for task in [one for one in self.tasks.values() if one.former == old.agent]:
            self._task(task.task, former=name)
        for message in [one for one in self.messages.values() if one.to == old.agent and one.kind == "mail"]:
            self._message(message.id, to=name, incarnation=1, delivery=Queued())

    def _staffed(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        name = event.agent
        self.agents[name] = AgentRecord(
            run=event.run, agent=name, role=str(body["role"]), incarnation=1, life=NotStarted()
        )

    def _quarantined(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self._agent(event.agent, life=GivenUp(cause=str(body.get("reason", ""))))

    def _nudged(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        subject, nudges = str(body["subject"]), int(body["nudges"])
        task = self.tasks.get(subject)
        if task is not None and task.state == "pending":
            about = [one.id for one in self.messages.values() if (one.kind, one.to) == ("offer", event.agent)]
            about = [one for one in about if self.messages[one].subject == subject]
        else:
            about = [subject] if subject in self.messages else []
        for message in about:
            self._message(message, nudges=nudges)
        if not about:
            self._running(event.agent, lambda life: replace(life, nudges=nudges))

    def _probed(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self._running(event.agent, lambda life: replace(life, probed=event.at))

    def _recovered(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self._agent(event.agent, stalled=None)
        self._running(event.agent, lambda life: replace(life, probed=None))

    def _stalled(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self._agent(event.agent, stalled=event.at)
        self._running(event.agent, lambda life: replace(life, probed=None))

    def _interrupted(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        interrupt = Interrupt(diagnosis=str(body["diagnosis"]), presses=(event.at,))
        self._running(event.agent, lambda life: replace(life, interrupt=interrupt))

    def _turn_ended(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self._running(event.agent, lambda life: replace(life, interrupt=None))

    def _task_sent(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        task = self._final.tasks.get(str(body["task"]))
        if task is not None:
            self.tasks[task.task] = _unsent(task)

    def _dispatched(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        task = self.tasks.get(str(body["task"]))
        if task is None:
            return
        holder = self.agents.get(event.agent)
        claimed = event.kind == "task_claimed"
        self.tasks[task.task] = replace(
            task,
            state="claimed",
            agent=event.agent,
            former="",
            incarnation=holder.incarnation if holder is not None else 0,
            sends=task.sends + 1,
            dispatched=event.at,
            delivered=event.at if claimed else None,
            expect_s=float(body.get("expect_s", task.expect_s)),
        )
        self._running(event.agent, lambda life: replace(life, nudges=0))

    def _task_ended(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        state = event.kind.removeprefix("task_")
        if state == "reported":
            self.progress = event.at
            if body.get("result") == "failed":
                return  # what becomes of it is told by the next event
        finished = event.at if state in ("accepted", "failed") else None
        self._task(body["task"], state="reported" if state == "rescued" else state, finished=finished)

    def _released(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self._task(body["task"], state="pending", agent="", former=event.agent, incarnation=0)

    def _message_sent(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        receiver = self.agents.get(event.agent)
        kind, subject = str(body["kind"]), str(body["subject"])
        if (kind == "checkpoint" and subject not in self.checkpoints) or (
            kind == "offer" and subject not in self.tasks
        ):
            return
        message = MessageRecord(
            run=event.run,
            id=str(body["message"]),
            to=event.agent,
            sender=str(body["sender"]),
            kind=kind,
            subject=subject,
            body="",
            queued=event.at,
            incarnation=receiver.incarnation if receiver is not None else 0,
            delivery=Queued(),
        )
        self.messages[message.id] = message

    def _delivered(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        name = str(body["message"])
        known = self.messages.get(name)
        if body.get("kind") in FORGOTTEN:
            self.messages.pop(name, None)
        elif known is not None:
            read = known.delivery if isinstance(known.delivery, Read) else None
            delivery = replace(read, delivered=event.at) if read is not None else Delivered(at=event.at)
            self.messages[name] = replace(known, delivery=delivery)
        task = self.tasks.get(str(body.get("subject")))
        if body.get("kind") == "dispatch" and task is not None and task.agent == event.agent:
            self._task(task.task, delivered=event.at)

    def _read(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        known = self.messages.get(str(body["message"]))
        told = known.told if known is not None else None
        self._message(body["message"], delivery=Read(at=event.at, delivered=told))

    def _put_away(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self.messages.pop(str(body["message"]), None)

    def _acknowledged(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        letter = self.messages.get(str(body["message"]))
        if letter is not None:
            sender = letter.sender
            while sender in self.agents and self.agents[sender].successor:
                sender = self.agents[sender].successor
            self._agent(sender, answered=event.at)
        self._put_away(event, body)

    def _asked(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        known = self.checkpoints.get(str(body["checkpoint"]))
        if known is not None:
            self.checkpoints[known.checkpoint] = replace(known, state="asked", round=int(body["round"]))
        for name in body.get("reviewers", ()):
            self._running(str(name), lambda life: replace(life, nudges=0))

    def _answered(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self.progress = event.at
        known = self.checkpoints.get(str(body["checkpoint"]))
        if known is not None:
            given = Verdict(approve=body["verdict"] == "approve", note="", round=int(body["round"]))
            verdicts = {**known.verdicts, str(body.get("by") or event.agent): given}
            self.checkpoints[known.checkpoint] = replace(known, verdicts=verdicts)

    def _closed(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        known = self.checkpoints.get(str(body["checkpoint"]))
        if known is not None:
            state = str(body.get("state", "revised"))
            closed = event.at if event.kind == "checkpoint_closed" else known.closed
            self.checkpoints[known.checkpoint] = replace(known, state=state, closed=closed)

    def _subagent_overdue(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        about = {name: body[name] for name in ("incarnation", "id", "type", "limit_s", "ran_s")}
        one = OverdueSubagent(run=event.run, agent=event.agent, **about, opened=event.at, told=event.at)
        self.overdue[one.agent, one.incarnation, one.id] = one

    def _acted(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        """Of a late sub-agent its parent was mailed, or a person called."""
        if body.get("diagnosis") != "subagent_overdue":
            return
        for key, one in self.overdue.items():
            if one.agent == event.agent and not one.settled:
                mails, called = one.mails + (body["action"] == "NUDGE"), one.called or body["action"] == "ESCALATE"
                self.overdue[key] = replace(one, mails=mails, called=called, told=event.at)

    def _subagent_settled(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        key = (event.agent, int(body["incarnation"]), str(body["id"]))
        if key in self.overdue:
            self.overdue[key] = replace(self.overdue[key], settled=str(body["how"]))

    def _crew(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        if body.get("member") == "watchdog":
            self.watched_since = event.at

    def _held(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        self.held_at = event.at


def _unsent(task: TaskRecord) -> TaskRecord:
    fresh: dict[str, Any] = {"state": TASK.first, "agent": "", "incarnation": 0, "attempt": 0, "sends": 0, "marker": {}}
    return replace(task, **fresh, former="", dispatched=None, delivered=None, finished=None, rescued=False, note="")


_CHANGES: Mapping[str, Callable[[Records, StoredEvent, Mapping[str, Any]], None]] = {
    "run_started": Records._run_started,
    "run_ended": Records._run_ended,
    "phase_opened": Records._phase,
    "phase_ended": Records._phase,
    "phase_reopened": Records._phase,
    "gate_passed": Records._moved,
    "agent_staffed": Records._staffed,
    "agent_spawned": Records._spawned,
    "agent_restarted": Records._restarted,
    "agent_reclaimed": Records._restarted,
    "agent_replaced": Records._replaced,
    "agent_quarantined": Records._quarantined,
    "agent_nudged": Records._nudged,
    "agent_probed": Records._probed,
    "agent_recovered": Records._recovered,
    "agent_stalled": Records._stalled,
    "agent_interrupted": Records._interrupted,
    "turn_ended": Records._turn_ended,
    "task_sent": Records._task_sent,
    "task_dispatched": Records._dispatched,
    "task_claimed": Records._dispatched,
    "task_reported": Records._task_ended,
    "task_rescued": Records._task_ended,
    "task_accepted": Records._task_ended,
    "task_returned": Records._task_ended,
    "task_released": Records._released,
    "task_failed": Records._task_ended,
    "message_sent": Records._message_sent,
    "message_delivered": Records._delivered,
    "message_read": Records._read,
    "message_acknowledged": Records._acknowledged,
    "message_expired": Records._put_away,
    "checkpoint_asked": Records._asked,
    "checkpoint_answered": Records._answered,
    "checkpoint_closed": Records._closed,
    "checkpoint_reopened": Records._closed,
    "subagent_overdue": Records._subagent_overdue,
    "action_taken": Records._acted,
    "subagent_settled": Records._subagent_settled,
    "crew_started": Records._crew,
    "crew_revived": Records._crew,
    "fleet_held": Records._held,
}
