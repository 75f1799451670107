"""How far a message has come with its reader, and on its way into the reader's client."""

from __future__ import annotations

from typing import Literal

from dogwatch.model.moment import Moment
from dogwatch.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Nobody has it yet."""

    kind: Literal["queued"] = "queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The reader's client has confirmed it."""

    kind: Literal["delivered"] = "delivered"
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The reader has asked for its mail. `delivered` is None where it did so before the client got the message."""

    kind: Literal["read"] = "read"
    at: Moment
    delivered: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """The reader has dealt with it."""

    kind: Literal["acknowledged"] = "acknowledged"
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """It will not be delivered any more."""

    kind: Literal["expired"] = "expired"


Delivery = Queued | Delivered | Read | Acknowledged | Expired

Step = Literal["posted", "pasting", "pasted", "entering", "entered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Typing:
    """How far the message has come on its way into the client, and when it got there: it lies in the post box, or the
    captain was about to paste it or to press Enter, or has done so."""

    step: Step
    at: Moment
