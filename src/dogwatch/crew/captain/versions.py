"""Looks after the instructions of roles: a change is noticed, told in waves, and held against who does not read it."""

from __future__ import annotations

from functools import partial

from dogwatch.coordination import readings
from dogwatch.crew.captain.helm import Helm
from dogwatch.ledger.records import load_all
from dogwatch.model import keys
from dogwatch.model.records import MessageRecord
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
        helm.record(partial(readings.note_change, view=view, record=record))
    view = helm.view() if changes else view
    unread = {
        name: view.instructions[view.agents[name].role] for name in view.readings if versions.is_unread(view, name)
    }
    # More lines than these make no difference, and a reader goes on where it was as long as it looks for the same.
    lines = {name: min(newest.lines, LINES_MIN) for name, newest in unread.items()}
    reads = {name: eyes.read_at(view, name, newest.path, lines[name]) for name, newest in unread.items()}
    names = [name for name in versions.candidates(view) if view.agents[name].running]
    sights = eyes.look(view, names, screens=False) if names else {}
    for decision in versions.decide(view, sights, reads, helm.now):
        match decision:
            case versions.Ask():
                helm.record(partial(readings.ask_to_read, view=view, decision=decision))
            case versions.Note():
                helm.record(partial(readings.note_read, view=view, agent=decision.agent))
            case versions.Lapse():
                helm.record(partial(readings.lapse, view=view, agent=decision.agent))
    _let_go(helm)


def _let_go(helm: Helm) -> None:
    """Letters whose senders owe nothing any more, oldest first; each in a transaction of its own, to keep their order.
    An incarnation that is gone owes nothing: its successor's brief names the newest version."""
    waiting = helm.ledger.read(lambda reader: load_all(reader, MessageRecord, keys.held_messages(helm.run)))
    if not waiting:
        return
    view = helm.view()
    for message in sorted(waiting, key=lambda one: (one.queued.wall, one.id)):
        if not versions.is_held(view, message.sender):
            helm.record(partial(readings.send_on, message=message, redactor=helm.log.redactor))
