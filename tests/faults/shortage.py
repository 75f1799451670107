"""A small machine for fault tests: as large as the operator says, agents of a learnt size, zones that pass quickly."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from dogwatch.coordination.ledgers import open_home_ledger
from dogwatch.ledger.records import load, save
from dogwatch.model import keys
from dogwatch.model.admission import MemoryProfile
from dogwatch.model.memory import HostRecord
from dogwatch.world.clock import SystemClock
from support.fleet import Fleet
from support.helpers import wait_for

MB = 1024**2
QUICK = {"calm_s": 2, "idle_s": 2, "cycle_s": 5}


def until(name: str) -> dict[str, Any]:
    """A step: a tool that runs until the project has a file of this name."""
    return {"tool": {"command": ["sh", "-c", f'until test -e "$DOGWATCH_PROJECT/{name}"; do sleep 0.1; done']}}


def set_up(fleet: Fleet, memory_mb: int, agent_mb: int = 60, **settings: object) -> None:
    """Before anything is started."""
    fleet.settings(**{"memory": f"{memory_mb} MB", "agent_memory": "off", **QUICK, **settings})
    profile = MemoryProfile(harness="scripted", pipeline="", role="", peaks={"all": (agent_mb * MB,) * 6})
    with closing(open_home_ledger(fleet.home, SystemClock())) as ledger:
        ledger.run(lambda tx: save(tx, profile))


def host(fleet: Fleet) -> HostRecord:
    """What the dispatcher has seen last."""
    found = wait_for(
        lambda: fleet.ledger.read(lambda reader: load(reader, HostRecord, keys.host(reader.host))), 60, fleet.tail
    )
    assert found is not None
    return found


def wait_zone(fleet: Fleet, zone: str) -> HostRecord:
    """The host once its memory is in that zone."""
    wait_for(lambda: host(fleet).zone == zone, 150, fleet.tail)
    return host(fleet)
