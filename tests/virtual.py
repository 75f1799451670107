"""A machine that is not there: processes, files, terminals and a door in memory, on a clock that is turned by hand.

The very same `step` of captain, watchdog and dispatcher runs on it, because a step needs nothing but the Protocols of
`crew/worlds.py`, a ledger and `now`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dogwatch.crew.captain import Captain
from dogwatch.crew.dispatcher import Dispatcher
from dogwatch.crew.log import Log
from dogwatch.crew.membership import join
from dogwatch.crew.tallies import AgentTally
from dogwatch.crew.watchdog import Watchdog
from dogwatch.ledger.api import START, Event, Lease, Store
from dogwatch.ledger.records import load_run
from dogwatch.model.brief import Header, headers, refreshed_file, written_files
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Gate, Notify, Output, Plan
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord, RunRecord
from dogwatch.model.sight import Sight, Turn
from dogwatch.model.versions import Version
from dogwatch.model.view import RunView
from dogwatch.testing.clock import ManualClock
from helpers import events_of

JOIN_S = 0.3

Script = Callable[["VirtualAgent", Header], str]
"""What an agent does with a message: work, die, silent, lose_report, fail, approve, revise, or "" for what is usual."""


@dataclass(frozen=True)
class Started:
    """What a spawn returns."""

    process: ProcessId
    pane: str
    adopted: bool
    sandboxed: bool = False
    server: ProcessId | None = None


@dataclass
class Call:
    """A call at the door and what came of it."""

    body: Mapping[str, Any]
    then: Callable[[Mapping[str, Any]], None] = lambda answer: None
    answers: list[Mapping[str, Any]] = field(default_factory=list)

    def answer(self, body: Mapping[str, Any]) -> None:
        json.dumps(body)
        self.answers.append(body)
        self.then(body)


class VirtualAgent:
    """One incarnation: a composer, a turn, and what it will do when."""

    def __init__(self, machine: Machine, run: RunRecord, record: AgentRecord, process: ProcessId) -> None:
        self.machine = machine
        self.run = run
        self.name = record.agent
        self.incarnation = record.incarnation
        self.process = process
        self.composer = ""
        self.turn = Turn("idle", machine.now.mono, machine.now.mono, process.pid)
        self.prompts: list[str] = []
        self.began = machine.now.mono
        self.hung = False
        self.orders: dict[str, str] = {}
        self.due: list[tuple[float, Callable[[], None]]] = []

    def submit(self) -> None:
        """Enter: the client's own hook names the messages, and a turn is open."""
        text, self.composer = self.composer, ""
        if not text:
            return
        mono = self.machine.now.mono
        self.prompts.append(text)
        found = headers(text)
        receipts = {**self.turn.receipts, **{header.id: mono for header in found}}
        opened = Turn("working", mono, mono, self.process.pid, receipts)
        self.turn = replace(opened, subagents=self.turn.subagents, begun=self.turn.begun)
        if found:
            self.due.append((mono + self.machine.work_s, lambda: self._handle(found[0], text)))

    def stop(self) -> None:
        mono = self.machine.now.mono
        self.turn = replace(self.turn, state="idle", since=mono, newest=mono)

    def call(self, op: str, then: Callable[[Mapping[str, Any]], None] = lambda answer: None, **more: Any) -> Call:
        body = {"run": self.run.run, "agent": self.name, "incarnation": self.incarnation, "op": op}
        call = Call({"op_id": uuid.uuid4().hex, **body, **more}, then)
        self.machine.calls.append(call)
        self.machine.ring()
        return call

    def _handle(self, header: Header, text: str) -> None:
        deed = self.machine.script(self, header) or _usual(header.kind)
        if header.kind == "dispatch":
            self.orders[header.subject] = text
        subject = header.subject
        if deed == "die":
            self.machine.kill(self.process)
            return
        if deed == "hang":
            self.hung = True
            return
        if deed == "work":
            self.work(subject, self.orders.get(subject, text))
            return
        if deed == "lose_report":
            self._write(text)
        elif deed == "fail":
            self.call("report", task=subject, result="failed", note="it cannot be done")
        elif deed in ("approve", "revise"):
            self.call("checkpoint", checkpoint=subject, verdict=deed, note="" if deed == "approve" else "too short")
        elif deed == "claim":
            self.call("claim", lambda answer: self._claimed(subject, answer), task=subject)
            return
        elif deed == "beat":
            self.call("heartbeat")
        elif deed == "refresh":
            self.machine.reads[self.name, self.incarnation, refreshed_file(text)] = self.machine.now.mono
        elif deed == "read":
            self.call("mail_read")
            self.call("mail_ack", message=header.id)
        self.stop()

    def _claimed(self, subject: str, answer: Mapping[str, Any]) -> None:
        if not answer["ok"]:
            self.stop()
            return
        due = self.machine.now.mono + self.machine.work_s
        self.orders[subject] = answer["text"]
        self.due.append((due, lambda: self.work(subject, answer["text"])))

    def work(self, subject: str, text: str) -> None:
        """Writes what is asked for and reports."""
        self._write(text)
        self.call("report", task=subject, result="done")
        self.stop()

    def _write(self, text: str) -> None:
        for path in written_files(text):
            self.machine.write(f"{self.run.output}/{path}", f"{path} by {self.name}#{self.incarnation}".encode())


def _usual(kind: str) -> str:
    deeds = {"dispatch": "work", "nudge": "work", "checkpoint": "approve", "offer": "claim", "mail": "read"}
    return {**deeds, "health_check": "beat", "refresh": "refresh"}[kind]


class Machine:
    """Everything that the crew sees and touches, and the crew itself."""

    def __init__(self, ledger: Store, clock: ManualClock, script: Script = lambda agent, header: "") -> None:
        self.ledger = ledger
        self.clock = clock
        self.script = script
        self.work_s = 1.0
        self.alive: set[ProcessId] = set()
        self.files: dict[str, tuple[int, bytes]] = {}
        self.agents: dict[str, VirtualAgent] = {}
        self.past: list[VirtualAgent] = []
        self.calls: list[Call] = []
        self.crew: list[Berth] = []
        self.hands = VirtualHands(self)
        self.cleared: list[str] = []
        self.notices: list[dict[str, str]] = []
        self.tallies: dict[str, AgentTally] = {}
        self.instructions: dict[str, Version] = {}
        self.reads: dict[tuple[str, int, str], float] = {}
        self.failures: list[str] = []
        self.pulses: dict[tuple[str, str], float] = {}
        self._last_pid = 100
        self._writes = 0
        self._seen = START

    @property
    def now(self) -> Moment:
        return self.clock.now()

    def process(self) -> ProcessId:
        self._last_pid += 1
        process = ProcessId(self.now.boot, self._last_pid, self._last_pid)
        self.alive.add(process)
        return process

    def kill(self, process: ProcessId) -> None:
        self.alive.discard(process)
        for berth in self.crew:
            if process in berth.watched:
                berth.due = self.now.mono
        self.crew = [berth for berth in self.crew if berth.process != process]

    def ring(self) -> None:
        for berth in self.crew:
            berth.due = min(berth.due, max(self.now.mono, berth.joins))

    def write(self, path: str, data: bytes) -> None:
        self._writes += 1
        self.files[path] = (self._writes, data)

    def note(self, line: str) -> None:
        """A log line; what a member could not do is kept."""
        if json.loads(line)["event"] in ("step_failed", "request_failed"):
            self.failures.append(line)

    def member(self, name: str) -> ProcessId:
        return next(berth.process for berth in self.crew if berth.name == name and berth.member is not None)

    def view(self, run: str) -> RunView:
        return self.ledger.read(lambda reader: load_run(reader, run))

    def events(self, kind: str = "", agent: str = "") -> list[Event]:
        return events_of(self.ledger, kind, agent)

    def run_until(self, fact: Callable[[], bool], limit_s: float = 600.0) -> None:
        """Goes from one thing that is due to the next until the fact holds."""
        end = self.now.mono + limit_s
        while not fact():
            assert self.now.mono < end, f"not within {limit_s:g} virtual seconds:\n{self.tail()}"
            self._tick()

    def tail(self) -> str:
        return "\n".join(f"{e.at.mono:.2f} {e.agent} {e.kind} {json.dumps(e.body)[:160]}" for e in self.events()[-25:])

    def _tick(self) -> None:
        agents = [agent for agent in self.agents.values() if agent.process in self.alive]
        times = [berth.due for berth in self.crew] + [due for agent in agents for due, _ in agent.due]
        assert times, f"nothing will ever happen:\n{self.tail()}"
        self.clock.advance(max(0.001, min(times) - self.now.mono))
        for agent in agents:
            ready = [deed for due, deed in agent.due if due <= self.now.mono]
            agent.due = [(due, deed) for due, deed in agent.due if due > self.now.mono]
            for deed in ready:
                deed()
        for berth in list(self.crew):
            if berth in self.crew and berth.due <= self.now.mono:
                berth.step(self)
                if page := self.ledger.since(self._seen, 500):
                    self._seen = page[-1].cursor
                    self.ring()


class Berth:
    """A crew member's process: joins a moment after its start, then steps."""

    def __init__(self, machine: Machine, name: str, run: str) -> None:
        self.name = name
        self.run = run
        self.process = machine.process()
        self.member: Captain | Watchdog | Dispatcher | None = None
        self.joins = self.due = machine.now.mono + JOIN_S
        self.watched: set[ProcessId] = set()
        hands = VirtualHands(machine)
        self.world = World(VirtualEyes(machine, self), hands, hands, VirtualDoor(machine))

    def step(self, machine: Machine) -> None:
        now = machine.now
        if self.member is None:
            lease = join(machine.ledger, self.name, self.run, self.process, self.world.eyes.life, now)
            if lease is None:
                machine.kill(self.process)
                return
            self.member = self._take(lease, machine)
        self.world.eyes.pulse()
        wait_s = self.member.step(self.world, machine.ledger, now)
        if wait_s is None:
            machine.kill(self.process)
        else:
            self.due = now.mono + max(0.01, wait_s)

    def _take(self, lease: Lease, machine: Machine) -> Captain | Watchdog | Dispatcher:
        log = Log(self.name, self.run, write=lambda line: machine.note(line))
        if self.name == "captain":
            return Captain(self.run, lease, log)
        return Watchdog(self.run, lease, log) if self.name == "watchdog" else Dispatcher(lease, log, machine.now)


@dataclass(frozen=True)
class World:
    """What a crew member is given."""

    eyes: VirtualEyes
    hands: VirtualHands
    starter: VirtualHands
    door: VirtualDoor


class VirtualEyes:
    """Looks at the machine's memory."""

    def __init__(self, machine: Machine, berth: Berth) -> None:
        self._machine = machine
        self._berth = berth

    def look(self, view: RunView, agents: Sequence[str], *, screens: bool) -> dict[str, Sight]:
        return {name: self._sight(view, name) for name in agents}

    def _sight(self, view: RunView, name: str) -> Sight:
        record, agent, task = view.agents[name], self._machine.agents.get(name), view.task_of(name)
        fresh = False
        if task is not None and task.outputs:
            fresh = not self.unwritten(view.run.output, task.outputs, task.marker)
        if record.process is None or agent is None or agent.incarnation != record.incarnation:
            return Sight(process="dead" if record.process else "unknown", session="gone")
        living = agent.process in self._machine.alive
        return Sight(
            process="alive" if living else "dead",
            session="alive" if living else "dead",
            turn=agent.turn,
            screen="busy" if agent.turn.state == "working" else "idle",
            screen_since=agent.turn.since,
            watched_since=agent.began,
            life=self._machine.now.mono if agent.turn.state == "working" and not agent.hung else 0.0,
            composer=agent.composer,
            outputs_fresh=fresh,
        )

    def life(self, process: ProcessId) -> str:
        return "alive" if process in self._machine.alive else "dead"

    def tallies(self, view: RunView, agents: Sequence[str]) -> dict[str, AgentTally]:
        return {name: self._machine.tallies[name] for name in agents if name in self._machine.tallies}

    def version(self, path: str) -> Version | None:
        return self._machine.instructions.get(path)

    def read_at(self, view: RunView, agent: str, path: str, lines: int) -> float:
        return self._machine.reads.get((agent, view.agents[agent].incarnation, path), 0.0)

    def memory_left(self) -> float | None:
        return 0.5

    def marker(self, folder: str, outputs: Sequence[Output]) -> dict[str, str]:
        return {o.path: str(self._machine.files.get(f"{folder}/{o.path}", ("", b""))[0]) for o in outputs}

    def unwritten(self, folder: str, outputs: Sequence[Output], before: Mapping[str, str]) -> str:
        for path, version in self.marker(folder, outputs).items():
            if not version or version == before.get(path, ""):
                return f"{path} is not written"
        return ""

    def failed_check(self, folder: str, check: ByteCheck) -> tuple[str, str]:
        found = self._machine.files.get(f"{folder}/{check.path}")
        if found is None:
            return f"{check.path} does not exist", ""
        missing = next((f"no {text!r}" for text in check.contains if text.encode() not in found[1]), "")
        return missing, hashlib.sha256(found[1]).hexdigest()

    def silence_s(self, member: str, run: str, now: Moment) -> float | None:
        latest = self._machine.pulses.get((member, run))
        return None if latest is None else now.mono - latest

    def pulse(self) -> None:
        self._machine.pulses[self._berth.name, self._berth.run] = self._machine.now.mono

    def watch(self, processes: Sequence[ProcessId]) -> None:
        self._berth.watched = set(processes)

    def watch_also(self, process: ProcessId) -> None:
        self._berth.watched.add(process)


class VirtualHands:
    """Changes the machine's memory."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def prepare(self, run: RunRecord) -> None:
        pass

    def keep_model(self, run: RunRecord) -> None:
        pass

    def spawn(self, run: RunRecord, plan: Plan, agent: AgentRecord) -> Started:
        present = self._machine.agents.get(agent.agent)
        if present is not None and present.incarnation == agent.incarnation:
            return Started(present.process, "%1", adopted=True)
        if present is not None:
            self._machine.kill(present.process)
            self._machine.past.append(present)
        process = self._machine.process()
        self._machine.agents[agent.agent] = VirtualAgent(self._machine, run, agent, process)
        return Started(process, "%1", adopted=False)

    def paste(self, agent: AgentRecord, message: MessageRecord, text: str) -> bool:
        self._machine.agents[agent.agent].composer += text
        return True

    def put_in_box(self, agent: AgentRecord, message: MessageRecord, text: str) -> None:
        raise AssertionError("no agent here has a post box")

    def take_from_box(self, agent: AgentRecord, message: MessageRecord) -> bool:
        raise AssertionError("no agent here has a post box")

    def press(self, agent: AgentRecord, keys: Sequence[str]) -> bool:
        one = self._machine.agents[agent.agent]
        if tuple(keys) == ("Enter",):
            one.submit()
        else:
            one.stop()
        return True

    def end_turn(self, agent: AgentRecord, turn: Turn, ended: str) -> bool:
        one = self._machine.agents[agent.agent]
        one.turn = replace(one.turn, state="idle", stops=0, ended=ended)
        return True

    def start_gate(self, run: RunRecord, phase: int, plan: Gate, attempt: int) -> ProcessId:
        return self._machine.process()

    def gate_result(self, run: str, phase: int, plan: Gate, attempt: int) -> tuple[int, str] | None:
        return 0, ""

    def gate_words(self, run: str, phase: int, plan: Gate, attempt: int) -> str:
        return ""

    def start_notice(self, run: str, item: str, notice: Mapping[str, str], attempt: int, ways: Notify) -> ProcessId:
        self._machine.notices.append(dict(notice))
        return self._machine.process()

    def start_check_in(
        self, run: RunRecord, plan: Plan, agent: AgentRecord, item: str, question: str, attempt: int
    ) -> ProcessId:
        raise AssertionError("nobody is asked here")

    def check_in_result(self, run: str, item: str, attempt: int) -> tuple[int, str, str] | None:
        raise AssertionError("nobody is asked here")

    def forget_check_in(self, run: str, item: str, attempts: int) -> None:
        raise AssertionError("nobody is asked here")

    def notice_result(self, run: str, item: str, attempt: int) -> list[tuple[str, str]] | None:
        return [("virtual", "")]

    def dismiss(self, agent: AgentRecord) -> None:
        self._machine.kill(self._machine.agents[agent.agent].process)

    def clear(self, run: str, servers: Sequence[ProcessId]) -> int:
        for agent in self._machine.agents.values():
            self._machine.kill(agent.process)
        self._machine.cleared.append(run)
        return len(self._machine.agents)

    def start_crew(self, member: str, run: str = "") -> None:
        self._machine.crew.append(Berth(self._machine, member, run))

    def end_silent_crew(self, process: ProcessId) -> None:
        self._machine.kill(process)


class VirtualDoor:
    """Calls wait in a list."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def requests(self) -> list[Call]:
        waiting, self._machine.calls = self._machine.calls, []
        return waiting
