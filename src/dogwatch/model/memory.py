"""The memory of a host: what its sensors say, the zone that follows, and what its operator has set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from dogwatch.model import keys
from dogwatch.model.moment import Moment
from dogwatch.values import dataclass

Zone = Literal["GREEN", "YELLOW", "RED"]
ZONES: tuple[Zone, ...] = ("GREEN", "YELLOW", "RED")

GB = 1024**3
CALM_S, IDLE_S, CYCLE_S = 60.0, 600.0, 120.0
GROWTH_S = 60.0
SILENT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemory:
    """One agent's processes: what they use, and how fast that grows; None until it was seen for long enough.
    `processes` counts it and the sub-agents that its client has told of."""

    rss_bytes: int
    growth_bytes_min: float | None = None
    processes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """The largest process on the machine that dogwatch may judge: an agent's own or one of its tools'."""

    rss_bytes: int
    pid: int
    name: str
    agent: str = ""
    """`run/agent` of the agent that it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """All sensors at one look. None: this machine has no such sensor.

    `left_bytes` is what can still be used of `size_bytes`: of the machine, of the control group around it, or of the
    ceiling that the operator has set, whichever has the least left. `processes` counts living agents and the
    sub-agents that their clients have told of, `agents` is by `run/agent`.
    """

    size_bytes: int | None = None
    left_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    pressure_some_percent: float | None = None
    pressure_full_percent: float | None = None
    processes: int = 0
    largest: Largest | None = None
    agents: Mapping[str, AgentMemory] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """The sensors that this machine does not have. No swap at all is no missing sensor."""
        seen = {"memory": self.left_bytes, "swap": self.swap_total_bytes, "pressure": self.pressure_some_percent}
        return tuple(name for name, value in seen.items() if value is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """What the operator has set for this host, in `DOGWATCH_HOME/host.yaml`; 0 for a number means: no such limit. A
    role, harness or credential with the cap 0 may not run here at all.

    A sandboxed agent cannot write there. `parallel` and `wave` are what holds while nothing is learnt.
    """

    memory_bytes: int = 0
    """A ceiling: the machine counts as this large, and only agents use it up."""
    agent_memory_bytes: int = 0
    """The kernel's limit for each agent's processes, where control groups allow one; 0 for the default, -1 for none."""
    agents: int = 0
    """How many agents at once on this host."""
    parallel: int = 2
    """How many heavy runs at once while their memory is not learnt yet."""
    wave: int = 5
    """How many agents may be on their way at once while their memory is not learnt yet."""
    roles: Mapping[str, int] = field(default_factory=dict)
    harnesses: Mapping[str, int] = field(default_factory=dict)
    credentials: Mapping[str, int] = field(default_factory=dict)
    confidence: float = 0.95
    """How probable it must be that everything admitted stays under the YELLOW line."""
    calm_s: float = CALM_S
    """So long a better reading must last before the zone gets better."""
    idle_s: float = IDLE_S
    """So long a worker that may be needed again must have been idle before it is sent to rest."""
    cycle_s: float = CYCLE_S
    """One reclaim for shortage in so much time: the next look must see what the last one has brought."""
    growth_s: float = GROWTH_S
    """So long an agent must have been looked at before its growth is known."""
    silent_s: float = SILENT_S
    """A crew member that lives and has given no sign of life for so long makes no progress: it is ended."""

    @property
    def caps(self) -> dict[str, int]:
        """All hard caps by what they are for: `agents`, `role NAME`, `harness NAME`, `credential NAME`."""
        named = (("role", self.roles), ("harness", self.harnesses), ("credential", self.credentials))
        found = {f"{kind} {name}": cap for kind, caps in named for name, cap in caps.items()}
        return {**({"agents": self.agents} if self.agents else {}), **found}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """What the dispatcher knows of its host's memory; only the dispatcher writes it, every gate reads it.

    `sensor` is the one that has set the zone and `why` its words; `agent_bytes` is how large an agent is on this
    machine as far as it was learnt, 0 before. `zone_s` adds up the seconds in each zone.
    """

    host: str
    at: Moment
    zone: Zone = "GREEN"
    since: Moment
    sensor: str = ""
    why: str = ""
    readings: Readings = Readings()
    agent_bytes: int = 0
    is_unset: bool = False
    """Whether nobody has ever been able to read the operator's settings: then nothing starts."""
    settings: HostSettings = HostSettings()
    problem: str = ""
    """What is wrong with `host.yaml`; the settings are then the last that were right."""
    zone_s: Mapping[str, float] = field(default_factory=dict)
    spacious: bool = True
    """Whether everybody of all runs that were let in would fit at once: then agents are started before their work."""
    coming: int = 0
    """How many sub-agents are still to be expected of those who work now, by what is learnt of their roles."""
    reclaimed: Moment | None = None
    """When an idle worker was last ordered to be reclaimed."""

    @property
    def key(self) -> str:
        return keys.host(self.host)
