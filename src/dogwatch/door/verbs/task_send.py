"""Give a task to another agent of the run. For agents that work on a task themselves.

Each task needs a marker: how long it should take, and which files must come of it. It becomes a task of the run: the
other agent gets it when it is free, its files are read when it reports, and you get mail with the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from dogwatch.door.verb import Argument, CallId, Verb
from dogwatch.errors import UnmarkedError, UsageError
from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller
    from dogwatch.ledger.api import Tx

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def seconds(text: str) -> float:
    """A time such as 90s, 10m or 1h30m; a number alone is seconds."""
    import re

    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(h|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"--expect is {text!r}, no time", hint="write it like 90s, 10m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _expected(text: str) -> float | None:
    return seconds(text) if text else None


def _time(body: Mapping[str, Any]) -> float:
    _refuse_unmarked(body)
    return float(body["expect_s"])


def _paths(body: Mapping[str, Any]) -> tuple[str, ...]:
    from dogwatch.door.wire import clean

    _refuse_unmarked(body)
    return tuple(clean(path, "an output") for path in body["outputs"])


def _refuse_unmarked(body: Mapping[str, Any]) -> None:
    from dogwatch.policy.markers import HINT, wrong_marker

    if wrong := wrong_marker(body.get("expect_s"), body.get("outputs")):
        raise UnmarkedError(wrong, hint=HINT)


@dataclass(frozen=True, kw_only=True)
class Request:
    """For whom, what, and its marker."""

    to: Annotated[str, Argument("the agent's name")]
    text: Annotated[str, Argument("what to do", from_stdin=True)]
    expect_s: Annotated[
        float,
        Argument(
            "how long it should take: 90s, 10m, 1h30m", flag="--expect", metavar="TIME", convert=_expected, read=_time
        ),
    ]
    outputs: Annotated[
        tuple[str, ...],
        Argument(
            "a file that must come of it, relative to $DOGWATCH_OUTPUT; may be given again",
            flag="--output",
            metavar="FILE",
            read=_paths,
        ),
    ]
    op_id: Annotated[str, CallId()] = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The new task's name."""

    task: str


def handle(tx: Tx, caller: Caller, request: Request, seen: None) -> Answer:
    from dogwatch.coordination.reporting import give

    marker = (request.expect_s, request.outputs)
    task = give(tx, caller.view, caller.record, request.to, request.text, *marker, request.op_id)
    return Answer(task=task)


def tell(request: Request, answer: Answer) -> str:
    return f"{answer.task}: you get mail when it is done or has failed"


VERB = Verb(
    line="give a task to another agent, with its marker",
    words=__doc__,
    example='dogwatch task send auditor "check the sums in data/tides.csv" --expect 10m --output sums.md',
    request=Request,
    answer=Answer,
    handle=handle,
    tell=tell,
)
