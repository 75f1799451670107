"""Notes on an agent's spool that its turn has ended: an interrupt makes no client say so."""

from __future__ import annotations

import os

from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import Turn
from dogwatch.model.spool import TURN_ENDED, render
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home


def end_turn(home: Home, agent: AgentRecord, turn: Turn, ended: str) -> bool:
    """One more line, like those of the hooks; False where it could not be written. It counts only where nothing was
    heard of the agent since `turn` was seen."""
    now = SystemClock().now()
    said = {"ended": ended, "heard": turn.own}
    line = render(now.wall, now.mono, agent.incarnation, turn.pid, TURN_ENDED, said)
    try:
        file = os.open(home.spool(agent.run, agent.agent), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.write(file, line) == len(line)
    except OSError:
        return False
    finally:
        os.close(file)
