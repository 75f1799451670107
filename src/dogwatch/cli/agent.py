"""What the commands for agents share: asking at the door of the run that the agent belongs to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from dogwatch.cli.framework import print_json
from dogwatch.door.client import ask, who_am_i
from dogwatch.errors import UsageError

WAIT_S = 60.0


def ask_door(op: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The captain's answer. While the captain is away, the call waits and tries again."""
    answer = ask(who_am_i(os.environ), op, body, _patience())
    return {name: value for name, value in answer.items() if name != "ok"}


def json_option(parser: argparse.ArgumentParser, shape: str) -> None:
    """The flag that every command for agents has."""
    parser.add_argument("--json", action="store_true", help=f"print {shape}")


def show(arguments: argparse.Namespace, answer: Any, text: str) -> int:
    """The captain's answer, as JSON or in words."""
    if arguments.json:
        print_json(answer)
    elif text:
        print(text)
    return 0


def _patience() -> float:
    text = os.environ.get("DOGWATCH_DOOR_WAIT_S", "")
    try:
        seconds = float(text) if text else WAIT_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise UsageError(f"DOGWATCH_DOOR_WAIT_S is {text!r}", hint="a number of seconds from 0 to 86400")
    return seconds
