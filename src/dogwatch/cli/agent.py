"""What the commands for agents share: asking at the door of the run that the agent belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dogwatch.coordination.door import ask, who_am_i
from dogwatch.errors import UsageError

WAIT_S = 60.0


def ask_door(op: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The captain's answer. While the captain is away, the call waits and tries again."""
    return ask(who_am_i(os.environ), op, body, _patience())


def _patience() -> float:
    text = os.environ.get("DOGWATCH_DOOR_WAIT_S", "")
    try:
        seconds = float(text) if text else WAIT_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise UsageError(f"DOGWATCH_DOOR_WAIT_S is {text!r}", hint="a number of seconds from 0 to 86400")
    return seconds
