"""Give a task to another agent of the run. For agents that work on a task themselves.

Each task needs a marker: how long it should take, and which files must come of it. It becomes a task of the run: the
other agent gets it when it is free, its files are read when it reports, and you get mail with the result.
"""

from __future__ import annotations

import argparse
import re
import sys

from dogwatch.cli.agent import ask_door, json_option, show
from dogwatch.errors import UsageError

EXAMPLE = 'dogwatch task send auditor "check the sums in data/tides.csv" --expect 10m --output sums.md'
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True)
    send = verbs.add_parser("send", help="give a task to another agent", allow_abbrev=False)
    send.add_argument("to", help="the agent's name")
    send.add_argument("text", nargs="?", default="-", help="what to do; - or nothing: from standard input")
    send.add_argument("--expect", metavar="TIME", default="", help="how long it should take: 90s, 10m, 1h30m")
    send.add_argument(
        "--output",
        metavar="FILE",
        action="append",
        default=[],
        help="a file that must come of it, relative to $DOGWATCH_OUTPUT; may be given again",
    )
    json_option(send, "{task}")


def execute(arguments: argparse.Namespace) -> int:
    text = sys.stdin.read() if arguments.text == "-" else arguments.text
    expect_s = seconds(arguments.expect) if arguments.expect else None
    order = {"to": arguments.to, "text": text, "expect_s": expect_s, "outputs": arguments.output}
    answer = ask_door("task_send", order)
    return show(arguments, answer, f"{answer['task']}: you get mail when it is done or has failed")


def seconds(text: str) -> float:
    """A time such as 90s, 10m or 1h30m; a number alone is seconds."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"--expect is {text!r}, no time", hint="write it like 90s, 10m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
