"""Approve an artifact or ask for a revision. For agents that were asked to review."""

from __future__ import annotations

import argparse

from dogwatch.cli.agent import ask_door, json_option, show

EXAMPLE = 'dogwatch checkpoint revise draft-review --note "the second figure has no source"'


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verdict", choices=["approve", "revise"], help="your judgement")
    parser.add_argument("checkpoint", help="the checkpoint's name, as the request says it")
    parser.add_argument("--note", default="", help="for revise: what must change")
    json_option(parser, "{checkpoint, state}")


def execute(arguments: argparse.Namespace) -> int:
    body = {"verdict": arguments.verdict, "checkpoint": arguments.checkpoint, "note": arguments.note}
    answer = ask_door("checkpoint", body)
    return show(arguments, answer, f"{answer['checkpoint']}: {arguments.verdict} noted")
