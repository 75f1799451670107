"""Virtual eyes: what a crew member sees of the virtual machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from dogwatch.coordination.usage import AgentTally
from dogwatch.model.memory import AgentMemory, HostSettings, Largest, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Output
from dogwatch.model.process import ProcessId
from dogwatch.model.sight import Sight, Tree
from dogwatch.model.versions import Version
from dogwatch.model.view import RunView
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.memory import Host
from dogwatch.testing.clock import ManualClock


class EyesMachine(Protocol):
    """What can be seen of the machine."""

    clock: ManualClock
    host: Host
    settings: HostSettings
    alive: set[ProcessId]
    clients: dict[str, VirtualAgent]
    files: dict[str, tuple[int, bytes]]
    instructions: dict[str, Version]
    reads: dict[tuple[str, int, str], float]
    pulses: dict[tuple[str, str], float]

    @property
    def now(self) -> Moment: ...

    def tally(self, run: str, agent: str) -> AgentTally | None:
        """What is counted of the agent."""

    def used_bytes(self) -> int:
        """How much memory all agents take."""

    def silence_s(self, member: str, run: str) -> float | None:
        """How long ago the member gave its last sign of life."""


class Watcher(Protocol):
    """The crew member that looks: `watched` are the processes whose death wakes it."""

    name: str
    run: str
    watched: set[ProcessId]


class VirtualEyes:
    """One crew member's own eyes."""

    def __init__(self, machine: EyesMachine, berth: Watcher) -> None:
        self._machine = machine
        self._berth = berth

    def look(self, view: RunView, agents: Sequence[str], *, screens: bool) -> dict[str, Sight]:
        return {name: self._sight(view, name) for name in agents}

    def _sight(self, view: RunView, name: str) -> Sight:
        machine, record, task = self._machine, view.agents[name], view.task_of(name)
        agent = machine.clients.get(f"{view.run.run}/{name}")
        if record.process is None or agent is None or agent.incarnation != record.incarnation:
            is_mine = record.process is None or record.process.boot == machine.now.boot
            return Sight(process="dead" if record.process else "unknown", session="gone", own_fault=is_mine)
        turn, living = agent.turn, agent.lives
        is_working = turn.state == "working"
        outputs = task.outputs if task is not None else ()
        is_fresh = bool(task and outputs and not self.unwritten(view.run.output, outputs, task.marker))
        rss_bytes = agent.rss_bytes() if living else 0
        life = machine.clock.now().mono if is_working and not agent.hung else 0.0
        screen, since = agent.screen or ("busy" if is_working else "idle"), max(turn.since, agent.screen_since)
        made_of = (
            *(rss_bytes, life, turn, living, screen, since),
            *(agent.has_session, agent.composer, is_fresh, agent.attached),
        )
        if agent.seen is None or agent.seen[0] != made_of:
            sight = Sight(
                process="alive" if living else "dead",
                session=("alive" if living else "dead") if agent.has_session else "gone",
                turn=turn,
                tree=Tree(rss_bytes=rss_bytes),
                screen=screen,
                screen_since=since,
                watched_since=agent.began,
                life=life,
                composer=agent.composer,
                outputs_fresh=is_fresh,
                attached=agent.attached,
            )
            agent.seen = (made_of, sight)
        return agent.seen[1]

    def life(self, process: ProcessId) -> str:
        return "alive" if process in self._machine.alive else "dead"

    def tallies(self, view: RunView, agents: Sequence[str]) -> dict[str, AgentTally]:
        found = ((name, self._machine.tally(view.run.run, name)) for name in agents)
        return {name: tally for name, tally in found if tally is not None}

    def version(self, path: str) -> Version | None:
        return self._machine.instructions.get(path)

    def read_at(self, view: RunView, agent: str, path: str, lines: int) -> float:
        return self._machine.reads.get((agent, view.agents[agent].incarnation, path), 0.0)

    def memory(self, agents: Mapping[str, ProcessId], ceiling_bytes: int) -> Readings:
        host, used = self._machine.host, self._machine.used_bytes()
        found, largest = {}, None
        for key, process in agents.items():
            one = self._machine.clients.get(key)
            if one is None or not one.lives or one.process != process:
                continue
            rss = one.rss_bytes()
            found[key] = AgentMemory(rss_bytes=rss)
            if largest is None or (rss > largest.rss_bytes and one.largest_bytes() > largest.rss_bytes):
                largest = Largest(rss_bytes=one.largest_bytes(), pid=process.pid, name="agent", agent=key)
        left = max(0, host.left_bytes(used))
        if ceiling_bytes:
            left = min(left, max(0, ceiling_bytes - sum(one.rss_bytes for one in found.values())))
        pressure = host.pressure_percent(used)
        return Readings(
            size_bytes=ceiling_bytes or host.size_bytes,
            left_bytes=left,
            swap_total_bytes=host.swap_bytes,
            swap_free_bytes=max(0, host.swap_free_bytes(used)),
            pressure_some_percent=pressure,
            pressure_full_percent=pressure / 2,
            processes=host.processes + len(found),
            largest=largest,
            agents=found,
        )

    def settings(self) -> tuple[HostSettings, str]:
        return self._machine.settings, ""

    def marker(self, folder: str, outputs: Sequence[Output]) -> dict[str, str]:
        return {o.path: str(self._machine.files.get(f"{folder}/{o.path}", ("", b""))[0]) for o in outputs}

    def unwritten(self, folder: str, outputs: Sequence[Output], before: Mapping[str, str]) -> str:
        for output in outputs:
            found = self._machine.files.get(f"{folder}/{output.path}")
            if found is None or str(found[0]) == before.get(output.path, ""):
                return f"{output.path} is not written"
        return ""

    def failed_check(self, folder: str, check: ByteCheck) -> tuple[str, str]:
        found = self._machine.files.get(f"{folder}/{check.path}")
        if found is None:
            return f"{check.path} does not exist", ""
        missing = next((f"no {text!r}" for text in check.contains if text.encode() not in found[1]), "")
        return missing, hashlib.sha256(found[1]).hexdigest()

    def silence_s(self, member: str, run: str, now: Moment) -> float | None:
        return self._machine.silence_s(member, run)

    def pulse(self) -> None:
        self._machine.pulses[self._berth.name, self._berth.run] = self._machine.now.mono

    def watch(self, processes: Sequence[ProcessId]) -> None:
        self._berth.watched = set(processes)

    def watch_also(self, process: ProcessId) -> None:
        self._berth.watched.add(process)
