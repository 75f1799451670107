"""Send a text to another agent of the run. For agents: a task does not go as mail, see `dogwatch task send`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dogwatch.door.verb import Argument, CallId, Verb
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller, Sight
    from dogwatch.ledger.api import Tx
    from dogwatch.model.redact import Redactor


@dataclass(frozen=True, kw_only=True)
class Request:
    """To whom, and what it says."""

    to: Annotated[str, Argument("the agent's name")]
    text: Annotated[str, Argument("the text", from_stdin=True)]
    op_id: Annotated[str, CallId()] = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The message's id, and why it is held where it does not go out at once."""

    message: str
    held: str = ""


def look(sight: Sight, request: Request) -> Redactor:
    """A letter goes as it is; what is recorded of one that disagrees has no tokens in it."""
    return sight.redactor


def handle(tx: Tx, caller: Caller, request: Request, seen: Redactor) -> Answer:
    from dogwatch.coordination.mail import post
    from dogwatch.coordination.reviews import hear_mail

    posted = post(tx, caller.view, caller.record, request.to, request.text, request.op_id)
    if posted.has_gone:
        hear_mail(tx, caller.view, posted.letter, seen)
    return Answer(message=posted.letter.id, held=posted.held)


def tell(request: Request, answer: Answer) -> str:
    return f"{answer.message}: {answer.held}" if answer.held else answer.message


VERB = Verb(
    line="send a text to another agent of the run",
    words=__doc__,
    example='dogwatch mail send writer "the figures are in data/tides.csv"',
    request=Request,
    answer=Answer,
    look=look,
    handle=handle,
    tell=tell,
    printed_help="{message}, and held where it waits until you have read your instructions",
)
