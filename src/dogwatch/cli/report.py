"""Report a task as done or failed. For agents: the captain reads the outputs before it accepts them."""

from __future__ import annotations

import argparse

from dogwatch.cli.agent import ask_door

EXAMPLE = 'dogwatch report failed --task draft --note "the source is gone"'


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", choices=["done", "failed"])
    parser.add_argument("--task", default="", help="the task; without it, the one you hold")
    parser.add_argument("--note", default="", help="what the captain should know")


def execute(arguments: argparse.Namespace) -> int:
    body = {"result": arguments.result, "task": arguments.task, "note": arguments.note}
    answer = ask_door("report", body)
    print(f"{answer['task']}: {answer['state']}")
    return 0
