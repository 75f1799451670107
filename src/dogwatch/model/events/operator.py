"""What operators ask for, and what they are told: orders, check-ins, notices."""

from __future__ import annotations

from typing import ClassVar

from dogwatch.model.events.base import Event
from dogwatch.model.plan import NoticeKind


class OrderGiven(Event):
    """An operator told the captain to end the run or an agent's incarnation, or the dispatcher told it to stop an idle
    agent; `by` says which."""

    repeats_agent: ClassVar[bool] = True
    incarnation: int = 0
    cause: str
    by: str
    order: str


class CheckInAsked(Event):
    """An operator asked an agent for its progress, through a second client with the same conversation."""

    check_in: str
    to: str
    question: str


class CheckInAnswered(Event):
    """The last message of a check-in became mail for `to`."""

    check_in: str
    to: str
    message: str
    attempts: int
    exit_code: int | None
    reason: str


class CheckInFailed(Event):
    """A check-in ended without an answer; `to` was told so by mail, `reason` says why."""

    check_in: str
    to: str
    message: str
    attempts: int
    exit_code: int | None
    reason: str


class NoticeSent(Event):
    """A person was notified; `ways` names the channels that took the notice."""

    notice: str
    kind_: NoticeKind
    title: str
    attempts: int
    ways: tuple[str, ...]


class NoticeFailed(Event):
    """A person could not be notified; `reason` says why, for each channel that did not take the notice."""

    notice: str
    kind_: NoticeKind
    title: str
    attempts: int
    ways: tuple[str, ...]
    reason: str
