"""The one way to end processes, sessions and a run's tmux server: by identity and exact name, never by pattern."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Iterable

from dogwatch.errors import MissingToolError, RefusedError
from dogwatch.model.process import ProcessId
from dogwatch.world import tmux
from dogwatch.world.home import Home
from dogwatch.world.processes import identify, marked, open_pidfd

PASSES_MAX = 10
STACKS_S = 1.0
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def exact(session: str) -> str:
    """The tmux target that means this session and no other. An empty name would mean the current one: refused."""
    if not _NAME.fullmatch(session):
        raise RefusedError(
            f"{session!r} is no exact session name", hint="a session is named <run>-<agent>, of a-z, 0-9, - and _"
        )
    return f"={session}:"


def send_signal(process: ProcessId, number: signal.Signals, boot: str) -> bool:
    """Signals this very process; False where it is dead already. A process that reuses the pid is never touched."""
    fd = open_pidfd(process, boot)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def end(processes: Iterable[ProcessId], boot: str, grace_s: float) -> None:
    """Asks the processes to end, waits up to `grace_s` for all of them, kills what is left, and sees it die."""
    fds = [fd for process in processes if (fd := open_pidfd(process, boot)) is not None]
    try:
        if grace_s > 0:
            _signal_all(fds, signal.SIGTERM)
            _wait(fds, grace_s)
        _signal_all(fds, signal.SIGKILL)
        _wait(fds, 5.0)
    finally:
        for fd in fds:
            os.close(fd)


def end_with_stacks(process: ProcessId, boot: str) -> None:
    """Ends a crew member, which writes its stacks on SIGUSR1 and dies of it (`crew/main.py`). One that is stopped has
    to be woken for that; it comes to nothing else. SIGTERM in between would overtake the dump."""
    fd = open_pidfd(process, boot)
    if fd is None:
        return
    try:
        _signal_all([fd], signal.SIGUSR1)
        _signal_all([fd], signal.SIGCONT)
        _wait([fd], STACKS_S)
        _signal_all([fd], signal.SIGKILL)
        _wait([fd], 5.0)
    finally:
        os.close(fd)


def end_session(socket: str, session: str) -> None:
    """Ends one session; without effect where it is gone."""
    tmux.run(socket, "kill-session", "-t", exact(session))


def end_marked(
    home: Home, boot: str, run: str, agent: str = "", before: int | None = None, grace_s: float = 1.0
) -> int:
    """Ends whatever carries the mark of the run (and the agent, and an incarnation below `before`), also what the
    agents' tools have left behind; returns how many there were."""
    total = empty = 0
    for _ in range(PASSES_MAX):
        # A process in the middle of an exec shows no environment for an instant: one empty pass is no proof.
        found = [
            process
            for process, incarnation in marked(boot, home.path, run, agent)
            if (before is None or incarnation < before) and process.pid != os.getpid()
        ]
        end(found, boot, grace_s)
        total += len(found)
        empty = 0 if found else empty + 1
        if empty == 2:
            break
    return total


def end_server(socket: str, servers: Iterable[ProcessId], boot: str) -> None:
    """Ends a run's tmux server with all its sessions. Only ever a server under DOGWATCH_HOME: `servers` are those that
    were seen to hold its agents, for the case that it does not answer any more."""
    known = set(servers)
    with contextlib.suppress(tmux.ProbeFailedError, MissingToolError):
        shown = tmux.run(socket, "display-message", "-p", "#{pid}")
        answering = identify(int(shown.stdout), boot) if shown.stdout.strip().isdigit() else None
        if answering is not None:
            known.add(answering)
            tmux.run(socket, "set-option", "-s", "exit-empty", "on", ";", "kill-session", "-a", ";", "kill-session")
    end(known, boot, grace_s=1.0)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket)


def _signal_all(fds: Iterable[int], number: signal.Signals) -> None:
    for fd in fds:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, number)


def _wait(fds: Iterable[int], timeout_s: float) -> None:
    waiting = select.poll()
    left = set(fds)
    for fd in left:
        waiting.register(fd, select.POLLIN)
    until = time.monotonic() + timeout_s
    while left and (remaining := until - time.monotonic()) > 0:
        for fd, _ in waiting.poll(remaining * 1000):
            waiting.unregister(fd)
            left.discard(fd)
