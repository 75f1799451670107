"""Everything about one run as text: what `dogwatch status RUN` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dogwatch.cli.sentences import sentence
from dogwatch.cli.snapshot import shown_state
from dogwatch.cli.table import COLOURS, clean, clock_time, columns, cut, duration, paint, percent, size
from dogwatch.ledger.api import StoredEvent
from dogwatch.model.moment import Moment

Run = dict[str, Any]
Row = tuple[str, ...]


def detail(run: Run, events: Sequence[StoredEvent], now: Moment, colour: bool, width: int | None) -> list[str]:
    """The run's facts, then a table for each kind of thing that it has, then its last events."""
    lines = [_title(run, colour), *(cut(f"  {name:<12}{clean(value)}", width) for name, value in _facts(run))]
    for heading, rows in _tables(run):
        if rows:
            lines += ["", *columns(heading, rows, colour=colour, width=width)]
    if events:
        lines += ["", paint("LAST EVENTS", "dim", colour=colour)]
        lines += [cut(f"{duration(now.since(event.at)):>7} ago  {sentence(event)}", width) for event in events]
    return lines


def _title(run: Run, colour: bool) -> str:
    shown = shown_state(run)
    state = paint(shown, COLOURS.get(shown, ""), colour=colour)
    rehearsal = "  (a rehearsal)" if run["rehearsal"] else ""
    return f"{paint(run['run'], 'bold', colour=colour)}  {state}{rehearsal}"


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    progress = run["progress"]
    if run["queued"]:
        yield "waits for", run["waits_for"]
    if not run["over"]:
        yield "phase", f"{run['phase_number']}/{run['phases']} {run['phase']}"
    yield "tasks", f"{progress['accepted']} of {progress['tasks']} accepted"
    if progress["milestones_total"]:
        reached = f": {', '.join(progress['milestones'])}" if progress["milestones"] else ""
        yield "milestones", f"{len(progress['milestones'])} of {progress['milestones_total']}{reached}"
    if run["refresh"]:
        yield "refresh", f"{run['refresh']['done']}/{run['refresh']['agents']} have the newest instructions"
    if run["held"]:
        yield "held", run["held"]
    ended = f", ended {duration(run['ended_age_s'])} ago" if run["over"] else ""
    yield "time", f"{duration(run['age_s'])}{ended}"
    for name in ("cause", "sha256", "spec", "project", "output"):
        if run[name]:
            yield name, run[name]


def _tables(run: Run) -> Iterator[tuple[Row, list[Row]]]:
    heading = "AGENT STATE DOING FOR SOURCE TASK PROGRESS HEALTH GUARD MEMORY CONTEXT NAME PID RESTARTS NUDGES CAUSE"
    yield tuple(heading.split()), _agents(run)
    yield (
        ("USAGE", "CALLS", "OF SUB-AGENTS", "INPUT", "OUTPUT", "CACHE WRITE", "CACHE READ", "ERRORS", "DENIED"),
        [_usage(agent) for agent in run["agents"] if _has_counts(agent)],
    )
    yield (
        ("INSTRUCTIONS", "VERSION", "NEWEST", "STATE", "FOR", "MAIL", "LAPSED"),
        [_reading(agent) for agent in run["agents"] if agent["instructions"]],
    )
    yield (
        ("SUB-AGENT", "OF", "STARTED", "ENDED", "LOST", "OVERDUE", "TIME"),
        [_subagent(agent, kind) for agent in run["agents"] for kind in agent["subagents"]],
    )
    yield (
        ("TASK", "STATE", "PHASE", "AGENT", "ATTEMPT", "TIME", "PROGRESS", "CLAIMED", "EXPIRY", "NOTE"),
        [
            (
                task["task"],
                task["state"],
                str(task["phase"]),
                task["agent"] or "-",
                f"{task['attempt']}/{task['attempts_max']}",
                duration(task["age_s"]),
                percent(task["progress_percent"]) or "-",
                clock_time(task["claimed_at"]["wall"]) if task["claimed_at"] else "-",
                duration(task["claim_expiry_seconds"]),
                (f"from {task['sender']} " if task["sender"] else "")
                + ("rescued " if task["rescued"] else "")
                + task["note"]
                or "-",
            )
            for task in run["tasks"]
        ],
    )
    yield (
        ("CHECKPOINT", "STATE", "PHASE", "ROUND", "VERDICTS"),
        [
            (c["checkpoint"], c["state"], str(c["phase"]), str(c["round"]), _verdicts(c["verdicts"]) or "-")
            for c in run["checkpoints"]
        ],
    )
    yield (
        ("GATE", "STATE", "PHASE", "ATTEMPT", "REASON"),
        [(g["gate"], g["state"], str(g["phase"]), str(g["attempt"]), g["reason"] or "-") for g in run["gates"]],
    )
    yield (
        ("CREW", "STATE", "PID", "HEARTBEAT", "STARTS"),
        [
            (c["member"], _life(c["alive"]), str(c["pid"]), _ago(c["heartbeat_age_s"]), str(c["starts"]))
            for c in run["crew"]
        ],
    )


def _agents(run: Run) -> list[Row]:
    return [
        (
            agent["agent"],
            agent["state"],
            _doing(agent["diagnosis"]),
            duration(agent["diagnosis"]["age_s"] if agent["diagnosis"] else agent["age_s"]),
            (agent["diagnosis"]["source"] or "-") if agent["diagnosis"] else "-",
            agent["task"] or "-",
            percent(agent["progress_percent"]) or "-",
            agent["health"],
            " + ".join(agent["rings"]) or "-",
            size(agent["diagnosis"]["rss_bytes"]) if agent["diagnosis"] else "-",
            _share(agent["diagnosis"]["context"]) if agent["diagnosis"] else "-",
            f"{agent['name']} #{agent['incarnation']}",
            str(agent["pid"] or "-"),
            str(agent["restarts"]),
            str(agent["nudges"]),
            agent["cause"] or agent["waits_for"] or "-",
        )
        for agent in run["agents"]
    ]


def _has_counts(agent: dict[str, Any]) -> bool:
    return bool(agent["usage"]["calls"] or agent["errors"] or agent["denied"]["rules"])


def _usage(agent: dict[str, Any]) -> Row:
    used, denied = agent["usage"], agent["denied"]
    tokens = ("input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens")
    critical = f" ({denied['critical']} critical)" if denied["critical"] else ""
    return (
        agent["agent"],
        str(used["calls"]),
        str(used["subagents"]["calls"]),
        *(str(used[name]) for name in tokens),
        ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in agent["errors"].items()) or "-",
        f"{denied['critical'] + denied['warning']}{critical}" if denied["rules"] else "-",
    )


def _subagent(agent: dict[str, Any], kind: str) -> Row:
    counts = agent["subagents"][kind]
    still_open = sum(one["type"] == kind for one in agent["overdue"])
    numbers = (str(counts[name]) for name in ("started", "ended", "lost"))
    overdue = f"{counts['overdue']}{f' ({still_open} open)' if still_open else ''}"
    return (kind, agent["agent"], *numbers, overdue, duration(counts["seconds"]))


def _reading(agent: dict[str, Any]) -> Row:
    one = agent["instructions"]
    facts = (agent["agent"], one["version"], one["newest"], one["state"], duration(one["age_s"]))
    return (*facts, "held" if one["held"] else "-", str(one["lapses"]))


def _share(used: float | None) -> str:
    return "-" if used is None else f"{used:.0%}"


def _doing(diagnosis: dict[str, Any] | None) -> str:
    """The diagnosis in a few words, with whom or what the agent waits for."""
    if diagnosis is None:
        return "-"
    waits = f" ({diagnosis['waits_for']})" if diagnosis["waits_for"] else ""
    return str(diagnosis["kind"]).replace("_", " ") + waits


def _verdicts(verdicts: dict[str, Any]) -> str:
    said = [
        f"{agent} {'approved' if verdict['approve'] else 'revise'}{': ' + verdict['note'] if verdict['note'] else ''}"
        for agent, verdict in verdicts.items()
    ]
    return "; ".join(said)


def _life(alive: bool | None) -> str:
    return {True: "alive", False: "dead", None: "unknown"}[alive]


def _ago(age_s: float | None) -> str:
    return f"{duration(age_s)} ago" if age_s is not None else "-"
