"""The instructions of roles, and who has read the newest."""

from __future__ import annotations

from dogwatch.model.events.base import Event


class InstructionsChanged(Event):
    """The instructions of a role have changed; its holders will be told."""

    role: str
    path: str
    from_: str
    to: str


class InstructionsRead(Event):
    """The agent's client has read the newest instructions itself; `late` where its time was over."""

    version: str
    message: str
    seconds: float
    late: bool


class RefreshExpired(Event):
    """The agent was told of new instructions and did not read them in time; the `held` mail goes out."""

    version: str
    message: str
    held: int
    count: int
