"""How each agent CLI is driven: how it is started and how its screen is read. One file for each, patterns included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from dogwatch.errors import UsageError
from dogwatch.model.plan import Role

State = Literal["idle", "busy", "permission", "error", "retry", "shell", "starting", "dialog", "unknown"]
"""`permission` asks whether a tool may run; `dialog` is any other question that stands where the prompt should be."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What the live region of a pane shows. `composer` is its text, "" when empty, None where none is seen."""

    state: State
    composer: str | None


class Harness(Protocol):
    """The adapter for one agent CLI."""

    @property
    def name(self) -> str:
        """What a role's `harness` calls it."""

    @property
    def enter_delay_s(self) -> float:
        """The pause that the client needs between a paste and Enter."""

    @property
    def hooks(self) -> bool:
        """Whether the client writes a spool."""

    def command(self, role: Role, *, python: str) -> tuple[str, ...]:
        """The program and its arguments for a holder of `role`; `python` is the interpreter that dogwatch runs on."""

    def context(self, tail: bytes) -> float | None:
        """The used share of the context, from the end of the client's transcript; None where it does not say."""

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """What the screen means; a screen that is not understood is `unknown`."""


def harness(name: str) -> Harness:
    """The harness of that name."""
    from dogwatch.harness.command import Command
    from dogwatch.harness.scripted import Scripted

    known: dict[str, Harness] = {one.name: one for one in (Command(), Scripted())}
    if name not in known:
        raise UsageError(f"there is no harness {name!r}", hint=f"known are {', '.join(sorted(known))}")
    return known[name]
