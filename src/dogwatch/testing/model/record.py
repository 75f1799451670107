"""What is kept of a request: for the log, and for tests that ask what the client has sent."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from dogwatch.testing.model.conversation import Question

TEXT_MAX = 1000


@dataclass
class Request:
    """One request as it came, and what answered it. The log has it as a line, without `body` and `outcome`."""

    method: str
    path: str
    time: float = field(default_factory=lambda: round(time.time(), 3))
    status: int = 0
    """Of the answer; 0 where not even a status was sent."""
    model: str = ""
    stream: bool = False
    side: bool = False
    conversation: str = ""
    role: str = ""
    rule: str = ""
    step: str = ""
    number: int = 0
    messages: int = 0
    prompt: str = ""
    tool_result: str = ""
    tools: tuple[str, ...] = ()
    error: str = ""
    body: Any = None
    outcome: str = ""
    """How it ended: `complete`, `dropped` by us, `left` by the client; empty while it goes on."""

    def line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps({key: value for key, value in vars(self).items() if key not in ("body", "outcome")})

    def describe(self, question: Question) -> None:
        """Notes what was asked."""
        turn = question.turn
        self.body = question.body
        self.model, self.stream, self.side = question.model, question.stream, question.side
        self.role = question.role
        self.conversation, self.messages, self.tools = question.conversation, question.messages, question.tools
        self.prompt = turn.prompt[:TEXT_MAX]
        self.tool_result = (turn.rounds[-1].results or "")[:TEXT_MAX]
