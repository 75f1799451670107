"""A look at a tmux server that is somebody else's: its panes, their screens and the processes below them.

Reading only. tmux is asked with `list-panes`, `display-message -p` and `capture-pane -p`, none of which starts a server
or changes one; nothing is written anywhere.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dogwatch.values import dataclass
from dogwatch.world import tmux

_FIELDS = (
    *("pid", "pane_id", "pane_pid", "pane_dead", "window_index", "pane_index"),
    *("session_name", "pane_start_command", "pane_title"),
)
# A tmux client may send 16 KiB of arguments, and a pane takes about 90 bytes of them.
CAPTURES_MAX = 150
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """One process as the kernel shows it. `cpu_s` holds what its ended children have used, too; `front_group` is the
    process group that the keys of its terminal go to."""

    pid: int
    parent: int
    state: str
    group: int
    session: int
    front_group: int
    cpu_s: float
    rss_bytes: int
    start_ticks: int
    age_s: float
    name: str
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane with what it shows and what runs in it: `tree` is its process and all below, parents before children,
    without zombies. `lines` is None where the pane was gone before its screen was read."""

    server: int
    id: str
    session: str
    window: int
    index: int
    dead: bool
    command: str
    title: str
    lines: tuple[str, ...] | None
    tree: tuple[Process, ...]


def find_socket(environment: Mapping[str, str], name: str = "") -> str:
    """The socket that `tmux` itself would use: of the server that `$TMUX` names, or of the user's server `name`."""
    inside = environment.get("TMUX", "")
    if inside and not name:
        return inside.rsplit(",", 2)[0]
    folder = environment.get("TMUX_TMPDIR") or "/tmp"  # noqa: S108 - where tmux keeps its sockets
    return os.path.join(folder, f"tmux-{os.getuid()}", name or "default")


def look(socket: str) -> tuple[Pane, ...] | None:
    """All panes as they are now; None where there is no server. `tmux.ProbeFailedError` where it does not answer."""
    # Text of others stands between the marks, so nobody may be able to guess one.
    mark = f"~{secrets.token_hex(8)}~"
    listing = tmux.run(socket, "list-panes", "-a", "-F", mark.join(f"#{{{field}}}" for field in _FIELDS))
    if listing.returncode != 0:
        if tmux.is_gone(listing.stderr):
            return None
        raise tmux.ProbeFailedError(listing.stderr.decode(errors="replace").strip())
    found: dict[str, list[str]] = {}
    for line in listing.stdout.decode(errors="replace").split("\n"):
        fields = line.split(mark)
        if len(fields) == len(_FIELDS):
            # A window that is linked into several sessions is listed for each of them.
            found.setdefault(fields[1], fields)
    screens = captures(socket, list(found), mark)
    trees = _trees(int(fields[2]) for fields in found.values())
    return tuple(
        Pane(
            server=int(server),
            id=pane,
            session=session,
            window=int(window),
            index=int(index),
            dead=dead == "1",
            command=command,
            title=title,
            lines=screens.get(pane),
            tree=trees.get(int(pid), ()),
        )
        for server, pane, pid, dead, window, index, session, command, title in found.values()
    )


def captures(socket: str, panes: Sequence[str], mark: str) -> dict[str, tuple[str, ...]]:
    """The visible lines of each pane, all in one call unless they are very many. tmux stops at a pane that is gone:
    those behind it are asked for again."""
    screens: dict[str, list[str]] = {}
    left = list(panes)
    while left:
        arguments: list[str] = []
        for pane in left[:CAPTURES_MAX]:
            arguments += ["display-message", "-p", "-t", pane, f"{mark}#{{pane_id}}", ";"]
            arguments += ["capture-pane", "-p", "-t", pane, ";"]
        answer = tmux.run(socket, *arguments[:-1])
        lines: list[str] = []
        for line in answer.stdout.decode(errors="replace").split("\n"):
            if line.startswith(mark):
                lines = screens.setdefault(line.removeprefix(mark), [])
            else:
                lines.append(line)
        gone = answer.stderr.decode(errors="replace").partition("can't find pane: ")[2].strip()
        screens.pop(gone, None)
        unseen = [pane for pane in left if pane not in screens and pane != gone]
        if unseen == left:
            break
        left = unseen
    return {pane: tuple(screens[pane]) for pane in panes if pane in screens}


def _trees(roots: Iterable[int]) -> dict[int, tuple[Process, ...]]:
    """The tree of each root that is alive, from one pass over all processes; only theirs are asked for their words."""
    everything: dict[int, Process] = {}
    children: dict[int, list[int]] = {}
    uptime_s = _uptime_s()
    for entry in os.listdir("/proc"):
        process = _process(entry, uptime_s) if entry.isdigit() else None
        if process is not None and process.state not in "ZX":
            everything[process.pid] = process
            children.setdefault(process.parent, []).append(process.pid)
    trees = {}
    for root in roots:
        order = [root] if root in everything else []
        for pid in order:
            # What was read at different instants may contradict itself: nobody is met twice.
            order += [child for child in sorted(children.get(pid, [])) if child not in order]
        trees[root] = tuple(_with_words(everything[pid]) for pid in order)
    return trees


def _process(entry: str, uptime_s: float) -> Process | None:
    try:
        with open(f"/proc/{entry}/stat", "rb") as file:
            raw = file.read()
    except OSError:
        return None
    # The name may hold anything, even `)` and spaces.
    before, _, after = raw.rpartition(b")")
    fields = after.split()
    start_ticks = int(fields[19])
    return Process(
        pid=int(entry),
        parent=int(fields[1]),
        state=fields[0].decode(),
        group=int(fields[2]),
        session=int(fields[3]),
        front_group=int(fields[5]),
        cpu_s=sum(int(ticks) for ticks in fields[11:15]) / _TICKS_A_SECOND,
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
        start_ticks=start_ticks,
        age_s=max(0.0, uptime_s - start_ticks / _TICKS_A_SECOND),
        name=before.partition(b"(")[2].decode(errors="replace"),
    )


def _with_words(process: Process) -> Process:
    """With its program and arguments; without where it has none or they may not be read."""
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            raw = file.read()
    except OSError:
        return process
    # A client that has renamed itself leaves the rest of its old words as empty ones.
    words = tuple(word.decode(errors="replace") for word in raw.rstrip(b"\0").split(b"\0"))
    return replace(process, argv=words) if words[0] else process


def _uptime_s() -> float:
    with open("/proc/uptime", encoding="ascii") as file:
        return float(file.read().split()[0])
