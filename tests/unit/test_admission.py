"""The gate's judgement: every reason to hold or to refuse, the order in which they count, and who is next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.coordination.admission import (
    abandoned,
    ask,
    free_abandoned,
    look,
    note_process,
    process_of,
    release,
)
from dogwatch.ledger.api import Store, Tx
from dogwatch.ledger.records import load_all, save
from dogwatch.model.admission import Answer, Demand, Launch, PermitRecord, QueuedRun, WaitRecord
from dogwatch.model.folders import folder_at
from dogwatch.model.life import GivenUp, NotStarted, Starting
from dogwatch.model.memory import GB, AgentMemory, HostRecord, HostSettings, Readings, Zone
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, GateRecord, RunRecord
from dogwatch.policy.admission import BLIND_S, PATIENCE_S, WAVE_S, Situation, first, judge
from dogwatch.policy.needs import places
from dogwatch.sim.ledger import SimStore
from dogwatch.testing.clock import ManualClock
from support.records import agent_record, running

NOW = Moment("boot", 1000.0, 1_700_000_000.0)
LEARNT = Demand(mean_bytes=GB, learnt=True)
ROOMY = Readings(size_bytes=223 * GB, left_bytes=200 * GB)


def host(zone: Zone = "GREEN", at: Moment = NOW, **settings: Any) -> HostRecord:
    why = "memory available: 5%, RED below 10%" if zone != "GREEN" else ""
    about: dict[str, Any] = {"readings": ROOMY, "agent_bytes": int(2.1 * GB), "settings": HostSettings(**settings)}
    return HostRecord(host="", at=at, since=at, zone=zone, why=why, **about)


def agent(name: str = "writer", run: str = "r", **more: Any) -> Launch:
    about = {"role": name, "harness": "claude", "credential": "work", "demand": LEARNT, **more}
    return Launch(kind="agent", holder=f"agent:{run}/{name}", run=run, agent=name, **about)


def run_launch(name: str = "r", **more: Any) -> Launch:
    return Launch(kind="run", holder=f"run:{name}", run=name, **more)


def permit(launch: Launch, ago_s: float = 3600.0) -> PermitRecord:
    return PermitRecord(host="", launch=launch, granted=NOW.plus(-ago_s))


def waiting(launch: Launch, limit: str, since_s: float) -> WaitRecord:
    return WaitRecord(host="", launch=launch, since=NOW.plus(-since_s), answer=Answer(verdict="hold", limit=limit))


def judged(
    launch: Launch,
    at: HostRecord | None,
    permits: list[PermitRecord] | None = None,
    waits: list[WaitRecord] | None = None,
) -> tuple[str, str]:
    answer = judge(launch, Situation(host=at, permits=permits or [], waits=waits or [], now=NOW))
    assert bool(answer.reason) == (answer.verdict != "admit"), "whoever is not let in is told why"
    return answer.verdict, answer.limit


ADMITTED = ("admit", "")
PHASE = Phase(
    name="work", dispatches=(Dispatch(name="d", to="writer", task="t"), Dispatch(name="j", to="judge", task="t"))
)
GATE = Launch(kind="gate", holder="gate:r/0/g", run="r")
CHECK_IN = Launch(kind="check-in", holder="check-in:r/i", run="r")
PROGRAM = Launch(kind="process", holder="process:1@1", role="tool")
ALL = [agent(), run_launch(), GATE, CHECK_IN, PROGRAM]


@pytest.mark.parametrize("launch", ALL, ids=lambda launch: launch.kind)
def test_what_is_not_known_is_not_allowed(launch: Launch) -> None:
    assert judged(launch, None) == ("hold", "blind")
    assert judged(launch, host(at=NOW.plus(-BLIND_S - 1))) == ("hold", "blind")
    assert judged(launch, host(at=NOW.plus(-BLIND_S))) == ADMITTED
    earlier = Moment("before", 5000.0, NOW.wall - BLIND_S - 1)
    assert judged(launch, host(at=earlier)) == ("hold", "blind"), "the look was made before a reboot"


@pytest.mark.parametrize(
    ("launch", "yellow", "red"),
    [
        (run_launch(), False, False),
        (agent(), False, False),
        (agent(again=True), True, False),
        (GATE, True, False),
        (CHECK_IN, True, False),
        (PROGRAM, True, True),
    ],
    ids=["run", "agent", "again", "gate", "check-in", "process"],
)
def test_who_may_start_in_which_zone(launch: Launch, yellow: bool, red: bool) -> None:
    assert judged(launch, host("GREEN")) == ADMITTED
    assert judged(launch, host("YELLOW")) == (ADMITTED if yellow else ("hold", "zone"))
    assert judged(launch, host("RED")) == (ADMITTED if red else ("hold", "zone"))


def test_the_reason_for_the_zone_is_the_sensor_s() -> None:
    answer = judge(agent(), Situation(host=host("RED"), permits=[], waits=[], now=NOW))
    assert answer.reason == "memory is RED: memory available: 5%, RED below 10%"


# Hard caps.

CAPS: list[tuple[str, dict[str, Any], Launch, Launch]] = [
    ("agents", {"agents": 2}, agent("a", role="x"), agent("b", role="y", harness="codex", credential="other")),
    ("role", {"roles": {"w": 2}}, agent("a", role="w"), agent("b", role="other")),
    ("harness", {"harnesses": {"claude": 2}}, agent("a"), agent("b", harness="codex")),
    ("credential", {"credentials": {"work": 2}}, agent("a"), agent("b", credential="other")),
]


@pytest.mark.parametrize(("limit", "settings", "mine", "other"), CAPS, ids=[one[0] for one in CAPS])
def test_a_cap_counts_those_that_it_is_for_and_nobody_else(
    limit: str, settings: dict[str, Any], mine: Launch, other: Launch
) -> None:
    same = [permit(replace(mine, holder=f"agent:r/same-{number}")) for number in range(2)]
    others = [permit(replace(other, holder=f"agent:r/other-{number}")) for number in range(9)]
    counted = others if limit == "agents" else []
    assert judged(mine, host(**settings), same[:1]) == ADMITTED
    assert judged(mine, host(**settings), same) == ("hold", limit)
    assert judged(mine, host(**settings), [*same[:1], *others]) == (("hold", limit) if counted else ADMITTED)
    no_agents = [permit(one) for one in (run_launch(), GATE, CHECK_IN)]
    assert judged(mine, host(**settings), [*same[:1], *no_agents]) == ADMITTED, "these are no agents"


@pytest.mark.parametrize("kind", ["role", "harness", "credential"])
def test_a_cap_of_nothing_refuses_a_program_and_holds_an_agent_of_a_run_that_goes_on(kind: str) -> None:
    caps: dict[str, Any] = {}
    plural = {"role": "roles", "harness": "harnesses", "credential": "credentials"}[kind]
    name = {"role": "writer", "harness": "claude", "credential": "work"}[kind]
    caps[plural] = {name: 0}
    assert judged(agent(), host(**caps)) == ("hold", kind), "the operator may change their mind"
    assert judged(agent(again=True), host("RED", **caps)) == ("hold", kind)
    program = replace(PROGRAM, role="writer", harness="claude", credential="work")
    assert judged(program, host(**caps)) == ("refuse", kind)
    assert judged(program, host("RED", **caps)) == ("refuse", kind)
    caps[plural] = {"another": 0}
    assert judged(agent(), host(**caps)) == ADMITTED


def test_no_cap_for_the_host_means_none() -> None:
    many = [permit(agent(f"a{number}")) for number in range(30)]
    assert judged(agent(), host(), many) == ADMITTED


def test_programs_of_their_own_count_under_the_caps_of_agents() -> None:
    taken = [permit(PROGRAM), permit(agent("a", role="tool"))]
    assert judged(replace(PROGRAM, holder="process:2@2"), host(roles={"tool": 2}), taken) == ("hold", "role")
    assert judged(agent(role="tool"), host(roles={"tool": 2}), taken) == ("hold", "role")


@pytest.mark.parametrize(("limit", "settings", "mine", "other"), CAPS, ids=[one[0] for one in CAPS])
def test_who_has_waited_longest_for_a_cap_is_next(
    limit: str, settings: dict[str, Any], mine: Launch, other: Launch
) -> None:
    taken = [permit(replace(mine, holder="agent:r/taken"))]
    ahead = waiting(replace(mine, holder="agent:r/ahead"), limit, 60)
    behind = waiting(replace(mine, holder="agent:r/behind"), limit, 10)
    me = waiting(mine, limit, 30)
    at = host(**settings)
    assert judged(mine, at, taken, [ahead]) == ("hold", limit), "one place, and somebody came before"
    assert judged(mine, at, taken, [me, behind]) == ADMITTED
    assert judged(ahead.launch, at, taken, [ahead, me, behind]) == ADMITTED
    assert judged(mine, at, [], [ahead, me]) == ADMITTED, "two places for two"
    assert judged(mine, at, taken, [replace(ahead, answer=Answer(verdict="hold", limit="zone")), me]) == ADMITTED
    if limit != "agents":
        strange = waiting(replace(other, holder="agent:r/strange"), limit, 60)
        assert judged(mine, at, taken, [strange, me]) == ADMITTED, "who waits for another's cap is not in the way"


def test_a_run_that_waits_in_the_queue_is_in_no_agent_s_way() -> None:
    """It waits for places under the same cap; the agents of runs that go on have theirs."""
    queued = waiting(run_launch("later", places={"agents": 3}), "agents", 600)
    assert judged(agent(), host(agents=2), [permit(agent("other"))], [queued]) == ADMITTED
    assert judged(PROGRAM, host(agents=2), [permit(agent("other"))], [queued]) == ADMITTED


def test_those_who_came_at_the_same_instant_do_not_wait_for_each_other() -> None:
    one, two = (waiting(agent(name, role="w"), "role", 30) for name in "ab")
    for mine in (one, two):
        assert judged(mine.launch, host(roles={"w": 1}), [], [one, two]) == ADMITTED


def test_the_order_of_the_checks() -> None:
    """What stands first is what people are told, and a refusal is final."""
    settings: dict[str, Any] = {"agents": 1, "wave": 1, "roles": {"writer": 1}}
    fresh = permit(agent("fresh", demand=Demand(mean_bytes=GB)), ago_s=1)
    mine = agent(needed=False, demand=Demand(mean_bytes=GB))
    old = host("RED", at=NOW.plus(-BLIND_S - 1), **settings)
    red, green = host("RED", **settings), host(**settings)
    assert judged(mine, old, [fresh]) == ("hold", "blind")
    assert judged(mine, red, [fresh]) == ("hold", "agents")
    same_role = permit(agent("other", role="writer"))
    assert judged(mine, replace(red, settings=replace(red.settings, agents=0)), [same_role]) == ("hold", "role")
    uncapped = HostSettings(wave=1)
    assert judged(mine, replace(red, settings=uncapped), [fresh]) == ("hold", "zone")
    tight = replace(green, settings=uncapped, spacious=False)
    full = [permit(agent(f"a{number}")) for number in range(36)]
    crowded = replace(tight, readings=replace(ROOMY, processes=36))
    assert judged(mine, crowded, [fresh, *full]) == ("hold", "early")
    assert judged(replace(mine, needed=True), crowded, [fresh, *full]) == ("hold", "processes")
    assert judged(replace(mine, needed=True), tight, [fresh]) == ("hold", "wave")
    assert judged(replace(mine, needed=True), tight, []) == ADMITTED


# Waves, numbers and those without work.


def test_agents_that_are_not_learnt_go_in_waves() -> None:
    unknown = Demand(mean_bytes=2.0 * GB)
    fresh = [permit(agent(f"a{number}", demand=unknown), ago_s=10) for number in range(5)]
    mine = agent(demand=unknown)
    assert judged(mine, host(), fresh[:4]) == ADMITTED
    assert judged(mine, host(), fresh) == ("hold", "wave")
    assert judged(mine, host(wave=9), fresh) == ADMITTED
    assert judged(mine, host(), [replace(one, granted=NOW.plus(-WAVE_S)) for one in fresh]) == ADMITTED
    assert judged(replace(mine, again=True), host(), fresh) == ADMITTED, "it takes no more than it took"
    assert judged(replace(mine, heavy=False), host(), fresh) == ADMITTED
    assert judged(agent(), host(), fresh) == ADMITTED, "what it takes is known"
    learnt = [replace(one, launch=replace(one.launch, demand=LEARNT)) for one in fresh]
    light = [replace(one, launch=replace(one.launch, heavy=False)) for one in fresh]
    assert judged(mine, host(), [*learnt, *light]) == ADMITTED


def test_no_more_agents_than_the_machine_holds_without_leaving_green() -> None:
    crowd = [permit(agent(f"a{number}")) for number in range(36)]
    seen = {f"r/a{number}": AgentMemory(rss_bytes=2 * GB) for number in range(36)}
    crowded = replace(host(), readings=replace(ROOMY, processes=36, agents=seen))
    assert judged(agent(), crowded, crowd) == ("hold", "processes")
    assert judged(agent(again=True), crowded, crowd) == ADMITTED
    assert judged(agent(), crowded, crowd[:35]) == ADMITTED, "one of them has left since the look"
    fewer = dict(list(seen.items())[:34])
    looked = replace(crowded, readings=replace(crowded.readings, processes=34, agents=fewer))
    assert judged(agent(), looked, crowd) == ("hold", "processes"), "two were let in since the look"
    assert judged(agent(), looked, crowd[:35]) == ADMITTED
    assert judged(agent(demand=replace(LEARNT, agents=3)), looked, crowd[:35]) == ("hold", "processes")
    assert judged(agent(), replace(looked, coming=1), crowd[:35]) == ("hold", "processes"), "a sub-agent will come"
    unknown = replace(crowded, agent_bytes=0)
    assert judged(agent(), unknown, crowd) == ADMITTED, "before any was seen, it is as large as it is thought to be"
    assert judged(agent(demand=replace(LEARNT, mean_bytes=4.2 * GB)), unknown, crowd) == ("hold", "processes")


def test_the_run_that_goes_on_longest_comes_to_its_end_though_more_is_expected_of_it_than_fits() -> None:
    """Two runs with one agent each, and each lacks one that is expected to start more sub-agents than there is room."""
    old, young = permit(run_launch("a"), 2000), permit(run_launch("b"), 1000)
    there = [permit(agent("judge", run=run), 900) for run in "ab"]
    mine, other = (agent(run=run, demand=replace(LEARNT, agents=40)) for run in "ab")
    long, short = waiting(mine, "processes", PATIENCE_S), waiting(mine, "processes", PATIENCE_S - 1)
    assert judged(mine, host(), [old, young, *there], [short]) == ("hold", "processes"), "others may make room"
    assert judged(mine, host(), [old, young, *there], [long]) == ADMITTED
    half_way = replace(mine, demand=replace(LEARNT, agents=38))
    assert judged(half_way, host(), [old, young, *there]) == ADMITTED
    assert judged(other, host(), [old, young, *there], [replace(long, launch=other)]) == ("hold", "processes")
    assert judged(mine, host("YELLOW"), [old, young, *there]) == ("hold", "zone")
    fresh = replace(there[0], granted=NOW.plus(1 - WAVE_S))
    assert judged(mine, host(), [old, young, fresh, there[1]], [long]) == ("hold", "processes"), "one after another"
    assert judged(other, host(), [young, there[1]]) == ADMITTED, "the other has come to its end"


def test_a_run_waits_for_agents_that_have_work_and_lack_room() -> None:
    starved = waiting(agent(), "processes", 10)
    assert judged(run_launch(), host(), [], [starved]) == ("hold", "forecast")
    assert judged(run_launch(), host(), [], [waiting(agent(), "role", 10)]) == ADMITTED
    assert judged(run_launch(), host(), [], [waiting(agent(needed=False), "processes", 10)]) == ADMITTED


def test_who_has_no_work_waits_where_not_everybody_fits() -> None:
    tight = replace(host(), spacious=False)
    assert judged(agent(needed=False), host()) == ADMITTED
    assert judged(agent(needed=False), tight) == ("hold", "early")
    assert judged(agent(needed=True), tight) == ADMITTED


# Runs.


def test_two_heavy_runs_at_once_while_their_memory_is_not_learnt() -> None:
    going = [permit(run_launch(name)) for name in "ab"]
    assert judged(run_launch("c"), host(), going[:1]) == ADMITTED
    assert judged(run_launch("c"), host(), going) == ("hold", "parallel")
    assert judged(run_launch("c"), host(parallel=3), going) == ADMITTED
    assert judged(run_launch("c", heavy=False), host(), going) == ADMITTED
    assert judged(run_launch("c", demand=LEARNT), host(), going) == ADMITTED
    assert judged(run_launch("c"), host(), [permit(run_launch(name, heavy=False)) for name in "ab"]) == ADMITTED
    assert judged(run_launch("c"), host(), [permit(agent(name)) for name in "ab"]) == ADMITTED


def test_the_ceiling_of_a_group_counts_its_own_runs_first_of_all() -> None:
    going = [permit(run_launch(name, group="g", heavy=False)) for name in "ab"]
    mine = run_launch("c", group="g", ceiling=2, heavy=False)
    assert judged(mine, host(), going[:1]) == ADMITTED
    assert judged(mine, host("RED"), going) == ("hold", "ceiling")
    assert judged(replace(mine, ceiling=3), host(), going) == ADMITTED
    assert judged(replace(mine, group="h"), host(), going) == ADMITTED


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20, unique=True),
    st.lists(st.integers(0, 3), max_size=6),
)
def test_the_first_of_the_queue_is_next_unless_its_own_group_is_full(
    queue: list[tuple[int, int]], going: list[int]
) -> None:
    runs = [
        QueuedRun(run=f"r{place}", number=place, group=f"g{group}" if group else "", ceiling=ceiling if group else 0)
        for place, (group, ceiling) in enumerate(queue)
    ]
    taken = [permit(run_launch(f"t{n}", group=f"g{group}" if group else "")) for n, group in enumerate(going)]
    found = first(reversed(runs), taken)
    free = [one for one in runs if not one.ceiling or going.count(int(one.group[1:])) < one.ceiling]
    assert found == (free[0] if free else None)


def test_a_pipeline_with_a_forbidden_role_harness_or_credential_never_runs_here() -> None:
    writer, judges = Role(name="writer", harness="claude"), Role(name="judge", harness="codex", credential="work")
    plan = Plan(name="p", roles=(writer, judges), phases=(PHASE,), deliverable=ByteCheck(path="d"))
    asked = run_launch(places=places(plan))

    def said(**caps: Any) -> str:
        answer = judge(asked, Situation(host=host(**caps), permits=[], waits=[], now=NOW))
        return answer.reason if answer.verdict == "refuse" else answer.verdict

    assert said() == "admit"
    assert said(roles={"writer": 1}, harnesses={"gemini": 0}) == "admit"
    assert said(roles={"judge": 0}) == "role judge may not run on this host"
    assert said(harnesses={"codex": 0}) == "harness codex may not run on this host"
    assert said(credentials={"work": 0}) == "credential work may not run on this host"
    assert said(credentials={"claude": 0}) == "credential claude may not run on this host"


def test_a_run_is_let_in_with_all_the_places_that_it_needs_at_once_or_waits() -> None:
    going = [permit(run_launch("a", places={"agents": 4, "role writer": 2}))]
    small, large = run_launch(places={"agents": 2}), run_launch(places={"agents": 9})
    assert judged(small, host(agents=6), going) == ADMITTED
    assert judged(small, host(agents=5), going) == ("hold", "agents")
    assert judged(run_launch(places={"role writer": 1}), host(roles={"writer": 2}), going) == ("hold", "role")
    assert judged(large, host(agents=6)) == ADMITTED, "alone it has all places that there are"
    assert judged(small, host(agents=6), [permit(replace(large, holder="run:b", run="b"))]) == ("hold", "agents")


def test_the_places_are_those_of_the_phase_that_needs_most() -> None:
    roles = (Role(name="writer", harness="claude", count=3), Role(name="judge", harness="codex"))
    first_phase = Phase(name="a", dispatches=(Dispatch(name="w", to="writer", address="all", task="t"),))
    second = Phase(name="b", dispatches=(Dispatch(name="j", to="judge", task="t"),))
    plan = Plan(name="p", roles=roles, phases=(first_phase, second), deliverable=ByteCheck(path="d"))
    assert places(plan) == {
        "agents": 3,
        "role writer": 3,
        "harness claude": 3,
        "credential claude": 3,
        "role judge": 1,
        "harness codex": 1,
        "credential codex": 1,
    }
    assert places(plan, all_along=True)["agents"] == 4


# Permits on the ledger.


class Ground:
    """A ledger with a host, and processes that live or do not."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.ledger: Store = SimStore(self.clock)
        self.living: set[ProcessId] = set()
        self.unseen: set[ProcessId] = set()
        self.settings = HostSettings(**settings)
        self.green()

    def green(self, zone: Zone = "GREEN") -> None:
        self.ledger.run(
            lambda tx: save(
                tx, HostRecord(host=tx.host, at=tx.now, since=tx.now, zone=zone, why="x", settings=self.settings)
            )
        )

    def life(self, process: ProcessId) -> str:
        return "unknown" if process in self.unseen else "alive" if process in self.living else "dead"

    def process(self, pid: int) -> ProcessId:
        process = ProcessId(self.clock.now().boot, pid, pid)
        self.living.add(process)
        return process

    def program(self, pid: int) -> Launch:
        process = self.process(pid)
        return Launch(kind="process", holder=f"process:{process}", role="w", process=process)

    def ask(self, launch: Launch) -> str:
        self.clock.advance(1.0)
        return self.ledger.run(lambda tx: ask(tx, launch, self.life)).verdict

    def look(self, launch: Launch) -> str:
        return self.ledger.read(lambda reader: look(reader, launch, self.life, self.clock.now())).verdict

    def permits(self) -> list[str]:
        return [one.launch.holder for one in self.ledger.read(lambda r: load_all(r, PermitRecord, "permit/"))]

    def waits(self) -> list[str]:
        return [one.launch.holder for one in self.ledger.read(lambda r: load_all(r, WaitRecord, "waits/"))]

    def abandoned(self) -> tuple[list[str], list[str]]:
        permits, waits = self.ledger.read(lambda reader: abandoned(reader, self.life))
        return [one.launch.holder for one in permits], [one.launch.holder for one in waits]

    def run(self, name: str = "r", **more: Any) -> RunRecord:
        record = RunRecord(
            run=name,
            spec="",
            project_folder=folder_at(""),
            output_folder=folder_at(""),
            created=self.clock.now(),
            **more,
        )
        return self.ledger.run(lambda tx: save(tx, record))

    def agent(self, **more: Any) -> AgentRecord:
        record = agent_record(run="r", **more)
        return self.ledger.run(lambda tx: save(tx, record))


def test_f38_a_permit_says_from_its_first_instant_whose_it_is() -> None:
    ground = Ground(roles={"w": 1})
    one, two = ground.program(1), ground.program(2)
    assert ground.ask(one) == "admit"
    assert ground.ledger.read(lambda r: process_of(r, one.holder)) == one.process
    assert ground.ask(one) == "admit", "asking again changes nothing"
    assert ground.ask(two) == "hold"
    assert ground.permits() == [one.holder]
    assert ground.abandoned() == ([], [])


def test_f38_the_place_of_a_dead_program_is_free_for_whoever_asks_next_and_for_one_only() -> None:
    ground = Ground(roles={"w": 1})
    one, two, three = (ground.program(pid) for pid in (1, 2, 3))
    assert [ground.ask(launch) for launch in (one, two, three)] == ["admit", "hold", "hold"]
    assert one.process is not None
    ground.living.discard(one.process)
    assert ground.abandoned() == ([one.holder], [])
    assert ground.ask(three) == "hold", "two has waited longer"
    assert ground.ask(two) == "admit"
    assert ground.ask(three) == "hold"


def test_f38_who_dies_while_it_waits_is_in_nobody_s_way() -> None:
    ground = Ground(roles={"w": 1})
    one, two, three = (ground.program(pid) for pid in (1, 2, 3))
    assert [ground.ask(launch) for launch in (one, two, three)] == ["admit", "hold", "hold"]
    assert two.process is not None
    ground.living.discard(two.process)
    ground.ledger.run(lambda tx: release(tx, one.holder))
    assert ground.look(three) == "admit"
    assert ground.ask(three) == "admit"
    assert ground.abandoned() == ([], [two.holder])


def test_only_this_host_s_places_are_looked_at_and_given_back() -> None:
    ground = Ground(roles={"w": 1})
    far, waiting = (ProcessId("another boot", pid, pid) for pid in (7, 8))

    def elsewhere(process: ProcessId) -> Launch:
        return Launch(kind="process", holder=f"process:{process}", role="w", process=process)

    def life(process: ProcessId) -> str:
        assert process not in (far, waiting), "nobody here can know"
        return ground.life(process)

    def fn(tx: Tx) -> None:
        save(tx, PermitRecord(host="elsewhere", launch=elsewhere(far), granted=tx.now, process=far))
        answer = Answer(verdict="hold", limit="role")
        save(tx, WaitRecord(host="elsewhere", launch=elsewhere(waiting), since=tx.now, answer=answer))
        save(tx, HostRecord(host="elsewhere", at=tx.now, since=tx.now, zone="RED"))

    ground.ledger.run(fn)
    one, two = ground.program(1), ground.program(2)
    assert [ground.ledger.run(lambda tx, w=w: ask(tx, w, life)).verdict for w in (one, two)] == ["admit", "hold"]  # type: ignore[misc]
    ground.living.clear()
    assert ground.ledger.run(lambda tx: free_abandoned(tx, life)) == 1
    assert (ground.permits(), ground.waits()) == ([f"process:{far}"], [f"process:{waiting}"])


def test_the_same_holder_has_a_permit_of_each_host() -> None:
    ground = Ground(roles={"w": 1})
    one = ground.program(1)
    ground.ledger.run(lambda tx: save(tx, PermitRecord(host="elsewhere", launch=one, granted=tx.now)))
    assert ground.ask(one) == "admit"
    assert ground.permits() == [one.holder, one.holder]
    ground.ledger.run(lambda tx: release(tx, one.holder))
    assert ground.permits() == [one.holder]


def test_f38_a_process_that_cannot_be_looked_at_keeps_its_permit() -> None:
    ground = Ground(roles={"w": 1})
    one, two = ground.program(1), ground.program(2)
    ground.ask(one)
    assert one.process is not None
    ground.unseen.add(one.process)
    assert ground.ask(two) == "hold"
    assert ground.abandoned() == ([], [])


def test_f38_a_reused_pid_or_another_boot_is_another_holder() -> None:
    ground = Ground(roles={"w": 1})
    one = ground.program(1)
    ground.ask(one)
    ground.living.clear()
    again = ProcessId(ground.clock.now().boot, 1, 99)
    ground.living.add(again)
    assert ground.abandoned() == ([one.holder], [])
    assert ground.ask(Launch(kind="process", holder=f"process:{again}", role="w", process=again)) == "admit"


def test_a_program_that_does_not_say_who_it_is_gets_a_place_that_is_nobody_s() -> None:
    ground = Ground(roles={"w": 1})
    nameless = Launch(kind="process", holder="process:?", role="w")
    ground.ask(nameless)
    assert ground.abandoned() == ([nameless.holder], [])


def test_who_is_held_is_told_once_for_each_reason_and_keeps_its_place() -> None:
    ground = Ground(roles={"w": 1})
    one, two = ground.program(1), ground.program(2)
    ground.ask(one)
    for _ in range(3):
        ground.ask(two)
    (held,) = ground.ledger.read(lambda r: load_all(r, WaitRecord, "waits/"))
    assert held.answer.limit == "role"
    assert [event.kind for event in ground.ledger.read(lambda r: r.recent(9))] == ["launch_held"]
    since = held.since
    ground.clock.advance(BLIND_S + 1)
    ground.ask(two)
    (held,) = ground.ledger.read(lambda r: load_all(r, WaitRecord, "waits/"))
    assert (held.answer.limit, held.since) == ("blind", since)
    ground.green()
    ground.ledger.run(lambda tx: release(tx, one.holder))
    assert ground.ask(two) == "admit"
    assert ground.waits() == []


def test_a_refusal_leaves_neither_a_permit_nor_a_place_in_the_line() -> None:
    ground = Ground(roles={"w": 1})
    one, two = ground.program(1), ground.program(2)
    assert [ground.ask(one), ground.ask(two)] == ["admit", "hold"]
    ground.settings = HostSettings(roles={"w": 0})
    ground.green()
    assert ground.ask(two) == "refuse"
    assert ground.waits() == []
    assert ground.ask(one) == "admit", "what is there stays: a cap ends nobody"


def test_an_agent_that_is_being_started_is_not_gone_whoever_looks() -> None:
    ground = Ground()
    ground.run()
    ground.agent(life=Starting(since=ground.clock.now()))
    mine = agent()
    assert ground.ask(mine) == "admit"
    assert ground.abandoned() == ([], []), "a captain that takes over finds it"
    ground.agent(life=GivenUp(cause="x"))
    assert ground.abandoned() == ([mine.holder], [])


def test_an_agent_s_permit_goes_with_its_process() -> None:
    ground = Ground()
    ground.run()
    mine, process = agent(), ground.process(7)
    ground.agent(life=Starting(since=ground.clock.now()))
    ground.ask(mine)
    ground.ledger.run(lambda tx: note_process(tx, mine.holder, process))
    ground.agent(life=running(ground.clock.now(), process))
    assert ground.abandoned() == ([], [])
    ground.living.discard(process)
    assert ground.abandoned() == ([mine.holder], [])


def test_f73_the_next_incarnation_is_asked_for_also_while_the_one_before_still_lives() -> None:
    ground = Ground()
    ground.run()
    mine, process = agent(again=True), ground.process(7)
    ground.agent(life=Starting(since=ground.clock.now()))
    ground.ask(mine)
    ground.ledger.run(lambda tx: note_process(tx, mine.holder, process))
    ground.agent(
        incarnation=2, life=NotStarted(gate_reason="x")
    )  # its restart was recorded, the old process is still there
    ground.green("RED")
    assert ground.look(mine) == "hold"
    assert ground.ask(mine) == "hold"
    assert ground.permits() == [mine.holder], "the old one still takes its place"
    assert ground.abandoned() == ([], [])
    ground.green("GREEN")
    assert ground.ask(mine) == "admit"
    ground.agent(incarnation=2, life=Starting(since=ground.clock.now()))
    ground.living.discard(process)
    assert ground.abandoned() == ([], []), "the permit is the new one's"


def test_a_gate_and_a_check_in_keep_their_permits_until_their_process_is_dead() -> None:
    ground = Ground()
    ground.run()
    gate = Launch(kind="gate", holder="gate:r/0/g", run="r")
    record = GateRecord(run="r", phase=0, gate="g")
    ground.ask(gate)
    ground.ledger.run(lambda tx: save(tx, record))
    assert ground.abandoned() == ([], [])
    process = ground.process(3)
    ground.ledger.run(lambda tx: save(tx, replace(record, process=process)))
    assert ground.abandoned() == ([], [])
    ground.living.clear()
    assert ground.abandoned() == ([gate.holder], [])


def test_everything_of_a_run_that_is_cleared_is_free_and_nobody_of_it_waits() -> None:
    ground = Ground(roles={"writer": 1})
    ground.run()
    ground.agent(life=Starting(since=ground.clock.now()))
    launches = [run_launch(), agent(), Launch(kind="gate", holder="gate:r/0/g", run="r")]
    for launch in launches:
        assert ground.ask(launch) == "admit"
    second = agent("second", role="writer")
    assert ground.ask(second) == "hold"
    assert ground.abandoned()[0] == ["gate:r/0/g"], "nothing says that this gate was ever to be started"
    ground.run(cleared=True, state="FAILED")
    permits, waits = ground.abandoned()
    assert sorted(permits) == sorted(launch.holder for launch in launches)
    assert waits == [second.holder]


def test_a_run_s_permit_is_its_own_however_long_its_captain_is_dead() -> None:
    ground = Ground()
    ground.run()
    ground.ask(run_launch())
    ground.clock.reboot()
    assert ground.abandoned() == ([], [])
    assert ground.permits() == ["run:r"]
