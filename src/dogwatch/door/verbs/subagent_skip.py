"""Document that you go on without a sub-agent that has run past its time. For the agent that started it.

To start it again instead, simply do so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dogwatch.door.verb import Argument, Verb, note
from dogwatch.errors import UsageError
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller
    from dogwatch.ledger.api import Tx


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which sub-agent, and why."""

    type: Annotated[str, Argument("the sub-agent's type, as the letter says it")]
    note: Annotated[str, note("why the work can go on without it", required=True)] = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The type, and how many sub-agents of it are overdue."""

    type: str
    skipped: int


def handle(tx: Tx, caller: Caller, request: Request, seen: None) -> Answer:
    from dogwatch.coordination.subagents import skip

    if not request.note.strip():
        raise UsageError("a skip is documented with a note", hint='dogwatch subagent skip TYPE --note "why"')
    skipped = skip(tx, caller.view, caller.record, request.type, request.note)
    return Answer(type=request.type, skipped=skipped)


def tell(request: Request, answer: Answer) -> str:
    return f"{answer.type}: skip noted"


VERB = Verb(
    line="document that an overdue sub-agent is skipped",
    words=__doc__,
    example='dogwatch subagent skip researcher --note "the archive does not answer; the figures are from last year"',
    request=Request,
    answer=Answer,
    handle=handle,
    tell=tell,
)
