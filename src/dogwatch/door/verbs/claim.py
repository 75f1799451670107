"""Take an offered task. For agents: prints the task's text; exit code 77 where somebody else has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from dogwatch.door.verb import Argument, CallId, Verb
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller, Sight
    from dogwatch.ledger.api import Tx


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which task."""

    task: Annotated[str, Argument("the task's name, as the offer says it")]
    op_id: Annotated[str, CallId()] = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The task and what is to be done."""

    task: str
    text: str


def look(sight: Sight, request: Request) -> Mapping[str, str]:
    """What the outputs look like now: only what changes from here on is the agent's work."""
    from dogwatch.coordination.reporting import offered
    from dogwatch.coordination.tasks import outputs_for

    caller = sight.caller()
    task = offered(caller.view, caller.record, request.task)
    if task is None or not task.is_on_offer:
        return {}
    return sight.marker(caller.view.run.output, outputs_for(caller.view, task, caller.record))


def handle(tx: Tx, caller: Caller, request: Request, seen: Mapping[str, str]) -> Answer:
    from dogwatch.coordination.reporting import take

    text = take(tx, caller.view, caller.record, request.task, seen, request.op_id)
    return Answer(task=request.task, text=text)


def tell(request: Request, answer: Answer) -> str:
    return answer.text


VERB = Verb(
    line="take an offered task",
    words=__doc__,
    example="dogwatch claim collect",
    request=Request,
    answer=Answer,
    look=look,
    handle=handle,
    tell=tell,
)
