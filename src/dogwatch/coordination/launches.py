"""What the gate is asked with: who wants to be started, for whom, and how much memory it will take."""

from __future__ import annotations

from dogwatch.coordination.holds import account_of
from dogwatch.ledger.api import Reader
from dogwatch.ledger.records import load_all
from dogwatch.model import keys
from dogwatch.model.admission import Demand, Launch, MemoryProfile
from dogwatch.model.life import Resting
from dogwatch.model.memory import GB
from dogwatch.model.records import AgentRecord, GateRecord
from dogwatch.model.view import RunView
from dogwatch.policy.forecast import by_key, demand_of
from dogwatch.policy.needs import is_needed

HEAVY_BYTES = GB / 2
"""What is expected to take more than this is heavy: it goes in waves, and few at once, until its memory is learnt."""


def is_heavy(demand: Demand) -> bool:
    """Whether an agent with this demand goes in waves."""
    return demand.mean_bytes >= HEAVY_BYTES


def agent_holder(run: str, agent: str) -> str:
    """Whose permit an agent's is."""
    return f"agent:{run}/{agent}"


def run_holder(run: str) -> str:
    """Whose permit a run's is."""
    return f"run:{run}"


def agent_demand(reader: Reader, view: RunView, agent: AgentRecord) -> Demand:
    """How much memory the agent will take in the present phase, as far as that was learnt."""
    role = view.role_of(agent.agent)
    harness = role.harness if role is not None else ""
    profiles = load_all(reader, MemoryProfile, keys.profiles(harness))
    phase = view.phase.name if view.phase is not None else ""
    count = role.count if role is not None else 1
    return demand_of(by_key(profiles), harness, view.plan.name, agent.role, phase, count=count)


def agent_launch(reader: Reader, view: RunView, agent: AgentRecord) -> Launch:
    """An agent's next incarnation."""
    role = view.role_of(agent.agent)
    demand = agent_demand(reader, view, agent)
    return Launch(
        kind="agent",
        holder=agent_holder(agent.run, agent.agent),
        run=agent.run,
        agent=agent.agent,
        role=agent.role,
        harness=role.harness if role is not None else "",
        credential=account_of(view, agent),
        heavy=is_heavy(demand),
        again=agent.incarnation > 1 and not isinstance(agent.life, Resting),
        needed=is_needed(view, agent.agent),
        demand=demand,
    )


def gate_launch(record: GateRecord) -> Launch:
    """A gate's command."""
    holder = record.key.replace("/", ":", 1)
    return Launch(kind="gate", holder=holder, run=record.run, heavy=False)


def check_in_launch(view: RunView, agent: AgentRecord, item: str) -> Launch:
    """A second client that is asked in an agent's place."""
    role = view.role_of(agent.agent)
    return Launch(
        kind="check-in",
        holder=f"check-in:{agent.run}/{item}",
        run=agent.run,
        agent=agent.agent,
        role=agent.role,
        harness=role.harness if role is not None else "",
        credential=account_of(view, agent),
    )
