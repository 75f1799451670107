"""What came of a queue of runs: the table of runs, what was counted, and how long memory was in which zone.

Everything is read from the ledger, so that it can be told again at any time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dogwatch.cli.progress import begun
from dogwatch.cli.rounds import DELIVERED, first_attempt
from dogwatch.cli.table import columns, duration
from dogwatch.coordination.ledgers import working_host
from dogwatch.ledger.api import Reader, StoredEvent
from dogwatch.ledger.records import load, load_all
from dogwatch.model import keys
from dogwatch.model.codec import encode
from dogwatch.model.memory import ZONES, HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Plan, fill
from dogwatch.model.records import RunRecord, TaskRecord

EVENTS_MAX = 100_000
STALL_TIER = 2
MEMORY_LIMITS = ("zone", "forecast", "processes")
"""What a launch is held by where memory is the reason."""
COUNTED = {
    "stall_detections": "stall detections",
    "memory_interventions": "memory interventions",
    "checkpoint_interactions": "checkpoint interactions",
}

Span = tuple[float, float]


def gather(reader: Reader, names: Sequence[str], now: Moment, prefix: str = "") -> dict[str, Any]:
    """The outcome as plain values: what `run --json` prints. Of several attempts the last one counts as delivered or
    not."""
    records = [run for name in names if (run := load(reader, RunRecord, keys.run(name))) is not None]
    queued = {document.key.removeprefix(keys.QUEUED) for document in reader.scan(keys.QUEUED)}
    zones, first = _zones(reader)
    runs = []
    for run in records:
        start = begun(run)
        runs.append(
            {
                **_plain(run),
                "queued": run.run in queued and not run.over,
                "duration_s": None if start is None else round((run.ended or now).since(start), 3),
                **_files(reader, run),
                "counts": _counts(reader, run.run),
                "zones": zone_shares(zones, [run], now, first),
            }
        )
    latest = {first_attempt(run.run, prefix): run for run in records}
    return {
        "runs": runs,
        "delivered": sum(run.state in DELIVERED for run in latest.values()),
        "of": len(latest),
        "counts": {name: sum(run["counts"][name] for run in runs) for name in COUNTED},
        "zones": zone_shares(zones, records, now, first),
        "watched_s": round(sum(end - start for start, end in _spans(records, now)), 3),
    }


def _files(reader: Reader, run: RunRecord) -> dict[str, Any]:
    """The files of all accepted tasks, each once, and how many there are of each kind."""
    plan = load(reader, Plan, keys.plan(run.run))
    kinds: dict[str, str] = {}
    for task in load_all(reader, TaskRecord, keys.tasks(run.run)):
        role = plan.role_of(task.agent) if plan is not None else None
        for output in task.outputs if task.state == "accepted" else ():
            path = fill(output.path, agent=task.agent, role=role.name if role else "", run=run.run)
            kinds[os.path.normpath(path)] = output.kind
    return {"files": len(kinds), "artifacts": dict(sorted(Counter(kinds.values()).items()))}


def _counts(reader: Reader, run: str) -> dict[str, int]:
    kinds = ("alert_raised", "agent_reclaimed", "launch_held", "checkpoint_answered")
    found = Counter(map(_counts_as, reader.recent(EVENTS_MAX, run, kinds)))
    return {name: found[name] for name in COUNTED}


def _counts_as(event: StoredEvent) -> str:
    """Under which of the counts the event goes; empty for none."""
    if event.kind == "alert_raised":
        return "stall_detections" if int(event.body.get("tier", 0)) >= STALL_TIER else ""
    if event.kind == "launch_held":
        return "memory_interventions" if event.body.get("limit") in MEMORY_LIMITS else ""
    return {"agent_reclaimed": "memory_interventions", "checkpoint_answered": "checkpoint_interactions"}[event.kind]


def _plain(run: RunRecord) -> dict[str, Any]:
    """The record for programs, with its folders as they are here."""
    folders = {"project_folder": ("project", run.project), "output_folder": ("output", run.output)}
    return dict(folders.get(name, (name, value)) for name, value in encode(run).items())


def _zones(reader: Reader) -> tuple[list[tuple[Moment, str]], str]:
    """The changes of the zone, and the zone before the first of them."""
    changes = reader.recent(EVENTS_MAX, kinds=["zone_changed"])
    if changes:
        first = str(changes[0].body.get("before") or ZONES[0])
        return [(event.at, str(event.body["zone"])) for event in changes], first
    host = load(reader, HostRecord, keys.host(working_host(reader)))
    return [], host.zone if host is not None else ZONES[0]


def zone_shares(
    changes: Sequence[tuple[Moment, str]], runs: Sequence[RunRecord], now: Moment, first: str = ZONES[0]
) -> dict[str, float] | None:
    """The share of the time in each zone, from the first admission to the last end; a pause in which none of the runs
    was wanted is left out. None where none was let in. `first` is the zone before the first change."""
    spans = _spans(runs, now)
    whole_s = sum(end - start for start, end in spans)
    if not spans:
        return None
    origin = _origin(runs)
    edges = [(float("-inf"), first), *sorted((_offset(at, origin), zone) for at, zone in changes)]
    ends = [*(start for start, _ in edges[1:]), float("inf")]
    found: dict[str, float] = dict.fromkeys(ZONES, 0.0)
    for (start, zone), end in zip(edges, ends, strict=True):
        inside = sum(max(0.0, min(end, last) - max(start, first)) for first, last in spans)
        found[zone] = found.get(zone, 0.0) + inside
    if not whole_s:
        return {zone: float(zone == edges[-1][1]) for zone in found}
    return {zone: round(seconds / whole_s, 4) for zone, seconds in found.items()}


def _origin(runs: Sequence[RunRecord]) -> Moment:
    return min((run.created for run in runs), key=lambda moment: moment.wall)


def _offset(moment: Moment, origin: Moment) -> float:
    """Seconds after the origin, negative before it; by the monotonic clock where that goes through."""
    return moment.mono - origin.mono if moment.boot == origin.boot else moment.wall - origin.wall


def _spans(runs: Sequence[RunRecord], now: Moment) -> list[Span]:
    """When any of the runs was wanted: from its making to its end, and nothing before the first was let in."""
    starts = [start for run in runs if (start := begun(run)) is not None]
    if not starts:
        return []
    origin = _origin(runs)
    first = min(_offset(start, origin) for start in starts)
    spans = sorted((max(first, _offset(run.created, origin)), _offset(run.ended or now, origin)) for run in runs)
    joined: list[Span] = []
    for begin, end in spans:
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif end >= begin:
            joined.append((begin, end))
    return joined


def words(found: Mapping[str, Any], before: Sequence[str], *, colour: bool, width: int | None) -> list[str]:
    """The outcome for people; `before` are the runs that had delivered before the command was given."""
    heading = ("RUN", "STATE", "TIME", "FILES", "ARTIFACTS", "NOTE")
    rows = [
        (
            run["run"],
            "QUEUED" if run["queued"] else run["state"],
            duration(run["duration_s"]),
            str(run["files"]),
            ", ".join(f"{count} {kind}" for kind, count in run["artifacts"].items()) or "-",
            _note(run, before),
        )
        for run in found["runs"]
    ]
    lines = [*columns(heading, rows, colour=colour, width=width), ""]
    lines.append(", ".join(f"{label}: {found['counts'][name]}" for name, label in COUNTED.items()))
    if found["zones"] is not None:
        shares = ", ".join(f"{zone} {share:.0%}" for zone, share in found["zones"].items())
        lines.append(f"memory zones: {shares} of {duration(found['watched_s'])}")
    folders = {os.path.dirname(run["output"]): None for run in found["runs"] if run["state"] in DELIVERED}
    lines += [f"outputs: {folder}" for folder in folders]
    return [*lines, f"delivered {found['delivered']}/{found['of']}"]


def _note(run: Mapping[str, Any], before: Sequence[str]) -> str:
    parts = [
        "done before" if run["run"] in before else "",
        "a rehearsal" if run["stage"] is not None else "",
        run["cause"],
    ]
    return ", ".join(part for part in parts if part) or "-"
