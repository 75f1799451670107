"""Starts dogwatch's own processes: each in a session of its own, so that no terminal and no parent takes it along."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from dogwatch.actions.kill import end, send_signal
from dogwatch.model.process import ProcessId
from dogwatch.world.home import Home
from dogwatch.world.processes import identify

_children: list[subprocess.Popen[bytes]] = []
# What marks an agent's processes, and what belongs to somebody's terminal: neither is passed on to the crew.
_NOT_FOR_CREW = (
    "DOGWATCH_RUN",
    "DOGWATCH_ROLE",
    "DOGWATCH_INCARNATION",
    "DOGWATCH_SLUG",
    "DOGWATCH_SPOOL",
    "DOGWATCH_DOOR",
    "TMUX",
    "TMUX_PANE",
)


def detached(
    argv: Sequence[str], boot: str, *, environment: Mapping[str, str], folder: str, output: IO[bytes]
) -> ProcessId:
    """Starts a process that outlives this one."""
    child = subprocess.Popen(
        argv,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    _children.append(child)
    # It may be over already; then zero as its start time makes it count as dead.
    return identify(child.pid, boot) or ProcessId(boot, child.pid, 0)


def reap() -> None:
    """Collects the exit codes of children that have ended, so that none stays behind as a zombie."""
    _children[:] = [child for child in _children if child.poll() is None]


def start_crew(home: Home, boot: str, member: str, run: str = "") -> ProcessId:
    """Starts a crew member. Should there be one already, the new one finds its lease taken and leaves."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_CREW}
    environment["DOGWATCH_HOME"] = home.path
    log = home.log(member, run)
    os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
    argv = [sys.executable, "-m", "dogwatch", "crew", member, *([run] if run else [])]
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        return detached(argv, boot, environment=environment, folder="/", output=output)


def end_silent_crew(process: ProcessId, boot: str) -> None:
    """Ends a crew member that lives and makes no progress: its stacks go to its log first, then it is killed."""
    send_signal(process, signal.SIGUSR1, boot)
    end([process], boot, grace_s=0.2)
