"""Take an offered task. For agents: prints the task's text; exit code 77 where somebody else has it."""

from __future__ import annotations

import argparse

from dogwatch.cli.agent import ask_door

EXAMPLE = "dogwatch claim collect"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task")


def execute(arguments: argparse.Namespace) -> int:
    print(ask_door("claim", {"task": arguments.task})["text"])
    return 0
