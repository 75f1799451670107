"""What is simulated: pipelines, the machine they run on, and how long everything takes, all drawn from the seed.

A scenario of another kind is another class with the same few methods as `Drawn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from dogwatch.model.brief import Header
from dogwatch.model.memory import GB, HostSettings
from dogwatch.model.plan import (
    Address,
    ByteCheck,
    Checkpoint,
    Dispatch,
    Gate,
    Limits,
    Notify,
    Output,
    Phase,
    Plan,
    Role,
)
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.memory import MB, Host, Shape

REVIEWER = "judge"
HOURS = 1.0
ADDRESSES: tuple[Address, ...] = ("one", "one", "all", "any")
NOTIFY = Notify(command=("true",))
"""The machine's own ways stand in its environment, which must not matter here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What one simulation is made of; 0 for a number that the seed decides. It is all that a reproduction needs."""

    seed: int
    runs: int = 0
    agents: int = 0
    """In each run."""
    hours: float = HOURS
    """How long a run may take until its deadline."""

    @property
    def command(self) -> str:
        """The one line that does the same again."""
        words = [f"dogwatch sim --seed {self.seed}"]
        words += [f"--runs {self.runs}"] if self.runs else []
        words += [f"--agents {self.agents}"] if self.agents else []
        words += [f"--hours {self.hours:g}"] if self.hours != HOURS else []
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A run that is made after so many seconds."""

    after_s: float
    plan: Plan


class Scenario:
    """What a simulation asks: which machine, which runs, and how long and how large everything is."""

    host = Host()
    settings = HostSettings()
    gate_s = 5.0

    def starts(self) -> Sequence[Start]:
        """The runs, in the order of their beginning."""
        raise NotImplementedError

    def pace_s(self, agent: VirtualAgent, header: Header) -> float:
        """How long the agent takes for the message."""
        raise NotImplementedError

    def shape(self, agent: VirtualAgent) -> Shape:
        """How large the agent becomes."""
        raise NotImplementedError

    def subagents(self, agent: VirtualAgent, header: Header) -> Sequence[tuple[str, float]]:
        """The sub-agents that it starts for the message: their types, and how long each takes."""
        return ()


class Drawn(Scenario):
    """A few pipelines of a few agents, as the seed has it."""

    def __init__(self, setup: Setup, random: Random) -> None:
        self._random = random
        self._work_s = random.choice((20.0, 60.0, 180.0))
        runs = setup.runs or random.randint(1, 3)
        sizes = [setup.agents or random.randint(2, 6) for _ in range(runs)]
        self._starts = []
        at_s = 0.0
        for size in sizes:
            self._starts.append(Start(after_s=at_s, plan=self._plan(size, setup.hours)))
            at_s += random.choice((0.0, 0.0, random.uniform(1.0, 200.0)))
        whole = sum(sizes) * 2 * GB
        roomy = random.random() < 0.6
        self.host = Host(
            size_bytes=4 * GB + (4 * whole if roomy else int(whole * random.uniform(0.6, 1.2))),
            base_bytes=GB,
            swap_bytes=random.choice((0, 2 * GB)),
        )
        self.settings = HostSettings(
            parallel=random.choice((1, 2, 2, 4)),
            wave=random.choice((2, 5, 5)),
            agents=random.choice((0, 0, max(sizes), sum(sizes))),
        )

    def starts(self) -> Sequence[Start]:
        return self._starts

    def pace_s(self, agent: VirtualAgent, header: Header) -> float:
        usual_s = self._work_s if header.kind in ("dispatch", "nudge") else 5.0
        return usual_s * self._random.lognormvariate(0.0, 0.5)

    def shape(self, agent: VirtualAgent) -> Shape:
        full = int(GB * self._random.uniform(0.8, 2.5))
        return Shape(start_bytes=400 * MB, full_bytes=full, grow_s=self._work_s * 4)

    def subagents(self, agent: VirtualAgent, header: Header) -> Sequence[tuple[str, float]]:
        if header.kind != "dispatch" or self._random.random() > 0.2:
            return ()
        number = self._random.randint(1, 4)
        return [(self._random.choice(("explorer", "tester")), self._random.uniform(2, 30)) for _ in range(number)]

    def _plan(self, size: int, hours: float) -> Plan:
        random = self._random
        writers = max(1, size - 1)
        roles = [Role(name="writer", harness="scripted", count=writers)]
        if size > 1:
            roles.append(Role(name=REVIEWER, harness="scripted"))
        phases = [self._phase(number, roles[0], size > 1) for number in range(random.randint(1, 3))]
        last = phases[-1].dispatches[-1].outputs[0].path.replace("{agent}", roles[0].agents()[0])
        return Plan(
            name="sim",
            roles=tuple(roles),
            phases=tuple(phases),
            deliverable=ByteCheck(path=last),
            on_task_failure=random.choice(("fail", "partial")),
            notify=NOTIFY,
            limits=Limits(deadline_s=hours * 3600, run_quiet_s=hours * 1800, run_grace_s=300.0, claim_s=120.0),
        )

    def _phase(self, number: int, writers: Role, reviewed: bool) -> Phase:
        random, name = self._random, f"p{number}"
        found: list[Dispatch] = []
        for place in range(random.randint(1, 3)):
            task = f"{name}-{place}"
            address: Address = random.choice(ADDRESSES)
            to = random.choice(writers.agents()) if address == "one" else writers.name
            path = f"{task}-{{agent}}.md" if address == "all" else f"{task}.md"
            after = (found[-1].name,) if found and random.random() < 0.4 else ()
            found.append(
                Dispatch(
                    name=task,
                    to=to,
                    address=address,
                    task="Write.",
                    outputs=(Output(path=path),),
                    expect_s=4 * self._work_s,
                    after=after,
                    risk=random.choice(("normal", "normal", "high")),
                )
            )
        checkpoints, gates = [], []
        plain = [one for one in found if one.address != "all"]
        if reviewed and plain and random.random() < 0.6:
            artifact = plain[-1].outputs[0].path
            review = Checkpoint(
                name=f"{name}-review", artifact=artifact, author=plain[-1].name, reviewers=(REVIEWER,), rounds_max=3
            )
            checkpoints.append(review)
        if random.random() < 0.5:
            gates.append(Gate(name=f"{name}-gate", command=("make", "check")))
        return Phase(name=name, dispatches=tuple(found), checkpoints=tuple(checkpoints), gates=tuple(gates))
