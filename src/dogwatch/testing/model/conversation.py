"""What a client has asked, whatever protocol it speaks: the conversation, and the turn that is under way in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

Speaker = Literal["user", "aside", "client", "tool", "model"]


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said in the conversation, and by whom.

    `user` is a prompt, `aside` what the user has typed while the model was at work, `client` what the client notes on
    its own, `tool` a result, and `model` an answer of ours.
    """

    by: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Round:
    """What one request of a turn has brought: the prompt, or the results of tools and perhaps an aside."""

    text: str
    results: str | None


@dataclass(frozen=True, slots=True)
class Turn:
    """What has come since a prompt: a round for it, and one for each of our answers since."""

    key: str
    """The same for all requests of the turn, also where one is sent again or older results have been shortened."""
    rounds: tuple[Round, ...]

    @property
    def prompt(self) -> str:
        """The last that the user has said."""
        return next((each.text for each in reversed(self.rounds) if each.text), "")


@dataclass(frozen=True)
class Question:
    """One request for an answer."""

    model: str
    said: tuple[Said, ...]
    conversation: str = ""
    """The client's own name for the conversation; empty where it gives none."""
    role: str = ""
    """Whom the client plays in a rehearsal: what its URL has before the protocol's own path."""
    system: str = ""
    tools: tuple[str, ...] = ()
    stream: bool = False
    messages: int = 0
    input_tokens: int = 0
    schema: Mapping[str, Any] | None = None
    """The JSON schema that the client wants the answer to keep to."""
    body: Any = None
    """The request as it came, for tests that look closer."""

    @property
    def side(self) -> bool:
        """Whether the client asks for something beside the work, such as a title: it offers no tools then."""
        return not self.tools

    @cached_property
    def turn(self) -> Turn:
        """The turn under way, from its prompt on."""
        ours = groupby(self.said, lambda said: said.by == "model")
        theirs = [_Said(list(said)) for is_ours, said in ours if not is_ours]
        prompts = {number: each.prompts for number, each in enumerate(theirs) if each.prompts}
        rounds = tuple(each.round for each in theirs[max(prompts, default=0) :])
        name = "\0".join([self.conversation, str(self.side), *(text for texts in prompts.values() for text in texts)])
        # Half a character, from a terminal in disorder, must not end the turn with an error.
        key = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
        return Turn(key, rounds or (Round("", None),))


class _Said:
    """What was said between two answers of ours, however many messages the client has made of it."""

    def __init__(self, said: list[Said]) -> None:
        self._by = {by: [one.text for one in said if one.by == by] for by in ("user", "aside", "client", "tool")}

    @property
    def prompts(self) -> list[str]:
        """What begins a turn. A note of the client does so where it stands alone, as when a sub-agent has ended."""
        return self._by["user"] or ([] if self._by["tool"] else self._by["aside"] or self._by["client"])

    @property
    def round(self) -> Round:
        """The last text alone: a prompt that has failed, or was interrupted, stands before the next one."""
        texts, results = self.prompts or self._by["aside"], self._by["tool"]
        return Round(texts[-1] if texts else "", "\n".join(results) if results else None)
