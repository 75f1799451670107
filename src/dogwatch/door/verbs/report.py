"""Report a task as done or failed. For agents: the captain reads the outputs before it accepts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from dogwatch.door.verb import Argument, CallId, Verb, note
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller
    from dogwatch.ledger.api import Tx


@dataclass(frozen=True, kw_only=True)
class Request:
    """How a task ended."""

    result: Annotated[Literal["done", "failed"], Argument("how it ended", called="a report")]
    task: Annotated[str, Argument("the task; without it, the one you hold", flag="--task")] = ""
    note: Annotated[str, note("what the captain should know")] = ""
    op_id: Annotated[str, CallId()] = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The task and its state now."""

    task: str
    state: str


def handle(tx: Tx, caller: Caller, request: Request, seen: None) -> Answer:
    from dogwatch.coordination.reporting import report

    task, state = report(tx, caller.view, caller.record, request.task, request.result, request.note, request.op_id)
    return Answer(task=task, state=state)


def tell(request: Request, answer: Answer) -> str:
    return f"{answer.task}: {answer.state}"


VERB = Verb(
    line="report a task as done or failed",
    words=__doc__,
    example='dogwatch report failed --task draft --note "the source is gone"',
    request=Request,
    answer=Answer,
    handle=handle,
    tell=tell,
)
