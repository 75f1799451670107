"""Say that you are alive, and how far you are. For agents."""

from __future__ import annotations

import argparse

from dogwatch.cli.agent import ask_door, json_option, show

EXAMPLE = "dogwatch heartbeat --progress 40"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--progress", type=float, default=None, metavar="PERCENT", help="0 to 100")
    json_option(parser, "{}")


def execute(arguments: argparse.Namespace) -> int:
    answer = ask_door("heartbeat", {"progress_percent": arguments.progress})
    return show(arguments, answer, "")
