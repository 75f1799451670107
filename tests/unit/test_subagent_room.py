"""Sub-agents are processes too: they are learnt by role and phase, expected at the gate, and never counted twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.coordination.admission import ask
from dogwatch.crew.dispatcher.learning import Peaks
from dogwatch.crew.dispatcher.queueing import Going, Outlook
from dogwatch.ledger.records import load, load_all
from dogwatch.model.admission import Answer, Demand, Launch, MemoryProfile, PermitRecord, WaitRecord
from dogwatch.model.delivery import Delivered, Queued
from dogwatch.model.folders import folder_at
from dogwatch.model.memory import GB, AgentMemory, HostRecord, Readings
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Phase, Plan, Role
from dogwatch.model.records import MessageRecord, RunRecord, TaskRecord
from dogwatch.model.view import RunView
from dogwatch.policy.admission import PATIENCE_S, Situation, judge
from dogwatch.policy.forecast import agent_bytes, by_key, demand_of, processes_of, subagents_max
from dogwatch.policy.needs import is_done, is_needed
from dogwatch.sim.ledger import SimStore
from dogwatch.testing.clock import ManualClock
from support.records import living_agent, message_record

NOW = Moment("boot-1", 1000.0, 1_700_000_000.0)
EACH = int(2.1 * GB)
PLAN = Plan(
    name="book",
    roles=(Role(name="writer", harness="claude"), Role(name="judge", harness="claude", count=2)),
    phases=(
        Phase(name="draft", dispatches=(Dispatch(name="d", to="writer", task="Write."),)),
        Phase(name="review", dispatches=(Dispatch(name="r", to="judge", address="all", task="Read."),)),
    ),
    deliverable=ByteCheck(path="a"),
)
JUDGES = MemoryProfile(
    harness="claude",
    pipeline="book",
    role="judge",
    peaks={"review": (5 * EACH,) * 3, "all": (5 * EACH,) * 3},
    processes={"review": (5, 5, 5), "all": (5, 5, 5)},
)


def host(there: dict[str, int], coming: int = 0, foreign: int = 0) -> HostRecord:
    agents = {name: AgentMemory(rss_bytes=count * EACH, processes=count) for name, count in there.items()}
    readings = Readings(
        size_bytes=223 * GB, left_bytes=150 * GB, processes=foreign + sum(there.values()), agents=agents
    )
    return HostRecord(host="", at=NOW, since=NOW, readings=readings, agent_bytes=EACH, coming=coming, spacious=False)


def launch(name: str, agents: int = 1, run: str = "r", *, needed: bool = True, unseen: bool = False) -> Launch:
    demand = Demand(mean_bytes=agents * EACH, agents=agents, learnt=True, unseen=unseen)
    return Launch(kind="agent", holder=f"agent:{run}/{name}", run=run, agent=name, demand=demand, needed=needed)


def verdict(asked: Launch, at: HostRecord, living: list[Launch]) -> tuple[str, str]:
    permits = [PermitRecord(host="", launch=one, granted=NOW) for one in living]
    answer = judge(asked, Situation(host=at, permits=permits, waits=[], now=NOW))
    return answer.verdict, answer.limit


def test_an_agent_waits_until_its_expected_sub_agents_fit_too() -> None:
    at = host({"r/writer": 31})
    assert verdict(launch("judge", 5), at, [launch("writer")]) == ("admit", "")
    assert verdict(launch("judge", 6), at, [launch("writer")]) == ("hold", "processes")


def test_the_sub_agents_that_others_are_expected_to_start_have_their_places() -> None:
    assert verdict(launch("judge", 5), host({"r/writer": 27}, coming=4), [launch("writer")]) == ("admit", "")
    assert verdict(launch("judge", 5), host({"r/writer": 27}, coming=5), [launch("writer")]) == ("hold", "processes")


def test_who_was_let_in_since_the_last_look_counts_with_its_sub_agents() -> None:
    at, living = host({"r/writer": 26}), [launch("writer"), launch("judge-1", 5)]
    assert verdict(launch("judge-2", 5), at, living) == ("admit", "")
    assert verdict(launch("judge-2", 6), at, living) == ("hold", "processes")


def test_agents_of_somebody_else_take_room_and_those_that_are_gone_do_not() -> None:
    assert verdict(launch("judge", 2), host({"r/writer": 1}, foreign=35), [launch("writer")]) == ("hold", "processes")
    gone = host({"r/writer": 1, "old/writer": 34})
    assert verdict(launch("judge", 2), gone, [launch("writer")]) == ("admit", "")


def test_the_first_agent_of_all_may_start_whatever_is_expected_of_it() -> None:
    assert verdict(launch("judge", 99), host({}), []) == ("admit", "")


def test_the_oldest_run_goes_beyond_yellow_but_not_up_to_red_unless_it_is_alone() -> None:
    old = Launch(kind="run", holder="run:r", run="r")
    at, other = host({"r/writer": 15, "s/writer": 15}), launch("writer", run="s")

    def asked(agents: int, *living: Launch) -> str:
        permits = [
            PermitRecord(host="", launch=one, granted=NOW.plus(-3600)) for one in (old, launch("writer"), *living)
        ]
        return judge(launch("judge", agents), Situation(host=at, permits=permits, waits=[], now=NOW)).verdict

    assert [asked(agents, other) for agents in (6, 10, 11)] == ["admit", "admit", "hold"]
    assert asked(99) == "admit"


def test_a_new_run_does_not_go_before_an_agent_with_work_that_waits_for_room() -> None:
    asked = Launch(kind="run", holder="run:new", run="new", demand=Demand(learnt=True))
    held = Answer(verdict="hold", limit="processes")
    for needed, expected in ((True, "hold"), (False, "admit")):
        wait = WaitRecord(host="", launch=launch("judge", 5, needed=needed), since=NOW, answer=held)
        answer = judge(asked, Situation(host=host({}), permits=[], waits=[wait], now=NOW))
        assert answer.verdict == expected


def test_sub_agents_are_learnt_by_phase_and_by_namesakes_where_a_role_is_new() -> None:
    profiles = by_key([JUDGES])
    assert processes_of(profiles, "claude", "book", "judge", "review") == 5
    assert processes_of(profiles, "claude", "book", "judge", "draft") == 1
    assert processes_of(profiles, "claude", "other", "judge", "review") == 5
    assert processes_of(profiles, "claude", "other", "writer", "review") == 1
    assert subagents_max(PLAN, profiles) == 8


def test_who_is_alone_where_namesakes_share_the_work_is_expected_to_do_all_of_it() -> None:
    profiles = by_key([replace(JUDGES, count=2)])
    alone, three = (processes_of(profiles, "claude", "other", "judge", "review", count=count) for count in (1, 3))
    assert (alone, three) == (9, 5)
    assert processes_of(profiles, "claude", "book", "judge", "review", count=1) == 5, "its own are no namesakes"


def test_room_is_kept_for_the_sub_agents_of_whom_nothing_is_known() -> None:
    def asked(there: int, *, unseen: bool = True, fresh_s: float = 3600.0) -> str:
        mine, other = launch("judge", unseen=unseen), launch("writer", run="s", unseen=True)
        permits = [PermitRecord(host="", launch=other, granted=NOW.plus(-fresh_s))]
        at = Situation(host=host({"s/writer": there}), permits=permits, waits=[], now=NOW)
        return judge(mine, at).verdict

    assert [asked(there) for there in (31, 32)] == ["admit", "hold"]
    assert [asked(there, unseen=False) for there in (35, 36)] == ["admit", "hold"]
    assert asked(35, unseen=False, fresh_s=30) == "admit", "what the other has shown is not expected again"


def test_room_is_kept_for_everybody_unknown_who_has_only_just_started() -> None:
    others = [launch(f"writer-{number}", unseen=True) for number in range(5)]
    at = host({f"r/writer-{number}": 1 for number in range(5)} | {"x/others": 7})

    def asked(number: int) -> Answer:
        permits = [PermitRecord(host="", launch=one, granted=NOW.plus(-30)) for one in others[:number]]
        old = [
            PermitRecord(host="", launch=one, granted=NOW.plus(-90))
            for one in (*others[number:], launch("others", run="x"))
        ]
        return judge(launch("judge", unseen=True), Situation(host=at, permits=permits + old, waits=[], now=NOW))

    assert asked(5).reason == "12 agents and sub-agents are there, 20 sub-agents may come, and 4 of its own; 36 fit"
    assert [asked(number).verdict for number in (4, 5)] == ["admit", "hold"]


def test_who_is_unknown_does_not_go_beyond_yellow_although_its_run_is_the_oldest() -> None:
    runs = [
        PermitRecord(host="", launch=Launch(kind="run", holder=f"run:{run}", run=run), granted=NOW.plus(-age))
        for run, age in (("r", 7200), ("s", 3600))
    ]
    other = PermitRecord(host="", launch=launch("writer", run="s"), granted=NOW.plus(-3600))

    def asked(*, unseen: bool) -> str:
        at = Situation(host=host({"s/writer": 36}), permits=[*runs, other], waits=[], now=NOW)
        return judge(launch("judge", run="r", unseen=unseen), at).verdict

    assert (asked(unseen=False), asked(unseen=True)) == ("admit", "hold")


def test_who_had_no_work_until_now_has_not_waited_yet() -> None:
    """An editor that stands by for hours is no reason to let it in beyond the line on its first minute of work."""
    runs = [
        PermitRecord(host="", launch=Launch(kind="run", holder=f"run:{run}", run=run), granted=NOW.plus(-age))
        for run, age in (("r", 7200), ("s", 3600))
    ]
    other = PermitRecord(host="", launch=launch("writer", run="s"), granted=NOW.plus(-3600))
    asked = launch("judge", 9)

    def waited(*, needed: bool) -> str:
        wait = WaitRecord(
            host="", launch=replace(asked, needed=needed), since=NOW.plus(-PATIENCE_S), answer=Answer(verdict="hold")
        )
        at = Situation(host=host({"s/writer": 36}), permits=[*runs, other], waits=[wait], now=NOW)
        return judge(asked, at).verdict

    assert (waited(needed=True), waited(needed=False)) == ("admit", "hold")


def test_a_launch_is_asked_for_with_its_whole_tree_and_a_process_is_as_large_as_its_share() -> None:
    profiles = by_key([JUDGES, replace(JUDGES, pipeline="", role="")])
    demand = demand_of(profiles, "claude", "book", "judge", "review")
    assert (demand.agents, demand.learnt) == (5, True)
    assert demand.mean_bytes == pytest.approx(5 * EACH, rel=0.01)
    assert agent_bytes(profiles) == EACH


def test_one_outlier_does_not_make_all_agents_large() -> None:
    peaks = (EACH,) * 6 + (20 * EACH,)
    assert agent_bytes(by_key([MemoryProfile(harness="claude", peaks={"all": peaks})])) == EACH


def test_everybody_at_once_means_with_all_their_sub_agents() -> None:
    outlook = Outlook(by_key([JUDGES]), [Going(f"r{number}", PLAN) for number in range(4)])
    assert not outlook.fits(host({}))[0]
    assert Outlook(by_key([JUDGES]), outlook.going[:3]).fits(host({}))[0]


def see(peaks: Peaks, clock: ManualClock, processes: int, phase: int = 1) -> None:
    clock.advance(5)
    run = RunRecord(
        run="b", spec="s", project_folder=folder_at("p"), output_folder=folder_at("o"), created=clock.now(), phase=phase
    )
    agent = living_agent("judge-1", since=clock.now(), run="b", role="judge", busy=True)
    memory = {"b/judge-1": AgentMemory(rss_bytes=processes * EACH, processes=processes)}
    peaks.see(run, PLAN, [agent], memory, clock.now())


def test_sub_agents_are_known_while_they_run_and_not_expected_again_when_they_have_ended() -> None:
    clock, peaks = ManualClock(), Peaks()
    ledger = SimStore(clock)
    lease = ledger.run(lambda tx: tx.acquire("dispatcher/", "me", 1e6))
    assert lease is not None
    see(peaks, clock, 1)
    assert peaks.coming(by_key([JUDGES]), clock.now()) == 4
    see(peaks, clock, 4)
    assert peaks.coming(by_key([JUDGES]), clock.now()) == 1
    peaks.keep(ledger, lease, clock.now())
    key = MemoryProfile(harness="claude", pipeline="book", role="judge").key
    profile = ledger.read(lambda reader: load(reader, MemoryProfile, key))
    assert profile is not None
    assert profile.seen == {"review": 4}
    assert processes_of(by_key([profile]), "claude", "book", "judge", "review") == 4
    see(peaks, clock, 1)
    assert peaks.coming(by_key([JUDGES]), clock.now()) == 1


def test_who_has_worked_for_a_while_without_sub_agents_has_shown_that_it_needs_none() -> None:
    clock, peaks = ManualClock(), Peaks()
    ledger = SimStore(clock)
    lease = ledger.run(lambda tx: tx.acquire("dispatcher/", "me", 1e6))
    assert lease is not None

    def is_unseen() -> bool:
        peaks.keep(ledger, lease, clock.now())
        profiles = by_key(ledger.read(lambda reader: load_all(reader, MemoryProfile, "profile/")))
        return demand_of(profiles, "claude", "book", "judge", "review").unseen

    for _ in range(12):
        see(peaks, clock, 1)
        assert is_unseen()
    see(peaks, clock, 1)
    assert not is_unseen()


def view(phase: int, *messages: MessageRecord) -> RunView:
    run = RunRecord(
        run="b",
        spec="s",
        project_folder=folder_at("p"),
        output_folder=folder_at("o"),
        created=NOW,
        phase=phase,
        state="RUNNING",
    )
    agents = {
        name: living_agent(name, since=NOW, run="b", role=name[:6].rstrip("-"))
        for name in ("writer", "judge-1", "judge-2")
    }
    done = TaskRecord(
        run="b", task="d", dispatch="d", phase=0, text="", agent="writer", state="accepted", holders=("writer",)
    )
    under_way = TaskRecord(
        run="b", task="r", dispatch="r", phase=1, text="", agent="judge-1", state="claimed", holders=("judge-1",)
    )
    tasks = {"d": done} | ({"r": under_way} if phase else {})
    return RunView(run=run, plan=PLAN, agents=agents, tasks=tasks, messages={one.id: one for one in messages})


def test_an_agent_whose_work_is_accepted_is_not_needed_for_the_order_that_it_once_got() -> None:
    order = message_record(run="b", kind="dispatch", subject="d", sender="", queued=NOW, delivery=Delivered(at=NOW))
    assert not is_needed(view(1, order), "writer")
    assert is_done(view(1, order), "writer")
    assert is_needed(view(1, replace(order, delivery=Queued())), "writer")
    assert is_needed(view(1, order), "judge-1")


def test_who_has_had_no_work_so_far_has_not_waited_yet() -> None:
    clock = ManualClock()
    ledger = SimStore(clock)
    blind = launch("judge", needed=False)

    def since(one: Launch) -> Moment:
        ledger.run(lambda tx: ask(tx, one, lambda process: "alive"))
        found = ledger.read(lambda reader: load(reader, WaitRecord, f"waits/{reader.host}/{one.holder}"))
        assert found is not None
        return found.since

    first = since(blind)
    clock.advance(500)
    assert since(blind) == first
    begun = since(replace(blind, needed=True))
    assert begun == clock.now()
    clock.advance(500)
    assert since(replace(blind, needed=True)) == begun
