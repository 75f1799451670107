"""Lives of agents for tests of decisions."""

from __future__ import annotations

from typing import Any

from dogwatch.model.life import Running
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId

PROCESS = ProcessId("boot", 42, 7)


def running(since: Moment, process: ProcessId = PROCESS, **more: Any) -> Running:
    """An agent that was started then."""
    return Running(since=since, process=process, **more)
