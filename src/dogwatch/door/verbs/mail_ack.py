"""Say that a message is dealt with. For agents: a letter that was read is acknowledged by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dogwatch.door.verb import Argument, Verb
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller
    from dogwatch.ledger.api import Tx


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which message."""

    message: Annotated[str, Argument("its id, as mail read shows it")]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The message's id."""

    message: str


def handle(tx: Tx, caller: Caller, request: Request, seen: None) -> Answer:
    from dogwatch.coordination.mail import acknowledge

    acknowledge(tx, caller.view, caller.record, request.message)
    return Answer(message=request.message)


def tell(request: Request, answer: Answer) -> str:
    return f"{answer.message}: acknowledged"


VERB = Verb(
    line="say that a message is dealt with",
    words=__doc__,
    example="dogwatch mail ack m0123456789",
    request=Request,
    answer=Answer,
    handle=handle,
    tell=tell,
)
