"""A machine that is not there: processes, files, terminals, memory and doors of several runs, on a virtual clock.

The very same `step` of captain, watchdog and dispatcher runs on it, because a step needs nothing but the Protocols of
`crew/shared/worlds.py`, a ledger and `now`. Time goes from one thing that is due to the next.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Sequence
from itertools import count

from dogwatch.coordination.usage import AgentTally
from dogwatch.crew.dispatcher.dispatcher import Dispatcher
from dogwatch.crew.dispatcher.zoning import LOOK_S
from dogwatch.crew.shared.log import Log
from dogwatch.ledger.api import START, Lease, Store, StoredEvent
from dogwatch.ledger.records import load_run
from dogwatch.model.brief import Header
from dogwatch.model.memory import GB, HostSettings
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.versions import Version
from dogwatch.model.view import RunView
from dogwatch.sim.agents import Script, VirtualAgent
from dogwatch.sim.berths import Berth
from dogwatch.sim.door import Call
from dogwatch.sim.hands import Job, VirtualHands
from dogwatch.sim.memory import Host, Shape
from dogwatch.testing.clock import ManualClock

IDLE_S = 2.0
"""The cadence of a member that has something to look after."""
TICK_S = 0.001
PAGE = 500


class Witness:
    """Whoever wants to know what really happens on the machine; this one does not."""

    def event(self, event: StoredEvent) -> None:
        """Something was recorded."""

    def prompted(self, agent: VirtualAgent, found: Sequence[Header]) -> None:
        """A client has submitted these messages."""

    def spawned(self, agent: VirtualAgent) -> None:
        """An agent's process was started."""

    def ended(self, agent: VirtualAgent, by: str, run: str, way: str) -> None:
        """A crew member ends the agent's living process."""

    def crew_ended(self, berth: Berth, by: str, run: str) -> None:
        """A crew member ends another's living process."""

    def joined(self, berth: Berth, lease: Lease) -> None:
        """A crew member has taken its place."""

    def stepped(self, berth: Berth) -> None:
        """A crew member has made a step, whatever became of it."""

    def failed(self, line: str) -> None:
        """A crew member's log tells of a step or a call that could not be made."""


class Timer:
    """Something that an agent, or nobody in particular, will do."""

    __slots__ = ("deed", "owner")

    def __init__(self, deed: Callable[[], None], owner: VirtualAgent | None) -> None:
        self.deed = deed
        self.owner = owner


class Machine:
    """Everything that the crew sees and touches, and the crew itself."""

    def __init__(self, ledger: Store, clock: ManualClock, script: Script = lambda agent, header: "") -> None:
        self.ledger = ledger
        self.clock = clock
        self.script = script
        self.witness = Witness()
        self.mishap: Callable[[str, VirtualAgent | None], str] = lambda what, agent: ""
        """What goes wrong with a spawn, paste, press or gate; empty for nothing."""
        self.host = Host(size_bytes=256 * GB)
        self.settings = HostSettings()
        self.work_s = 1.0
        self.gate_s = 0.0
        self.idle_s = IDLE_S
        self.idle_max_s = 0.0
        """How long a member's wait may become while nothing happens; 0 for never longer than it asks for."""
        self.alive: set[ProcessId] = set()
        self.files: dict[str, tuple[int, bytes]] = {}
        self.clients: dict[str, VirtualAgent] = {}
        """The newest incarnation of each agent, by `run/agent`."""
        self.past: list[VirtualAgent] = []
        self.calls: list[Call] = []
        self.crew: list[Berth] = []
        self.jobs: dict[str, Job] = {}
        self.hands = VirtualHands(self)
        """The operator's."""
        self.cleared: list[str] = []
        self.held_launches: dict[str, str] = {}
        """The runs whose agents may start no sub-agents, and why."""
        self.notices: list[dict[str, str]] = []
        self.tallies: dict[str, AgentTally] = {}
        self.instructions: dict[str, Version] = {}
        self.reads: dict[tuple[str, int, str], float] = {}
        self.failures: list[str] = []
        self.pulses: dict[tuple[str, str], float] = {}
        self.steps = 0
        self._numbers = count(1)
        self._ops = count(1)
        self._last_pid = 100
        self._writes = 0
        self._seen = START
        self._used = (-1.0, 0, 0)
        """How much memory was used, at which time and by how many processes."""
        self._timers: list[tuple[float, int, Timer]] = []
        self._before_s = -clock.now().mono

    @property
    def now(self) -> Moment:
        return self.clock.now()

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the beginning, over all boots."""
        return self._before_s + self.clock.now().mono

    # What a subclass may say otherwise.

    def pace(self, agent: VirtualAgent, header: Header) -> float:
        """How long the agent takes for the message."""
        return self.work_s

    def shape(self, agent: VirtualAgent) -> Shape:
        """How large the agent becomes."""
        return Shape()

    def ledger_for(self, berth: Berth) -> Store:
        """The ledger as this member has it."""
        return self.ledger

    def dispatcher(self, lease: Lease, log: Log) -> Dispatcher:
        """Whoever takes the dispatcher's place."""
        return Dispatcher(lease, log, self.now)

    def tally(self, run: str, agent: str) -> AgentTally | None:
        """What is counted of the agent."""
        return self.tallies.get(f"{run}/{agent}")

    def seen(self, event: StoredEvent) -> None:
        """An event was recorded."""
        self.witness.event(event)

    def crashed(self, berth: Berth, error: Exception) -> None:
        """A step has failed in a way that ends its member's process."""
        raise error

    # Processes.

    def process(self) -> ProcessId:
        self._last_pid += 1
        process = ProcessId(self.now.boot, self._last_pid, self._last_pid)
        self.alive.add(process)
        return process

    def kill(self, process: ProcessId) -> None:
        """The process is gone; whoever watches it is woken."""
        self.alive.discard(process)
        for agent in (*self.clients.values(), *self.past):
            if agent.process == process:
                agent.lives = False
        mono, left = self.now.mono, []
        for berth in self.crew:
            if process in berth.watched:
                berth.due, berth.idle_s = mono, self.idle_s
            if berth.process == process:
                berth.door.close()
            else:
                left.append(berth)
        self.crew = left

    def man(self, member: str, run: str) -> None:
        """Starts a crew member's process."""
        self.crew.append(Berth(self, member, run))

    def member(self, name: str) -> ProcessId:
        return next(berth.process for berth in self.crew if berth.name == name and berth.member is not None)

    def berth(self, name: str, run: str = "") -> Berth | None:
        """Who has the place now."""
        return next((b for b in self.crew if (b.name, b.run) == (name, run) and b.member is not None), None)

    def spawned(self, agent: VirtualAgent) -> None:
        """An agent's process was started."""
        self.witness.spawned(agent)

    def joined(self, berth: Berth, lease: Lease) -> None:
        """A crew member has taken its place."""
        self.witness.joined(berth, lease)

    def end_agent(self, agent: VirtualAgent, by: str, run: str, way: str) -> None:
        """A crew member ends an agent's process."""
        if agent.lives:
            self.witness.ended(agent, by, run, way)
            self.kill(agent.process)

    def end_crew(self, process: ProcessId, by: str, run: str) -> None:
        """A crew member ends another's process."""
        berth = next((one for one in self.crew if one.process == process), None)
        if berth is not None:
            self.witness.crew_ended(berth, by, run)
        self.kill(process)

    def silence_s(self, member: str, run: str) -> float | None:
        """How long ago the member gave its last sign of life. Where waits are stretched, who lives and is not stopped
        has given one just now."""
        if self.idle_max_s > 0:
            berth = self.berth(member, run)
            if berth is not None and not berth.stopped:
                return 0.0
        latest = self.pulses.get((member, run))
        return None if latest is None else self.now.mono - latest

    def start_job(self, key: str, seconds: float, code: int = 0) -> ProcessId:
        """A process beside the agents, which ends by itself."""
        process = self.process()
        self.jobs[key] = job = Job(process, self.now.mono + seconds, code)
        self.later(job.ends, lambda: self.kill(process))
        return process

    def finished(self, key: str) -> Job | None:
        """The job, where it has come to its end by itself."""
        job = self.jobs.get(key)
        if job is None or job.process.boot != self.now.boot or job.ends > self.now.mono:
            return None
        return job

    def end_jobs(self, run: str) -> None:
        """What is left of the run's gates and check-ins."""
        for key in [key for key in self.jobs if key.startswith((f"gate:{run}/", f"check-in:{run}/"))]:
            self.kill(self.jobs.pop(key).process)

    def used_bytes(self) -> int:
        """How much memory all agents take."""
        mono, alive = self.now.mono, len(self.alive)
        if self._used[:2] != (mono, alive):
            self._used = mono, alive, sum([one.rss_bytes() for one in self.clients.values() if one.lives])
        return self._used[2]

    def reboot(self) -> None:
        """All processes are gone, and the monotonic clock begins anew. Nobody starts a dispatcher by itself."""
        self._before_s += self.now.mono
        self.alive.clear()
        self.crew, self.calls = [], []
        self.past += self.clients.values()
        self.clients.clear()
        for agent in self.past:
            agent.lives = False
        self.pulses.clear()
        self._timers.clear()
        self.clock.reboot()

    # Things that happen.

    def later(self, mono: float, deed: Callable[[], None], owner: VirtualAgent | None = None) -> None:
        """Does it at that time, unless its owner has died by then."""
        timer = Timer(deed, owner)
        if owner is not None:
            owner.due.append(timer)
        heapq.heappush(self._timers, (mono, next(self._numbers), timer))

    def op_id(self) -> str:
        """The id of an operation, never used before."""
        return f"v{next(self._ops)}"

    def knock(self, call: Call) -> None:
        """Somebody is at the door of a run."""
        self.calls.append(call)
        self.ring(str(call.body["run"]))

    def ring(self, run: str = "") -> None:
        """Wakes the members that a run concerns, or all."""
        mono = self.now.mono
        for berth in self.crew:
            if not run or not berth.run or berth.run == run:
                berth.due, berth.idle_s = min(berth.due, max(mono, berth.joins)), self.idle_s

    def stir(self, run: str) -> None:
        """Something that rings no bell, but is seen in the next look: that shall not be long."""
        soon = self.now.mono + self.idle_s
        for berth in self.crew:
            if berth.run == run and berth.due > soon:
                berth.due, berth.idle_s = soon, self.idle_s

    def write(self, path: str, data: bytes) -> None:
        self._writes += 1
        self.files[path] = (self._writes, data)

    def is_fine(self) -> bool:
        """Whether waits are not stretched now: who has slept cannot tell who is silent."""
        return self.idle_max_s <= 0 or any(berth.stopped for berth in self.crew)

    def note(self, line: str) -> None:
        """A log line; what a member could not do is kept."""
        if '"step_failed"' in line or '"request_failed"' in line:
            self.failures.append(line)
            self.witness.failed(line)

    def note_prompt(self, agent: VirtualAgent, found: Sequence[Header]) -> None:
        self.witness.prompted(agent, found)

    def view(self, run: str) -> RunView:
        return self.ledger.read(lambda reader: load_run(reader, run))

    def events(self, kind: str = "", agent: str = "", run: str = "") -> list[StoredEvent]:
        """All events so far; of a kind, an agent and a run only where these are given."""
        found: list[StoredEvent] = []
        cursor = START
        while page := self.ledger.since(cursor, PAGE, run):
            found += [e for e in page if (not kind or e.kind == kind) and (not agent or e.agent == agent)]
            cursor = page[-1].cursor
        return found

    def run_until(self, fact: Callable[[], bool], limit_s: float = 600.0) -> None:
        """Goes from one thing that is due to the next until the fact holds."""
        end = self.elapsed_s + limit_s
        while not fact():
            if self.elapsed_s >= end:
                raise AssertionError(f"not within {limit_s:g} virtual seconds:\n{self.tail()}")
            self.tick()

    def tail(self) -> str:
        return "\n".join(f"{e.at.mono:.2f} {e.agent} {e.kind} {json.dumps(e.body)[:160]}" for e in self.events()[-25:])

    def tick(self) -> None:
        """What is due next happens."""
        times = [berth.due for berth in self.crew if not berth.stopped]
        if self._timers:
            times.append(self._timers[0][0])
        if not times:
            raise AssertionError(f"nothing will ever happen:\n{self.tail()}")
        self.clock.advance(max(TICK_S, min(times) - self.now.mono))
        mono, timers = self.now.mono, self._timers
        while timers and timers[0][0] <= mono:
            self._fire(heapq.heappop(timers)[2])
            if self.now.mono != mono:
                return  # the machine was booted anew
        for berth in list(self.crew):
            if berth.due <= mono and not berth.stopped and berth in self.crew:
                self._step(berth)

    def _fire(self, timer: Timer) -> None:
        owner = timer.owner
        if owner is not None:
            if timer not in owner.due:
                return
            owner.due.remove(timer)
            if not owner.lives:
                return
        timer.deed()

    def _step(self, berth: Berth) -> None:
        self.steps += 1
        berth.step(self)
        moved = False
        while page := self.ledger.since(self._seen, PAGE):
            moved, self._seen = True, page[-1].cursor
            for run in dict.fromkeys(event.run for event in page):
                self._tell(run, berth)
            for event in page:
                self.seen(event)
            if len(page) < PAGE:
                break
        berth.rest(self, moved=moved)
        self.witness.stepped(berth)

    def _tell(self, run: str, by: Berth) -> None:
        """The doorbell: not for whoever has rung it."""
        mono = self.now.mono
        for berth in self.crew:
            if berth is not by and (not run or not berth.run or berth.run == run):
                # A dispatcher hears of everything that happens; where time is saved, it steps at every second look.
                soon = mono if berth.run or self.idle_max_s <= 0 else max(mono, berth.stepped + 2 * LOOK_S)
                berth.due, berth.idle_s = min(berth.due, max(soon, berth.joins)), self.idle_s
