"""What looks at somebody else's panes mean: which agent CLI runs in each, its state, and what it does, in words.

The process tree says who it is; only then is the screen read, by that client's own patterns. Nothing here does input or
output: a look comes in, sightings go out.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Literal, Protocol

from dogwatch.cli.table import clean
from dogwatch.harness import Screen
from dogwatch.harness.claude import Claude
from dogwatch.harness.codex import Codex
from dogwatch.harness.gemini import Gemini
from dogwatch.harness.opencode import OpenCode
from dogwatch.harness.scripted import Scripted
from dogwatch.model.redact import redact
from dogwatch.values import dataclass
from dogwatch.world.onlooker import Pane, Process

NO_AGENT = ("shell", "other")
NEEDS_YOU = ("permission", "dialog", "error", "exited", "stopped")
TOOL_COLUMNS_MAX = 28
DETAIL_COLUMNS_MAX = 60
# A shorter time than this is the pause between two looks, and says nothing about a state.
STATE_S_MIN = 1.0
_SHELLS = frozenset("sh bash dash zsh fish ksh mksh tcsh csh ash nu elvish xonsh pwsh".split())
_INTERPRETERS = re.compile(r"(node|nodejs|bun|deno|python[\d.]*|ruby|perl)$")
_WRAPPERS = frozenset(
    "bwrap codex-linux-sandbox codex-linux-san env timeout nice sudo setsid script stdbuf time".split()
)
_SUFFIX = re.compile(r"\.(js|mjs|cjs|exe|py|sh)$")


class Client(Protocol):
    """How one agent CLI is recognised and read. A program with `/` is the package that its script lies in."""

    @property
    def name(self) -> str: ...
    @property
    def programs(self) -> tuple[str, ...]: ...
    def read(self, lines: Sequence[str], title: str = "") -> Screen: ...
    def question(self, lines: Sequence[str]) -> str: ...
    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]: ...


class _ScriptedClient(Scripted):
    programs = ("dogwatch.testing.agent",)

    def question(self, lines: Sequence[str]) -> str:
        shown = [line.strip() for line in lines if line.strip()]
        asked = max((number for number, line in enumerate(shown) if line.startswith("Do you ")), default=-1)
        if asked >= 2 and shown[asked - 2] == "Bash command":
            return f"Bash {shown[asked - 1]}"
        return shown[asked] if asked >= 0 else ""

    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]:
        return ""


CLIENTS: tuple[Client, ...] = (Claude(), Codex(), OpenCode(), Gemini(), _ScriptedClient())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What is known of one pane; the fields are those of `dogwatch watch --json`."""

    session: str
    window: int
    pane: int
    pane_id: str
    client: str
    program: str
    pid: int | None
    state: str
    needs_you: bool
    doing: str
    state_s: float | None
    change_seen: bool
    age_s: float | None
    rss_bytes: int | None
    cpu_percent: float | None
    tool: str
    tool_s: float | None
    composer: str | None


@dataclass(frozen=True, slots=True)
class _Memory:
    """What the last look at a pane left: `at` is its time, `since` that of the first look with this state."""

    identity: tuple[int, int]
    client: str
    state: str
    since: float
    change_seen: bool
    idle_since: float | None
    cpu_s: float
    at: float


@dataclass(frozen=True, slots=True)
class _Finding:
    """What one look alone says of a pane."""

    client: str
    process: Process | None
    program: str
    state: str
    composer: str | None
    detail: str
    tool: Process | None


class Onlooker:
    """Makes sightings of looks, and remembers between them what a single look cannot tell: changes, and cpu."""

    def __init__(self) -> None:
        self._memories: dict[tuple[int, str], _Memory] = {}
        self._first = True

    def see(self, panes: Sequence[Pane], at: float) -> list[Sighting]:
        """The sightings of all panes: first those that need a person, then the other agents, then the rest."""
        memories = {}
        sightings = []
        for pane in panes:
            key = (pane.server, pane.id)
            sighting, memories[key] = self._sight(pane, self._memories.get(key), at)
            sightings.append(sighting)
        self._memories, self._first = memories, False
        return sorted(sightings, key=lambda s: (not s.needs_you, not is_agent(s), s.session, s.window, s.pane))

    def _sight(self, pane: Pane, last: _Memory | None, at: float) -> tuple[Sighting, _Memory]:
        found = _find(pane, "" if last is None or last.client in NO_AGENT else last.client)
        tree = _below(pane.tree, found.process) if found.process else ()
        cpu_s = sum(process.cpu_s for process in tree)
        identity = (found.process.pid, found.process.start_ticks) if found.process else (0, 0)
        if last is not None and (last.identity != identity or last.client != found.client) and found.process:
            last = None
        state, idle_since = self._settled(found.state, last, at)
        kept = last is not None and last.state == state
        began = idle_since if state == "idle" and idle_since is not None else at
        since = last.since if last is not None and kept else began
        change_seen = last.change_seen if last is not None and kept else last is not None
        cpu = None
        if last is not None and last.identity == identity and at > last.at and found.process:
            cpu = round(max(0.0, cpu_s - last.cpu_s) / (at - last.at) * 100, 1)
        state_s = at - since if change_seen or at - since >= STATE_S_MIN else None
        tool = _command(found.tool) if found.tool else ""
        sighting = Sighting(
            session=clean(pane.session),
            window=pane.window,
            pane=pane.index,
            pane_id=pane.id,
            client=found.client,
            program=clean(found.program),
            pid=found.process.pid if found.process else None,
            state=state,
            needs_you=found.client not in NO_AGENT and state in NEEDS_YOU,
            doing=_doing(state, found, tool),
            state_s=None if state_s is None else round(state_s, 1),
            change_seen=change_seen,
            age_s=round(found.process.age_s, 1) if found.process else None,
            rss_bytes=sum(process.rss_bytes for process in tree) if tree else None,
            cpu_percent=cpu,
            tool=tool,
            tool_s=round(found.tool.age_s, 1) if found.tool else None,
            composer=found.composer,
        )
        return sighting, _Memory(identity, found.client, state, since, change_seen, idle_since, cpu_s, at)

    def _settled(self, state: str, last: _Memory | None, at: float) -> tuple[str, float | None]:
        """The state to believe, and since when the prompt is seen: a prompt that flashes between two tool calls is not
        idle, so that a change to idle needs two looks."""
        if state != "idle":
            return state, None
        if last is None:
            return ("idle" if self._first else "starting"), at
        if last.state == "idle" or last.idle_since is not None:
            return "idle", last.idle_since
        return ("starting" if last.state == "starting" else "busy"), at


def is_agent(sighting: Sighting) -> bool:
    """Whether an agent runs in the pane, or ran there and has left."""
    return sighting.client not in NO_AGENT


def _find(pane: Pane, known: str) -> _Finding:
    """`known` is the client that the last look has seen in this pane."""
    lines = pane.lines or ()
    client, process = recognise(pane.tree)
    if client is not None and process is not None:
        screen = client.read(lines, pane.title)
        tool = _tool(pane.tree, process, client)
        if process.state == "T":
            return _Finding(client.name, process, _program(process), "stopped", None, "", tool)
        state = "unknown" if screen.state == "shell" else screen.state
        detail = "its process lives, but a shell is on the screen" if screen.state == "shell" else ""
        if state in ("permission", "dialog"):
            detail = redact(client.question(lines))
        return _Finding(client.name, process, _program(process), state, screen.composer, clean(detail), tool)
    left, how = _left_behind(pane, known)
    if left:
        return _Finding(left, None, "", "ended" if how == "ended" else "exited", None, how, None)
    front = _front(pane.tree)
    if front is None:
        return _Finding("other", None, "", "exited" if pane.dead else "unknown", None, "kept", None)
    kind = "shell" if _program(front) in _SHELLS else "other"
    return _Finding(kind, front, _program(front), "shell" if kind == "shell" else "running", None, "", None)


def recognise(tree: Sequence[Process]) -> tuple[Client, Process] | tuple[None, None]:
    """The agent CLI that has the keys and is nearest to the pane: one that an agent's tool has started is below it."""
    found = [(client, process) for process in tree for client in CLIENTS if _is(client, _words(process))]
    in_front = [(client, process) for client, process in found if process.group == process.front_group]
    return next(iter(in_front or found), (None, None))


def _is(client: Client, words: Sequence[str]) -> bool:
    """Whether the program, or the script that its interpreter runs, is the client's."""
    script = words[_script_at(words)]
    names = {_stem(words[0]), _stem(script)}
    return any(f"/{one}/" in script if "/" in one else one in names for one in client.programs)


def _script_at(words: Sequence[str]) -> int:
    """Where the words name what an interpreter or a shell runs, a file or a module of Python; 0 where none does so."""
    program = _stem(words[0])
    if program not in _SHELLS and not _INTERPRETERS.match(program):
        return 0
    for number, word in enumerate(words[1:], 1):
        if word == "-m":
            return number + 1 if number + 1 < len(words) else 0
        if word in ("-c", "-e", "-p", "--eval", "--print"):
            return 0
        if not word.startswith("-"):
            return number
    return 0


def _left_behind(pane: Pane, known: str) -> tuple[str, str]:
    """The client that no longer runs in the pane, and what became of it; empty where there never was one."""
    lines = pane.lines or ()
    if pane.dead:
        command = _started_with(pane.command)
        name = known or next((client.name for client in CLIENTS if command and _is(client, command)), "")
        return name, "kept" if name else ""
    front = _front(pane.tree)
    if front is None or front != pane.tree[0] or _program(front) not in _SHELLS:
        return "", ""
    remains = {client.name: client.remains(lines) for client in CLIENTS}
    name = known or next((name for name, how in remains.items() if how), "")
    return name, remains[name] if name else ""


def _started_with(command: str) -> list[str]:
    """The words of a pane's command, which tmux shows in quotes."""
    try:
        words = shlex.split(command)
        return shlex.split(words[0]) if len(words) == 1 else words
    except ValueError:
        return []


def _tool(tree: Sequence[Process], client_process: Process, client: Client) -> Process | None:
    """What the client has started for its work, the newest: tools run in a session of their own, unlike its servers."""
    own = _below(tree, client_process)[1:]
    outside = [p for p in own if p.session != client_process.session and not _is(client, _words(p))]
    if not outside:
        return None
    pids = {process.pid for process in outside}
    newest = max((p for p in outside if p.parent not in pids), key=lambda p: p.start_ticks)
    while _stem(_words(newest)[0]) in _SHELLS | _WRAPPERS and not _script_at(_words(newest)):
        below = [p for p in outside if p.parent == newest.pid]
        if not below:
            break
        newest = max(below, key=lambda p: p.start_ticks)
    return newest


def _below(tree: Sequence[Process], root: Process) -> tuple[Process, ...]:
    """The process and all below it."""
    found = {root.pid: root}
    for process in tree:
        if process.parent in found:
            found[process.pid] = process
    return tuple(found.values())


def _front(tree: Sequence[Process]) -> Process | None:
    """The process that the keys go to; the pane's own where that cannot be told."""
    return next((p for p in tree if p.group == p.front_group), tree[0] if tree else None)


def _words(process: Process) -> tuple[str, ...]:
    return process.argv or (process.name,)


def _program(process: Process) -> str:
    words = _words(process)
    return _stem(words[_script_at(words)])


def _command(process: Process) -> str:
    """What the process runs, shortened: the script and not its interpreter."""
    words = _words(process)
    first, *rest = words[_script_at(words) :]
    return shortened(" ".join([os.path.basename(first), *rest]), TOOL_COLUMNS_MAX)


def _stem(path: str) -> str:
    return _SUFFIX.sub("", os.path.basename(path.removeprefix("-")))


def _doing(state: str, found: _Finding, tool: str) -> str:
    """The diagnosis as a sentence without its end."""
    runs = f"runs `{tool}` for {brief(found.tool.age_s)}" if found.tool else ""
    detail = shortened(found.detail, DETAIL_COLUMNS_MAX)
    text = shortened(found.composer or "", DETAIL_COLUMNS_MAX)
    unsent = f"unsent text in its prompt: {text}" if text else ""
    if state == "idle":
        first = f"idle; {unsent}" if unsent else "idle at its prompt"
        return f"{first}; still {runs}" if runs else first
    if state == "error":
        return "; ".join(part for part in ("provider error, it has given up", unsent) if part)
    if state == "busy":
        return f"busy; {runs}" if runs else "busy; no tool is running"
    if state in ("permission", "dialog"):
        return f"waits for your {'permission' if state == 'permission' else 'answer'}: {detail or 'see its screen'}"
    if state == "unknown" and found.client != "other":
        return "; ".join(part for part in (detail or "unknown screen", runs) if part)
    return {
        "starting": "starting",
        "retry": "provider error, retrying",
        "stopped": f"suspended; `fg` in its shell or `kill -CONT {found.process.pid if found.process else 0}` wakes it",
        "ended": "it has ended, the shell is back",
        "exited": f"its process has exited, the {'pane is kept' if detail == 'kept' else 'shell is back'}",
        "shell": "a shell at its prompt",
        "running": f"runs {clean(found.program)}",
    }.get(state, "its processes cannot be seen from here")


def shortened(text: str, columns: int) -> str:
    """The text on one line of at most `columns` characters."""
    plain = clean(text).strip()
    return plain if len(plain) <= columns else plain[: columns - 1].rstrip() + "…"


def brief(seconds: float) -> str:
    """A length of time in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
