"""Starts crew members: each in a session of its own, so that no terminal and no parent takes it along.

It stands apart from `actions`, so that a watchdog can start a dispatcher and still has no code to touch an agent.
"""

from __future__ import annotations

import os
import subprocess
import sys

from dogwatch.world.home import LEDGER_VARIABLE, Home

# What marks an agent's processes, and what belongs to somebody's terminal: neither is passed on to the crew.
_NOT_FOR_CREW = (
    "DOGWATCH_RUN",
    "DOGWATCH_ROLE",
    "DOGWATCH_INCARNATION",
    "DOGWATCH_SLUG",
    "DOGWATCH_SPOOL",
    "DOGWATCH_POST",
    "DOGWATCH_DOOR",
    "TMUX",
    "TMUX_PANE",
)


class CrewStarter:
    """Starts members below one home, and collects what has become of its own children."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._children: list[subprocess.Popen[bytes]] = []

    def start_crew(self, member: str, run: str = "") -> None:
        """Starts a crew member. Should there be one already, the new one finds its place taken and leaves."""
        self._children = [child for child in self._children if child.poll() is None]
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_CREW}
        environment["DOGWATCH_HOME"] = self.home.path
        environment[LEDGER_VARIABLE] = self.home.ledger_url
        log = self.home.log(member, run)
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        argv = [sys.executable, "-m", "dogwatch", "crew", member, *([run] if run else [])]
        with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
            child = subprocess.Popen(
                argv,
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children.append(child)
