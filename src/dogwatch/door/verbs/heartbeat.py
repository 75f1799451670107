"""Say that you are alive, and how far you are. For agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dogwatch.door.verb import Argument, CallId, Verb
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller
    from dogwatch.ledger.api import Tx


@dataclass(frozen=True, kw_only=True)
class Request:
    """How far the work is, where the agent knows."""

    progress_percent: Annotated[
        float | None, Argument("0 to 100", flag="--progress", metavar="PERCENT", between=(0, 100))
    ] = None
    op_id: Annotated[str, CallId()] = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Nothing: it was heard."""


def handle(tx: Tx, caller: Caller, request: Request, seen: None) -> Answer:
    from dogwatch.coordination.agents import beat

    beat(tx, caller.view, caller.record, request.progress_percent, request.op_id)
    return Answer()


def tell(request: Request, answer: Answer) -> str:
    return ""


VERB = Verb(
    line="say that you are alive",
    words=__doc__,
    example="dogwatch heartbeat --progress 40",
    request=Request,
    answer=Answer,
    handle=handle,
    tell=tell,
)
