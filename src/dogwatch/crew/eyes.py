"""The real machine's eyes: tmux, /proc, spools and files put together into one Sight for each agent."""

from __future__ import annotations

import os
import selectors
from collections.abc import Mapping, Sequence

from dogwatch.harness import harness
from dogwatch.model.plan import ByteCheck, Output
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView, Sight, Turn
from dogwatch.world import files, processes, tmux
from dogwatch.world.home import Home
from dogwatch.world.spool import SpoolReader


class MachineEyes:
    """Looks at the processes, panes, spools and files below one home. What it keeps is only cache."""

    def __init__(self, home: Home, boot: str, selector: selectors.BaseSelector) -> None:
        self.home = home
        self.boot = boot
        self._selector = selector
        self._watched: dict[ProcessId, int] = {}
        self._spools: dict[str, SpoolReader] = {}

    def look(self, view: RunView, agents: Sequence[str], *, screens: bool) -> dict[str, Sight]:
        records = [view.agents[agent] for agent in agents]
        socket = self.home.tmux(view.run.run)
        panes: dict[str, tmux.Pane] | None = None
        captures: dict[str, tuple[str, ...]] = {}
        try:
            panes = {pane.session: pane for pane in tmux.panes(socket)}
            if screens:
                captures = tmux.captures(socket, [panes[r.session].id for r in records if r.session in panes])
        except tmux.ProbeFailedError:
            panes = None
        return {record.agent: self._sight(view, record, panes, captures) for record in records}

    def _sight(
        self,
        view: RunView,
        agent: AgentRecord,
        panes: Mapping[str, tmux.Pane] | None,
        captures: Mapping[str, tuple[str, ...]],
    ) -> Sight:
        role = view.plan.role_of(agent.agent)
        pane = panes.get(agent.session) if panes is not None else None
        lines = captures.get(pane.id, ()) if pane else ()
        screen, composer = "unknown", None
        if role is not None and lines:
            seen = harness(role.harness).read(lines, pane.title if pane else "")
            screen, composer = seen.state, seen.composer
        task = view.task_of(agent.agent)
        fresh, changed = False, 0.0
        if task is not None and task.outputs:
            fresh = not files.unwritten(view.run.output, task.outputs, task.marker)
            changed = files.newest_change(view.run.output, task.outputs)
        shown = () if view.run.sensitive else tuple(line.rstrip() for line in lines if line.strip())
        return Sight(
            process=self.life(agent.process) if agent.process else "unknown",
            session="unknown" if panes is None else "gone" if pane is None else "dead" if pane.dead else "alive",
            hooks=role is not None and harness(role.harness).hooks,
            turn=self._turn(agent),
            screen=screen,
            composer=composer,
            lines=shown[-12:],
            outputs_fresh=fresh,
            outputs_changed=changed,
        )

    def _turn(self, agent: AgentRecord) -> Turn:
        reader = self._spools.get(agent.agent)
        if reader is None or reader.incarnation != agent.incarnation:
            reader = SpoolReader(self.home.spool(agent.run, agent.agent), agent.incarnation)
            self._spools[agent.agent] = reader
        return reader.turn()

    def life(self, process: ProcessId) -> processes.Life:
        return processes.life(process, self.boot)

    def marker(self, folder: str, outputs: Sequence[Output]) -> dict[str, str]:
        return files.marker(folder, outputs)

    def unwritten(self, folder: str, outputs: Sequence[Output], before: Mapping[str, str]) -> str:
        return files.unwritten(folder, outputs, before)

    def failed_check(self, folder: str, check: ByteCheck) -> tuple[str, str]:
        return files.failed_check(folder, check)

    def watch(self, processes_: Sequence[ProcessId]) -> None:
        wanted = set(processes_)
        for process in [known for known in self._watched if known not in wanted]:
            self._forget(process)
        for process in wanted - set(self._watched):
            fd = processes.open_pidfd(process, self.boot)
            if fd is not None:
                self._watched[process] = fd
                self._selector.register(fd, selectors.EVENT_READ, process)

    def drop_dead(self, process: ProcessId) -> None:
        """A watched process has died: its descriptor would stay readable and wake the loop for ever."""
        self._forget(process)

    def _forget(self, process: ProcessId) -> None:
        fd = self._watched.pop(process, None)
        if fd is not None:
            self._selector.unregister(fd)
            os.close(fd)
