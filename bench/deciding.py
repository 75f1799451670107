"""Deciding: what it costs to say what each agent of a run is doing, when everything has been seen already."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from statistics import median

from bench.harness import Figure
from dogwatch.model.folders import folder_at
from dogwatch.model.life import Running
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Output, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, RunRecord, TaskRecord
from dogwatch.model.sight import Child, OutputSight, Sight, ToolCall, Tree, Turn
from dogwatch.model.view import RunView
from dogwatch.policy.alerts import tier_of
from dogwatch.policy.judge import judge_all

FEW, MANY = 100, 10_000
GROWTH_MAX = 1.3
BARE_LOOPS_MAX = 200.0
ROUNDS = 9
NOW = Moment("boot", 100_000.0, 1_700_000_000.0)


def figures() -> Iterator[Figure]:
    """How the time for each agent grows with their number, and how it stands against a bare loop over deadlines."""
    few, many = fleet(FEW), fleet(MANY)
    deadlines = [NOW.mono + 60.0 + number for number in range(MANY)]
    times: dict[str, list[float]] = {"few": [], "many": [], "bare": []}
    for _ in range(ROUNDS):
        times["few"].append(_time(lambda: [_decide(*few) for _ in range(MANY // FEW)]) / MANY)
        times["many"].append(_time(lambda: _decide(*many)) / MANY)
        times["bare"].append(_time(lambda: _compare(deadlines)) / MANY)
    yield Figure(
        name=f"deciding: time per agent with {MANY:,} agents against that with {FEW}",
        value=median(times["many"]) / median(times["few"]),
        unit="x",
        target=GROWTH_MAX,
        times_ms={f"per agent of {FEW}": times["few"], f"per agent of {MANY}": times["many"]},
    )
    yield Figure(
        name="deciding: time per agent against comparing one deadline in a bare loop",
        value=median(times["many"]) / median(times["bare"]),
        unit="x",
        target=BARE_LOOPS_MAX,
        times_ms={f"per agent of {MANY}": times["many"], "per deadline": times["bare"]},
    )


def _decide(view: RunView, sights: Mapping[str, Sight]) -> int:
    """What a sweep decides: who waits for whose mail, each diagnosis, and how serious each silence is. The view is as
    new as in every sweep: nothing was looked up in it before."""
    view = replace(view)
    serious = 0
    for name, found in judge_all(view, sights, NOW).items():
        serious += bool(found.action) + tier_of(found, view.limits_of(name))
    return serious


def _compare(deadlines: list[float]) -> int:
    late = 0
    for deadline in deadlines:
        if NOW.mono >= deadline:
            late += 1
    return late


def _time(deed: Callable[[], object]) -> float:
    begin = time.perf_counter()
    deed()
    return (time.perf_counter() - begin) * 1000


def fleet(count: int) -> tuple[RunView, Mapping[str, Sight]]:
    """A run of agents that mostly work, some in a long tool, some at their prompts with and without a task."""
    role = Role(name="worker", harness="scripted", count=count)
    dispatch = Dispatch(name="work", to="worker", address="all", task="Work.", outputs=(Output(path="{agent}.md"),))
    plan = Plan(
        name="bench",
        roles=(role,),
        phases=(Phase(name="work", dispatches=(dispatch,)),),
        deliverable=ByteCheck(path="worker-1.md"),
    )
    begun = NOW.plus(-5000)
    run = RunRecord(
        run="bench-1",
        spec="",
        project_folder=folder_at("/p"),
        output_folder=folder_at("/p/out"),
        created=begun,
        started=begun,
        state="RUNNING",
    )
    agents, tasks, sights = {}, {}, {}
    for number, name in enumerate(role.agents()):
        process = ProcessId("boot", 1000 + number, number)
        agents[name] = AgentRecord(
            run="bench-1",
            agent=name,
            role="worker",
            incarnation=1,
            life=Running(since=begun, process=process),
            busy=True,
        )
        if number % 5:
            tasks[name] = TaskRecord(
                run="bench-1",
                task=f"work-{name}",
                dispatch="work",
                phase=0,
                holders=(name,),
                text="",
                state="claimed",
                agent=name,
                incarnation=1,
                dispatched=NOW.plus(-600),
                delivered=NOW.plus(-599),
                outputs=(Output(path=f"{name}.md"),),
            )
        sights[name] = _sight(number)
    view = RunView(plan=plan, run=run, agents=agents, tasks={task.task: task for task in tasks.values()})
    return view, sights


def _sight(number: int) -> Sight:
    outputs = (OutputSight("x.md", 100, NOW.wall - 400, is_new=True),)
    child = Child(9000 + number, "pytest", 300.0, 120.0)
    tools = {"t": ToolCall("Bash", "pytest -q", NOW.mono - 301)} if number % 10 == 3 else {}
    idle = number % 5 in (0, 1)
    quiet_s = 10.0 if number % 5 == 1 else 4.0
    return Sight(
        process="alive",
        session="alive",
        turn=Turn("idle" if idle else "working", NOW.mono - 500, NOW.mono - quiet_s, 1, tools={} if idle else tools),
        tree=Tree(cores=0.5, rss_bytes=10**9, children=(child,)),
        screen="idle" if idle else "busy",
        screen_since=NOW.mono - 100,
        watched_since=NOW.mono - 4000,
        life=NOW.mono - 1,
        composer="",
        outputs=outputs,
    )
