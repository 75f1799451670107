"""Print all mail that is not acknowledged yet. For agents: it is marked read, and stays until it is dealt with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dogwatch.door.verb import Verb
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller
    from dogwatch.ledger.api import Tx


@dataclass(frozen=True, kw_only=True)
class Request:
    """All of it."""


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One letter: its id, its sender and what it says."""

    message: str
    from_: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The letters, the oldest first."""

    mail: tuple[Letter, ...]


def handle(tx: Tx, caller: Caller, request: Request, seen: None) -> Answer:
    from dogwatch.coordination.mail import read

    found = read(tx, caller.view, caller.record)
    return Answer(mail=tuple(Letter(message=one.id, from_=one.sender, text=one.body) for one in found))


def tell(request: Request, answer: Answer) -> str:
    from dogwatch.model.brief import inbox

    return inbox([(letter.message, letter.from_, letter.text) for letter in answer.mail])


VERB = Verb(
    line="print all mail that is not acknowledged yet",
    words=__doc__,
    example="dogwatch mail read",
    request=Request,
    answer=Answer,
    handle=handle,
    tell=tell,
    printed="mail",
    printed_help="a list of {message, from, text}",
)
