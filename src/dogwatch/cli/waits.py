"""Show who waits for whom and for what, as a tree down to the processes.

It is the watchdog's latest view of each unfinished run. Agents that wait for one another in a ring are named first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.cli.table import clean, cut, duration, paint, wants_colour, width_of
from dogwatch.errors import NotFoundError
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.moment import Moment
from dogwatch.model.records import WatchRecord
from dogwatch.model.sight import Wait
from dogwatch.policy.waits import WaitGraph
from dogwatch.world.clock import SystemClock

EXAMPLE = "dogwatch waits overnight-1"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help="an exact name; default: all unfinished runs")
    parser.add_argument("--json", action="store_true", help="print [{run, age_s, waits, rings}]")


def execute(arguments: argparse.Namespace) -> int:
    ledger = open_ledger(the_home())
    now = SystemClock().now()
    names = [arguments.run] if arguments.run else []
    if not names:
        names = [d.key.removeprefix(keys.ACTIVE) for d in ledger.read(lambda r: r.scan(keys.ACTIVE))]
    elif ledger.read(lambda r: r.get(keys.run(arguments.run))) is None:
        raise NotFoundError(f"there is no run {arguments.run!r}", hint="dogwatch status lists all runs")
    records = ledger.read(lambda r: {name: load(r, WatchRecord, keys.watch(name)) for name in names})
    if arguments.json:
        print_json([_plain(name, record, now) for name, record in records.items()])
        return 0
    if not records:
        print("no unfinished runs: nobody waits")
    for name, record in records.items():
        print("\n".join(_shown(name, record, now)))
    return 0


def tree(waits: Sequence[Wait]) -> Iterator[str]:
    """One line for each wait, below whoever it holds up."""
    targets = {wait.target for wait in waits}
    roots = [name for name in dict.fromkeys(wait.waiter for wait in waits) if name not in targets]
    shown: set[str] = set()
    for root in roots or list(dict.fromkeys(wait.waiter for wait in waits))[:1]:
        yield root
        yield from _below(root, waits, "  ", shown)


def _below(waiter: str, waits: Sequence[Wait], indent: str, shown: set[str]) -> Iterator[str]:
    if waiter in shown:
        yield f"{indent}… (as above)"
        return
    shown.add(waiter)
    for wait in (wait for wait in waits if wait.waiter == waiter):
        yield f"{indent}waits {duration(wait.age_s)} for {wait.target}: {wait.what}"
        if any(other.waiter == wait.target for other in waits):
            yield from _below(wait.target, waits, indent + "  ", shown)


def _by_now(record: WatchRecord | None, now: Moment) -> list[Wait]:
    """The waits of the record, which go on since it was written."""
    if record is None:
        return []
    return [replace(wait, age_s=wait.age_s + now.since(record.at)) for wait in record.waits]


def _shown(name: str, record: WatchRecord | None, now: Moment) -> list[str]:
    colour, width = wants_colour(sys.stdout), width_of(sys.stdout)
    title = paint(name, "bold", colour=colour)
    if record is None:
        return [f"{title}: its watchdog has not looked yet"]
    waits = _by_now(record, now)
    lines = [f"{title}, as seen {duration(now.since(record.at))} ago"]
    for members in WaitGraph(waits).rings():
        words = " waits for ".join((*members, members[0]))
        lines.append("  " + paint(f"deadlock: {words}", "red", colour=colour))
    lines += [cut(f"  {clean(line)}", width) for line in tree(waits)] or ["  nobody waits for anybody"]
    return lines


def _plain(name: str, record: WatchRecord | None, now: Moment) -> Mapping[str, Any]:
    waits = _by_now(record, now)
    told = [{"waiter": w.waiter, "target": w.target, "what": w.what, "age_s": round(w.age_s, 3)} for w in waits]
    age_s = round(now.since(record.at), 3) if record is not None else None
    return {
        "run": name,
        "age_s": age_s,
        "waits": told,
        "rings": [list(members) for members in WaitGraph(waits).rings()],
    }
