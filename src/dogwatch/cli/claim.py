"""Take an offered task. For agents: prints the task's text; exit code 77 where somebody else has it."""

from __future__ import annotations

import argparse

from dogwatch.cli.agent import ask_door, json_option, show

EXAMPLE = "dogwatch claim collect"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", help="the task's name, as the offer says it")
    json_option(parser, "{task, text}")


def execute(arguments: argparse.Namespace) -> int:
    answer = ask_door("claim", {"task": arguments.task})
    return show(arguments, answer, answer["text"])
