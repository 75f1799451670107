"""What a crew member's step may see and touch, as Protocols: the real machine has one set, a simulator another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dogwatch.coordination.usage import AgentTally
from dogwatch.model.memory import HostSettings, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Gate, Notify, Output, Plan
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, MessageRecord, RunRecord
from dogwatch.model.sight import Sight, Turn
from dogwatch.model.versions import Version
from dogwatch.model.view import RunView


class CrewEyes(Protocol):
    """Looking after other crew members, and being seen by them."""

    def life(self, process: ProcessId) -> str:
        """alive, dead or unknown."""

    def silence_s(self, member: str, run: str, now: Moment) -> float | None:
        """How long ago the member gave its last sign of life, or None where it never gave one."""

    def pulse(self) -> None:
        """This member's own sign of life; also given in the middle of long steps."""

    def watch(self, processes: Sequence[ProcessId]) -> None:
        """From now on the loop wakes at once when one of these dies."""

    def watch_also(self, process: ProcessId) -> None:
        """The same for one more."""

    def memory(self, agents: Mapping[str, ProcessId], ceiling_bytes: int) -> Readings:
        """What the sensors say; `agents` are the roots of the agents' processes by `run/agent`. With a ceiling the
        machine counts as that large. Growth and sub-agents are the caller's to fill in."""

    def settings(self) -> tuple[HostSettings, str]:
        """What the operator has set for this host, and what is wrong with it where it cannot be read: then the last
        that was right still holds."""


class Eyes(CrewEyes, Protocol):
    """Looking at a run. Nothing here changes anything."""

    def look(self, view: RunView, agents: Sequence[str], *, screens: bool) -> dict[str, Sight]:
        """What is seen of the agents now; with `screens`, what stands on them too."""

    def tallies(self, view: RunView, agents: Sequence[str]) -> dict[str, AgentTally]:
        """What is counted of the agents: errors, denials, model calls."""

    def version(self, path: str) -> Version | None:
        """What a file of instructions is now; None where it cannot be read."""

    def read_at(self, view: RunView, agent: str, path: str, lines: int) -> float:
        """When the client of the agent's incarnation last read the file, on the monotonic clock; 0 for never."""

    def marker(self, folder: str, outputs: Sequence[Output]) -> dict[str, str]:
        """What the outputs look like now."""

    def unwritten(self, folder: str, outputs: Sequence[Output], before: Mapping[str, str]) -> str:
        """Why the outputs do not count as written, or an empty text."""

    def failed_check(self, folder: str, check: ByteCheck) -> tuple[str, str]:
        """Why the bytes fail the check (empty: they pass), and their SHA-256."""


class SpawnResult(Protocol):
    """A started agent."""

    @property
    def process(self) -> ProcessId: ...
    @property
    def pane(self) -> str: ...
    @property
    def server(self) -> ProcessId | None: ...
    @property
    def adopted(self) -> bool: ...
    @property
    def sandboxed(self) -> bool: ...
    @property
    def limit_bytes(self) -> int:
        """The kernel's limit for its memory; 0 for none."""


class Starter(Protocol):
    """Starting crew members."""

    def start_crew(self, member: str, run: str = "") -> None: ...


class CrewHands(Starter, Protocol):
    """Starting and ending crew members."""

    def end_silent_crew(self, process: ProcessId) -> None: ...


class Hands(CrewHands, Protocol):
    """All that a captain may do."""

    def prepare(self, run: RunRecord) -> None: ...
    def keep_model(self, run: RunRecord) -> None:
        """A rehearsal has its scripted model, also where that has died."""

    def spawn(self, run: RunRecord, plan: Plan, agent: AgentRecord) -> SpawnResult: ...
    def dismiss(self, agent: AgentRecord) -> None: ...
    def paste(self, agent: AgentRecord, message: MessageRecord, text: str) -> bool: ...
    def put_in_box(self, agent: AgentRecord, message: MessageRecord, text: str) -> None:
        """Leaves the message for the client's next hook."""

    def take_from_box(self, agent: AgentRecord, message: MessageRecord) -> bool:
        """Whether no hook has taken the message, and none will any more."""

    def hold_launches(self, run: str, why: str) -> None:
        """From now on no agent of the run may start a sub-agent; with no reason, they may again."""

    def press(self, agent: AgentRecord, keys: Sequence[str]) -> bool: ...
    def end_turn(self, agent: AgentRecord, turn: Turn, ended: str) -> bool: ...
    def start_gate(self, run: RunRecord, phase: int, plan: Gate, attempt: int) -> ProcessId: ...
    def gate_result(self, run: str, phase: int, plan: Gate, attempt: int) -> tuple[int, str] | None: ...
    def gate_words(self, run: str, phase: int, plan: Gate, attempt: int) -> str: ...
    def ways(self, notify: Notify) -> Notify:
        """These ways to tell a person, or where there are none, those of the machine."""

    def start_notice(self, run: str, item: str, notice: Mapping[str, str], attempt: int, ways: Notify) -> ProcessId: ...
    def notice_result(self, run: str, item: str, attempt: int) -> Sequence[tuple[str, str]] | None:
        """Each way with why it failed (empty: it took the notice), or None where the attempt has not finished."""

    def start_check_in(
        self, run: RunRecord, plan: Plan, agent: AgentRecord, item: str, question: str, attempt: int
    ) -> ProcessId: ...
    def check_in_result(self, run: str, item: str, attempt: int) -> tuple[int, str, str] | None:
        """The exit code, what was printed and what was complained of, or None where it has not finished."""

    def forget_check_in(self, run: str, item: str, attempts: int) -> None: ...
    def clear(self, run: str, servers: Sequence[ProcessId]) -> int: ...


class Request(Protocol):
    """A call at the door, to be answered once."""

    @property
    def body(self) -> Mapping[str, Any]: ...
    def answer(self, body: Mapping[str, Any]) -> None: ...


class Door(Protocol):
    """The run's way in."""

    def requests(self) -> Sequence[Request]: ...


class WatchdogWorld(Protocol):
    """A watchdog sees, and may start a dispatcher; it has no hands."""

    @property
    def eyes(self) -> Eyes: ...
    @property
    def starter(self) -> Starter: ...


class DispatcherWorld(Protocol):
    """A dispatcher sees its crew and starts and ends members of it."""

    @property
    def eyes(self) -> CrewEyes: ...
    @property
    def hands(self) -> CrewHands: ...


class CaptainWorld(Protocol):
    """A captain sees, acts and serves the door."""

    @property
    def eyes(self) -> Eyes: ...
    @property
    def hands(self) -> Hands: ...
    @property
    def door(self) -> Door: ...
