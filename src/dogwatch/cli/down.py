"""Stop everything of dogwatch on this machine. Unfinished runs keep their place; `dogwatch up` goes on with them."""

from __future__ import annotations

import argparse

from dogwatch.cli.fleet import take_down
from dogwatch.cli.framework import open_ledger, print_json, the_home

EXAMPLE = "dogwatch down"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print {processes_ended}")


def execute(arguments: argparse.Namespace) -> int:
    home = the_home()
    ended = take_down(home, open_ledger(home, reading=False))
    if arguments.json:
        print_json({"processes_ended": ended})
    else:
        print(f"down: {ended} process{'es' * (ended != 1)} ended")
    return 0
