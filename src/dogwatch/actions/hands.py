"""All that a captain may do to agents and gates, bound to one home and one boot."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence

from dogwatch.actions import check_in, confine, deliver, gate, kill, notify, postbox, stage
from dogwatch.actions.spawn import Spawned, dismiss, spawn, write_programs, write_whole
from dogwatch.actions.turn_end import end_turn
from dogwatch.model.memory import HostSettings
from dogwatch.model.plan import Gate, Notify, Plan
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord, RunRecord
from dogwatch.model.sight import Turn
from dogwatch.policy.agent_memory import agent_limit_bytes
from dogwatch.world.home import Home
from dogwatch.world.memory import memory

_FOLDERS = ("spool", "gates", "agents", "checkins")


class MachineHands:
    """The real machine's hands. `settings` are what the operator has set for the host, as it is now."""

    def __init__(self, home: Home, boot: str, settings: Callable[[], HostSettings] = HostSettings) -> None:
        self.home = home
        self.boot = boot
        self._settings = settings

    def prepare(self, run: RunRecord) -> None:
        """Makes the run's folders and the agents' entry point."""
        folders = (self.home.sockets, *(f"{self.home.run(run.run)}/{name}" for name in _FOLDERS))
        for folder in folders:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        os.makedirs(run.output, exist_ok=True)
        write_programs(self.home)

    def keep_model(self, run: RunRecord) -> None:
        stage.keep_model(self.home, self.boot, run)

    def spawn(self, run: RunRecord, plan: Plan, agent: AgentRecord) -> Spawned:
        role = plan.role(agent.role)
        wanted_gb = role.memory_max_gb if role is not None else 0.0
        limit_bytes = agent_limit_bytes(self._settings(), memory().size_bytes, wanted_gb)
        return spawn(self.home, self.boot, run, plan, agent, limit_bytes)

    def dismiss(self, agent: AgentRecord) -> None:
        dismiss(self.home, self.boot, agent)

    def paste(self, agent: AgentRecord, message: MessageRecord, text: str) -> bool:
        life = agent.running
        return life is not None and deliver.paste(self.home.tmux(agent.run), life.pane, life.process, message.id, text)

    def put_in_box(self, agent: AgentRecord, message: MessageRecord, text: str) -> None:
        postbox.put(self.home.post(agent.run, agent.agent), message, text)

    def take_from_box(self, agent: AgentRecord, message: MessageRecord) -> bool:
        return postbox.take_back(self.home.post(agent.run, agent.agent), message)

    def hold_launches(self, run: str, why: str) -> None:
        """From now on no agent of the run may start a sub-agent; with no reason, they may again."""
        if why:
            write_whole(self.home.hold(run), why)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.home.hold(run))

    def press(self, agent: AgentRecord, keys: Sequence[str]) -> bool:
        life = agent.running
        return life is not None and deliver.press(self.home.tmux(agent.run), life.pane, life.process, keys)

    def end_turn(self, agent: AgentRecord, turn: Turn, ended: str) -> bool:
        return end_turn(self.home, agent, turn, ended)

    def start_gate(self, run: RunRecord, phase: int, plan: Gate, attempt: int) -> ProcessId:
        return gate.start(self.home, self.boot, run, phase, plan, attempt)

    def gate_result(self, run: str, phase: int, plan: Gate, attempt: int) -> tuple[int, str] | None:
        """The exit code and why it failed (empty for 0), or None where the gate has not finished."""
        code = gate.result(self.home, run, phase, plan, attempt)
        if code is None:
            return None
        return code, gate.explain(code, plan, gate.last_lines(self.home, run, phase, plan, attempt)) if code else ""

    def gate_words(self, run: str, phase: int, plan: Gate, attempt: int) -> str:
        """What the gate has printed last."""
        return gate.last_lines(self.home, run, phase, plan, attempt)

    def ways(self, notify: Notify) -> Notify:
        return notify.or_those_of(os.environ)

    def start_notice(self, run: str, item: str, notice: Mapping[str, str], attempt: int, ways: Notify) -> ProcessId:
        return notify.start(self.home, self.boot, run, item, notice, attempt, ways)

    def notice_result(self, run: str, item: str, attempt: int) -> Sequence[tuple[str, str]] | None:
        """Each way with why it failed (empty: it took the notice), or None where the attempt has not finished."""
        ways = notify.result(self.home, run, item, attempt)
        return None if ways is None else [(way.name, way.reason) for way in ways]

    def start_check_in(
        self, run: RunRecord, plan: Plan, agent: AgentRecord, item: str, question: str, attempt: int
    ) -> ProcessId:
        return check_in.start(self.home, self.boot, run, plan, agent, item, question, attempt)

    def check_in_result(self, run: str, item: str, attempt: int) -> tuple[int, str, str] | None:
        """The exit code, what was printed and what was complained of, or None where it has not finished."""
        return check_in.result(self.home, run, item, attempt)

    def forget_check_in(self, run: str, item: str, attempts: int) -> None:
        check_in.forget(self.home, run, item, attempts)

    def end_silent_crew(self, process: ProcessId) -> None:
        """Ends a crew member that lives and makes no progress: its stacks go to its log first, then it is killed."""
        kill.end_with_stacks(process, self.boot)

    def clear(self, run: str, servers: Sequence[ProcessId]) -> int:
        """Ends everything of the run: sessions, what the agents left behind, its tmux server, its door."""
        kill.end_server(self.home.tmux(run), servers, self.boot)
        ended = kill.end_marked(self.home, self.boot, run)
        ended += confine.release(self.home, self.boot, run)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.home.door(run))
        return ended
