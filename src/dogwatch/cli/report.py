"""Report a task as done or failed. For agents: the captain reads the outputs before it accepts them."""

from __future__ import annotations

import argparse

from dogwatch.cli.agent import ask_door, json_option, show

EXAMPLE = 'dogwatch report failed --task draft --note "the source is gone"'


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", choices=["done", "failed"], help="how it ended")
    parser.add_argument("--task", default="", help="the task; without it, the one you hold")
    parser.add_argument("--note", default="", help="what the captain should know")
    json_option(parser, "{task, state}")


def execute(arguments: argparse.Namespace) -> int:
    body = {"result": arguments.result, "task": arguments.task, "note": arguments.note}
    answer = ask_door("report", body)
    return show(arguments, answer, f"{answer['task']}: {answer['state']}")
