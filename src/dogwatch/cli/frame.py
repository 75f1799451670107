"""What stands where in one frame of the live table: lines of styled parts that fit the terminal, whatever its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dogwatch.cli.sentences import sentence
from dogwatch.cli.table import COLOURS, clean, clock_time, duration, number, percent
from dogwatch.ledger.api import StoredEvent
from dogwatch.model.moment import Moment
from dogwatch.values import dataclass

Line = list[tuple[str, str]]
"""Parts of text, each with its style."""
BAR_COLUMNS = 10
CLAIMS_WIDTH_MIN = 100
"""On a narrower terminal the claims would push names and causes out."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What is shown: a snapshot, the last events of its runs, further lines of the caller's, and the time of it."""

    snapshot: dict[str, Any]
    events: Sequence[StoredEvent]
    extra: Sequence[str]
    now: Moment


def lay_out(frame: Frame, width: int, height: int) -> list[Line]:
    """At most `height` lines. Where there is too little room, first the events go, then the runs that are over or
    queued, then the agents, then runs."""
    extra: list[Line] = [[(clean(line), "")] for line in frame.extra]
    if frame.extra and frame.extra[0]:
        extra.insert(0, [])
    extra = extra[: max(0, height - 2)]
    room = height - len(extra)
    runs = frame.snapshot["runs"]
    body: list[Line] = [[("no runs yet", "")]] if not runs else []
    going = [run for run in runs if not run["cleared"] and not run["queued"]]
    for agents in (_each_agent, _agents_in_one_line, _no_agents):
        body = [line for run in runs for line in (_header(run, width), *agents(run, width))] or body
        if len(body) > room and len(going) < len(runs):
            short = [line for run in going for line in (_header(run, width), *agents(run, width))]
            body = [*short, _folded(runs)] if len(short) < room else body
        if len(body) <= room:
            break
    if len(body) > room:
        body = [_header(run, width) for run in sorted(runs, key=lambda run: run not in going)]
        hidden = len(body) - room + 1
        body = [*body[: room - 1], [(f"… and {number(hidden, 'more run')}", "dim")]]
    return [*body, *_events(frame, room - len(body), len(runs) > 1), *extra]


def _folded(runs: Sequence[dict[str, Any]]) -> Line:
    """The runs that are not going, as numbers."""
    queued, over = sum(run["queued"] for run in runs), sum(run["cleared"] for run in runs)
    kinds = [number(count, f"{kind} run") for count, kind in ((over, "ended"), (queued, "queued")) if count]
    return [(f"… and {', '.join(kinds)}", "dim")]


def _header(run: dict[str, Any], width: int) -> Line:
    if run["queued"]:
        return [(run["run"], "bold"), ("  ", ""), ("QUEUED", _style("QUEUED")), (f"  {clean(run['waits_for'])}", "dim")]
    progress = run["progress"]
    accepted, tasks = progress["accepted"], progress["tasks"]
    filled = round(BAR_COLUMNS * accepted / tasks) if tasks else 0
    phase = f"{run['phase_number']}/{run['phases']} {run['phase']}".rstrip()
    bar = [("█" * filled, "green"), ("░" * (BAR_COLUMNS - filled), "dim")] if width >= 60 else []
    line = [(run["run"], "bold"), ("  ", ""), (run["state"], _style(run["state"])), (f"  {phase}  ", "")]
    line += [*bar, (f" {accepted}/{tasks}  {duration(run['age_s'])}", "")]
    return [*line, (f"  {clean(run['cause'])}", "")] if run["cause"] else line


def _each_agent(run: dict[str, Any], width: int) -> list[Line]:
    """One line an agent; none for a run whose agents are gone, or do not exist yet."""
    agents = [] if run["cleared"] or run["queued"] else run["agents"]
    names = max((len(agent["agent"]) for agent in agents), default=0)
    # The least width keeps the names from jumping whenever a short task follows a long one.
    tasks = max([12, *(len(agent["task"]) for agent in agents)])
    held = [task for task in run["tasks"] if task["state"] == "claimed"] if width >= CLAIMS_WIDTH_MIN else []
    claims = {task["agent"]: _claim(task) for task in held}
    size = max(map(len, claims.values()), default=0)
    return [_agent(agent, names, tasks, f"{claims.get(agent['agent'], ''):<{size}}") for agent in agents]


def _claim(task: dict[str, Any]) -> str:
    """Since when its holder has the task, and how long it keeps it without a sign of life."""
    return f"claimed {clock_time(task['claimed_at']['wall'])} +{duration(task['claim_expiry_seconds'])}  "


def _agent(agent: dict[str, Any], names: int, tasks: int, claim: str) -> Line:
    line = [
        (f"  {agent['agent']:<{names}}  ", ""),
        (f"{agent['state']:<10}", _style(agent["state"])),
        (f" {duration(agent['age_s']):>7}  ", ""),
        (f"{agent['task']:<{tasks}}  ", "bold"),
        (f"{percent(agent['progress_percent']):>5}  {claim}", ""),
        (f"{agent['name']} #{agent['incarnation']}", "yellow" if agent["incarnation"] > 1 else "dim"),
    ]
    if agent["nudges"]:
        line.append((f"  nudged {agent['nudges']}", "yellow"))
    if agent["cause"]:
        return [*line, (f"  {clean(agent['cause'])}", "red")]
    return [*line, (f"  {clean(agent['waits_for'])}", "dim")] if agent["waits_for"] else line


def _agents_in_one_line(run: dict[str, Any], width: int) -> list[Line]:
    if run["cleared"] or run["queued"]:
        return []
    line: Line = [("  ", "")]
    for state, count in Counter(agent["state"] for agent in run["agents"]).most_common():
        line += [(state, _style(state)), (f" {count}  ", "")]
    return [line]


def _no_agents(run: dict[str, Any], width: int) -> list[Line]:
    return []


def _events(frame: Frame, room: int, with_run: bool) -> list[Line]:
    """The newest events that fit below an empty line; nothing where only one would fit."""
    shown = frame.events[-(room - 1) :] if room > 2 else []
    lines = []
    for event in shown:
        run = f"{event.run}  " if with_run else ""
        lines.append([(f"{duration(frame.now.since(event.at)):>7} ago  ", "dim"), (run, "dim"), (sentence(event), "")])
    return [[], *lines] if lines else []


def _style(state: str) -> str:
    return COLOURS.get(state, "")
