"""Seeing: what one look at all agents of a run costs, against asking tmux and the kernel for each of them."""

from __future__ import annotations

import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench import deciding
from bench.harness import Figure
from dogwatch.coordination.ledgers import open_home_ledger
from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import join
from dogwatch.crew.watchdog.watchdog import Watchdog
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import save
from dogwatch.model.codec import encode
from dogwatch.model.life import Running
from dogwatch.model.plan import Limits
from dogwatch.model.process import ProcessId
from dogwatch.world import tmux
from dogwatch.world.census import census
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.memory import memory
from dogwatch.world.processes import boot_id, identify

TARGETS = {100: 100.0, 500: 300.0}
GROWTH_MAX = 1.7
STARTS = 3
ROUNDS = 6
SAMPLE = 10
BATCH = 20
WIDTH, HEIGHT = 160, 48
LAST_LINE = "❯ waiting for the next line"
PATIENCE_S = 120.0
WATCHED = 100
STEPS = 15
RUN = "bench-1"


@dataclass(frozen=True)
class Agent:
    """One pane with its process."""

    session: str
    pane: str
    process: ProcessId


@dataclass
class Times:
    """What a look at all agents took, in one sweep and one by one."""

    sweep_ms: list[float]
    one_by_one_ms: list[float]


def measure() -> Sequence[Figure]:
    """All figures of the sweep: first those of seeing, then those of deciding."""
    return [*_seeing(), *deciding.figures(), _watching()]


def _watching() -> Figure:
    """What share of a core the watchdog of many agents needs at its usual cadence: its own steps, on the real machine.
    What tmux does for it is not its own time."""
    boot, clock = boot_id(), SystemClock()
    with tempfile.TemporaryDirectory(prefix="dw") as folder, selectors.DefaultSelector() as selector:
        home = Home(f"{folder}/h")
        os.makedirs(home.run(RUN), mode=0o700)
        os.makedirs(home.sockets)
        with _agents(WATCHED, boot, home.tmux(RUN)) as (_, agents), closing(open_home_ledger(home, clock)) as ledger:
            ledger.run(lambda tx: _record(tx, agents))
            eyes = MachineEyes(home, boot, selector, "watchdog", RUN)
            me = identify(os.getpid(), boot)
            assert me is not None
            lease = join(ledger, "watchdog", RUN, me, eyes.life, clock.now())
            assert lease is not None
            watchdog = Watchdog(RUN, lease, Log("watchdog", RUN, write=lambda line: None))
            world = World(eyes)
            spent_ms = []
            for _ in range(STEPS):
                begin = time.process_time()
                watchdog.step(world, ledger, clock.now())
                spent_ms.append((time.process_time() - begin) * 1000)
    return Figure(
        name=f"the watchdog of {WATCHED} agents, share of one core at a sweep every {Limits().sweep_s:g} s",
        value=median(spent_ms[1:]) / (Limits().sweep_s * 1000) * 100,
        unit="%",
        target=2.0,
        times_ms={"cpu of one step": spent_ms},
    )


@dataclass(frozen=True)
class World:
    """A watchdog's eyes; there is no dispatcher to start."""

    eyes: MachineEyes

    @property
    def starter(self) -> World:
        return self

    def start_crew(self, member: str, run: str = "") -> None:
        """Nobody is started."""


def _record(tx: Tx, agents: Sequence[Agent]) -> None:
    """A run of these agents on the ledger, each with a task that it works on."""
    view, _ = deciding.fleet(len(agents))
    save(tx, replace(view.run, run=RUN))
    tx.put(f"plan/{RUN}", encode(view.plan))
    for record, agent in zip(view.agents.values(), agents, strict=True):
        life = Running(since=tx.now, process=agent.process, pane=agent.pane)
        save(tx, replace(record, run=RUN, life=life))
    for task in view.tasks.values():
        save(tx, replace(task, run=RUN, dispatched=tx.now, delivered=tx.now))


def _seeing() -> Iterator[Figure]:
    times = _times()
    for count, target in TARGETS.items():
        sweep, one_by_one = times[count].sweep_ms, times[count].one_by_one_ms
        yield Figure(
            name=f"{count} agents: has-session, capture-pane and pgrep for each against one sweep",
            value=median(one_by_one) / median(sweep),
            unit="x",
            target=target,
            comparison=">=",
            times_ms={
                f"one sweep of {count}": sweep,
                f"{count} one by one ({SAMPLE} measured, times {count // SAMPLE})": one_by_one,
            },
        )
    few, many = min(TARGETS), max(TARGETS)
    shares = {count: [spent / count for spent in times[count].sweep_ms] for count in (few, many)}
    yield Figure(
        name=f"a sweep's time per agent with {many} agents against that with {few}",
        value=median(shares[many]) / median(shares[few]),
        unit="x",
        target=GROWTH_MAX,
        times_ms={f"per agent of {count}": share for count, share in shares.items()},
    )


def _times() -> Mapping[int, Times]:
    """Both ways in turns, on few and on many agents in turns, so that all see the same machine."""
    boot = boot_id()
    times = {count: Times([], []) for count in TARGETS}
    for _ in range(STARTS):
        for count, spent in times.items():
            with _agents(count, boot) as (socket, agents):
                _sweep(socket, agents, boot)
                for number in range(ROUNDS):
                    spent.sweep_ms.append(_sweep(socket, agents, boot))
                    sample = agents[number :: count // SAMPLE][:SAMPLE]
                    spent.one_by_one_ms.append(_one_by_one(socket, sample) * count / SAMPLE)
    return times


def _sweep(socket: str, agents: Sequence[Agent], boot: str) -> float:
    """One look at everything: panes, screens, each agent's processes with their time and memory, the machine."""
    begin = time.perf_counter()
    panes, screens = tmux.sweep(socket, [agent.pane for agent in agents])
    looked = census(boot)
    trees = [looked.tree(agent.process) for agent in agents]
    seen = memory()
    spent_ms = (time.perf_counter() - begin) * 1000
    assert len(panes) == len(screens) == len(agents)
    assert all(screens[agent.pane][HEIGHT - 2] == LAST_LINE for agent in agents)
    assert all(tree is not None and tree.rss_bytes > 0 for tree in trees)
    assert seen.available_bytes
    return spent_ms


def _one_by_one(socket: str, agents: Sequence[Agent]) -> float:
    """As a script would look: whether the session is there, what it shows, which children its process has."""
    begin = time.perf_counter()
    for agent in agents:
        tmux_ = ["tmux", "-S", socket]
        subprocess.run([*tmux_, "has-session", "-t", f"={agent.session}"], capture_output=True, check=True)
        shown = subprocess.run([*tmux_, "capture-pane", "-p", "-t", agent.pane], capture_output=True, check=True)
        children = subprocess.run(["pgrep", "-P", str(agent.process.pid)], capture_output=True, check=False)
        assert LAST_LINE.encode() in shown.stdout
        assert children.returncode == 1
    return (time.perf_counter() - begin) * 1000


@contextmanager
def _agents(count: int, boot: str, socket: str = "") -> Iterator[tuple[str, Sequence[Agent]]]:
    """That many sessions on a tmux server of their own, each with a full screen and the cheapest program behind it."""
    with tempfile.TemporaryDirectory(prefix="dw") as folder:
        screen = Path(folder) / "screen"
        text = "".join(f"● line {number} of what an agent has written on its screen\n" for number in range(HEIGHT))
        screen.write_text(f"{text}{LAST_LINE}\n")
        socket = socket or f"{folder}/tmux"
        commands = [
            f"new-session -d -s bench-1-author-{number} -x {WIDTH} -y {HEIGHT} 'cat {screen}; exec sleep 86400'"
            for number in range(count)
        ]
        settings = "start-server ; set-option -s exit-empty off ; set-option -g default-shell /bin/sh"
        tmux.run(socket, *settings.split())
        try:
            for first in range(0, count, BATCH):
                done = tmux.run(socket, "source-file", "-", stdin="\n".join(commands[first : first + BATCH]).encode())
                assert done.returncode == 0, done.stderr
            yield socket, _all_ready(socket, count, boot)
        finally:
            pids = [pid for pane in tmux.panes(socket) for pid in (pane.pid, pane.server)]
            tmux.run(socket, "kill-server")
            _wait(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "the end of all agents")


def _all_ready(socket: str, count: int, boot: str) -> Sequence[Agent]:
    """The agents, when each screen is full and each shell has become the program."""
    found = tmux.panes(socket)
    assert len(found) == count
    processes = {pane.id: identify(pane.pid, boot) for pane in found}
    agents = [Agent(pane.session, pane.id, process) for pane in found if (process := processes[pane.id]) is not None]
    assert len(agents) == count

    def ready() -> bool:
        _, screens = tmux.sweep(socket, list(processes))
        looked = census(boot)
        trees = [looked.tree(agent.process) for agent in agents]
        return all(screen[HEIGHT - 2] == LAST_LINE for screen in screens.values()) and all(
            tree is not None and tree.root.name == "sleep" and not tree.children for tree in trees
        )

    _wait(ready, "all screens")
    return agents


def _wait(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
