"""A pipeline as the captain executes it: what the spec says, checked and with all defaults filled in.

`dogwatch.spec` makes a Plan from a pipeline file; the ledger keeps it with its run, so that a change of the file
does not change a run that goes on.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import field, fields, replace
from functools import lru_cache
from typing import Literal

from dogwatch.values import dataclass

Risk = Literal["normal", "high", "critical"]
Address = Literal["one", "all", "any"]
NoticeKind = Literal["escalation", "permission", "quarantine", "ended", "held"]

PLACEHOLDERS = ("{agent}", "{role}", "{run}")
"""What the captain fills in where it gives a task to an agent: in its text, its output paths and its questions."""


def fill(text: str, *, agent: str, role: str, run: str) -> str:
    """`text` with its placeholders filled in; all other braces stay as they are."""
    for placeholder, value in zip(PLACEHOLDERS, (agent, role, run), strict=True):
        text = text.replace(placeholder, value)
    return text


INSTRUCTIONS_BYTES_MAX = 1024 * 1024
"""A file of instructions is looked at again and again: a larger one is none."""

SQLITE = "sqlite:"
"""How the address of a database in a file begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file that a task must write, relative to the run's output folder."""

    path: str
    kind: str = "file"
    min_bytes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A kind of agent: how it is started and what it may do."""

    name: str
    harness: str = "command"
    command: tuple[str, ...] = ()
    script: str = ""
    prompt: str = ""
    instructions: str = ""
    """The file that its holders must have read, as an absolute path."""
    capabilities: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    credential: str = ""
    """The account that its client works on, by the operator's own name for it; empty: one for each harness."""
    sandbox: str = ""
    """Whether it lives in a namespace of its own: auto, strict or off; empty for what its harness has by default."""
    environment: Mapping[str, str] = field(default_factory=dict)
    inherit: tuple[str, ...] = ()
    """More variables that it gets of the operator's environment: names, or `PREFIX_*`."""
    limits: Mapping[str, float] = field(default_factory=dict)
    memory_max_gb: float = 0.0
    """The kernel's limit for each holder's memory, at most the host's; 0 for the host's."""
    count: int = 1

    @property
    def account(self) -> str:
        """What its holders share with others whose provider may refuse work."""
        return self.credential or self.harness

    def agents(self) -> tuple[str, ...]:
        """The names of this role's holders: the role's own for one, numbered for several."""
        return (self.name,) if self.count == 1 else _numbered(self.name, self.count)


@lru_cache(maxsize=256)
def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}-{number}" for number in range(1, count + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """An order of the captain: to whom, what, which files must come of it, and how long it should take."""

    name: str
    to: str
    address: Address = "one"
    task: str
    outputs: tuple[Output, ...] = ()
    risk: Risk = "normal"
    expect_s: float | None = None
    after: tuple[str, ...] = ()
    attempts: int = 2
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteCheck:
    """What must be true of a file's bytes; the path is relative to the run's output folder."""

    path: str
    min_bytes: int = 1
    max_bytes: int | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    matches: str = ""
    json: bool = False
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Rows of a table that must be there, by the values of their columns: how many at least, and how old the newest may
    be where a column dates them. The database is `sqlite:PATH` or `postgresql://…`."""

    database: str
    table: str
    partition: Mapping[str, str | int] = field(default_factory=dict)
    min_rows: int = 1
    dated_by: str = ""
    max_age_s: float = 86400.0

    @property
    def shown(self) -> str:
        """The pair, as people read it."""
        values = ", ".join(f"{column} = {value}" for column, value in self.partition.items())
        return f"({self.table}, {values or 'all'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A check that blocks: a command that must exit 0, or byte checks, or data that must be there before the phase can
    begin. A tool that is missing has failed."""

    name: str
    command: tuple[str, ...] = ()
    checks: tuple[ByteCheck, ...] = ()
    partitions: tuple[Partition, ...] = ()
    timeout_s: float = 600.0


VALIDATORS = ("*validator*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A review of an artifact by agents that did not write it. `author` is a dispatch, `reviewers` are agents."""

    name: str
    artifact: str
    author: str
    reviewers: tuple[str, ...]
    question: str = ""
    rounds_max: int = 3
    validators: tuple[str, ...] = VALIDATORS
    """Patterns of sub-agent types and agents whose late DISAGREE opens it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Dispatches that belong together, then its checkpoints, then its gates; only then comes the next phase. Gates for
    data come before the dispatches."""

    name: str
    dispatches: tuple[Dispatch, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """A name for the moment when all of these dispatches are accepted."""

    name: str
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Thresholds and caps, in seconds unless the name says otherwise. `docs/reference/spec.md` explains each."""

    startup_s: float = 60.0
    sweep_s: float = 2.0
    nudge_s: float = 30.0
    peek_s: float = 30.0
    nudges_max: int = 2
    restarts_max: int = 3
    restart_period_s: float = 600.0
    restart_backoff_s: float = 1.0
    receipt_s: float = 20.0
    long_tool_s: float = 60.0
    tool_max_s: float = 0.0
    repeats_max: int = 10
    stops_max: int = 3
    context_max: float = 0.8
    dialog_s: float = 3.0
    subagent_s: float = 1800.0
    claim_s: float = 300.0
    claim_high_s: float = 600.0
    claim_critical_s: float = 900.0
    probe_s: float = 30.0
    unresponsive_s: float = 60.0
    tier1_s: float = 300.0
    tier2_s: float = 600.0
    tier3_s: float = 900.0
    checkpoint_s: float = 600.0
    hold_s: float = 60.0
    refresh_s: float = 600.0
    refresh_wave: int = 3
    mass_hold_s: float = 10.0
    run_quiet_s: float = 7200.0
    run_grace_s: float = 900.0
    deadline_s: float = 86400.0


NOTIFY_VARIABLE = "DOGWATCH_NOTIFY"
TARGETS_VARIABLE = "DOGWATCH_NOTIFY_TARGETS"
"""The machine's own ways, for pipelines that name none. They may hold secrets: no agent and no gate is given them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """How a person is told of what needs one, and of which kinds of it. Targets may hold secrets."""

    targets: tuple[str, ...] = ()
    targets_file: str = ""
    command: tuple[str, ...] = ()
    on: tuple[NoticeKind, ...] = ("escalation", "permission", "quarantine", "ended", "held")

    @property
    def has_ways(self) -> bool:
        """Whether there is anything to tell a person by."""
        return bool(self.targets or self.targets_file or self.command)

    def or_those_of(self, environment: Mapping[str, str]) -> Notify:
        """These ways, or where there are none, those of the machine."""
        if self.has_ways:
            return self
        line = environment.get(NOTIFY_VARIABLE, "")
        try:
            command = tuple(shlex.split(line))
        except ValueError:
            # No program has such a name: each notice fails, and says so. An error would stop what the notice is about.
            command = (line,)
        return replace(self, targets=tuple(environment.get(TARGETS_VARIABLE, "").split()), command=command)


_OF_THE_RUN = ("sweep_s", "hold_s", "refresh_wave", "mass_hold_s", "run_quiet_s", "run_grace_s", "deadline_s")
OWN_LIMITS = tuple(one.name for one in fields(Limits) if one.name not in _OF_THE_RUN)
"""What may be set for a role or a dispatch; the others are about the whole run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole pipeline."""

    name: str
    roles: tuple[Role, ...]
    phases: tuple[Phase, ...]
    deliverable: ByteCheck
    milestones: tuple[Milestone, ...] = ()
    on_task_failure: Literal["fail", "partial"] = "fail"
    sensitive: bool = False
    limits: Limits = Limits()
    notify: Notify = Notify()
    time_limits: Mapping[str, float] = field(default_factory=dict)
    """Seconds by patterns of sub-agent types, roles and agents; `policy/time_limits.py` has the built-in ones."""

    def role(self, name: str) -> Role | None:
        """The role of that name."""
        return next((role for role in self.roles if role.name == name), None)

    def role_of(self, agent: str) -> Role | None:
        """The role that `agent` holds, or None where the plan has no such agent."""
        return next((role for role in self.roles if agent in role.agents()), None)

    def agents(self) -> tuple[str, ...]:
        """All agents of the plan, in the order of the roles."""
        return tuple(agent for role in self.roles for agent in role.agents())

    def holders(self, dispatch: Dispatch) -> tuple[str, ...]:
        """The agents that `dispatch` addresses; for `any`, those that may claim it."""
        for role in self.roles:
            if role.name == dispatch.to and dispatch.address != "one":
                return role.agents()
        return (dispatch.to,)
