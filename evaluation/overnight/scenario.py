"""The world of the overnight experiment: its pipelines, how long their tasks take, and how large their agents become.

Everything is drawn from the seed and from the name of what it is for, never from the order of events: so all policies
meet the very same world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from dogwatch.model.brief import Header
from dogwatch.model.memory import GB, HostSettings
from dogwatch.model.plan import ByteCheck, Dispatch, Limits, Output, Phase, Plan, Role
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.memory import Host, Shape
from dogwatch.sim.scenarios import NOTIFY, Scenario, Start
from evaluation.overnight.parameters import PHASES, TEAMS, World

HARNESS = "claude"
OTHER_S = 5.0
"""How long anything takes that is no task."""
GROW_S = 3600.0
DAY_S = 86400.0
FAN_OUTS = {
    ("drafting", "writer"): ("helpers_min", "helpers_max"),
    ("review", "reviewer"): ("checkers_min", "checkers_max"),
}


@dataclass(frozen=True, slots=True)
class Job:
    """What one agent has to do in one phase: how long it takes, and the sub-agents that it starts for it."""

    seconds: float
    subagents: tuple[float, ...] = ()
    spike_s: float = 0.0
    """When in it the one spike comes; 0 for never."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One run: its plan and the jobs of its agents, by phase and agent."""

    name: str
    plan: Plan
    jobs: Mapping[tuple[str, str], Job] = field(default_factory=dict)


def named(seed: int, *words: object) -> Random:
    """The draws for one thing."""
    return Random("/".join(map(str, (seed, *words))))  # noqa: S311 - nothing here is secret


def draw(seed: int, world: World, number: int) -> list[Pipeline]:
    """The first so many runs of the night, in the order of the queue: all four pipelines, then the next round."""
    teams = list(TEAMS)
    named(seed, "order").shuffle(teams)
    names = [(team, f"{team}-r{round_ + 1}") for round_ in range(int(world["rounds"])) for team in teams][:number]
    spiked = named(seed, "spike").randrange(len(names))
    return [
        Pipeline(name, plan_of(team, world), _jobs(seed, world, team, name, place == spiked))
        for place, (team, name) in enumerate(names)
    ]


def plan_of(team: str, world: World) -> Plan:
    """The pipeline as the product executes it: in each phase, one task for each agent of the roles that it needs."""
    roles = tuple(Role(name=name, harness=HARNESS, count=count) for name, count in TEAMS[team].items())
    phases = tuple(
        Phase(
            name=phase,
            dispatches=tuple(
                Dispatch(
                    name=f"{phase}-{role.name}",
                    to=role.name,
                    address="all",
                    task="Do your part.",
                    outputs=(Output(path=f"{phase}-{{agent}}.md"),),
                    expect_s=DAY_S,
                )
                for role in roles
                if role.name in needed(phase, world)
            ),
        )
        for phase in PHASES
    )
    limits = Limits(deadline_s=4 * DAY_S, subagent_s=DAY_S)
    deliverable = ByteCheck(path="delivery-editor.md")
    return Plan(name=team, roles=roles, phases=phases, deliverable=deliverable, notify=NOTIFY, limits=limits)


def needed(phase: str, world: World) -> tuple[str, ...]:
    """The roles that have work in the phase."""
    everybody = tuple(TEAMS["t8"])
    if world.needs == "all" or (world.needs == "to the end" and phase == "delivery"):
        return everybody
    return PHASES[phase]


def _jobs(seed: int, world: World, team: str, name: str, spiked: bool) -> dict[tuple[str, str], Job]:
    random = named(seed, name)
    lengths = _lengths_s(world, random)
    jobs: dict[tuple[str, str], Job] = {}
    for phase, length_s in lengths.items():
        agents = [
            (role, agent)
            for role, count in TEAMS[team].items()
            if role in needed(phase, world)
            for agent in Role(name=role, count=count).agents()
        ]
        longest = random.choice([agent for role, agent in agents if role in PHASES[phase]])
        for _, agent in agents:
            share = 1.0 if agent == longest else random.uniform(world["early"], 1.0)
            jobs[phase, agent] = Job(length_s * share)
        for (where, role), bounds in FAN_OUTS.items():
            if where == phase:
                holders = [agent for one, agent in agents if one == role]
                number = random.randint(*(int(world[bound]) for bound in bounds))
                _fan_out(jobs, phase, holders, number, world, random)
    if spiked:
        key = ("drafting", next(agent for phase, agent in jobs if phase == "drafting" and agent.startswith("writer")))
        jobs[key] = replace(jobs[key], spike_s=jobs[key].seconds * random.uniform(0.1, 0.5))
    return jobs


def _lengths_s(world: World, random: Random) -> dict[str, float]:
    """How long each phase takes."""
    least, most, mean = (world[f"run_{one}_minutes"] for one in ("min", "max", "mean"))
    middle = (mean - least) / (most - least)
    width = world["run_width"]
    minutes = least + (most - least) * random.betavariate(width * middle, width * (1 - middle))
    varies = world["share_varies"]
    shares = {phase: world[f"share_{phase}"] * random.uniform(1 - varies, 1 + varies) for phase in PHASES}
    whole = sum(shares.values())
    return {phase: 60 * minutes * share / whole for phase, share in shares.items()}


def _fan_out(
    jobs: dict[tuple[str, str], Job], phase: str, holders: Sequence[str], number: int, world: World, random: Random
) -> None:
    for place, holder in enumerate(holders):
        job = jobs[phase, holder]
        count = number // len(holders) + (place < number % len(holders))
        lasts = tuple(job.seconds * random.uniform(world["subagent_early"], 0.98) for _ in range(count))
        jobs[phase, holder] = Job(job.seconds, lasts)


class Night(Scenario):
    """The machine and its pipelines. `number` is how many of them, `stagger_s` how far apart they are made."""

    gate_s = 0.0

    def __init__(self, seed: int, world: World, number: int, stagger_s: float = 0.0) -> None:
        self._seed = seed
        self._world = world
        self.pipelines = {one.name: one for one in draw(seed, world, number)}
        self._stagger_s = stagger_s
        self.settings = HostSettings()
        self.host = Host(
            size_bytes=int(world["machine_gb"] * GB),
            base_bytes=int(world["base_gb"] * GB),
            processes=int(world["foreign_processes"]),
        )

    def starts(self) -> Sequence[Start]:
        return [
            Start(after_s=place * self._stagger_s, plan=one.plan) for place, one in enumerate(self.pipelines.values())
        ]

    def pace_s(self, agent: VirtualAgent, header: Header) -> float:
        job = self._job(agent, header)
        if job is None:
            return OTHER_S
        if job.spike_s:
            self._plan_spike(agent, job.spike_s)
        return job.seconds + (self._world["return_s"] if agent.incarnation > 1 and len(agent.prompts) <= 2 else 0.0)

    def subagents(self, agent: VirtualAgent, header: Header) -> Sequence[tuple[str, float]]:
        job = self._job(agent, header)
        return [("helper", seconds) for seconds in job.subagents] if job is not None else []

    def shape(self, agent: VirtualAgent) -> Shape:
        random, world = named(self._seed, agent.run.run, agent.name), self._world
        factor = min(1.6, max(0.6, random.gauss(1.0, world["agent_spread"])))
        start = int(world["agent_gb"] * GB * factor)
        return Shape(
            start_bytes=start,
            full_bytes=int(start * (1 + world["agent_growth"])),
            grow_s=GROW_S,
            subagent_bytes=int(world["subagent_gb"] * GB * factor),
        )

    def _job(self, agent: VirtualAgent, header: Header) -> Job | None:
        if header.kind != "dispatch":
            return None
        return self.pipelines[agent.run.run].jobs[header.subject.partition("-")[0], agent.name]

    def _plan_spike(self, agent: VirtualAgent, after_s: float) -> None:
        """A tool starts several processes, one after the other."""
        world, begins = self._world, agent.machine.now.mono + after_s
        number = int(world["spike_processes"])
        each, apart_s = int(world["spike_gb"] * GB / number), world["spike_rise_s"] / number
        for place in range(number):
            agent.body.spikes.append((begins + place * apart_s, begins + world["spike_lasts_s"], each))
