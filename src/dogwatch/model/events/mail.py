"""Messages to agents, from the captain and from one another."""

from __future__ import annotations

from dogwatch.model.events.base import Event


class MessageSent(Event):
    """A message to an agent was queued."""

    message: str
    kind_: str
    subject: str
    sender: str
    bytes: int


class MessageHeld(Event):
    """The agent has not read its new instructions yet: its mail to others is kept back until it has."""

    message: str
    to: str
    version: str


class MessageDelivered(Event):
    """The client's own hook confirmed the message; for a plain command: it was typed."""

    message: str
    kind_: str
    subject: str
    tries: int


class MessageRetried(Event):
    """A message did not arrive and is typed again, with the same id."""

    message: str
    kind_: str
    tries: int


class MessageRead(Event):
    """The agent read the message."""

    message: str


class MessageAcknowledged(Event):
    """The agent acknowledged the message."""

    message: str


class MessageExpired(Event):
    """The message will not be delivered: its incarnation is gone, or it was overtaken."""

    message: str
    kind_: str
    incarnation: int
