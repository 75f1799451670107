"""What a run's tmux server says: panes and screens. It runs only verbs that read.

A server that answers "no such thing" is a fact; a server that does not answer is `unknown`.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Sequence

from dogwatch.errors import MissingToolError
from dogwatch.model.plan import NOTIFY_VARIABLE, TARGETS_VARIABLE
from dogwatch.model.redact import is_secret
from dogwatch.values import dataclass
from dogwatch.world.home import LEDGER_VARIABLE
from dogwatch.world.probe import ProbeFailedError as ProbeFailedError

SESSION_MARK = "INCARNATION_OF_SESSION"
"""The session's own variable for the incarnation it was made for: not what marks an agent's processes, lest a shell
that a person opens in the session is taken for one."""
TIMEOUT_S = 5.0
_SECRET = (LEDGER_VARIABLE, NOTIFY_VARIABLE, TARGETS_VARIABLE)
_FIELDS = ("pid", "session_name", "pane_id", "pane_pid", "pane_dead", "pane_height", "session_attached", "pane_title")

Screens = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane. `dead` means that its process has ended and the pane was kept; `server` is the server's own pid.
    `attached` is how many terminals show its session."""

    server: int
    session: str
    id: str
    pid: int
    dead: bool
    title: str
    attached: int = 0


def run(socket: str, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """One tmux client call on the server behind `socket`; never the user's own server, never a user's configuration."""
    # Without `-u` and under a locale that is not UTF-8, tmux writes `_` for whatever is not plain ASCII.
    argv = ["tmux", "-u", "-S", socket, "-f", "/dev/null", *arguments]
    # The call that starts the server hands its own environment down to it, and whoever reaches it can ask for that.
    environment = {n: value for n, value in os.environ.items() if n not in _SECRET and not is_secret(n)}
    try:
        return subprocess.run(argv, input=stdin, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise MissingToolError("tmux is not installed", hint="apt-get install tmux") from None
    except (subprocess.TimeoutExpired, OSError) as error:
        raise ProbeFailedError(f"tmux {arguments[0]}: {error}") from error


def panes(socket: str) -> tuple[Pane, ...]:
    """All panes of the server; none where there is no server. ProbeFailedError where it does not answer."""
    return sweep(socket)[0]


def captures(socket: str, pane_ids: Sequence[str]) -> Screens:
    """The visible lines of each pane, all in one call; a pane that is gone by now is left out."""
    return sweep(socket, pane_ids)[1] if pane_ids else {}


def sweep(socket: str, pane_ids: Sequence[str] = ()) -> tuple[tuple[Pane, ...], Screens]:
    """All panes of the server and the visible lines of those in `pane_ids`, in one call and as of one instant.

    A pane that is gone has no screen, and nothing is there where there is no server. ProbeFailedError where the server
    does not answer in full.
    """
    wanted = [pane for pane in dict.fromkeys(pane_ids) if pane[:1] == "%" and pane[1:].isdecimal() and pane.isascii()]
    mark = secrets.token_hex(8)
    # As arguments, 500 panes would be more than a client may send, and the first pane that is gone would end the chain.
    # A sourced line that fails stops no other, and the server serves nobody else before the last one.
    commands = [f"list-panes -a -F '{mark}{mark.join(f'#{{{field}}}' for field in _FIELDS)}'"]
    commands += [f"capture-pane -p -t '{pane}'" for pane in wanted]
    commands += [f"display-message -p '{mark}'"]
    done = run(socket, "source-file", "-", stdin="\n".join(commands).encode())
    lines = done.stdout.decode(errors="replace").split("\n")
    if lines == [""] and is_gone(done.stderr):
        return (), {}
    explained = done.returncode == 0 or all(map(is_gone, done.stderr.splitlines()))
    if lines[-2:] != [mark, ""] or not explained:
        raise ProbeFailedError(f"tmux did not answer in full: {done.stderr.decode(errors='replace').strip()}")
    return sorted_out(lines[:-2], mark, wanted)


def sorted_out(lines: Sequence[str], mark: str, wanted: Sequence[str]) -> tuple[tuple[Pane, ...], Screens]:
    """The panes, whose lines begin with `mark`, and after them the screens.

    Screens are told apart by their heights alone: a screen may hold any text, also one that was made to look like the
    end of it, and a mark between them would be a second command for each pane.
    """
    found: list[Pane] = []
    heights: dict[str, int] = {}
    for line in lines:
        if not line.startswith(mark):
            break
        _, server, session, pane, pid, dead, height, attached, title = line.split(mark, len(_FIELDS))
        found.append(Pane(int(server), session, pane, int(pid), dead == "1", title, int(attached)))
        heights[pane] = int(height)
    shown = [pane for pane in wanted if pane in heights]
    begin = len(found)
    if len(lines) - begin != sum(heights[pane] for pane in shown):
        raise ProbeFailedError(f"tmux sent {len(lines) - begin} lines for {len(shown)} screens, which do not fit")
    screens: Screens = {}
    for pane in shown:
        screens[pane] = tuple(lines[begin : begin + heights[pane]])
        begin += heights[pane]
    return tuple(found), screens


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
