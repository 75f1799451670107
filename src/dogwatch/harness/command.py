"""Any program as an agent: it is started, and its process is all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence

from dogwatch.errors import UsageError
from dogwatch.harness.api import Launch, Screen, Start
from dogwatch.harness.neutral import Neutral


class Command(Neutral):
    """Runs `role.command`. Its screen is not understood and it has no hooks, so nothing is concluded from them."""

    name = "command"
    version = ""
    enter_delay_s = 0.2
    hooks = False
    guards = False
    sandbox = "auto"
    variables = ()

    def start(self, launch: Launch) -> Start:
        """The role's own command."""
        role = launch.role
        if not role.command:
            raise UsageError(f"the role {role.name} has no command", hint="give it `command: [program, argument, ...]`")
        return Start(command=role.command)

    def context(self, tail: bytes) -> float | None:
        """Never known."""
        return None

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """Always unknown."""
        return Screen("unknown", None)
