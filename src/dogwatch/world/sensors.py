"""All sensors of memory in one look: the machine, the control groups around it, and each agent's processes."""

from __future__ import annotations

from collections.abc import Mapping

from dogwatch.model.memory import AgentMemory, Largest, Readings
from dogwatch.model.process import ProcessId
from dogwatch.world.census import Census, Entry, census, printable
from dogwatch.world.memory import memory
from dogwatch.world.probe import ProbeFailedError


class Sensors:
    """Looks at one machine, since one boot of it."""

    def __init__(self, boot: str, proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> None:
        self._boot = boot
        self._proc = proc
        self._groups = groups

    def read(self, agents: Mapping[str, ProcessId], ceiling_bytes: int = 0) -> Readings:
        """Everything as it is now; `agents` are the roots of the agents' processes by `run/agent`.

        With a ceiling the machine counts as that large, and only agents use it up. Foreign processes are never judged.
        An agent that cannot be looked at counts as living, and what it uses is not known.
        """
        try:
            looked = census(self._boot, self._proc) if agents else None
        except ProbeFailedError:
            looked = None
        seen = memory(self._proc, self._groups)
        trees, unknown = _trees(agents, looked)
        sizes = {agent: sum(entry.rss_bytes for entry in tree) for agent, tree in trees.items()}
        size_bytes, left_bytes = seen.size_bytes, seen.left_bytes
        if ceiling_bytes:
            size_bytes = min(ceiling_bytes, size_bytes or ceiling_bytes)
            left_bytes = None if looked is None and agents else _left(ceiling_bytes - sum(sizes.values()), left_bytes)
        return Readings(
            size_bytes=size_bytes,
            left_bytes=left_bytes,
            swap_total_bytes=seen.swap_total_bytes,
            swap_free_bytes=seen.swap_free_bytes,
            pressure_some_percent=seen.pressure_some_percent,
            pressure_full_percent=seen.pressure_full_percent,
            processes=len(trees) + unknown,
            largest=_largest(trees),
            agents={agent: AgentMemory(rss_bytes=rss_bytes) for agent, rss_bytes in sizes.items()},
        )


def _trees(agents: Mapping[str, ProcessId], looked: Census | None) -> tuple[dict[str, list[Entry]], int]:
    """The processes of each agent that lives, and how many agents could not be looked at."""
    if looked is None:
        return {}, len(agents)
    trees, unknown = {}, 0
    for agent, root in agents.items():
        try:
            tree = looked.entries(root)
        except ProbeFailedError:
            unknown += 1
            continue
        if tree is not None:
            trees[agent] = tree
    return trees, unknown


def _largest(trees: Mapping[str, list[Entry]]) -> Largest | None:
    found = ((entry.rss_pages, agent, entry) for agent, tree in trees.items() for entry in tree)
    _, agent, entry = max(found, default=(0, "", None))
    if entry is None:
        return None
    return Largest(rss_bytes=entry.rss_bytes, pid=entry.pid, name=printable(entry.name), agent=agent)


def _left(below_ceiling: int, of_machine: int | None) -> int:
    return max(0, below_ceiling if of_machine is None else min(below_ceiling, of_machine))
