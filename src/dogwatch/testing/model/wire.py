"""What a protocol must know so that the server can speak it."""

from __future__ import annotations

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
