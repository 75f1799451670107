"""Looks after the instructions of roles: a change is noticed, told in waves, and held against who does not read it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dogwatch.coordination.instructions import HELD, let_go
from dogwatch.coordination.mail import expire, send
from dogwatch.coordination.reviews import hear_mail
from dogwatch.crew.captain.helm import Helm
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import change, load_all, load_run, save
from dogwatch.model import brief
from dogwatch.model.events.instructions import InstructionsChanged, InstructionsRead, RefreshExpired
from dogwatch.model.records import MessageRecord
from dogwatch.model.versions import InstructionsRecord, ReadingRecord
from dogwatch.model.view import RunView
from dogwatch.policy import versions
from dogwatch.policy.readings import LINES_MIN


def look_after_versions(helm: Helm, view: RunView) -> None:
    """One look at the files and at who has read them. A run without instructions costs nothing."""
    named = {role.name: role.instructions for role in view.plan.roles if role.instructions}
    if not named:
        return
    eyes = helm.world.eyes
    found = {name: eyes.version(path) for name, path in named.items()}
    changes = list(versions.changed(view, found, helm.now))
    for record in changes:
        helm.record(partial(_note_change, view=view, record=record))
    view = helm.view() if changes else view
    unread = {
        name: view.instructions[view.agents[name].role] for name in view.readings if versions.is_unread(view, name)
    }
    # More lines than these make no difference, and a reader goes on where it was as long as it looks for the same.
    lines = {name: min(newest.lines, LINES_MIN) for name, newest in unread.items()}
    reads = {name: eyes.read_at(view, name, newest.path, lines[name]) for name, newest in unread.items()}
    names = [name for name in versions.candidates(view) if view.agents[name].process is not None]
    sights = eyes.look(view, names, screens=False) if names else {}
    for decision in versions.decide(view, sights, reads, helm.now):
        match decision:
            case versions.Ask():
                helm.record(partial(_ask, view=view, decision=decision))
            case versions.Note():
                helm.record(partial(_note_read, view=view, agent=decision.agent))
            case versions.Lapse():
                helm.record(partial(_lapse, view=view, agent=decision.agent))
    _let_go(helm)


def _note_change(tx: Tx, view: RunView, record: InstructionsRecord) -> None:
    save(tx, record)
    if not record.changes:
        return
    before = view.instructions[record.role].version
    event = InstructionsChanged(role=record.role, path=record.path, from_=before, to=record.version, run=record.run)
    tx.append(event, f"instructions:{record.key}:{record.changes}")


def _ask(tx: Tx, view: RunView, decision: versions.Ask) -> None:
    """The agent is told at its prompt; an earlier refresh that has not reached it is overtaken."""
    agent, reading = view.agents[decision.agent], view.readings[decision.agent]
    newest = view.instructions[agent.role]
    for message in view.waiting_messages(agent.agent):
        if message.kind == "refresh" and not message.step:
            expire(tx, message)
    hold_s = view.limits_of(agent.agent).refresh_s if decision.holds else 0.0
    text = brief.refresh(newest.path, reading.version, newest.version, hold_s)
    message = send(tx, agent, "refresh", agent.role, text, key=f"{newest.digest}:{newest.changes}")
    save(
        tx,
        replace(
            reading,
            digest=newest.digest,
            version=newest.version,
            before=reading.version,
            state="asked" if decision.holds else "told",
            since=tx.now,
            asked=tx.now,
            message=message.id,
        ),
    )


def _note_read(tx: Tx, view: RunView, agent: str) -> None:
    reading, newest = view.readings[agent], view.instructions[view.agents[agent].role]
    for message in view.waiting_messages(agent):
        if message.kind == "refresh" and not message.step:
            expire(tx, message)
    event = InstructionsRead(
        version=newest.version,
        message=reading.message,
        seconds=round(tx.now.since(reading.since), 3),
        late=reading.state == "expired",
        run=reading.run,
        agent=agent,
    )
    tx.append(event)
    done = replace(reading, digest=newest.digest, version=newest.version, state="read", since=tx.now, held=None)
    save(tx, replace(done, message="", before=""))


def _lapse(tx: Tx, view: RunView, agent: str) -> None:
    """What was held goes out; that the agent has not read is held against it."""

    def lapse(reading: ReadingRecord) -> ReadingRecord:
        state = "expired" if reading.state == "owes" else reading.state
        return replace(reading, state=state, since=tx.now, held=None, lapses=reading.lapses + 1)

    reading = change(tx, ReadingRecord, view.readings[agent].key, lapse)
    held = [one for one in load_all(tx, MessageRecord, f"{HELD}/{reading.run}/") if one.sender == agent]
    event = RefreshExpired(
        version=reading.version,
        message=reading.message,
        held=len(held),
        count=reading.lapses,
        run=reading.run,
        agent=agent,
    )
    tx.append(event)


def _let_go(helm: Helm) -> None:
    """Letters whose senders owe nothing any more, oldest first; each in a transaction of its own, to keep their order.
    An incarnation that is gone owes nothing: its successor's brief names the newest version."""
    waiting = helm.ledger.read(lambda reader: load_all(reader, MessageRecord, f"{HELD}/{helm.run}/"))
    if not waiting:
        return
    view = helm.view()
    for message in sorted(waiting, key=lambda one: (one.queued.wall, one.id)):
        if not versions.is_held(view, message.sender):
            helm.record(partial(_send_on, helm=helm, message=message))


def _send_on(tx: Tx, helm: Helm, message: MessageRecord) -> None:
    view = load_run(tx, helm.run)
    receiver = view.agents[view.current(message.to)]
    if let_go(tx, message, receiver):
        hear_mail(tx, view, message, helm.log.redactor)
