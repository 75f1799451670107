"""Approve an artifact or ask for a revision. For agents that were asked to review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from dogwatch.door.verb import Argument, CallId, Verb, note
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller
    from dogwatch.ledger.api import Tx


@dataclass(frozen=True, kw_only=True)
class Request:
    """A reviewer's judgement."""

    verdict: Annotated[Literal["approve", "revise"], Argument("your judgement", called="a verdict")]
    checkpoint: Annotated[str, Argument("the checkpoint's name, as the request says it")]
    note: Annotated[str, note("for revise: what must change")] = ""
    op_id: Annotated[str, CallId()] = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The checkpoint and its state now."""

    checkpoint: str
    state: str


def handle(tx: Tx, caller: Caller, request: Request, seen: None) -> Answer:
    from dogwatch.coordination.reviews import vote

    name = request.checkpoint
    state = vote(tx, caller.view, caller.record, name, request.verdict, request.note, request.op_id)
    return Answer(checkpoint=name, state=state)


def tell(request: Request, answer: Answer) -> str:
    return f"{answer.checkpoint}: {request.verdict} noted"


VERB = Verb(
    line="approve an artifact or ask for a revision",
    words=__doc__,
    example='dogwatch checkpoint revise draft-review --note "the second figure has no source"',
    request=Request,
    answer=Answer,
    handle=handle,
    tell=tell,
)
