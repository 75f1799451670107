"""The real machine's eyes: tmux, /proc, spools and files put together into one Sight for each agent."""

from __future__ import annotations

import contextlib
import os
import selectors
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dogwatch.coordination.usage import AgentTally
from dogwatch.crew.shared.tallies import BYTES_MAX, TallyReader
from dogwatch.crew.shared.tracks import Track
from dogwatch.errors import MissingToolError, SpecError
from dogwatch.harness import State, harness
from dogwatch.model.memory import HostSettings, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Output, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord
from dogwatch.model.redact import Redactor
from dogwatch.model.sight import SCREEN, STATE_FILE, OutputSight, Sight, Turn
from dogwatch.model.tally import Failure
from dogwatch.model.versions import Version
from dogwatch.model.view import RunView
from dogwatch.policy.diagnosis import CONTEXT_FULL
from dogwatch.policy.turns import failed
from dogwatch.world import census, files, groups, processes, tmux
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.instructions import InstructionsFile, ReadingReader
from dogwatch.world.probe import ProbeFailedError
from dogwatch.world.sensors import Sensors
from dogwatch.world.spool import SpoolReader

BLIND_S = 2.0
LINES_MAX = 12


class MachineEyes:
    """Looks at the processes, panes, spools and files below one home. What it keeps is only cache."""

    def __init__(
        self,
        home: Home,
        boot: str,
        selector: selectors.BaseSelector,
        member: str,
        run: str,
        redactor: Redactor | None = None,
    ) -> None:
        self.home = home
        self.boot = boot
        self._selector = selector
        self._beat = home.beat(member, run)
        self._clock = SystemClock()
        self._blind_until = 0.0
        self._watched: dict[ProcessId, int] = {}
        self._spools: dict[str, SpoolReader] = {}
        self._tracks: dict[str, Track] = {}
        self._groups: dict[str, tuple[ProcessId | None, str]] = {}
        self._redactor = redactor or Redactor()
        self._told: dict[str, tuple[Sequence[str], tuple[str, ...]]] = {}
        self._tallies: dict[str, TallyReader] = {}
        self._sensors = Sensors(boot)
        self._settings = HostSettings()
        self._settings_problem = ""
        self._settings_of: tuple[int, int, int] | None = None
        self._instructions: dict[str, InstructionsFile] = {}
        self._readings: dict[str, ReadingReader] = {}

    def look(self, view: RunView, agents: Sequence[str], *, screens: bool) -> dict[str, Sight]:
        records = [view.agents[agent] for agent in agents]
        panes, captures = self._panes(view, records, screens=screens)
        try:
            living = census.census(self.boot) if any(record.process for record in records) else None
        except ProbeFailedError:
            living = None
        return {record.agent: self._sight(view, record, panes, captures, living) for record in records}

    def _panes(
        self, view: RunView, records: Sequence[AgentRecord], *, screens: bool
    ) -> tuple[dict[str, tmux.Pane] | None, Mapping[str, tuple[str, ...]]]:
        """The panes, or None where tmux does not answer, and what stands on those of the agents."""
        if self._clock.now().mono < self._blind_until:
            return None, {}
        try:
            wanted = [record.pane for record in records if record.pane] if screens else []
            found, captures = tmux.sweep(self.home.tmux(view.run.run), wanted)
        except (ProbeFailedError, MissingToolError):
            # A server that hangs would cost each further look of this step as long again.
            self._blind_until = self._clock.now().mono + BLIND_S
            return None, {}
        return {pane.id: pane for pane in found}, captures

    def _sight(
        self,
        view: RunView,
        agent: AgentRecord,
        panes: Mapping[str, tmux.Pane] | None,
        captures: Mapping[str, tuple[str, ...]],
        living: census.Census | None,
    ) -> Sight:
        role = view.role_of(agent.agent)
        pane = panes.get(agent.pane) if panes is not None else None
        lines = captures.get(pane.id, ()) if pane else ()
        screen: State = "unknown"
        composer = None
        if role is not None and lines:
            seen = harness(role.harness).read(lines, pane.title if pane else "")
            screen, composer = seen.state, seen.composer
        strange = screen == "unknown" and any(line.strip() for line in lines)
        process, tree = self._tree(agent, living)
        source = SCREEN
        if role is not None and tree is not None:
            candidates = [tree.root.process, *(child.process for child in tree.children)]
            screen, source = best_state(screen, harness(role.harness).told_state(role, candidates))
        turn = self._turn(agent, role)
        now = self._clock.now()
        track = self._track(agent, now)
        if tree is not None and turn.pid:
            turn = replace(turn, pid=track.client(tree, turn.pid))
        context = None
        if role is not None:
            context, ending = track.transcript(turn.transcript, harness(role.harness))
            turn = _with_ending(turn, ending, now)
        track.note(screen, lines, tree, turn.pid, now.mono)
        task = view.task_of(agent.agent)
        fresh = False
        elsewhere: tuple[str, ...] = ()
        outputs: tuple[OutputSight, ...] = ()
        if task is not None and task.outputs:
            fresh = not files.unwritten(view.run.output, task.outputs, task.marker)
            outputs = files.seen(view.run.output, task.outputs, task.marker)
            if not fresh and turn.state == "idle" and task.dispatched is not None:
                known = {output.path for other in view.tasks.values() for output in other.outputs}
                since = task.dispatched
                elsewhere = track.elsewhere(view.run, task.outputs, known, since, turn, now.mono)
        killed = self._killed(agent)
        return Sight(
            process=process,
            session="unknown" if panes is None else "gone" if pane is None else "dead" if pane.dead else "alive",
            own_fault=agent.process is None or agent.process.boot == self.boot,
            hooks=role is not None and harness(role.harness).hooks,
            turn=turn,
            tree=track.tree,
            screen=screen,
            source=source,
            screen_since=track.screen_since,
            watched_since=track.watched_since,
            life=track.life,
            composer=composer,
            strange=strange,
            lines=() if view.run.sensitive else self._last_lines(agent.agent, lines),
            outputs=outputs,
            outputs_fresh=fresh,
            elsewhere=elsewhere,
            context=context,
            oom_kills=killed.count,
            oom_limit_bytes=killed.limit_bytes,
            attached=pane is not None and pane.attached > 0,
        )

    def _last_lines(self, agent: str, rows: Sequence[str]) -> tuple[str, ...]:
        """The last rows that say something, without tokens. Most screens are those of the look before."""
        known = self._told.get(agent)
        if known is None or known[0] != rows:
            told = self._redactor.lines([row.rstrip() for row in rows])
            known = self._told[agent] = (rows, told[-LINES_MAX:])
        return known[1]

    def _tree(self, agent: AgentRecord, living: census.Census | None) -> tuple[processes.Life, census.Tree | None]:
        if agent.process is None or living is None:
            return "unknown", None
        try:
            tree = living.tree(agent.process)
        except ProbeFailedError:
            return "unknown", None
        return ("alive", tree) if tree is not None else ("dead", None)

    def _killed(self, agent: AgentRecord) -> groups.Kills:
        """What the kernel has ended in the incarnation's own group."""
        known = self._groups.get(agent.agent)
        if known is None or known[0] != agent.process:
            folder = groups.group_of(self.home, agent.run, agent.agent, agent.incarnation) if agent.process else ""
            known = self._groups[agent.agent] = (agent.process, folder)
        return groups.kills(known[1]) if known[1] else groups.Kills()

    def _track(self, agent: AgentRecord, now: Moment) -> Track:
        """What is remembered of this incarnation's earlier looks."""
        track = self._tracks.get(agent.agent)
        if track is None or track.process != agent.process:
            track = self._tracks[agent.agent] = Track(agent.process, now.mono)
        return track

    def _turn(self, agent: AgentRecord, role: Role | None) -> Turn:
        reader = self._spools.get(agent.agent)
        if reader is None or reader.incarnation != agent.incarnation:
            names = harness(role.harness).failure if role is not None else None
            path = self.home.spool(agent.run, agent.agent)
            reader = SpoolReader(path, agent.incarnation, self._redactor, names=names)
            self._spools[agent.agent] = reader
        return reader.turn()

    def tallies(self, view: RunView, agents: Sequence[str]) -> dict[str, AgentTally]:
        found, left = {}, BYTES_MAX
        for name in agents:
            role = view.role_of(name)
            if role is None:
                continue
            if name not in self._tallies:
                self._tallies[name] = TallyReader(
                    self.home.spool(view.run.run, name), harness(role.harness), self._redactor
                )
            found[name], used = self._tallies[name].read(left)
            left -= used
        return found

    def version(self, path: str) -> Version | None:
        return self._instructions.setdefault(path, InstructionsFile(path)).version()

    def read_at(self, view: RunView, agent: str, path: str, lines: int) -> float:
        incarnation = view.agents[agent].incarnation
        reader = self._readings.get(agent)
        if reader is None or reader.about != (incarnation, path, lines):
            spool = self.home.spool(view.run.run, agent)
            reader = self._readings[agent] = ReadingReader(spool, incarnation, path, lines)
        return reader.at()

    def life(self, process: ProcessId) -> processes.Life:
        return processes.life(process, self.boot)

    def silence_s(self, member: str, run: str, now: Moment) -> float | None:
        try:
            with open(self.home.beat(member, run), encoding="ascii") as file:
                boot, mono = file.read().split()
            return now.mono - float(mono) if boot == now.boot else None
        except (OSError, ValueError):
            return None

    def pulse(self) -> None:
        with contextlib.suppress(OSError):
            # Written over in place: also on a full disk, and never empty for a reader.
            fd = os.open(self._beat, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(fd, f"{self.boot} {self._clock.now().mono:020.6f}\n".encode(), 0)
            finally:
                os.close(fd)

    def memory(self, agents: Mapping[str, ProcessId], ceiling_bytes: int) -> Readings:
        return self._sensors.read(agents, ceiling_bytes)

    def settings(self) -> tuple[HostSettings, str]:
        about = _about(self.home.host)
        if about != self._settings_of:
            # The reader of pipeline files takes longer to load than all of the crew: only where there is something.
            from dogwatch.spec.host import load_host

            self._settings_of = about
            try:
                self._settings, self._settings_problem = load_host(self.home.host), ""
            except SpecError as error:
                self._settings_problem = error.message
        return self._settings, self._settings_problem

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
        for process in wanted:
            self.watch_also(process)

    def watch_also(self, process: ProcessId) -> None:
        fd = processes.open_pidfd(process, self.boot) if process not in self._watched else None
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


def _about(path: str) -> tuple[int, int, int] | None:
    """Which file it is and when it was last changed; None where there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _with_ending(turn: Turn, ending: tuple[float, Failure] | None, now: Moment) -> Turn:
    """The turn, ended where the client's transcript tells of an error that has ended it."""
    if ending is None:
        return turn
    wall, failure = ending
    name = CONTEXT_FULL if failure.type == "context_exhausted" else failure.type
    return failed(turn, now.mono - (now.wall - wall), name)


def best_state(screen: State, told: State) -> tuple[State, str]:
    """What the client is doing, and by which source. Its own state file goes before its screen, which says more only
    where the two agree: why it waits, or that its idleness is an error's."""
    if told == "unknown":
        return screen, SCREEN
    if told == "shell":
        # At its prompt, with a command of its own in the background.
        return (screen, SCREEN) if screen != "unknown" else ("idle", STATE_FILE)
    refined: dict[State, tuple[State, ...]] = {
        "idle": ("error",),
        "busy": ("retry",),
        "permission": ("dialog",),
        "dialog": ("permission",),
    }
    return (screen, SCREEN) if screen in refined.get(told, ()) else (told, STATE_FILE)
