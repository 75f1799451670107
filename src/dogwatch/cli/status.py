"""Show runs, phases, agents and what they are doing.

Without RUN: one line a run, unfinished ones first; a QUEUED one waits for what its last column says. With RUN:
everything about it, and what happened last. With --prefix: what came of the runs of `dogwatch run … --prefix`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from typing import Any

from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.cli.snapshot import ENDED_SHOWN_MAX, shown_state, take
from dogwatch.cli.table import columns, duration, note, number, wants_colour, width_of
from dogwatch.errors import NotFoundError, UsageError
from dogwatch.ledger.api import Reader, Store
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.codec import encode
from dogwatch.model.moment import Moment
from dogwatch.model.records import ChecksRecord
from dogwatch.world.clock import SystemClock

EXAMPLE = "dogwatch status overnight-1"
EMPTY_HINT = "hint: start one with: dogwatch run SPEC, or try dogwatch demo"
ALL = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help="an exact name; without it, all runs")
    parser.add_argument("--prefix", default="", metavar="WORD", help="the outcome so far of all runs with this prefix")
    parser.add_argument("--json", action="store_true", help="print one JSON document (docs/reference/json.md)")
    parser.add_argument("--checks", action="store_true", help="the captain's self-checks of RUN")
    parser.add_argument("--watch", action="store_true", help="a live table until Ctrl-C")
    parser.add_argument("--all", action="store_true", help=f"all ended runs, not only the last {ENDED_SHOWN_MAX}")


def execute(arguments: argparse.Namespace) -> int:
    home = the_home()
    now = SystemClock().now()
    if not home.has_ledger and not arguments.run:
        return _show_empty(now, arguments.json)
    ledger = open_ledger(home)
    if arguments.prefix:
        return _show_outcome(ledger, arguments, now)
    names = [arguments.run] if arguments.run else None
    snapshot = ledger.read(lambda r: take(r, names, now, ALL if arguments.all else ENDED_SHOWN_MAX))
    if names and not snapshot["runs"]:
        raise NotFoundError(f"there is no run {arguments.run!r}", hint="dogwatch status lists all runs")
    if arguments.checks:
        return _show_checks(ledger, arguments.run, now, arguments.json)
    if arguments.watch and not arguments.json and _watch(ledger, names):
        return 0
    if arguments.json:
        print_json(snapshot)
    elif names:
        print("\n".join(_detail(ledger, snapshot)))
    elif not snapshot["runs"]:
        return _show_empty(now, as_json=False)
    else:
        print("\n".join(_summary(snapshot)))
    return 0


def _show_outcome(ledger: Store, arguments: argparse.Namespace, now: Moment) -> int:
    """The table and the counts that `dogwatch run` prints at its end, as they are now."""
    from dogwatch.cli.outcome import gather, words
    from dogwatch.cli.rounds import runs_with

    if arguments.run or arguments.checks or arguments.watch:
        raise UsageError("--prefix is about several runs", hint="without RUN, --checks and --watch")
    names = ledger.read(lambda r: runs_with(r, arguments.prefix))
    if not names:
        message = f"no run was made with --prefix {arguments.prefix}"
        raise NotFoundError(message, hint="dogwatch status lists all runs")
    found = ledger.read(lambda r: gather(r, names, now, arguments.prefix))
    if arguments.json:
        print_json(found)
    else:
        print("\n".join(words(found, (), colour=wants_colour(sys.stdout), width=width_of(sys.stdout))))
    return 0


def _show_checks(ledger: Store, run: str, now: Moment, as_json: bool) -> int:
    """The fourteen checks as a table; exit code 1 where one has failed."""
    if not run:
        raise UsageError("--checks is about one run", hint="dogwatch status RUN --checks")
    record = ledger.read(lambda r: load(r, ChecksRecord, keys.checks(run)))
    results = record.results if record is not None else ()
    if as_json:
        age_s = round(now.since(record.at), 3) if record is not None else None
        print_json({"run": run, "age_s": age_s, "checks": [encode(one) for one in results]})
    elif record is None:
        print(f"the captain of {run} has not checked itself yet")
    else:
        rows = [
            (str(one.number), one.name, one.result, duration(now.since(one.since or record.at)), one.detail or one.what)
            for one in results
        ]
        heading = ("#", "CHECK", "RESULT", "FOR", "DETAIL, OR WHAT IT CATCHES")
        print("\n".join(columns(heading, rows, colour=wants_colour(sys.stdout), width=width_of(sys.stdout))))
        print(f"checked {duration(now.since(record.at))} ago")
    return 1 if any(one.result == "failed" for one in results) else 0


def _watch(ledger: Store, names: list[str] | None) -> bool:
    """The live table until Ctrl-C; False where there is no terminal for it."""
    if not sys.stderr.isatty():
        note("note: --watch needs a terminal; this is one snapshot")
        return False
    from dogwatch.cli.live import watch_forever

    # The one way out of a table without end is no failure.
    with contextlib.suppress(KeyboardInterrupt):
        watch_forever(ledger, names)
    return True


def _show_empty(now: Moment, as_json: bool) -> int:
    if as_json:
        at = {"boot": now.boot, "mono": now.mono, "wall": now.wall}
        print_json({"at": at, "dispatcher": None, "more": 0, "runs": []})
    else:
        print("no runs yet")
        note(EMPTY_HINT)
    return 0


def _summary(snapshot: dict[str, Any]) -> list[str]:
    colour, width = wants_colour(sys.stdout), width_of(sys.stdout)
    heading = ("RUN", "STATE", "PHASE", "TASKS", "AGENTS", "TIME", "ENDED", "CAUSE")
    rows = [
        (
            run["run"],
            shown_state(run),
            _phase(run),
            f"{run['progress']['accepted']}/{run['progress']['tasks']}",
            _agent_counts(run),
            duration(run["age_s"]),
            f"{duration(run['ended_age_s'])} ago" if run["over"] else "-",
            run["cause"] or run["waits_for"] or "-",
        )
        for run in snapshot["runs"]
    ]
    lines = columns(heading, rows, colour=colour, width=width)
    if snapshot["more"]:
        lines.append(f"… and {snapshot['more']} more ended: dogwatch status --all")
    lines += ["", _dispatcher(snapshot)]
    return lines


def _phase(run: dict[str, Any]) -> str:
    return "-" if run["over"] or run["queued"] else f"{run['phase_number']}/{run['phases']} {run['phase']}".rstrip()


def _agent_counts(run: dict[str, Any]) -> str:
    if run["over"] or run["queued"]:
        return str(len(run["agents"]))
    counts = Counter(agent["state"] for agent in run["agents"])
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())


def _dispatcher(snapshot: dict[str, Any]) -> str:
    dispatcher = snapshot["dispatcher"]
    if dispatcher is not None and dispatcher["alive"]:
        return f"the dispatcher is up (pid {dispatcher['pid']})"
    unfinished = sum(not run["cleared"] for run in snapshot["runs"])
    if unfinished:
        return f"the dispatcher is down with {number(unfinished, 'unfinished run')}: dogwatch up"
    return "the dispatcher is down; nothing is unfinished"


def _detail(ledger: Store, snapshot: dict[str, Any]) -> list[str]:
    from dogwatch.cli.details import detail

    run = snapshot["runs"][0]

    def read(reader: Reader) -> list[Any]:
        return list(reader.recent(10, run["run"]))

    return detail(run, ledger.read(read), SystemClock().now(), wants_colour(sys.stdout), width_of(sys.stdout))
