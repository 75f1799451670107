"""What a client has asked, whatever protocol it speaks: the conversation, and the turn that is under way in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Literal


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said in the conversation: a prompt, a tool's result, an answer of ours."""

    by: Literal["user", "tool", "model"]
    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What has followed the last prompt: for each of our answers since, the results that came back."""

    key: str
    prompt: str
    rounds: tuple[str, ...]
    """The results that each request of the turn has brought, the first of them beside the prompt itself."""


@dataclass(frozen=True)
class Question:
    """One request for an answer."""

    model: str
    said: tuple[Said, ...]
    conversation: str = ""
    """The client's own name for the conversation; empty where it gives none."""
    system: str = ""
    tools: tuple[str, ...] = ()
    stream: bool = False
    messages: int = 0
    input_tokens: int = 0

    @property
    def side(self) -> bool:
        """Whether the client asks for something beside the work, such as a title: it offers no tools then."""
        return not self.tools

    @cached_property
    def turn(self) -> Turn:
        """The turn under way. The same request again is the same turn; so is one whose older results were shortened."""
        sides = [(ours, list(said)) for ours, said in groupby(self.said, lambda said: said.by == "model")]
        asked = [number for number, (_, said) in enumerate(sides) if any(one.by == "user" for one in said)]
        start = asked[-1] if asked else 0
        prompts = [one.text for one in self.said if one.by == "user"]
        rounds = ["\n".join(one.text for one in said if one.by == "tool") for ours, said in sides[start:] if not ours]
        name = "\0".join([self.conversation, str(self.side), *prompts])
        # A user's surrogates, from a terminal in disorder, must not end the turn with an error.
        key = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
        return Turn(key, prompts[-1] if prompts else "", tuple(rounds) or ("",))
