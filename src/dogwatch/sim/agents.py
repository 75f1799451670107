"""Virtual agents: each incarnation has a composer, a turn, a body in memory, and does what its script says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from dogwatch.coordination.usage import AgentTally, SubagentTold
from dogwatch.model.brief import Header, headers, refreshed_file, written_files
from dogwatch.model.moment import Moment
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.model.sight import Sight, Subagent, Turn
from dogwatch.sim.door import AGAIN_S, Call
from dogwatch.sim.memory import Body, Shape
from dogwatch.testing.clock import ManualClock

Script = Callable[["VirtualAgent", Header], str]
"""What an agent does with a message: work, die, silent, hang, lose_report, fail, approve, revise, provider or dialog;
empty for what is usual."""

_USUAL = {
    "dispatch": "work",
    "checkpoint": "approve",
    "offer": "claim",
    "mail": "read",
    "health_check": "beat",
    "refresh": "refresh",
}


class AgentMachine(Protocol):
    """What an agent needs of the machine that it runs on."""

    clock: ManualClock
    script: Script
    tallies: dict[str, AgentTally]
    reads: dict[tuple[str, int, str], float]
    """When an incarnation has read a file."""

    @property
    def now(self) -> Moment: ...

    def shape(self, agent: VirtualAgent) -> Shape:
        """How large the agent becomes."""

    def pace(self, agent: VirtualAgent, header: Header) -> float:
        """How long the agent takes for the message."""

    def later(self, mono: float, deed: Callable[[], None], owner: VirtualAgent | None = None) -> None:
        """Does it at that time, unless its owner has died by then."""

    def note_prompt(self, agent: VirtualAgent, found: Sequence[Header]) -> None:
        """A client has submitted these messages."""

    def stir(self, run: str) -> None:
        """Something that the run's crew shall see soon."""

    def op_id(self) -> str:
        """The id of an operation, never used before."""

    def knock(self, call: Call) -> None:
        """Somebody is at the door of a run."""

    def write(self, path: str, data: bytes) -> None:
        """Writes a file."""

    def kill(self, process: ProcessId) -> None:
        """The process is gone."""


class VirtualAgent:
    """One incarnation: a composer, a turn, and what it will do when.

    `ill` is what is wrong with it, which only the simulator knows; `screen` what stands on its screen where that is
    not what its turn says.
    """

    def __init__(self, machine: AgentMachine, run: RunRecord, record: AgentRecord, process: ProcessId) -> None:
        self.machine = machine
        self.run = run
        self.name = record.agent
        self.key = f"{run.run}/{record.agent}"
        self.role = record.role
        self.incarnation = record.incarnation
        self.process = process
        self.lives = True
        """The machine says when it does no more."""
        self.composer = ""
        self.turn = Turn("idle", machine.now.mono, machine.now.mono, process.pid)
        self.prompts: list[str] = []
        self.began = machine.now.mono
        self.hung = False
        self.ill = ""
        self.screen = ""
        self.screen_since = 0.0
        self.has_session = True
        self.attached = False
        """Whether a person looks at its terminal."""
        self.orders: dict[str, str] = {}
        self.asked: Header | None = None
        self.kinds: dict[str, str] = {}
        """What it was asked for, by subject."""
        self.repeats_calls = False
        self.due: list[object] = []
        self.body = Body(machine.shape(self))
        self.running: dict[str, SubagentTold] = {}
        self.seen: tuple[tuple[object, ...], Sight] | None = None
        """What was seen of it last, and what that was made of."""

    def rss_bytes(self) -> int:
        """How much memory its processes take now."""
        return self.body.rss_bytes(self.machine.clock.now().mono, self._working_since(), len(self.running))

    def largest_bytes(self) -> int:
        """How much the largest of its processes takes now: never more than all of them."""
        return self.body.largest_bytes(self.machine.clock.now().mono, self._working_since(), len(self.running))

    def _working_since(self) -> float | None:
        turn = self.turn
        return turn.since if turn.state == "working" and not self.hung else None

    def after(self, seconds: float, deed: Callable[[], None]) -> None:
        """Does it later, unless it has died by then."""
        self.machine.later(self.machine.now.mono + seconds, deed, self)

    def submit(self) -> None:
        """Enter: the client's own hook names the messages, and a turn is open."""
        if self.hung or not self.composer:
            return
        text, self.composer = self.composer, ""
        mono = self.machine.now.mono
        self.prompts.append(text)
        found = headers(text)
        self.machine.note_prompt(self, found)
        self._count_work()
        receipts = {**self.turn.receipts, **{header.id: mono for header in found}}
        if found and found[0].kind == "canary":
            # The hook refuses it: there is a receipt, and no turn.
            self.turn = replace(self.turn, receipts=receipts, newest=mono)
            self.machine.stir(self.run.run)
            return
        opened = Turn("working", mono, mono, self.process.pid, receipts)
        self.turn = replace(opened, subagents=self.turn.subagents, begun=self.turn.begun)
        self.ill, self.screen = "", ""
        self.machine.stir(self.run.run)
        if found:
            self.asked = found[0]
            self.after(self.machine.pace(self, found[0]), lambda: self._handle(found[0], text))

    def stop(self) -> None:
        """Its turn has ended."""
        self._count_work()
        mono = self.machine.now.mono
        self.turn = replace(self.turn, state="idle", since=mono, newest=mono)
        self.machine.stir(self.run.run)

    def show(self, screen: str) -> None:
        """From now on this stands on its screen; an empty text for what its turn says."""
        self.screen, self.screen_since = screen, self.machine.now.mono
        self.machine.stir(self.run.run)

    def call(self, op: str, then: Callable[[Mapping[str, Any]], None] = lambda answer: None, **more: Any) -> Call:
        """Calls at the door; a captain that is busy is called again, with the same operation id."""
        body = {"run": self.run.run, "agent": self.name, "incarnation": self.incarnation, "op": op}
        call = Call({"op_id": self.machine.op_id(), **body, **more})

        def answered(answer: Mapping[str, Any]) -> None:
            if answer.get("code") == "busy":
                self.after(AGAIN_S, again)
            else:
                then(answer)

        def again() -> None:
            call.answers.clear()
            self.machine.knock(call)

        call.then = answered
        self.machine.knock(call)
        if self.repeats_calls:
            self.repeats_calls = False
            self.machine.knock(Call(call.body))
        return call

    def _handle(self, header: Header, text: str) -> None:
        if header.kind == "dispatch":
            self.orders[header.subject] = text
        if header.kind != "nudge":
            self.kinds[header.id if header.kind == "mail" else header.subject] = header.kind
        self.do(self.machine.script(self, header) or self._usual(header), header, text)

    def _usual(self, header: Header) -> str:
        """What is usual; a nudge is about what it was asked for before."""
        kind = self.kinds.get(header.subject, "dispatch") if header.kind == "nudge" else header.kind
        return _USUAL[kind]

    def do(self, deed: str, header: Header, text: str) -> None:
        """Does the deed with the message, at once."""
        subject = header.subject
        if deed == "die":
            self.machine.kill(self.process)
            return
        if deed == "hang":
            self.hung, self.ill = True, "hung"
            return
        if deed == "work":
            self.work(subject, self.orders.get(subject, text))
            return
        if deed == "claim":
            self.call("claim", lambda answer: self._claimed(header, answer), task=subject)
            return
        if deed == "dialog":
            self.ill = "dialog"
            self.turn = replace(self.turn, dialog="Bash make", dialog_since=self.machine.now.mono)
            self.show("permission")
            return
        if deed == "silent":
            self.ill = "silent"
        elif deed == "lose_report":
            self.ill = "unreported"
            self._write(text)
        elif deed == "fail":
            self.call("report", task=subject, result="failed", note="it cannot be done")
        elif deed in ("approve", "revise"):
            self.call("checkpoint", checkpoint=subject, verdict=deed, note="" if deed == "approve" else "too short")
        elif deed == "beat":
            self.call("heartbeat")
        elif deed == "refresh":
            self.machine.reads[self.name, self.incarnation, refreshed_file(text)] = self.machine.now.mono
        elif deed == "read":
            self.call("mail_read", self._note_letters)
            self.call("mail_ack", message=header.subject if header.kind == "nudge" else header.id)
        self.stop()
        if deed == "provider":
            self.ill = "provider"
            self.turn = replace(self.turn, failure="overloaded")
            self.show("error")

    def recover(self) -> None:
        """What was wrong is over: it goes on with what it was asked, as if nothing had been."""
        header, self.hung, self.ill = self.asked, False, ""
        mono = self.machine.now.mono
        self.turn = replace(self.turn, newest=mono, dialog="", dialog_since=0.0)
        self.show("")
        if header is not None and self.turn.state == "working":
            text = self.orders.get(header.subject, self.prompts[-1])
            self.after(self.machine.pace(self, header), lambda: self.do(self._usual(header), header, text))

    def _note_letters(self, answer: Mapping[str, Any]) -> None:
        self.kinds.update((letter["message"], "mail") for letter in answer.get("mail", ()))

    def _claimed(self, header: Header, answer: Mapping[str, Any]) -> None:
        if not answer["ok"]:
            self.stop()
            return
        subject, text = header.subject, answer["text"]
        self.orders[subject] = text
        taken = replace(header, kind="dispatch")
        self.after(self.machine.pace(self, taken), lambda: self.work(subject, text))

    def work(self, subject: str, text: str) -> None:
        """Writes what is asked for and reports."""
        self._write(text)
        self.call("report", task=subject, result="done")
        self.stop()

    def _write(self, text: str) -> None:
        for path in written_files(text):
            self.machine.write(f"{self.run.output}/{path}", f"{path} by {self.name}#{self.incarnation}".encode())

    def _count_work(self) -> None:
        if self.turn.state == "working":
            self.body.worked_s += self.machine.now.mono - self.turn.since

    def start_subagent(self, kind: str, seconds: float) -> None:
        """A sub-agent begins, and ends by itself after so long."""
        mono, identity = self.machine.now.mono, self.machine.op_id()
        told = SubagentTold(
            incarnation=self.incarnation, key=f"{self.incarnation}:{identity}", id=identity, type=kind, since=mono
        )
        self.running[identity] = told
        self.turn = replace(
            self.turn,
            newest=mono,
            subagents={**self.turn.subagents, identity: Subagent(kind, mono, identity)},
            begun={**self.turn.begun, kind: mono},
        )
        self._tell(told)
        self.after(seconds, lambda: self.end_subagent(identity))

    def end_subagent(self, identity: str, how: str = "ended") -> None:
        """It comes to its end, or is lost with its agent's process."""
        told, mono = self.running.pop(identity), self.machine.now.mono
        left = {key: one for key, one in self.turn.subagents.items() if key != identity}
        self.turn = replace(self.turn, newest=mono if how == "ended" else self.turn.newest, subagents=left)
        self._tell(replace(told, how=how, seconds=round(mono - told.since, 3)))

    def _tell(self, told: SubagentTold) -> None:
        before = self.machine.tallies.get(self.key, AgentTally())
        self.machine.tallies[self.key] = AgentTally(told=(*before.told, told), running=tuple(self.running.values()))
        self.machine.stir(self.run.run)
