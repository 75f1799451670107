"""Virtual hands: what each crew member may do to the virtual machine. A watchdog has none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dogwatch.actions.spawn import SpawnFailedError
from dogwatch.errors import RefusedError
from dogwatch.model.plan import Gate, Notify, Plan
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord, RunRecord
from dogwatch.model.sight import Turn
from dogwatch.sim.agents import AgentMachine, VirtualAgent
from dogwatch.world.tmux import ProbeFailedError

CHECK_IN_S = 5.0


@dataclass(frozen=True)
class Started:
    """What a spawn returns."""

    process: ProcessId
    pane: str
    adopted: bool
    sandboxed: bool = False
    server: ProcessId | None = None
    limit_bytes: int = 0


@dataclass(frozen=True)
class Job:
    """A gate's, a notice's or a check-in's process: when it ends, with which code and which words."""

    process: ProcessId
    ends: float
    code: int = 0
    words: str = ""


class HandsMachine(AgentMachine, Protocol):
    """What can be done to the machine."""

    gate_s: float
    mishap: Callable[[str, VirtualAgent | None], str]
    """What goes wrong with a spawn, paste, press or gate; empty for nothing."""
    clients: dict[str, VirtualAgent]
    past: list[VirtualAgent]
    jobs: dict[str, Job]
    cleared: list[str]
    held_launches: dict[str, str]
    notices: list[dict[str, str]]

    def process(self) -> ProcessId:
        """A new process."""

    def man(self, member: str, run: str) -> None:
        """Starts a crew member's process."""

    def spawned(self, agent: VirtualAgent) -> None:
        """An agent's process was started."""

    def end_agent(self, agent: VirtualAgent, by: str, run: str, way: str) -> None:
        """A crew member ends an agent's process."""

    def end_crew(self, process: ProcessId, by: str, run: str) -> None:
        """A crew member ends another's process."""

    def start_job(self, key: str, seconds: float, code: int = 0) -> ProcessId:
        """A process beside the agents, which ends by itself."""

    def finished(self, key: str) -> Job | None:
        """The job, where it has come to its end by itself."""

    def end_jobs(self, run: str) -> None:
        """Ends what is left of the run's gates and check-ins."""


class VirtualStarter:
    """Whoever is in the crew may start a member. `by` is the member that acts, and `run` its run."""

    def __init__(self, machine: HandsMachine, by: str = "operator", run: str = "") -> None:
        self._machine = machine
        self.by = by
        self.run = run

    def start_crew(self, member: str, run: str = "") -> None:
        self._machine.man(member, run)


class VirtualCrewHands(VirtualStarter):
    """A dispatcher's hands."""

    def end_silent_crew(self, process: ProcessId) -> None:
        self._machine.end_crew(process, self.by, self.run)


class VirtualHands(VirtualCrewHands):
    """A captain's hands."""

    def prepare(self, run: RunRecord) -> None:
        pass

    def keep_model(self, run: RunRecord) -> None:
        pass

    def spawn(self, run: RunRecord, plan: Plan, agent: AgentRecord) -> Started:
        machine, key = self._machine, f"{agent.run}/{agent.agent}"
        present = machine.clients.get(key)
        if present is not None and present.incarnation > agent.incarnation:
            raise RefusedError(f"{key} is held by incarnation {present.incarnation} already")
        if present is not None and present.incarnation == agent.incarnation:
            return Started(present.process, "%1", adopted=True)
        mishap = machine.mishap("spawn", present)
        if mishap == "unknown":
            raise ProbeFailedError("the terminal does not answer")
        if present is not None:
            machine.end_agent(present, self.by, self.run, "spawn")
            machine.past.append(present)
        if mishap == "fail":
            raise SpawnFailedError(f"{key}: no such program")
        process = machine.process()
        machine.clients[key] = one = VirtualAgent(machine, run, agent, process)
        machine.spawned(one)
        if mishap == "die":
            machine.kill(process)
        return Started(process, "%1", adopted=False)

    def paste(self, agent: AgentRecord, message: MessageRecord, text: str) -> bool:
        one = self._one(agent)
        if one is None or not one.lives:
            return False
        if self._machine.mishap("paste", one) == "lost":
            one.ill = one.ill or "deaf"
        else:
            one.composer += text
        return True

    def put_in_box(self, agent: AgentRecord, message: MessageRecord, text: str) -> None:
        raise AssertionError("no agent here has a post box")

    def take_from_box(self, agent: AgentRecord, message: MessageRecord) -> bool:
        raise AssertionError("no agent here has a post box")

    def hold_launches(self, run: str, why: str) -> None:
        if why:
            self._machine.held_launches[run] = why
        else:
            self._machine.held_launches.pop(run, None)

    def press(self, agent: AgentRecord, keys: Sequence[str]) -> bool:
        one = self._one(agent)
        if one is None or not one.lives:
            return False
        if self._machine.mishap("press", one) == "lost":
            return True
        if tuple(keys) == ("Enter",):
            one.submit()
        else:
            one.stop()
        return True

    def end_turn(self, agent: AgentRecord, turn: Turn, ended: str) -> bool:
        one = self._one(agent)
        if one is not None:
            one.turn = replace(one.turn, state="idle", stops=0, ended=ended)
        return one is not None

    def _one(self, agent: AgentRecord) -> VirtualAgent | None:
        """The client in the agent's pane."""
        return self._machine.clients.get(f"{agent.run}/{agent.agent}")

    def start_gate(self, run: RunRecord, phase: int, plan: Gate, attempt: int) -> ProcessId:
        code = 1 if self._machine.mishap("gate", None) == "fail" else 0
        return self._machine.start_job(f"gate:{run.run}/{phase}/{plan.name}/{attempt}", self._machine.gate_s, code)

    def gate_result(self, run: str, phase: int, plan: Gate, attempt: int) -> tuple[int, str] | None:
        job = self._machine.finished(f"gate:{run}/{phase}/{plan.name}/{attempt}")
        return None if job is None else (job.code, "it says no" if job.code else "")

    def gate_words(self, run: str, phase: int, plan: Gate, attempt: int) -> str:
        return ""

    def ways(self, notify: Notify) -> Notify:
        return notify

    def start_notice(self, run: str, item: str, notice: Mapping[str, str], attempt: int, ways: Notify) -> ProcessId:
        self._machine.notices.append(dict(notice))
        return self._machine.start_job(f"notice:{run}/{item}/{attempt}", 0.0)

    def notice_result(self, run: str, item: str, attempt: int) -> list[tuple[str, str]] | None:
        return [("virtual", "")] if self._machine.finished(f"notice:{run}/{item}/{attempt}") else None

    def start_check_in(
        self, run: RunRecord, plan: Plan, agent: AgentRecord, item: str, question: str, attempt: int
    ) -> ProcessId:
        return self._machine.start_job(f"check-in:{run.run}/{item}/{attempt}", CHECK_IN_S)

    def check_in_result(self, run: str, item: str, attempt: int) -> tuple[int, str, str] | None:
        job = self._machine.finished(f"check-in:{run}/{item}/{attempt}")
        return None if job is None else (job.code, "I am at it.", "")

    def forget_check_in(self, run: str, item: str, attempts: int) -> None:
        for attempt in range(1, attempts + 1):
            self._machine.jobs.pop(f"check-in:{run}/{item}/{attempt}", None)

    def dismiss(self, agent: AgentRecord) -> None:
        one = self._one(agent)
        if one is not None:
            self._machine.end_agent(one, self.by, self.run, "dismiss")

    def clear(self, run: str, servers: Sequence[ProcessId]) -> int:
        present = [one for one in self._machine.clients.values() if one.run.run == run]
        for one in present:
            self._machine.end_agent(one, self.by, self.run, "clear")
        self._machine.end_jobs(run)
        self._machine.cleared.append(run)
        return len(present)
