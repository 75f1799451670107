"""Show what happened, or follow it.

Lines for people, or with --json one JSON object a line. With --follow and a RUN it ends when nothing of the run is
left; otherwise with Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace

from dogwatch.cli.following import following, until_left
from dogwatch.cli.framework import open_ledger, the_home
from dogwatch.cli.sentences import sentence
from dogwatch.cli.table import note
from dogwatch.errors import NotFoundError, UsageError
from dogwatch.ledger.api import START, Reader, Store, StoredEvent
from dogwatch.model import keys
from dogwatch.model.events import KINDS

EXAMPLE = "dogwatch events overnight-1 --follow --kind agent_restarted --kind task_accepted"
PAGE = 500
WAIT_S = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help="only this run's")
    parser.add_argument("--follow", action="store_true", help="go on with what happens next")
    parser.add_argument("--json", action="store_true", help="JSON lines (docs/reference/json.md)")
    parser.add_argument("--since", default=None, metavar="CURSOR", help="all events after this one's cursor")
    parser.add_argument("--last", type=int, default=50, metavar="N", help="the newest N (default 50)")
    parser.add_argument("--kind", action="append", default=[], metavar="KIND", help="only this kind; may be repeated")
    parser.add_argument("--agent", default="", metavar="AGENT", help="only this agent's")


def execute(arguments: argparse.Namespace) -> int:
    _check(arguments)
    ledger = open_ledger(the_home())
    if arguments.run and ledger.read(lambda r: r.get(keys.run(arguments.run))) is None:
        raise NotFoundError(f"there is no run {arguments.run!r}", hint="dogwatch status lists all runs")
    with following(wanted=arguments.follow):
        cursor, shown = _show(ledger, arguments)
        if arguments.follow:
            _follow(ledger, arguments, cursor, shown)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.last < 0:
        raise UsageError(f"--last is {arguments.last}", hint="a number of events, 0 or more")
    for kind in arguments.kind:
        if kind not in KINDS:
            import difflib

            close = difflib.get_close_matches(kind, KINDS, 1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(KINDS)}"
            raise UsageError(f"there is no kind of event {kind!r}", hint=hint)


def _show(ledger: Store, arguments: argparse.Namespace) -> tuple[str, Sequence[StoredEvent]]:
    """Prints what has happened so far, and returns the cursor behind which following goes on, with those events that
    were shown and come behind it all the same."""
    if arguments.since is not None:
        return _print_since(ledger, arguments, arguments.since, ()), ()
    events, cursor = ledger.read(lambda r: _latest(r, arguments))
    _print(events, as_json=arguments.json)
    if not events and not arguments.follow:
        note("note: no such events yet")
    return cursor, [event for event in events if event.cursor == cursor]


def _latest(reader: Reader, arguments: argparse.Namespace) -> tuple[Sequence[StoredEvent], str]:
    """The newest events that are wanted, and the cursor of the newest of all, where following goes on."""
    newest = reader.recent(1)
    cursor = newest[0].cursor if newest else START
    n = arguments.last
    while True:
        found = reader.recent(n, arguments.run, arguments.kind)
        wanted = [event for event in found if not arguments.agent or event.agent == arguments.agent]
        if len(wanted) >= arguments.last or len(found) < n:
            return wanted[len(wanted) - min(len(wanted), arguments.last) :], cursor
        n *= 4


def _print_since(ledger: Store, arguments: argparse.Namespace, cursor: str, shown: Sequence[StoredEvent]) -> str:
    """Prints everything after the cursor but what was shown already, and returns the last one's."""
    while events := ledger.since(cursor, PAGE, arguments.run):
        wanted = [event for event in events if _is_wanted(event, arguments)]
        _print([event for event in wanted if not _is_among(event, shown)], as_json=arguments.json)
        cursor = events[-1].cursor
    return cursor


def _is_among(event: StoredEvent, others: Sequence[StoredEvent]) -> bool:
    return any(replace(other, cursor=event.cursor) == event for other in others)


def _is_wanted(event: StoredEvent, arguments: argparse.Namespace) -> bool:
    return (not arguments.kind or event.kind in arguments.kind) and arguments.agent in ("", event.agent)


def _follow(ledger: Store, arguments: argparse.Namespace, cursor: str, shown: Sequence[StoredEvent]) -> None:
    run = keys.run(arguments.run) if arguments.run else ""

    def step() -> bool:
        nonlocal cursor
        # Asked before the events are read: what happened before the end is then among them.
        record = ledger.read(lambda r: r.get(run)) if run else None
        is_over = record is not None and bool(record.body.get("cleared")) and ledger.settled(arguments.run)
        cursor = _print_since(ledger, arguments, cursor, shown)
        if is_over:
            return False
        ledger.wait(WAIT_S)
        return True

    until_left(step)


def _print(events: Sequence[StoredEvent], *, as_json: bool) -> None:
    for event in events:
        print(_json_line(event) if as_json else _line(event))


def _json_line(event: StoredEvent) -> str:
    at = {"boot": event.at.boot, "mono": event.at.mono, "wall": event.at.wall}
    known = {"cursor": event.cursor, "kind": event.kind, "at": at, "run": event.run, "agent": event.agent}
    return json.dumps({**known, "body": event.body, "op_id": event.op_id}, ensure_ascii=False)


def _line(event: StoredEvent) -> str:
    at = time.strftime("%m-%d %H:%M:%S", time.localtime(event.at.wall))
    where = "/".join(part for part in (event.run, event.agent) if part)
    return f"{at}  {where:<24} {event.kind:<20} {sentence(event)}"
