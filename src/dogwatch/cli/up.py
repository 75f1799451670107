"""Look after all unfinished runs of this machine, also after a reboot or `dogwatch down`."""

from __future__ import annotations

import argparse

from dogwatch.cli.fleet import bring_up
from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.model import keys

EXAMPLE = "dogwatch up"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print {dispatcher_pid, runs}")


def execute(arguments: argparse.Namespace) -> int:
    home = the_home()
    ledger = open_ledger(home, must_exist=False)
    dispatcher = bring_up(home, ledger)
    runs = [document.key.removeprefix(keys.ACTIVE) for document in ledger.read(lambda r: r.scan(keys.ACTIVE))]
    if arguments.json:
        print_json({"dispatcher_pid": dispatcher.process.pid, "runs": runs})
    else:
        print(f"the dispatcher is up (pid {dispatcher.process.pid}); unfinished runs: {len(runs)}")
        for run in runs:
            print(f"  {run}")
    return 0
