"""Sensing: what one look at all agents' memory costs, against psutil's children() and memory_info() for each agent."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from bench.harness import Figure
from dogwatch.model.process import ProcessId
from dogwatch.world.processes import boot_id, identify
from dogwatch.world.sensors import Sensors

PROCESSES = 500
TREES = (50, 5)
TARGET = 4.0
ROUNDS = 15
WORKERS = 9
"""A shell of an agent's has so many children."""
PATIENCE_S = 120.0


def measure() -> Sequence[Figure]:
    """The same processes as the trees of many agents and as those of a few."""
    return [_figure(count) for count in TREES]


def _figure(count: int) -> Figure:
    with _agents(count, PROCESSES // count) as agents:
        sensors = Sensors(boot_id())
        ours_ms, theirs_ms = [], []
        for _ in range(ROUNDS):
            ours_ms.append(_ours(sensors, agents))
            theirs_ms.append(_theirs(agents))
    return Figure(
        name=f"{PROCESSES} processes of {count} agents: psutil's children() and RSS for each against one look",
        value=median(theirs_ms) / median(ours_ms),
        unit="x",
        target=TARGET,
        comparison=">=",
        times_ms={"one look at all sensors": ours_ms, "psutil, one agent after the other": theirs_ms},
    )


def _ours(sensors: Sensors, agents: Mapping[str, ProcessId]) -> float:
    begin = time.perf_counter()
    readings = sensors.read(agents)
    spent_ms = (time.perf_counter() - begin) * 1000
    assert len(readings.agents) == readings.processes == len(agents)
    assert all(agent.rss_bytes > 0 for agent in readings.agents.values())
    return spent_ms


def _theirs(agents: Mapping[str, ProcessId]) -> float:
    # Only `scripts/setup bench` installs it for sure, and the types are checked without it.
    psutil: Any = importlib.import_module("psutil")
    begin = time.perf_counter()
    sizes, count = {}, 0
    for agent, root in agents.items():
        process = psutil.Process(root.pid)
        tree = [process, *process.children(recursive=True)]
        sizes[agent] = sum(one.memory_info().rss for one in tree)
        count += len(tree)
    spent_ms = (time.perf_counter() - begin) * 1000
    assert count == PROCESSES
    assert all(sizes.values())
    return spent_ms


@contextmanager
def _agents(count: int, size: int) -> Iterator[Mapping[str, ProcessId]]:
    """So many trees of so many processes each: a shell, shells below it, and the cheapest program below these."""
    shells, left = divmod(size - 1, WORKERS + 1)
    below = f"i=0; while [ $i -lt {WORKERS} ]; do sleep 86400 & i=$((i+1)); done; wait"
    script = f"for n in {' '.join(map(str, range(shells)))}; do sh -c '{below}' & done; "
    script += "sleep 86400 & " * left + "wait"
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, start_new_session=True))
        boot = boot_id()
        roots = {f"bench-1/author-{number}": identify(one.pid, boot) for number, one in enumerate(started)}
        agents = {agent: root for agent, root in roots.items() if root is not None}
        assert len(agents) == count
        _wait_for(agents, Counter(sh=shells * count, sleep=(shells * WORKERS + left) * count))
        yield agents
    finally:
        for one in started:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def _wait_for(agents: Mapping[str, ProcessId], wanted: Counter[str]) -> None:
    """Until all are there, and each shell that was forked for a program has become it."""
    psutil: Any = importlib.import_module("psutil")
    deadline = time.monotonic() + PATIENCE_S

    while Counter(one.name() for root in agents.values() for one in _below(psutil, root)) != wanted:
        assert time.monotonic() < deadline, "waited in vain for all processes"
        time.sleep(0.05)


def _below(psutil: Any, root: ProcessId) -> Sequence[Any]:
    found: Sequence[Any] = psutil.Process(root.pid).children(recursive=True)
    return found
