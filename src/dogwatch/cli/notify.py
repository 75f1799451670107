"""Send a test notification through the configured ways, and say what happened.

The ways are those of the pipeline file, or of DOGWATCH_NOTIFY and DOGWATCH_NOTIFY_TARGETS where it names none. Nothing
is recorded.

Exit codes: 0 every way took it, 1 at least one did not, or none is configured.
"""

from __future__ import annotations

import argparse
import os

from dogwatch.cli.framework import open_ledger, the_home
from dogwatch.errors import DogwatchError
from dogwatch.model import keys
from dogwatch.world.home import Home

EXAMPLE = "dogwatch notify --test --spec pipeline.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--test", action="store_true", required=True, help="send one test notification now")
    parser.add_argument("--spec", default="", metavar="FILE", help="the pipeline file (default: only the environment)")
    parser.add_argument("text", nargs="?", default="This is a test of dogwatch.", metavar="TEXT", help="what it says")


def execute(arguments: argparse.Namespace) -> int:
    from dogwatch.actions.notify import send_now
    from dogwatch.model.plan import Notify

    notify = Notify()
    if arguments.spec:
        from dogwatch.spec import load

        notify = load(arguments.spec).notify
    ways = notify.or_those_of(os.environ)
    if not ways.has_ways:
        hint = "name `targets` or a `command` in the pipeline file's `notify:`, or set DOGWATCH_NOTIFY"
        raise DogwatchError("no way to notify anybody is configured", hint=hint)
    notice = {"kind": "test", "run": "", "agent": "", "title": "dogwatch test", "body": arguments.text}
    home = the_home()
    outcome = send_now(home, notice, ways)
    for way in outcome:
        print(f"{way.name}: {way.reason or 'sent'}")
    if not notify.has_ways and crew_has_others(home):
        print("note: the crew was started with other values of these variables; dogwatch down, then up, renews them")
    return 0 if outcome and not any(way.reason for way in outcome) else 1


def crew_has_others(home: Home) -> bool:
    """Whether a living dispatcher has other ways in its environment than this command: its captains have them too."""
    if not home.has_ledger:
        return False
    from dogwatch.ledger.records import load
    from dogwatch.model.plan import NOTIFY_VARIABLE, TARGETS_VARIABLE
    from dogwatch.model.records import CrewRecord
    from dogwatch.world.processes import boot_id, environment, life

    record = open_ledger(home).read(lambda r: load(r, CrewRecord, keys.dispatcher(r.host)))
    if record is None or life(record.process, boot_id()) != "alive":
        return False
    theirs = environment(record.process.pid)
    return any(theirs.get(name, "") != os.environ.get(name, "") for name in (NOTIFY_VARIABLE, TARGETS_VARIABLE))
