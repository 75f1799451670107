"""How each agent CLI is driven: how it is started and how its screen is read. One file for each, patterns included."""

from __future__ import annotations

from functools import cache

from dogwatch.errors import UsageError
from dogwatch.harness.api import Harness, Launch, Rehearsal, Screen, Start, State

__all__ = ["Harness", "Launch", "Rehearsal", "Screen", "Start", "State", "harness"]


@cache
def harness(name: str) -> Harness:
    """The harness of that name."""
    from dogwatch.harness.claude import Claude
    from dogwatch.harness.codex import Codex
    from dogwatch.harness.command import Command
    from dogwatch.harness.gemini import Gemini
    from dogwatch.harness.opencode import OpenCode
    from dogwatch.harness.scripted import Scripted

    known: dict[str, Harness] = {
        one.name: one for one in (Claude(), Codex(), Command(), Gemini(), OpenCode(), Scripted())
    }
    if name not in known:
        raise UsageError(f"there is no harness {name!r}", hint=f"known are {', '.join(sorted(known))}")
    return known[name]
