"""Show who waits to be started, for what, and how much memory there is.

Runs wait in their order; agents, gates and check-ins of runs that were let in may wait too. With --profiles: what the
agents of each role have taken so far, which is what the forecast rests on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.cli.snapshot import reasons_to_wait
from dogwatch.cli.table import columns, duration, number, size, wants_colour, width_of
from dogwatch.coordination.ledgers import working_host
from dogwatch.ledger.api import Reader
from dogwatch.ledger.records import load, load_all
from dogwatch.model import keys
from dogwatch.model.admission import MemoryProfile, PermitRecord, QueuedRun, WaitRecord
from dogwatch.model.memory import HostRecord, HostSettings
from dogwatch.model.moment import Moment
from dogwatch.model.records import RunRecord
from dogwatch.policy.forecast import quantiles
from dogwatch.policy.zones import processes_max, room_bytes
from dogwatch.world.clock import SystemClock

EXAMPLE = "dogwatch queue --profiles"
EMPTY_HINT = "hint: start a run with: dogwatch run SPEC"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profiles", action="store_true", help="what the agents of each role have taken")
    parser.add_argument("--json", action="store_true", help="print {host, queue, waits, permits, profiles}")


def execute(arguments: argparse.Namespace) -> int:
    home = the_home()
    now = SystemClock().now()
    found = open_ledger(home).read(lambda reader: take(reader, now)) if home.has_ledger else _NOTHING
    if arguments.json:
        print_json(found)
    else:
        print("\n".join(_shown(found, with_profiles=arguments.profiles)))
    return 0


_NOTHING: dict[str, Any] = {"host": None, "queue": [], "waits": [], "permits": [], "caps": [], "profiles": []}


def take(reader: Reader, now: Moment) -> dict[str, Any]:
    """Everything about admission, as plain values."""
    name = working_host(reader)
    host = load(reader, HostRecord, keys.host(name))
    waits = {wait.launch.holder: wait for wait in load_all(reader, WaitRecord, keys.waits(name))}
    permits = load_all(reader, PermitRecord, keys.permits(name))
    return {
        "host": _host(host, now) if host is not None else None,
        "queue": [_queued(reader, run, reason, waits, now) for run, reason in reasons_to_wait(reader).items()],
        "waits": [_wait(wait, now) for wait in waits.values() if wait.launch.kind != "run"],
        "permits": [_permit(permit, host, now) for permit in permits],
        "caps": list(_caps(permits, host.settings)) if host is not None else [],
        "profiles": [row for profile in load_all(reader, MemoryProfile, keys.PROFILES) for row in _profile(profile)],
    }


def _host(host: HostRecord, now: Moment) -> dict[str, Any]:
    room = room_bytes(host)
    return {
        "zone": host.zone,
        "zone_age_s": round(now.since(host.since), 3),
        "sensor": host.sensor,
        "why": host.why,
        "age_s": round(now.since(host.at), 3),
        "size_bytes": host.readings.size_bytes,
        "left_bytes": host.readings.left_bytes,
        "room_bytes": None if room == float("inf") else int(room),
        "processes": host.readings.processes,
        "processes_max": processes_max(host),
        "missing": list(host.readings.missing),
        "spacious": host.spacious,
        "problem": host.problem,
        "is_unset": host.is_unset,
        "zone_s": dict(host.zone_s),
    }


def _queued(reader: Reader, run: str, reason: str, waits: Mapping[str, WaitRecord], now: Moment) -> dict[str, Any]:
    record, queued = load(reader, RunRecord, keys.run(run)), load(reader, QueuedRun, keys.queued(run))
    wait = waits.get(f"run:{run}")
    return {
        "run": run,
        "group": queued.group if queued is not None else "",
        "waits_s": round(now.since(record.created), 3) if record is not None else None,
        "limit": wait.answer.limit if wait is not None else "order",
        "reason": reason,
    }


def _wait(wait: WaitRecord, now: Moment) -> dict[str, Any]:
    return {
        "holder": wait.launch.holder,
        "kind": wait.launch.kind,
        "waits_s": round(now.since(wait.since), 3),
        "needed": wait.launch.needed,
        "limit": wait.answer.limit,
        "reason": wait.answer.reason,
    }


def _permit(permit: PermitRecord, host: HostRecord | None, now: Moment) -> dict[str, Any]:
    launch = permit.launch
    agents = host.readings.agents if host is not None else {}
    if launch.kind == "run":
        used = sum(one.rss_bytes for name, one in agents.items() if name.startswith(f"{launch.run}/"))
    else:
        one = agents.get(f"{launch.run}/{launch.agent}") if launch.kind == "agent" else None
        used = one.rss_bytes if one is not None else 0
    return {
        "holder": launch.holder,
        "kind": launch.kind,
        "granted_age_s": round(now.since(permit.granted), 3),
        "used_bytes": used,
        "expected_bytes": int(launch.demand.mean_bytes),
        "learnt": launch.demand.learnt,
    }


def _caps(permits: Iterable[PermitRecord], settings: HostSettings) -> Iterable[dict[str, Any]]:
    agents = [permit.launch for permit in permits if permit.launch.kind in ("agent", "process")]
    if settings.agents:
        yield {"cap": "agents", "limit": settings.agents, "taken": len(agents)}
    for kind, caps in (("role", settings.roles), ("harness", settings.harnesses), ("credential", settings.credentials)):
        for name, limit in caps.items():
            taken = sum(getattr(launch, kind) == name for launch in agents)
            yield {"cap": f"{kind} {name}", "limit": limit, "taken": taken}


def _profile(profile: MemoryProfile) -> Iterable[dict[str, Any]]:
    for phase in profile.peaks:
        found = quantiles(profile, phase)
        if found is not None:
            yield {
                "harness": profile.harness,
                "pipeline": profile.pipeline,
                "role": profile.role,
                "phase": phase,
                "samples": found.samples,
                "p50_bytes": found.p50_bytes,
                "p90_bytes": found.p90_bytes,
                "p99_bytes": found.p99_bytes,
            }


def _shown(found: Mapping[str, Any], *, with_profiles: bool) -> list[str]:
    table = partial(columns, colour=wants_colour(sys.stdout), width=width_of(sys.stdout))
    lines = list(_host_lines(found["host"]))
    waiting = [(one["run"], duration(one["waits_s"]), one["limit"], one["reason"]) for one in found["queue"]]
    waiting += [
        (one["holder"].partition(":")[2], duration(one["waits_s"]), one["limit"], one["reason"])
        for one in found["waits"]
    ]
    if waiting:
        lines += ["", *table(("WAITS", "FOR", "LIMIT", "WHY"), waiting)]
    else:
        lines.append("nobody waits")
    runs = [
        (
            one["holder"].partition(":")[2],
            duration(one["granted_age_s"]),
            size(one["used_bytes"]),
            f"{size(one['expected_bytes'])}{'' if one['learnt'] else ' (assumed)'}",
        )
        for one in found["permits"]
        if one["kind"] == "run"
    ]
    if runs:
        lines += ["", *table(("RUN", "LET IN", "USES", "EXPECTED PEAK"), runs)]
        lines.append(f"{number(sum(one['kind'] == 'agent' for one in found['permits']), 'agent')} with a permit")
    if found["caps"]:
        rows = [(one["cap"], str(one["taken"]), str(one["limit"])) for one in found["caps"]]
        lines += ["", *table(("CAP", "TAKEN", "OF"), rows)]
    if with_profiles:
        lines += ["", *_profile_lines(found["profiles"], table)]
    return lines


def _host_lines(host: Mapping[str, Any] | None) -> Iterable[str]:
    if host is None:
        yield "no dispatcher has looked at the memory yet"
        yield EMPTY_HINT
        return
    left = f"{size(host['left_bytes'])} of {size(host['size_bytes'])} left" if host["size_bytes"] else "size not known"
    agents = f"{host['processes']} agent process{'es' * (host['processes'] != 1)}"
    why = f" ({host['why']})" if host["why"] else ""
    yield f"memory is {host['zone']}{why} for {duration(host['zone_age_s'])}: {left}, {agents}"
    if host["age_s"] > 60:
        yield f"the dispatcher looked {duration(host['age_s'])} ago; without it nothing is started: dogwatch up"
    if host["missing"]:
        yield f"this machine has no sensor for: {', '.join(host['missing'])}"
    if host["problem"]:
        what = "nothing starts before it is mended" if host["is_unset"] else "the last settings still hold"
        yield f"host.yaml cannot be used, {what}: {host['problem']}"


def _profile_lines(profiles: Sequence[Mapping[str, Any]], table: Callable[..., list[str]]) -> list[str]:
    if not profiles:
        return ["nothing is learnt yet: a role's memory is known after three of its agents have ended"]
    rows = [
        (
            one["role"] or "(all roles)",
            one["pipeline"] or "-",
            one["harness"],
            one["phase"],
            str(one["samples"]),
            size(one["p50_bytes"]),
            size(one["p90_bytes"]),
            size(one["p99_bytes"]),
        )
        for one in profiles
    ]
    return table(("ROLE", "PIPELINE", "HARNESS", "PHASE", "SEEN", "P50", "P90", "P99"), rows)
