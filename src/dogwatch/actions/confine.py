"""The one way to limit an agent's memory: a control group of its own, `dogwatch-<hash of the home>/<run>/<agent>.<n>`.

An agent without a limit is better than none: whatever goes wrong here is no failure of the spawn. The crew and the
tmux servers stay outside.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time

from dogwatch.actions.kill import end
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord
from dogwatch.world import groups
from dogwatch.world.home import Home
from dogwatch.world.processes import identify, life

EXPENDABLE = 500
"""The `oom_score_adj` of whatever may be taken before the crew: agents, gates, notices."""
PASSES_MAX = 10
PASS_S = 0.05
ENTERING_S = 5.0


def confine(home: Home, run: str, agent: str, incarnation: int, limit_bytes: int) -> str:
    """Makes the incarnation's group with its limit, or finds it made; returns its folder, empty where there is none."""
    if limit_bytes <= 0:
        return ""
    for _ in range(PASSES_MAX):
        try:
            return _make(home, run, f"{agent}.{incarnation}", limit_bytes)
        except FileNotFoundError:
            continue  # the last group of another run was removed, and the one around both with it
        except OSError:
            return ""
    return ""


def _make(home: Home, run: str, name: str, limit_bytes: int) -> str:
    above = groups.noted(home, run)
    if not above:
        found = groups.place(groups.group_name(home))
        if found.obstacle:
            return ""
        above = f"{found.folder}/{groups.group_name(home)}/{run}"
        # Noted before it is made: a successor must find what is to be removed.
        _write(groups.note_of(home, run), above)
    make_above(above)
    folder = f"{above}/{name}"
    os.makedirs(folder, exist_ok=True)
    set_limit(folder, limit_bytes)
    return folder


def make_above(above: str) -> None:
    """Makes the groups around those of the agents. In version 2 each must pass the controller on, which a group with
    processes of its own cannot: those of ours move to a group beside."""
    os.makedirs(above, exist_ok=True)
    around = os.path.dirname(os.path.dirname(above))
    if groups.is_version_2(around):
        for folder in (around, os.path.dirname(above), above):
            _pass_on(folder)


def _pass_on(folder: str) -> None:
    control = f"{folder}/cgroup.subtree_control"
    for left in reversed(range(PASSES_MAX)):
        with open(control, encoding="ascii") as file:
            if "memory" in file.read().split():
                return
        for pid in groups.members(folder):
            os.makedirs(f"{folder}/{groups.CREW}", exist_ok=True)
            with contextlib.suppress(ProcessLookupError):
                _write(f"{folder}/{groups.CREW}/cgroup.procs", str(pid))
        try:
            _write(control, "+memory")
            return
        except OSError as error:
            if error.errno != errno.EBUSY or not left:
                raise  # else one was started meanwhile


def set_limit(folder: str, limit_bytes: int) -> None:
    """Limits the group's memory, swap included where the kernel counts it. OSError where it has no limit then."""
    if groups.is_version_2(os.path.dirname(folder)):
        _write(f"{folder}/memory.max", str(limit_bytes))
        more = {"memory.swap.max": "0", "memory.oom.group": "1"}
    else:
        _write(f"{folder}/memory.limit_in_bytes", str(limit_bytes))
        more = {"memory.memsw.limit_in_bytes": str(limit_bytes)}
    for name, value in more.items():
        with contextlib.suppress(OSError):
            _write(f"{folder}/{name}", value)


def limit_of(home: Home, agent: AgentRecord, process: ProcessId) -> int:
    """The limit that holds for the incarnation's process, 0 for none. The process may be about to enter its group: it
    has done so, or has failed, when it has made itself expendable, which it does next."""
    folder = groups.group_of(home, agent.run, agent.agent, agent.incarnation)
    if not folder:
        return 0
    until = time.monotonic() + ENTERING_S
    while not groups.holds(folder, process.pid):
        is_through = groups.oom_score_adj(process.pid) == EXPENDABLE and not groups.holds(folder, process.pid)
        if is_through or time.monotonic() > until:
            return 0
        if life(process, process.boot) == "dead":
            break  # too short a life to be seen in there
        time.sleep(PASS_S / 10)
    return groups.limit(folder) or 0


def release(home: Home, boot: str, run: str, agent: str = "", before: int | None = None) -> int:
    """Removes the groups of the run (and the agent, and an incarnation below `before`). What is still in one is the
    agent's, whatever its environment says, and is ended; returns how many there were."""
    above = groups.noted(home, run)
    if not above:
        return 0
    ended = 0
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(above)):
            whose, _, number = name.rpartition(".")
            if not number.isdecimal() or (agent and whose != agent) or (before is not None and int(number) >= before):
                continue
            ended += _remove(f"{above}/{name}", boot)
    if not agent:
        with contextlib.suppress(OSError):
            os.rmdir(above)
            os.unlink(groups.note_of(home, run))
            os.rmdir(os.path.dirname(above))
    return ended


def _remove(folder: str, boot: str) -> int:
    ended = 0
    for _ in range(PASSES_MAX):
        folders = [found for found, _, _ in os.walk(folder, topdown=False)]
        pids = [pid for found in folders for pid in groups.members(found)]
        if os.getpid() in pids:
            break  # called from inside an agent
        end([one for pid in pids if (one := identify(pid, boot)) is not None], boot, grace_s=1.0)
        ended += len(pids)
        with contextlib.suppress(OSError):
            for found in folders:
                os.rmdir(found)
        if not os.path.isdir(folder):
            break
        time.sleep(PASS_S)  # a process that has just ended may still be counted
    return ended


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
