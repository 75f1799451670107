"""Document that you go on without a sub-agent that has run past its time. For the agent that started it."""

from __future__ import annotations

import argparse

from dogwatch.cli.agent import ask_door, json_option, show

EXAMPLE = 'dogwatch subagent skip researcher --note "the archive does not answer; the figures are from last year"'


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["skip"], help="to start it again instead, simply do so")
    parser.add_argument("type", help="the sub-agent's type, as the letter says it")
    parser.add_argument("--note", required=True, help="why the work can go on without it")
    json_option(parser, "{type, skipped}")


def execute(arguments: argparse.Namespace) -> int:
    answer = ask_door("subagent_skip", {"type": arguments.type, "note": arguments.note})
    return show(arguments, answer, f"{answer['type']}: skip noted")
