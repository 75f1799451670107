"""What agents may ask at the door, each fenced by incarnation and counted once by its operation id."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dogwatch.coordination.instructions import HELD, debt, keep_back
from dogwatch.coordination.mail import letter, put_away, send
from dogwatch.coordination.reviews import hear_mail, reopen
from dogwatch.coordination.subagents import settle
from dogwatch.coordination.tasks import assign, check_counter, dispatch_text, outputs_for, return_or_fail
from dogwatch.crew.captain.helm import Helm
from dogwatch.errors import DogwatchError, LedgerError, RefusedError, StaleError, UnmarkedError, UsageError
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, load, load_all, load_run, save
from dogwatch.model.events.clients import HeartbeatReceived, RequestRefused
from dogwatch.model.events.mail import MessageAcknowledged, MessageRead
from dogwatch.model.events.reviews import CheckpointAnswered
from dogwatch.model.events.tasks import TaskClaimed, TaskRefused, TaskReported, TaskSent
from dogwatch.model.lifecycle import MESSAGE, TASK
from dogwatch.model.names import NAME
from dogwatch.model.plan import Output
from dogwatch.model.records import AgentRecord, CheckpointRecord, MessageRecord, TaskRecord, Verdict
from dogwatch.model.view import RunView
from dogwatch.policy import route
from dogwatch.policy.markers import HINT as MARKER_HINT
from dogwatch.policy.markers import claims_to_be_a_task, imitates_header, wrong_marker, wrong_task

NOTE_BYTES_MAX = 16 * 1024
MAIL_BYTES_MAX = 256 * 1024
TASK_BYTES_MAX = 64 * 1024
INBOX_MAX = 100
INBOX_BYTES_MAX = 2 * 1024 * 1024

Answer = dict[str, Any]
Handler = Callable[[Helm, Tx, RunView, AgentRecord, Mapping[str, Any]], Answer]


def answer(helm: Helm, body: Mapping[str, Any]) -> Answer:
    """Does what is asked and says what came of it. A refusal is recorded and changes nothing else."""
    try:
        op = _text(body, "op")
        handler = HANDLERS.get(op)
        if handler is None:
            raise UsageError(f"there is no operation {op!r} at the door", hint=f"known: {', '.join(sorted(HANDLERS))}")
        return {"ok": True, **helm.record(lambda tx: _handle(helm, tx, handler, body))}
    except LedgerError as error:
        # The caller shall try again: nothing was recorded, so nothing was done.
        return {"ok": False, "code": "busy", "message": error.message, "hint": error.hint}
    except DogwatchError as error:
        _record_refusal(helm, body, error.code, error.message)
        return {"ok": False, "code": error.code, "message": error.message, "hint": error.hint}
    except Exception as error:
        # Whatever an agent sends, it must not end the captain of all the others.
        helm.log.error("request_failed", error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        return {"ok": False, "code": "refused", "message": "the captain could not make sense of it", "hint": ""}


def _handle(helm: Helm, tx: Tx, handler: Handler, body: Mapping[str, Any]) -> Answer:
    view = load_run(tx, helm.run)
    name = _text(body, "agent")
    agent = view.agents.get(name)
    incarnation = body.get("incarnation")
    if agent is None or body.get("run") != helm.run:
        raise RefusedError(
            f"{name} is no agent of {helm.run}", hint="leave DOGWATCH_RUN and DOGWATCH_ROLE as they were set"
        )
    if type(incarnation) is not int or incarnation != agent.incarnation:
        raise StaleError(
            f"incarnation {incarnation} of {name} is gone; {agent.incarnation} is current",
            hint="this process belongs to a replaced agent and should end",
        )
    if agent.successor:
        raise StaleError(f"{name} was replaced by {agent.successor}", hint="this process should end")
    if view.run.over:
        raise RefusedError(f"{helm.run} is over ({view.run.state})")
    told = handler(helm, tx, view, agent, body)
    # Whatever an agent asks for, it lives.
    change(tx, AgentRecord, agent.key, lambda a: replace(a, last_heartbeat=tx.now))
    return told


def report(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    task = _own_task(view, agent, str(body.get("task") or ""))
    result, note = _text(body, "result"), _note(helm, body)
    if result not in ("done", "failed"):
        raise UsageError(f"a report is done or failed, not {result!r}")
    if task.state in ("reported", "accepted"):
        return {"task": task.task, "state": task.state}
    if task.state != "claimed":
        raise RefusedError(f"{task.task} is {task.state}, not yours to report")
    event = TaskReported(
        task=task.task, result="done" if result == "done" else "failed", note=note, run=agent.run, agent=agent.agent
    )
    if not tx.append(event, _op(body)):
        # The same call came before and its answer was lost; since then the task has been given out anew.
        return {"task": task.task, "state": task.state}
    if result == "failed":
        return_or_fail(tx, task, note or "reported as failed")
        return {"task": task.task, "state": "failed"}
    save(tx, replace(task, state=TASK.step(task.state, "reported"), note=note))
    return {"task": task.task, "state": "reported"}


def claim(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    task = view.tasks.get(_text(body, "task"))
    if task is None or agent.agent not in task.holders:
        raise RefusedError(f"{body['task']} is not offered to {agent.agent}")
    if task.state == "claimed" and task.agent == agent.agent and task.incarnation == agent.incarnation:
        return {"task": task.task, "text": dispatch_text(view, task, agent)}
    if task.state != "pending":
        raise RefusedError(f"{task.task} is {task.state} already", hint="wait for the next offer")
    held = view.task_of(agent.agent)
    if held is not None:
        raise RefusedError(f"{agent.agent} holds {held.task} already", hint="report it first")
    marker = helm.world.eyes.marker(view.run.output, outputs_for(view, task, agent))
    taken = replace(assign(tx, view, task, agent, marker), delivered=tx.now)
    save(tx, taken)
    check_counter(tx, helm.run)
    tx.append(TaskClaimed(task=task.task, run=agent.run, agent=agent.agent), _op(body))
    return {"task": task.task, "text": dispatch_text(view, taken, agent)}


def checkpoint(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    name, verdict, note = _text(body, "checkpoint"), _text(body, "verdict"), _note(helm, body)
    record = view.checkpoints.get(name)
    if record is None:
        raise RefusedError(
            f"there is no checkpoint {name!r} open", hint=f"open: {', '.join(view.checkpoints) or 'none'}"
        )
    if verdict not in ("approve", "revise"):
        raise UsageError(f"a verdict is approve or revise, not {verdict!r}")
    plan = route.checkpoint_plan(view, name)
    authors = {view.current(task.agent) for task in view.tasks.values() if task.dispatch == plan.author}
    if agent.agent in authors:
        raise RefusedError(f"{agent.agent} is the author of {plan.artifact} and may not review it")
    if agent.agent not in plan.reviewers:
        raise RefusedError(f"{agent.agent} is no reviewer of {name}")
    if record.state == "approved" and verdict == "revise":
        return _disagree(tx, view, agent, record, note, _op(body))
    if record.has_voted(agent.agent):
        return {"checkpoint": name, "state": record.state}
    if record.state != "asked":
        raise RefusedError(f"{name} is {record.state}: nobody was asked")
    event = CheckpointAnswered(
        checkpoint=name,
        verdict="approve" if verdict == "approve" else "revise",
        round=record.round,
        note=note,
        run=agent.run,
        agent=agent.agent,
    )
    if tx.append(event, _op(body)):
        given = Verdict(approve=verdict == "approve", note=note, round=record.round)
        save(tx, replace(record, verdicts={**record.verdicts, agent.agent: given}))
    return {"checkpoint": name, "state": record.state}


def _disagree(tx: Tx, view: RunView, agent: AgentRecord, record: CheckpointRecord, note: str, op_id: str) -> Answer:
    """A reviewer has changed its mind after the approval: the step is opened again."""
    event = CheckpointAnswered(
        checkpoint=record.checkpoint,
        verdict="revise",
        round=record.round,
        note=note,
        run=agent.run,
        agent=agent.agent,
    )
    if tx.append(event, op_id):
        reopen(tx, view, record, agent.agent, note or "please revise", op_id)
    found = load(tx, CheckpointRecord, record.key)
    return {"checkpoint": record.checkpoint, "state": found.state if found is not None else record.state}


def subagent_skip(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    """The parent goes on without a sub-agent that is overdue, and says why."""
    kind, note = _text(body, "type"), _note(helm, body)
    if not note.strip():
        raise UsageError("a skip is documented with a note", hint='dogwatch subagent skip TYPE --note "why"')
    own = view.overdue_of(agent.agent).values()
    found = [one for one in own if kind in (one.type, one.id)]
    if not found:
        open_ones = ", ".join(one.type for one in own if not one.settled)
        raise RefusedError(f"no sub-agent {kind!r} of {agent.agent} is overdue", hint=f"overdue: {open_ones or 'none'}")
    for one in found:
        if not one.settled:
            settle(tx, one, "skipped", note)
    return {"type": kind, "skipped": len(found)}


def heartbeat(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    progress = body.get("progress_percent")
    if progress is not None and (
        isinstance(progress, bool) or not isinstance(progress, int | float) or not 0 <= progress <= 100
    ):
        raise UsageError("progress_percent is a number from 0 to 100")
    held = view.task_of(agent.agent)
    event = HeartbeatReceived(
        task=held.task if held else "", progress_percent=progress, run=agent.run, agent=agent.agent
    )
    if tx.append(event, _op(body)) and progress is not None:
        change(tx, AgentRecord, agent.key, lambda a: replace(a, progress_percent=float(progress)))
    return {}


def mail_send(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    to, text = _text(body, "to"), _text(body, "text")
    receiver = view.agents.get(view.current(to))
    if receiver is None:
        raise RefusedError(f"there is no agent {to!r} in {helm.run}", hint=f"agents: {', '.join(view.agents)}")
    if len(text.encode()) > MAIL_BYTES_MAX:
        raise UsageError(f"the mail is larger than {MAIL_BYTES_MAX} bytes", hint="write a file and mail its path")
    if claims_to_be_a_task(text):
        raise UnmarkedError("a task does not go as plain mail: it needs a marker", hint=MARKER_HINT)
    owed = debt(tx, agent)
    kept_back = load_all(tx, MessageRecord, f"{HELD}/{helm.run}/") if view.instructions else ()
    letters = [one for one in (*view.messages.values(), *kept_back) if one.kind == "mail"]
    # A letter that is kept back may still name the agent that the receiver has replaced.
    inbox = [one for one in letters if view.current(one.to) == receiver.agent]
    if len(inbox) >= INBOX_MAX or sum(len(one.body) for one in inbox) > INBOX_BYTES_MAX:
        full = f"the inbox of {receiver.agent} is full: {len(inbox)} letters wait"
        raise RefusedError(full, hint=f"{receiver.agent} must acknowledge some first")
    message = letter(tx, receiver, "mail", f"from-{agent.agent}", text, sender=agent.agent, key=_op(body))
    if owed is not None:
        keep_back(tx, message, owed.version)
        return {"message": message.id, "held": f"held until you have read {view.instructions[agent.role].path}"}
    if any(one.sender == agent.agent for one in kept_back):
        keep_back(tx, message, view.instructions[agent.role].version)  # in a moment, after those before it
        return {"message": message.id}
    send(tx, receiver, "mail", f"from-{agent.agent}", text, sender=agent.agent, key=_op(body))
    hear_mail(tx, view, message, helm.log.redactor)
    return {"message": message.id}


def task_send(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    """One agent's task for another: with its marker it becomes a task of the run, without one it is refused."""
    to, text, expect_s, paths = _text(body, "to"), _text(body, "text"), body.get("expect_s"), body.get("outputs")
    known = next((task for task in view.tasks.values() if task.op and task.op == _op(body)), None)
    if known is not None:
        return {"task": known.task}  # the same call came before and its answer was lost
    if wrong := wrong_marker(expect_s, paths):
        raise UnmarkedError(wrong, hint=MARKER_HINT)
    if imitates_header(text):
        raise RefusedError("a line of it looks like a header of the captain's", hint="leave out [dogwatch:…]")
    outputs = tuple(Output(path=_clean(path, "an output")) for path in paths or ())
    if len(text.encode()) > TASK_BYTES_MAX:
        raise UsageError(f"the task is larger than {TASK_BYTES_MAX} bytes", hint="write a file and name its path")
    if debt(tx, agent) is not None:
        path = view.instructions[agent.role].path
        raise RefusedError("what you send to others is held", hint=f"read {path} first, then send it again")
    if wrong := wrong_task(view, agent, to, [output.path for output in outputs]):
        raise RefusedError(wrong, hint=f"agents: {', '.join(view.agents)}")
    number = sum(task.sender == agent.agent for task in view.tasks.values()) + 1
    task = TaskRecord(
        run=helm.run,
        task=f"{agent.agent}.{number}",
        dispatch=f"{agent.agent}.{number}",
        phase=view.run.phase,
        holders=(view.current(to),),
        text=text,
        outputs=outputs,
        expect_s=float(expect_s or 0.0),
        expect_from=f"given by {agent.agent}",
        sender=agent.agent,
        op=_op(body),
    )
    save(tx, task)
    event = TaskSent(
        task=task.task,
        to=task.holders[0],
        expect_s=task.expect_s,
        outputs=tuple(paths or ()),
        run=agent.run,
        agent=agent.agent,
    )
    tx.append(event, _op(body))
    return {"task": task.task}


def mail_read(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    """All mail that is not acknowledged yet; reading marks it read, wherever it was on its way."""
    found = []
    for message in sorted(view.messages.values(), key=lambda m: (m.queued.wall, m.id)):
        if message.to != agent.agent or message.kind != "mail" or message.state in MESSAGE.ends:
            continue
        if message.state != "read":
            save(tx, replace(message, state=MESSAGE.step(message.state, "read"), read=tx.now))
            tx.append(MessageRead(message=message.id, run=agent.run, agent=agent.agent), f"read:{message.key}")
        found.append({"message": message.id, "from": message.sender, "text": message.body})
    return {"mail": found}


def mail_ack(helm: Helm, tx: Tx, view: RunView, agent: AgentRecord, body: Mapping[str, Any]) -> Answer:
    name = _text(body, "message")
    message = view.messages.get(name)
    if message is None:
        message = load(tx, MessageRecord, f"past-message/{helm.run}/{name}")
    if message is None or message.to != agent.agent:
        raise RefusedError(f"there is no message {name!r} for {agent.agent}", hint="dogwatch mail read lists them")
    if message.state == "acknowledged":
        return {"message": message.id}
    if message.state not in ("delivered", "read"):
        raise RefusedError(f"{message.id} is {message.state}", hint="read it first: dogwatch mail read")
    done = replace(message, state=MESSAGE.step(message.state, "acknowledged"), acknowledged=tx.now)
    if message.step:
        # It stands in the composer: it stays at hand until it is submitted, or nothing else could be typed.
        save(tx, done)
    else:
        put_away(tx, done)
    if message.sender in view.agents:
        sender = view.agents[view.current(message.sender)]
        change(tx, AgentRecord, sender.key, lambda a: replace(a, answered=tx.now))
    event = MessageAcknowledged(message=message.id, run=agent.run, agent=agent.agent)
    tx.append(event, f"acknowledged:{message.key}")
    return {"message": message.id}


HANDLERS: dict[str, Handler] = {
    "report": report,
    "claim": claim,
    "checkpoint": checkpoint,
    "heartbeat": heartbeat,
    "subagent_skip": subagent_skip,
    "mail_send": mail_send,
    "mail_read": mail_read,
    "mail_ack": mail_ack,
    "task_send": task_send,
}


def _own_task(view: RunView, agent: AgentRecord, name: str) -> TaskRecord:
    if not name:
        held = view.task_of(agent.agent)
        if held is None:
            raise RefusedError(f"{agent.agent} holds no task", hint="name the task: dogwatch report done --task NAME")
        return held
    task = view.tasks.get(name)
    if task is None or task.agent != agent.agent:
        raise RefusedError(f"{name} is not a task of {agent.agent}")
    if task.incarnation != agent.incarnation and task.state == "claimed":
        raise StaleError(f"{name} was given to incarnation {task.incarnation}")
    return task


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name} must be a text that is not empty")
    return _clean(value, name)


def _clean(text: str, name: str) -> str:
    """The text, where it can be kept: half a character pair and NUL cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} is not valid Unicode", hint="half of a surrogate pair cannot be kept") from None
    if "\0" in text:
        raise UsageError(f"{name} holds a NUL character", hint="leave it out")
    return text


def _note(helm: Helm, body: Mapping[str, Any]) -> str:
    """What it says, without tokens: unlike mail, it is for the ledger and for people."""
    note = body.get("note") or ""
    if not isinstance(note, str) or len(_clean(note, "a note").encode()) > NOTE_BYTES_MAX:
        raise UsageError(f"a note is a text of at most {NOTE_BYTES_MAX} bytes", hint="write a file and name its path")
    return helm.log.redactor.text(note)


def _op(body: Mapping[str, Any]) -> str:
    return f"door:{_text(body, 'op_id')}"


def _record_refusal(helm: Helm, body: Mapping[str, Any], code: str, message: str) -> None:
    """Whatever the caller sent, what is kept of it is short and plain."""
    agent = str(body.get("agent"))
    is_task = code == UnmarkedError.code or body.get("op") == "task_send"
    event = (TaskRefused if is_task else RequestRefused)(
        op=ascii(helm.log.redactor.value(body.get("op")))[:64],
        incarnation=ascii(body.get("incarnation"))[:16],
        code=code,
        message=helm.log.redactor.text(message).encode("ascii", "backslashreplace").decode()[:500],
        run=helm.run,
        agent=agent if NAME.fullmatch(agent) else "",
    )
    try:
        helm.record(lambda tx: tx.append(event))
    except LedgerError as error:
        helm.log.error("refusal_not_recorded", error=str(error))
