"""What a run's tmux server says: panes and screens. It runs only verbs that read.

A server that answers "no such thing" is a fact; a server that does not answer is `unknown`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from dogwatch.errors import MissingToolError
from dogwatch.world.home import LEDGER_VARIABLE

SESSION_MARK = "INCARNATION_OF_SESSION"
"""The session's own variable for the incarnation it was made for: not what marks an agent's processes, lest a shell
that a person opens in the session is taken for one."""
TIMEOUT_S = 5.0
_SEPARATOR = "\x1f"
_FORMAT = _SEPARATOR.join(["#{pid}", "#{session_name}", "#{pane_id}", "#{pane_pid}", "#{pane_dead}", "#{pane_title}"])
# tmux 3.3 writes control characters of a format as octal escapes; newer versions leave them.
_ESCAPED_SEPARATOR = "\\037"


class ProbeFailedError(Exception):
    """The server could not be asked; nothing is known."""


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane. `dead` means that its process has ended and the pane was kept; `server` is the server's own pid."""

    server: int
    session: str
    id: str
    pid: int
    dead: bool
    title: str


def run(socket: str, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """One tmux client call on the server behind `socket`; never the user's own server, never a user's configuration."""
    argv = ["tmux", "-S", socket, "-f", "/dev/null", *arguments]
    # The call that starts the server hands its own environment down to every pane.
    environment = {name: value for name, value in os.environ.items() if name != LEDGER_VARIABLE}
    try:
        return subprocess.run(argv, input=stdin, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise MissingToolError("tmux is not installed", hint="apt-get install tmux") from None
    except (subprocess.TimeoutExpired, OSError) as error:
        raise ProbeFailedError(f"tmux {arguments[0]}: {error}") from error


def panes(socket: str) -> tuple[Pane, ...]:
    """All panes of the server; none where there is no server. ProbeFailedError where it does not answer."""
    done = run(socket, "list-panes", "-a", "-F", _FORMAT)
    if done.returncode != 0:
        if is_gone(done.stderr):
            return ()
        raise ProbeFailedError(done.stderr.decode(errors="replace").strip())
    found = []
    for line in done.stdout.decode(errors="replace").splitlines():
        fields = line.replace(_ESCAPED_SEPARATOR, _SEPARATOR).split(_SEPARATOR, 5)
        if len(fields) == 6:
            server, session, pane, pid, dead, title = fields
            found.append(Pane(int(server), session, pane, int(pid), dead == "1", title))
    return tuple(found)


def captures(socket: str, pane_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The visible lines of each pane, all in one call; a pane that is gone by now is left out."""
    if not pane_ids:
        return {}
    arguments: list[str] = []
    for pane in pane_ids:
        arguments += [
            "display-message",
            "-p",
            "-t",
            pane,
            f"{_SEPARATOR}#{{pane_id}}",
            ";",
            "capture-pane",
            "-p",
            "-t",
            pane,
            ";",
        ]
    done = run(socket, *arguments[:-1])
    screens: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in done.stdout.decode(errors="replace").split("\n"):
        plain = line.replace(_ESCAPED_SEPARATOR, _SEPARATOR)
        if plain.startswith(_SEPARATOR):
            lines = screens.setdefault(plain[1:], [])
        else:
            lines.append(line)
    return {pane: tuple(screen) for pane, screen in screens.items()}


def session_incarnation(socket: str, session: str) -> int | None:
    """The incarnation that the session was made for, or None where there is no such session."""
    done = run(socket, "show-environment", "-t", f"={session}:", SESSION_MARK)
    number = done.stdout.strip().partition(b"=")[2]
    return int(number) if done.returncode == 0 and number.isdigit() else None


def is_gone(stderr: bytes) -> bool:
    """Whether tmux's message says for certain that there is no server or no such session."""
    return any(
        words in stderr
        for words in (
            b"no server running",
            b"No such file or directory",
            b"Connection refused",
            b"can't find",
            b"no current",
        )
    )
