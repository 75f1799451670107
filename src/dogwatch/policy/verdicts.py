"""What a validator's DISAGREE is about: the step that it was at work for, or the one that was approved before it began.

A sub-agent's word never counts as an approval; only its DISAGREE counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from dogwatch.model.moment import Moment
from dogwatch.model.plan import Checkpoint
from dogwatch.model.records import CheckpointRecord
from dogwatch.model.view import RunView
from dogwatch.policy.route import checkpoint_plan

_VERDICT = re.compile(r"(?<![\w-])(?<!\bnot )(DISAGREE|AGREE)(?![\w-])")

OBJECTION_MAX = 4000
"""So much of what a validator says goes to the author."""
Step = tuple[Checkpoint, CheckpointRecord]


def disagrees(text: str) -> bool:
    """Whether the last verdict in the text is DISAGREE, as a word of its own."""
    found = _VERDICT.findall(text)
    return bool(found) and found[-1] == "DISAGREE"


def is_validator(names: Iterable[str], plan: Checkpoint) -> bool:
    """Whether one of the names is meant by the checkpoint's patterns."""
    return any(fnmatchcase(name, pattern) for name in names for pattern in plan.validators)


def objected_by_subagent(view: RunView, parent: str, kind: str, since: Moment, text: str) -> list[str]:
    """The checkpoints that a sub-agent's DISAGREE is about, where its parent is the author or a reviewer: those that
    it names, else those whose work went on when it was started, else those that were handed out anew since, else the
    one that was approved last before. What is being revised needs no objection."""
    parent = view.current(parent)
    steps = [step for step in _steps(view) if parent in {*authors(view, step[0]), *step[0].reviewers}]
    named = _named(steps, text)
    begun = [(plan, record) for plan, record in steps if not _is_later(_begun(view, plan), since)]
    current = [
        (plan, record) for plan, record in begun if record.state != "approved" or _is_later(record.closed, since)
    ]
    anew = [(plan, record) for plan, record in steps if record.state == "revised" or record.round > 1]
    about = named or current or [step for step in anew if step not in begun] or _latest(begun)
    return [
        plan.name for plan, record in about if record.state in ("asked", "approved") and is_validator((kind,), plan)
    ]


def objected_by_mail(view: RunView, sender: str, to: str, text: str) -> list[str]:
    """The approved checkpoints that a letter's DISAGREE is about: from a reviewer or a validator to the author."""
    role = view.role_of(sender)
    names = (sender, role.name if role is not None else sender)
    steps = [
        (plan, record)
        for plan, record in _steps(view)
        if record.state == "approved"
        and to in authors(view, plan)
        and sender not in authors(view, plan)
        and (sender in plan.reviewers or is_validator(names, plan))
    ]
    return [plan.name for plan, _ in _named(steps, text) or _latest(steps)]


def authors(view: RunView, plan: Checkpoint) -> set[str]:
    """Who has written what the checkpoint is about."""
    return {view.current(task.agent) for task in view.tasks.values() if task.dispatch == plan.author and task.agent}


def _steps(view: RunView) -> list[Step]:
    return [(checkpoint_plan(view, record.checkpoint), record) for record in view.checkpoints.values()]


def _named(steps: list[Step], text: str) -> list[Step]:
    def is_named(word: str) -> bool:
        return re.search(rf"(?<![\w./-]){re.escape(word)}(?![\w/-])", text) is not None

    return [step for step in steps if is_named(step[0].name) or is_named(step[0].artifact)]


def _is_later(one: Moment | None, other: Moment | None) -> bool:
    """Within one boot by the monotonic clock; the clocks of two boots have nothing to do with one another, so then by
    the wall clock. What never was is earlier than all."""
    if one is None or other is None:
        return one is not None
    return one.mono > other.mono if one.boot == other.boot else one.wall > other.wall


def _begun(view: RunView, plan: Checkpoint) -> Moment | None:
    """When the work that was reviewed was last handed out."""
    latest = None
    for task in view.tasks.values():
        if task.dispatch == plan.author and _is_later(task.dispatched, latest):
            latest = task.dispatched
    return latest


def _latest(steps: list[Step]) -> list[Step]:
    latest: list[Step] = []
    for step in steps:
        if step[1].state == "approved" and (not latest or _is_later(step[1].closed, latest[0][1].closed)):
            latest = [step]
    return latest
