"""What a protocol must know so that the server can speak it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dogwatch.testing.model.answer import Answer
from dogwatch.testing.model.conversation import Question


class BadRequestError(Exception):
    """The client's request is against its protocol."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def json_body(body: bytes) -> dict[str, Any]:
    """The object that a request has for its body; BadRequestError where it has none."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"The request body is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise BadRequestError("The request body must be a JSON object")
    return data


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of a stream; a token is what the pace is kept for."""

    data: bytes
    is_token: bool = False


class Wire(Protocol):
    """A protocol: requests become questions, answers become bytes. It does no input and no output."""

    def serves(self, path: str) -> bool:
        """Whether this path is one of the protocol's."""

    def aside(self, method: str, path: str, body: bytes) -> dict[str, Any] | None:
        """The answer to what no scenario is needed for, such as counting tokens; None for a real question."""

    def question(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Question:
        """The question of a request; BadRequestError where it is none."""

    def whole(self, answer: Answer, question: Question) -> dict[str, Any]:
        """The answer in one piece."""

    def stream(self, answer: Answer, question: Question) -> Iterator[Frame]:
        """The answer piece by piece; without an end where the answer has none."""

    def failure(self, answer: Answer) -> bytes:
        """What tells of an error within a stream."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """An error in the form that the protocol's clients expect."""
