"""All that a captain or dispatcher may do to the machine, bound to one home and one boot."""

from __future__ import annotations

import contextlib
import os

from dogwatch.actions import deliver, gate, kill, start
from dogwatch.actions.spawn import Spawned, spawn, write_entry_point
from dogwatch.model.plan import Gate, Plan
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord, RunRecord
from dogwatch.world.home import Home


class MachineHands:
    """The real machine's hands."""

    def __init__(self, home: Home, boot: str) -> None:
        self.home = home
        self.boot = boot

    def prepare(self, run: RunRecord) -> None:
        """Makes the run's folders and the agents' entry point."""
        for folder in (f"{self.home.run(run.run)}/spool", f"{self.home.run(run.run)}/gates"):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        os.makedirs(run.output, exist_ok=True)
        write_entry_point(self.home)

    def spawn(self, run: RunRecord, plan: Plan, agent: AgentRecord) -> Spawned:
        return spawn(self.home, self.boot, run, plan, agent)

    def paste(self, agent: AgentRecord, message: MessageRecord, text: str) -> bool:
        assert agent.process is not None  # noqa: S101 - only a confirmed agent is addressed
        return deliver.paste(self.home.tmux(agent.run), agent.pane, agent.process, message.id, text)

    def press_enter(self, agent: AgentRecord) -> bool:
        assert agent.process is not None  # noqa: S101 - only a confirmed agent is addressed
        return deliver.press_enter(self.home.tmux(agent.run), agent.pane, agent.process)

    def start_gate(self, run: RunRecord, phase: int, plan: Gate, attempt: int) -> ProcessId:
        return gate.start(self.home, self.boot, run, phase, plan, attempt)

    def gate_result(self, run: str, phase: int, plan: Gate, attempt: int) -> tuple[int, str] | None:
        """The exit code and why it failed (empty for 0), or None where the gate has not finished."""
        code = gate.result(self.home, run, phase, plan, attempt)
        if code is None:
            return None
        return code, gate.explain(code, plan, gate.last_lines(self.home, run, phase, plan, attempt)) if code else ""

    def start_crew(self, member: str, run: str = "") -> ProcessId:
        return start.start_crew(self.home, self.boot, member, run)

    def end_silent_crew(self, process: ProcessId) -> None:
        start.end_silent_crew(process, self.boot)

    def clear(self, run: str) -> int:
        """Ends everything of the run: sessions, what the agents left behind, its tmux server, its door."""
        kill.end_server(self.home.tmux(run), self.boot)
        ended = kill.end_marked(self.home, self.boot, run)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.home.door(run))
        return ended

    def reap(self) -> None:
        start.reap()
