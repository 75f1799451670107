"""Look at the agents that run in your own tmux, and touch nothing.

Finds Claude Code, Codex, OpenCode and Gemini CLI in the panes of a tmux server that you have started yourself, and
shows what each is doing. Those that need you stand first and are marked with `!`. It is a live table until Ctrl-C, and
one table where the output is no terminal. It only reads: it sends no keys, starts no tmux server, and writes no file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from dogwatch.cli.framework import print_json
from dogwatch.cli.sightings import Onlooker, Sighting, brief, is_agent
from dogwatch.cli.table import note, number, paint, wants_colour, width_of
from dogwatch.errors import AwayError
from dogwatch.world import onlooker, tmux
from dogwatch.world.clock import SystemClock

EXAMPLE = "dogwatch watch --once --all"
QUICK_S = 0.3
INTERVAL_S = 2.0
INTERVAL_S_MIN, INTERVAL_S_MAX = 0.2, 3600.0
RESIZE_S = 0.2
NAME_COLUMNS_MAX = 24
NAME_COLUMNS_MAX_NARROW = 14
NARROW = 100
FOR, AGE = 3, 4
STYLES = {
    **dict.fromkeys(("permission", "dialog", "retry", "stopped", "unknown"), "yellow"),
    **dict.fromkeys(("error", "exited"), "red"),
    **dict.fromkeys(("busy", "starting"), "cyan"),
    **dict.fromkeys(("shell", "running", "ended"), "dim"),
    "idle": "green",
}
Line = list[tuple[str, str]]
"""Parts of text, each with its style. Not the live table's type of the same name: that module knows the ledger."""
PROMISE = "dogwatch only looks here. To have it look after agents: dogwatch run SPEC"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="print one table and leave: dogwatch watch --once")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document (docs/watch.md): watch --json | jq"
    )
    parser.add_argument("--all", action="store_true", help="all panes, not only agents: dogwatch watch --all")
    parser.add_argument(
        "--interval",
        type=_interval,
        default=INTERVAL_S,
        metavar="S",
        help=f"seconds between two looks, {INTERVAL_S:g} unless told: --interval 5",
    )
    server = parser.add_mutually_exclusive_group()
    server.add_argument("--socket", default="", metavar="PATH", help="of the tmux server: --socket /tmp/tmux-1000/work")
    server.add_argument(
        "--socket-name", default="", metavar="NAME", help="of the tmux server, as in tmux -L NAME: --socket-name work"
    )


def execute(arguments: argparse.Namespace) -> int:
    socket = arguments.socket or onlooker.find_socket(os.environ, arguments.socket_name)
    view = View(socket, everything=arguments.all)
    try:
        view.look()
        if view.shown:
            time.sleep(QUICK_S)
            view.look()
    except tmux.ProbeFailedError as error:
        hint = "is it yours? another one: --socket PATH or --socket-name NAME"
        raise AwayError(f"the tmux server at {socket} does not answer: {error}", hint=hint) from None
    if arguments.json:
        print_json([asdict(sighting) for sighting in view.shown])
    if not view.shown:
        sentence, hint = view.nothing()
        print(sentence, file=sys.stderr if arguments.json else sys.stdout)
        note(f"hint: {hint}")
    elif not arguments.json and (arguments.once or not sys.stdout.isatty()):
        _print(view.table(width_of(sys.stdout)))
    elif not arguments.json:
        _live(view, arguments.interval)
    return 0


class View:
    """What is shown of one server: the sightings of the last look, or why there are none."""

    def __init__(self, socket: str, *, everything: bool) -> None:
        self.socket = socket
        self.problem = ""
        self.has_server = False
        self.sightings: list[Sighting] = []
        self._everything = everything
        self._clock = SystemClock()
        self._onlooker = Onlooker()

    def look(self) -> None:
        """Looks again at everything."""
        panes = onlooker.look(self.socket)
        self.has_server, self.problem = panes is not None, ""
        self.sightings = self._onlooker.see(panes or (), self._clock.now().mono)

    @property
    def shown(self) -> list[Sighting]:
        return [sighting for sighting in self.sightings if self._everything or is_agent(sighting)]

    def nothing(self) -> tuple[str, str]:
        """Why nothing is shown, and what to do next."""
        if not self.has_server:
            other = "another server: --socket-name NAME"
            return f"no tmux server runs at {self.socket}", f"tmux new -s work claude starts an agent in one; {other}"
        if not self.sightings:
            return f"the tmux server at {self.socket} has no panes", "tmux new -s work claude starts an agent in one"
        if all(sighting.state == "unknown" for sighting in self.sightings):
            panes = number(len(self.sightings), "pane")
            return f"the processes in the {panes} at {self.socket} cannot be seen from here", "is it in a container?"
        return (
            f"no agent in the {number(len(self.sightings), 'pane')} of the tmux server at {self.socket}",
            "start claude, codex, opencode or gemini in one of them; every pane: dogwatch watch --all",
        )

    def table(self, width: int | None) -> list[Line]:
        """The table with its footer; every line fits `width`."""
        if not self.shown:
            return [[(part, style)] for part, style in zip(self.nothing(), ("", "dim"), strict=True)]
        several = Counter(sighting.session for sighting in self.sightings)
        lines = _rows(self.shown, several, width)
        if self.problem:
            lines += [[], [(f"the server does not answer now, this is what was seen last: {self.problem}", "red")]]
        hidden = len(self.sightings) - len(self.shown)
        others = [[(f"{number(hidden, 'other pane')}: dogwatch watch --all", "dim")]] if hidden else []
        lines += [[], _totals(self.shown), *others, [(PROMISE, "dim")]]
        return lines if width is None else [_fitted(line, width) for line in lines]


def _rows(sightings: Sequence[Sighting], several: Counter[str], width: int | None) -> list[Line]:
    """A line for each sighting; where what it does is too long for it, that stands on a line of its own."""
    table = [_cells(sighting, several, width) for sighting in sightings]
    heading = ["SESSION", "CLIENT", "STATE", "FOR", "AGE", "MEM", "CPU"]
    columns = [n for n in range(len(heading)) if any(cells[n] != "-" for cells in table)]
    if width is not None and width < NARROW and FOR in columns and AGE in columns:
        columns.remove(AGE)
    sizes = {n: max(_columns_of(text) for text in (heading[n], *(cells[n] for cells in table))) for n in columns}
    used = 2 + sum(size + 2 for size in sizes.values())
    lines: list[Line] = [
        [("  ", ""), *((_padded(heading[n], sizes[n], n) + "  ", "dim") for n in columns), ("DOING", "dim")]
    ]
    for sighting, cells in zip(sightings, table, strict=True):
        line: Line = [("! ", "red") if sighting.needs_you else ("  ", "")]
        line += [(_padded(cells[n], sizes[n], n) + "  ", _style(n, sighting)) for n in columns]
        words = sighting.doing.removeprefix("busy; ")
        doing = (words, "bold" if sighting.needs_you else "" if is_agent(sighting) else "dim")
        if width is None or used + _columns_of(words) <= width:
            lines.append([*line, doing])
        else:
            lines += [line, [("    └ ", "dim"), doing]]
    return lines


def _cells(sighting: Sighting, several: Counter[str], width: int | None) -> list[str]:
    place = f":{sighting.window}.{sighting.pane}" if several[sighting.session] > 1 else ""
    room = None if width is None else NAME_COLUMNS_MAX_NARROW if width < NARROW else NAME_COLUMNS_MAX
    name = sighting.session if room is None else _cut(sighting.session, room - len(place))
    return [
        name + place,
        sighting.client if is_agent(sighting) else _cut(sighting.program or "-", 10),
        sighting.state,
        "-" if sighting.state_s is None else brief(sighting.state_s) + ("" if sighting.change_seen else "+"),
        "-" if sighting.age_s is None else brief(sighting.age_s),
        _bytes(sighting.rss_bytes),
        "-" if sighting.cpu_percent is None else f"{sighting.cpu_percent:.0f}%",
    ]


def _style(column: int, sighting: Sighting) -> str:
    if not is_agent(sighting):
        return "dim"
    return {0: "bold", 2: STYLES.get(sighting.state, "")}.get(column, "")


def _totals(sightings: Sequence[Sighting]) -> Line:
    agents = [sighting for sighting in sightings if is_agent(sighting)]
    needing = sum(sighting.needs_you for sighting in agents)
    counts = Counter(sighting.state for sighting in agents if not sighting.needs_you)
    states = [f"{count} {state}" for state, count in counts.most_common()]
    line: Line = [(number(len(agents), "agent"), "bold")]
    if needing:
        line += [(": ", ""), (f"{needing} {'needs' if needing == 1 else 'need'} you", "red")]
        states.insert(0, "")
    elif states:
        line += [(": ", "")]
    memory = sum(sighting.rss_bytes or 0 for sighting in agents)
    cpu = sum(sighting.cpu_percent or 0 for sighting in agents)
    return [*line, (", ".join(states), ""), (f" · memory {_bytes(memory)} · cpu {cpu:.0f}%", "")]


def _live(view: View, interval_s: float) -> None:
    """The table on the terminal's other screen until Ctrl-C; the last one stays on the first screen."""
    from rich.console import Console, ConsoleDimensions
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=False)
    colour = wants_colour(sys.stdout)
    heading: Line = [("dogwatch watch", "bold"), (f"  {view.socket}  every {interval_s:g} s · Ctrl-C leaves", "dim")]
    live = Live(console=console, auto_refresh=False, screen=True, redirect_stdout=False, redirect_stderr=False)
    with contextlib.suppress(KeyboardInterrupt), live:
        while True:
            size = os.get_terminal_size(sys.stdout.fileno())
            console.size = ConsoleDimensions(size.columns, size.lines)
            lines = _cropped([heading, [], *view.table(size.columns)], size.columns, size.lines)
            parts = [(text, style if colour else "") for line in lines for text, style in (*line, ("\n", ""))]
            live.update(Text.assemble(*parts[:-1], no_wrap=True, overflow="crop"), refresh=True)
            _wait(interval_s, size)
            try:
                view.look()
            except tmux.ProbeFailedError as error:
                view.problem = str(error)
    _print(view.table(width_of(sys.stdout)))


def _wait(interval_s: float, size: os.terminal_size) -> None:
    """Until the next look is due, or the terminal has another size."""
    until = time.monotonic() + interval_s
    while (left := until - time.monotonic()) > 0 and os.get_terminal_size(sys.stdout.fileno()) == size:
        time.sleep(min(left, RESIZE_S))


def _cropped(lines: Sequence[Line], width: int, height: int) -> list[Line]:
    """At most `height` lines: the footer stays, and of the rows those that need a person, which stand first."""
    fitted = [_fitted(line, width) for line in lines]
    if len(fitted) <= height:
        return fitted
    more: Line = [("… and more, in a taller window or with --once", "dim")]
    return [*fitted[: max(0, height - 4)], _fitted(more, width), *fitted[-3:]][:height]


def _print(lines: Sequence[Line]) -> None:
    colour = wants_colour(sys.stdout)
    for line in lines:
        text = "".join(paint(part, style, colour=colour) for part, style in line)
        print(text if colour else text.rstrip())


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not INTERVAL_S_MIN <= seconds <= INTERVAL_S_MAX:
        raise argparse.ArgumentTypeError(f"from {INTERVAL_S_MIN:g} to {INTERVAL_S_MAX:g} seconds, not {text}")
    return seconds


def _fitted(line: Line, width: int) -> Line:
    """The line in at most `width` columns."""
    fitted: Line = []
    for text, style in line:
        room = width - sum(_columns_of(part) for part, _ in fitted)
        fitted.append((_cut(text, room) if len(fitted) + 1 == len(line) else _cut(text, room, ""), style))
    return fitted


def _cut(text: str, width: int, sign: str = "…") -> str:
    """The text in at most `width` columns, with a sign where some of it is missing."""
    if _columns_of(text) <= width:
        return text
    while text and _columns_of(text) + len(sign) > width:
        text = text[:-1]
    return text + sign if width > 0 else ""


def _padded(text: str, size: int, column: int) -> str:
    """Aligned to the left, numbers to the right."""
    blanks = " " * (size - _columns_of(text))
    return blanks + text if column >= FOR else text + blanks


def _columns_of(text: str) -> int:
    """How many columns of a terminal the text takes, near enough for alignment."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _bytes(count: int | None) -> str:
    if count is None:
        return "-"
    return f"{count / 2**30:.1f}G" if count >= 1000 * 2**20 else f"{count / 2**20:.0f}M"
