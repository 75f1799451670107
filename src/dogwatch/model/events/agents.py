"""The lives of agents: their starts, restarts and replacements, and how healthy they are."""

from __future__ import annotations

from dogwatch.model.events.base import Event
from dogwatch.model.process import ProcessId


class AgentStaffed(Event):
    """The run has one more agent, which its plan does not name; `reason` says what for."""

    role: str
    reason: str


class AgentSpawnIntended(Event):
    """An incarnation of an agent is about to be started."""

    incarnation: int


class AgentSpawned(Event):
    """The incarnation runs; `adopted` where it had been started before the captain was killed. `limit_bytes` is the
    kernel's limit for its memory, 0 for none."""

    incarnation: int
    name: str
    role: str
    session: str
    process: ProcessId
    adopted: bool
    sandboxed: bool
    limit_bytes: int


class AgentSpawnFailed(Event):
    """The incarnation could not be started."""

    incarnation: int
    reason: str


class GuardProven(Event):
    """The agent's guard was seen to work: it refused a canary."""

    incarnation: int


class AgentRestarted(Event):
    """The agent gets a new incarnation, after `backoff_s`; `reason` and `evidence` say why."""

    reason: str
    evidence: tuple[str, ...]
    incarnation: int
    backoff_s: float


class AgentQuarantined(Event):
    """The agent failed too often and is not started again."""

    reason: str
    evidence: tuple[str, ...]


class AgentReplaced(Event):
    """The agent was given up for good; `successor` takes over its place, its mail and its work."""

    successor: str
    reason: str
    evidence: tuple[str, ...]


class AgentProbed(Event):
    """The agent gave no sign of life and was asked for one."""

    diagnosis: str
    evidence: tuple[str, ...]


class AgentStalled(Event):
    """The agent gave no sign of life although it was asked for one: it gets a new incarnation, or a successor."""

    incarnation: int
    stalls: int
    evidence: tuple[str, ...]


class StallAlert(Event):
    """The agent stalled for the first time; `told` are the agents that wait for it and got a letter."""

    incarnation: int
    told: tuple[str, ...]


class AgentUnresponsive(Event):
    """The agent has been stalled for too long."""

    incarnation: int


class AgentRecovered(Event):
    """A stalled agent gave a sign of life again."""

    incarnation: int


class AgentNudged(Event):
    """The agent sat at its prompt with open work and was asked to go on; `nudges` counts how often."""

    diagnosis: str
    subject: str
    nudges: int
    evidence: tuple[str, ...]


class AgentInterrupted(Event):
    """The agent's turn was interrupted."""

    diagnosis: str
    evidence: tuple[str, ...]


class TurnEnded(Event):
    """A turn that did not end by itself was ended; `how` says whether by an interrupt or by a restart."""

    diagnosis: str
    how: str
    incarnation: int
    evidence: tuple[str, ...]
