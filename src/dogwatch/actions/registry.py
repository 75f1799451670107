"""The spawn registry as a flat file: who was started for whom, as which process. It is all that the guard reads.

The ledger has the same and more, but a hook has no time to open it. Lines are only ever added: a sandbox sees the file
by its inode.
"""

from __future__ import annotations

import errno
import json
import os
import time

from dogwatch.model.life import Starting
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord
from dogwatch.world.home import Home


def register(home: Home, agent: AgentRecord, process: ProcessId) -> None:
    """Adds the agent's current incarnation."""
    entry = {
        "spawner": f"captain of {agent.run}",
        "spawned": agent.session,
        "agent": agent.agent,
        "role": agent.role,
        "run": agent.run,
        "time": agent.life.since.wall if isinstance(agent.life, Starting) else time.time(),
        "pid": process.pid,
        "start": process.start_ticks,
        "incarnation": agent.incarnation,
        "pid_namespace": os.readlink("/proc/self/ns/pid"),
    }
    line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
    file = os.open(home.registry(agent.run), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line  # the last one was torn by a full disk: this one must not stick to it
        if os.write(file, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), home.registry(agent.run))
    finally:
        os.close(file)
