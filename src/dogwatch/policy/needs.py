"""Which agents a run needs now, later, or not any more: what decides who is started first and who may be let go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dogwatch.model.plan import Phase, Plan, Role
from dogwatch.model.records import TaskRecord
from dogwatch.model.view import RunView

SETTLED = frozenset({"approved", "failed", "skipped"})
"""A checkpoint in one of these does not hold up its phase."""


def _phase_agents(phase: Phase, holders: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The agents of the pipeline file that may have work in the phase: who holds its dispatches, who reviews, and the
    authors of what is reviewed, for a revision. `holders` are those of all dispatches, by name."""
    needed = {agent for dispatch in phase.dispatches for agent in holders[dispatch.name]}
    for checkpoint in phase.checkpoints:
        needed |= {*checkpoint.reviewers, *holders.get(checkpoint.author, ())}
    return needed


def lives(plan: Plan) -> dict[str, tuple[int, int]]:
    """The first and the last phase that need each agent; one that no phase needs may be wanted at any time."""
    spans: dict[str, tuple[int, int]] = {}
    holders = {dispatch.name: plan.holders(dispatch) for phase in plan.phases for dispatch in phase.dispatches}
    for number, phase in enumerate(plan.phases):
        for agent in _phase_agents(phase, holders):
            spans[agent] = (spans.get(agent, (number, number))[0], number)
    return {agent: spans.get(agent, (0, len(plan.phases))) for agent in plan.agents()}


def places_of(role: Role) -> tuple[str, ...]:
    """The caps under which a holder of the role takes a place, as in `HostSettings.caps`."""
    return "agents", f"role {role.name}", f"harness {role.harness}", f"credential {role.account}"


def places(plan: Plan, *, all_along: bool = False) -> dict[str, int]:
    """How many places under each kind of cap the run takes at once at most: `agents`, `role NAME` and so on. With
    `all_along` everybody lives from its beginning to its end."""
    spans = lives(plan)
    most: Counter[str] = Counter()
    for number in range(len(plan.phases)):
        found: Counter[str] = Counter()
        for role in plan.roles:
            there = sum(all_along or spans[agent][0] <= number <= spans[agent][1] for agent in role.agents())
            for key in places_of(role):
                found[key] += there
        most |= found
    return dict(most)


def has_work(view: RunView, agent: str) -> bool:
    """Whether the agent has something to do at this moment: work of its own, a message that is on its way to it, or a
    task that nobody else is free for. A letter that it has got is no work; nor is a review not asked for yet."""
    duty = view.duty_of(agent)
    if (duty is not None and duty.kind != "mail") or view.waiting_messages(agent):
        return True
    for task in view.tasks.values():
        is_mine = agent in task.holders and task.state in ("pending", "returned") and _is_open(view, task)
        if is_mine and not any(_is_free(view, holder) for holder in task.holders):
            return True
    return False


def _is_free(view: RunView, holder: str) -> bool:
    """Whether that agent is there and has nothing else to do."""
    agent = view.agents.get(holder)
    return agent is not None and agent.running is not None and view.duty_of(holder) is None


def _is_open(view: RunView, task: TaskRecord) -> bool:
    """Whether the task can be given to somebody now."""
    if task.sender:
        return True
    if task.phase > view.run.phase:
        return False
    dispatch = next(d for d in view.plan.phases[task.phase].dispatches if d.name == task.dispatch)
    return all(other.state == "accepted" for other in view.tasks.values() if other.dispatch in dispatch.after)


def is_needed(view: RunView, agent: str) -> bool:
    """Whether the agent has something to do in the phase under way, now or later, or mail."""
    # An order that was delivered stays on the record after its task is settled: only what is still open counts.
    if view.duty_of(agent) is not None or view.waiting_messages(agent):
        return True
    for task in view.tasks.values():
        is_due = task.phase <= view.run.phase or task.sender
        if agent in task.holders and task.state not in ("accepted", "failed") and is_due:
            return True
    phase = view.phase
    if phase is None:
        return False
    if view.run.state == "SPAWN" or not view.phase_tasks():
        # The phase is not open yet: its tasks have no records.
        first, last = _life(view, agent)
        return first <= view.run.phase <= last
    for checkpoint in phase.checkpoints:
        record = view.checkpoints.get(checkpoint.name)
        if record is not None and record.state in SETTLED:
            continue
        if agent in (view.current(reviewer) for reviewer in checkpoint.reviewers):
            return record is None or not record.has_voted(agent) or record.state != "asked"
    return False


def _life(view: RunView, agent: str) -> tuple[int, int]:
    """The first and the last phase that need the agent; one that the plan does not name may be wanted at any time."""
    return lives(view.plan).get(view.agents[agent].place, (0, len(view.plan.phases)))


def waits_at_gate(view: RunView) -> str:
    """Whom the run needs and the gate does not let start, and why; empty where there is nobody."""
    for name, agent in view.agents.items():
        if agent.gate_reason and is_needed(view, name):
            return f"{name} waits: {agent.gate_reason}"
    return ""


def is_done(view: RunView, agent: str) -> bool:
    """Whether no phase that is still to come, nor the one under way, has work for the agent."""
    return not is_needed(view, agent) and _life(view, agent)[1] < view.run.phase
