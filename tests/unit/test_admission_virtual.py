"""Memory and admission in virtual time (F70 to F73): the very steps of the crew, on a machine that runs short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from dogwatch.coordination.agents import replace_agent
from dogwatch.coordination.runs import create_run
from dogwatch.ledger.api import Reader, Store, StoredEvent, Tx
from dogwatch.ledger.records import load, load_all, save
from dogwatch.model import keys
from dogwatch.model.admission import MemoryProfile, PermitRecord, WaitRecord
from dogwatch.model.brief import Header
from dogwatch.model.keys import checkins_queue, orders_queue
from dogwatch.model.memory import CYCLE_S, GB, IDLE_S, HostRecord, HostSettings
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Gate, Limits, Notify, Output, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.policy.reclaim import DONE_S
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.berths import Berth, KilledInStepError
from dogwatch.sim.ledger import SimLedger, SimStore
from dogwatch.sim.machine import Machine, Witness
from dogwatch.sim.memory import Host, Shape
from dogwatch.sim.scenarios import NOTIFY
from dogwatch.testing.clock import ManualClock

T = TypeVar("T")

MB = 1024**2
HOURS = 3600.0
STRETCH_S = 10.0
"""How long a crew member that has nothing to do may wait for its next step."""
LIMITS = Limits(restart_backoff_s=1.0, restarts_max=9, deadline_s=99 * HOURS, run_quiet_s=90 * HOURS)
WRITER, JUDGE = Role(name="writer", harness="scripted"), Role(name="judge", harness="scripted")
HELPERS = Role(name="helper", harness="scripted", count=3)
DRAFT = Dispatch(name="draft", to="writer", task="Write.", outputs=(Output(path="draft.md"),))
FINAL = Dispatch(name="final", to="writer", task="Finish.", outputs=(Output(path="final.md"),))
HELP = Dispatch(name="help", to="helper", address="all", task="Help.", outputs=(Output(path="{agent}.md"),))
REVIEW = Checkpoint(name="review", artifact="draft.md", author="draft", reviewers=("judge",))
SHORT = Plan(
    name="v",
    roles=(WRITER, JUDGE),
    phases=(
        Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,)),
        Phase(name="gated", gates=(Gate(name="counted", command=("true",)),)),
        Phase(name="final", dispatches=(FINAL,)),
    ),
    deliverable=ByteCheck(path="final.md"),
    limits=LIMITS,
)
IDLERS = Plan(
    name="v",
    roles=(WRITER, HELPERS),
    phases=(Phase(name="draft", dispatches=(DRAFT,)), Phase(name="help", dispatches=(HELP,))),
    deliverable=ByteCheck(path="draft.md"),
    limits=LIMITS,
)
"""Three helpers are idle until the second phase."""
ROOMY, FULL = Host(size_bytes=256 * GB), Host(size_bytes=256 * GB, base_bytes=250 * GB)
TIGHT = Host(size_bytes=256 * GB, base_bytes=215 * GB)


class Doorkeeper(Witness):
    """Looks at every start and every end of an agent at the very moment."""

    def __init__(self, ship: Ship) -> None:
        self._ship = ship
        self.ended_agents: list[tuple[str, str, str]] = []

    def spawned(self, agent: VirtualAgent) -> None:
        self._ship.note_start(f"agent:{agent.key}")

    def ended(self, agent: VirtualAgent, by: str, run: str, way: str) -> None:
        self.ended_agents.append((agent.key, way, agent.turn.state))


class Ship(Machine):
    """A machine with runs, where each start must have its permit on the ledger and none is made in RED."""

    def __init__(self, host: Host = ROOMY) -> None:
        self._memory = SimLedger()
        clock = ManualClock()
        super().__init__(SimStore(clock, self._memory), clock)
        self.host = host
        self.keeper = self.witness = Doorkeeper(self)
        self.starts: list[str] = []
        self.runs: list[str] = []
        self.forms: dict[str, Shape] = {}
        self.paces: dict[str, float] = {}
        self.commits: Callable[[Berth], None] = lambda berth: None
        self.told: list[StoredEvent] = []
        self.idle_max_s = STRETCH_S
        self.lowest_bytes = host.size_bytes

    def begin(self, *plans: Plan, **more: Any) -> Ship:
        """Runs and a dispatcher, as `dogwatch run` leaves them."""
        for plan in plans:
            make = partial(create_run, plan=plan, project="/p", output="/out", spec_path="/x.yaml", **more)
            run = self.ledger.run(make)
            self.runs.append(run.run)
        if not self.crew:
            self.hands.start_crew("dispatcher")
        self.ring()
        return self

    # What the machine asks.

    def pace(self, agent: VirtualAgent, header: Header) -> float:
        return self.paces.get(agent.name, self.work_s)

    def shape(self, agent: VirtualAgent) -> Shape:
        return self.forms.get(agent.name, Shape(start_bytes=MB, full_bytes=MB))

    def ledger_for(self, berth: Berth) -> Store:
        return Counted(self, berth)

    def start_job(self, key: str, seconds: float, code: int = 0) -> ProcessId:
        if not key.startswith("notice:"):
            self.note_start(key.rpartition("/")[0])
        return super().start_job(key, seconds, code)

    def tick(self) -> None:
        super().tick()
        self.lowest_bytes = min(self.lowest_bytes, self.host.left_bytes(self.used_bytes()))

    # What is looked at.

    def note_start(self, holder: str) -> None:
        self.starts.append(holder)
        assert holder in self.permits(), f"{holder} is started without a permit: {self.permits()}"
        assert self.zone() != "RED", f"{holder} is started in RED"

    def read(self, fn: Callable[[Reader], T]) -> T:
        return self.ledger.read(fn)

    def permits(self, prefix: str = "permit/") -> list[str]:
        return [one.launch.holder for one in self.read(lambda r: load_all(r, PermitRecord, prefix))]

    def held(self) -> dict[str, str]:
        return {w.launch.holder: w.answer.limit for w in self.read(lambda r: load_all(r, WaitRecord, "waits/"))}

    def zone(self) -> str:
        host = self.read(lambda r: load(r, HostRecord, keys.host(r.host)))
        return host.zone if host is not None else ""

    def agent(self, key: str = "v-1/writer") -> VirtualAgent:
        return self.clients[key]

    def seen(self, event: StoredEvent) -> None:
        self.told.append(event)

    def events(self, kind: str = "", agent: str = "", run: str = "") -> list[StoredEvent]:
        return [e for e in self.told if (not kind or e.kind == kind) and (not agent or e.agent == agent)]

    # What is done.

    def become(self, host: Host, zone: str) -> None:
        """Memory becomes like this, and the dispatcher has seen it."""
        self.host = host
        self.run_until(lambda: self.zone() == zone, 300)

    def until(self, kind: str, agent: str = "", count: int = 1, limit_s: float = 600.0) -> list[StoredEvent]:
        self.run_until(lambda: len(self.events(kind, agent)) >= count, limit_s)
        return self.events(kind, agent)

    def pass_time(self, seconds: float) -> None:
        end = self.elapsed_s + seconds
        self.run_until(lambda: self.elapsed_s >= end, seconds + 60)

    def order(self, run: str, agent: str, item: str = "o1") -> None:
        body = {"agent": agent, "cause": "", "by": "operator"}
        self.ledger.run(lambda tx: tx.push(orders_queue(run), body, item))
        self.ring(run)

    def finish(self, limit_s: float = 4 * HOURS) -> None:
        """All runs are completed, and in the end nobody has a permit or waits."""
        self.run_until(lambda: all(self.view(run).run.cleared for run in self.runs), limit_s)
        ends = [(self.view(run).run.state, self.view(run).run.cause) for run in self.runs]
        assert ends == [("COMPLETED", "")] * len(ends)
        assert self.failures == []
        self.run_until(lambda: not self.permits() and not self.held(), 10)


class Counted:
    """A member's ledger: somebody may want to know of each commit, before and after."""

    def __init__(self, ship: Ship, berth: Berth) -> None:
        self._store = SimStore(ship.clock, ship._memory)
        self._ship, self._berth = ship, berth

    def run(self, fn: Callable[[Tx], T]) -> T:
        result = self._store.run(fn)
        self._ship.commits(self._berth)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def ship() -> Ship:
    return Ship()


# F73: one gate, and every path goes through it.


def lives(ship: Ship, key: str = "v-1/writer", incarnation: int = 1) -> bool:
    one = ship.clients.get(key)
    return one is not None and one.lives and one.incarnation >= incarnation


def at_work(ship: Ship, plan: Plan = SHORT) -> Ship:
    """The writer works on its first task, and goes on doing so."""
    ship.paces["writer"] = 2 * HOURS
    ship.begin(plan)
    ship.run_until(lambda: lives(ship) and ship.agent().turn.state == "working")
    return ship


def test_f73_in_green_everything_starts_with_a_permit(ship: Ship) -> None:
    ship.begin(SHORT).finish()
    assert sorted(ship.starts) == ["agent:v-1/judge", "agent:v-1/writer", "gate:v-1/1/counted"]


def test_f73_a_run_is_not_let_in_before_memory_is_green() -> None:
    ship = Ship(FULL).begin(SHORT)
    ship.until("launch_held")
    ship.pass_time(300)
    assert ship.starts == []
    assert ship.held() == {"run:v-1": "zone"}
    ship.become(TIGHT, "YELLOW")
    ship.pass_time(300)
    assert ship.starts == [], "a new run waits for GREEN"
    assert ship.view("v-1").run.admitted is None
    ship.host = ROOMY
    ship.finish()


def first_spawn(ship: Ship) -> Callable[[], bool]:
    ship.settings = HostSettings(agents=1)
    ship.paces["writer"] = 2 * HOURS
    ship.begin(SHORT)
    ship.run_until(lambda: ship.held() == {"agent:v-1/writer": "agents"})
    ship.become(FULL, "RED")
    ship.settings = HostSettings()
    return lambda: lives(ship)


def after_a_death(ship: Ship) -> Callable[[], bool]:
    at_work(ship).become(FULL, "RED")
    ship.kill(ship.agent().process)
    return lambda: lives(ship, incarnation=2)


def after_a_hang(ship: Ship) -> Callable[[], bool]:
    limits = replace(LIMITS, claim_s=30.0, probe_s=5.0, startup_s=9 * HOURS)
    at_work(ship, replace(SHORT, limits=limits)).become(FULL, "RED")
    ship.agent().hung, ship.agent().ill = True, "hung"
    return lambda: lives(ship, incarnation=2)


def by_the_operator(ship: Ship) -> Callable[[], bool]:
    at_work(ship).become(FULL, "RED")
    ship.order("v-1", "writer")
    return lambda: lives(ship, incarnation=2)


def replaced(ship: Ship) -> Callable[[], bool]:
    at_work(ship).become(FULL, "RED")
    view = ship.view("v-1")
    stalled = replace(view.agents["writer"], health="unresponsive")
    ship.ledger.run(lambda tx: replace_agent(tx, view, stalled, "it failed", []))
    ship.ring()
    return lambda: lives(ship, "v-1/writer-r1")


def after_a_reboot(ship: Ship) -> Callable[[], bool]:
    at_work(ship).become(FULL, "RED")
    ship.reboot()
    ship.hands.start_crew("dispatcher")
    return lambda: lives(ship, incarnation=2)


def after_down_and_up(ship: Ship) -> Callable[[], bool]:
    at_work(ship).become(FULL, "RED")
    for process in [berth.process for berth in ship.crew] + [one.process for one in ship.clients.values()]:
        ship.kill(process)
    ship.hands.start_crew("dispatcher")
    return lambda: lives(ship, incarnation=2)


def at_a_gate(ship: Ship) -> Callable[[], bool]:
    ship.paces["judge"] = 60.0
    ship.begin(SHORT)
    ship.until("checkpoint_asked")
    ship.become(FULL, "RED")
    return lambda: "gate:v-1/1/counted" in ship.starts


def at_a_check_in(ship: Ship) -> Callable[[], bool]:
    at_work(ship).become(FULL, "RED")
    body = {"agent": "writer", "to": "judge", "question": "How far are you?"}
    ship.ledger.run(lambda tx: tx.push(checkins_queue("v-1"), body, "c1"))
    ship.ring()
    return lambda: "check-in:v-1/c1" in ship.starts


PATHS = [
    first_spawn,
    after_a_death,
    after_a_hang,
    by_the_operator,
    replaced,
    after_a_reboot,
    after_down_and_up,
    at_a_gate,
    at_a_check_in,
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_f73_no_path_starts_anything_in_red_and_each_goes_on_in_green(
    ship: Ship, path: Callable[[Ship], Callable[[], bool]]
) -> None:
    has_started = path(ship)
    ship.pass_time(300)
    assert not has_started()
    assert "zone" in ship.held().values()
    before = len(ship.starts)
    ship.host = ROOMY
    ship.run_until(has_started, 600)
    assert len(ship.starts) > before
    ship.paces.clear()
    for one in ship.clients.values():
        if one.lives and one.turn.state == "working" and one.asked is not None and not one.hung:
            one.recover()  # from now on it is quick
    ship.finish()


@pytest.mark.parametrize("path", [after_a_hang, by_the_operator], ids=lambda path: path.__name__)
def test_f73_an_incarnation_that_was_given_up_does_not_live_on_while_the_next_one_waits(
    ship: Ship, path: Callable[[Ship], Callable[[], bool]]
) -> None:
    path(ship)
    old = ship.agent().process
    ship.run_until(lambda: "agent:v-1/writer" in ship.held(), 1200)
    ship.run_until(lambda: old not in ship.alive, 5)
    ship.run_until(lambda: "agent:v-1/writer" not in ship.permits(), 5)


def test_f73_an_agent_that_has_died_comes_back_in_yellow_and_a_new_one_does_not(ship: Ship) -> None:
    at_work(ship).become(TIGHT, "YELLOW")
    ship.kill(ship.agent().process)
    ship.run_until(lambda: lives(ship, incarnation=2))
    ship.begin(replace(SHORT, name="w"))
    ship.pass_time(600)
    assert ship.held() == {"run:w-1": "zone"}


def test_f73_in_red_no_sub_agent_may_start_and_a_new_captain_knows_it(ship: Ship) -> None:
    at_work(ship)
    assert ship.held_launches == {}
    ship.become(TIGHT, "YELLOW")
    ship.pass_time(30)
    assert ship.held_launches == {}
    ship.become(FULL, "RED")
    ship.run_until(lambda: bool(ship.held_launches), 30)
    assert ship.held_launches["v-1"].startswith("memory is RED: memory available: ")
    ship.kill(ship.member("captain"))
    ship.pass_time(30)
    assert list(ship.held_launches) == ["v-1"]
    ship.become(ROOMY, "GREEN")
    ship.run_until(lambda: not ship.held_launches, 30)
    ship.held_launches["v-1"] = "what a captain has left that was killed in RED"
    ship.kill(ship.member("captain"))
    ship.run_until(lambda: not ship.held_launches, 60)


# Reclaim.


def idle_for(ship: Ship, seconds: float = IDLE_S + 60) -> Ship:
    """The writer works, three helpers have been idle for so long."""
    at_work(ship, IDLERS)
    ship.run_until(lambda: len(ship.starts) == 4)
    ship.pass_time(seconds)
    return ship


def helpers(ship: Ship) -> list[VirtualAgent]:
    return [ship.agent(f"v-1/helper-{number}") for number in (1, 2, 3)]


def test_f72_red_reclaims_one_idle_worker_a_cycle_the_largest_first_and_nobody_else(ship: Ship) -> None:
    ship.forms = {f"helper-{n}": Shape(start_bytes=n * GB, full_bytes=n * GB) for n in (1, 2, 3)}
    idle_for(ship).become(FULL, "RED")
    events = ship.until("agent_reclaimed", count=3, limit_s=5 * CYCLE_S)
    assert [event.agent for event in events] == ["helper-3", "helper-2", "helper-1"]
    assert all(b.at.since(a.at) >= CYCLE_S - 3 for a, b in pairwise(events))
    assert "memory is RED" in events[0].body["reason"]
    ship.pass_time(400)
    assert [key for key, _, _ in ship.keeper.ended_agents] == ["v-1/helper-3", "v-1/helper-2", "v-1/helper-1"]
    assert {way for _, way, _ in ship.keeper.ended_agents} == {"dismiss"}
    assert lives(ship)
    assert ship.agent().incarnation == 1, "who works is left alone"
    assert {berth.name for berth in ship.crew} == {"dispatcher", "captain", "watchdog"}
    assert not ship.events("crew_lost")
    assert ship.permits("permit/simulated/agent:") == ["agent:v-1/writer"], "their places are free"


def test_f72_nobody_is_reclaimed_before_ten_idle_minutes_or_in_yellow(ship: Ship) -> None:
    idle_for(ship, 60).become(TIGHT, "YELLOW")
    ship.pass_time(IDLE_S + 600)
    assert not ship.events("order_given")
    ship = idle_for(Ship(), 60)
    ship.become(FULL, "RED")
    reclaimed = ship.until("agent_reclaimed", limit_s=IDLE_S + 60)[0]
    spawned = next(event for event in ship.events("agent_spawned") if event.agent == reclaimed.agent)
    assert reclaimed.at.since(spawned.at) >= IDLE_S


def test_f72_reclaimed_workers_come_back_with_their_brief_when_there_is_work_for_them(ship: Ship) -> None:
    idle_for(ship).become(FULL, "RED")
    ship.until("agent_reclaimed", count=3, limit_s=5 * CYCLE_S)
    ship.become(ROOMY, "GREEN")
    ship.pass_time(400)
    assert not any(one.lives for one in helpers(ship)), "nobody needs them yet"
    ship.paces.clear()
    ship.agent().recover()
    ship.finish()
    assert [one.incarnation for one in helpers(ship)] == [2, 2, 2]
    assert all(len(one.prompts) == 1 and "Help." in one.prompts[0] for one in helpers(ship))
    assert ship.view("v-1").agents["helper-1"].restarts == (), "it is no failure of theirs"


def test_f72_mail_wakes_a_reclaimed_worker_through_the_gate(ship: Ship) -> None:
    idle_for(ship).become(FULL, "RED")
    ship.until("agent_reclaimed", count=3, limit_s=5 * CYCLE_S)
    ship.agent().call("mail_send", to="helper-2", text="are you there?")
    ship.run_until(lambda: ship.held().get("agent:v-1/helper-2") == "zone", 60)
    ship.pass_time(600)
    assert not lives(ship, "v-1/helper-2", 2)
    ship.host = ROOMY
    ship.until("message_acknowledged", limit_s=600)
    assert [one.lives for one in helpers(ship)] == [False, True, False]
    assert "are you there?" in ship.agent("v-1/helper-2").prompts[0]


def test_f72_a_reclaimed_worker_does_not_come_back_in_yellow_as_if_it_had_died(ship: Ship) -> None:
    idle_for(ship).become(FULL, "RED")
    ship.until("agent_reclaimed", count=3, limit_s=5 * CYCLE_S)
    ship.agent().call("mail_send", to="helper-2", text="are you there?")
    ship.become(TIGHT, "YELLOW")
    ship.pass_time(600)
    assert not lives(ship, "v-1/helper-2", 2)
    assert ship.held()["agent:v-1/helper-2"] == "zone"


def attach(ship: Ship, one: VirtualAgent) -> None:
    one.attached = True


def draft(ship: Ship, one: VirtualAgent) -> None:
    one.composer = "a person is just writing th"


def subagent(ship: Ship, one: VirtualAgent) -> None:
    one.start_subagent("explorer", 9 * HOURS)


def turn(ship: Ship, one: VirtualAgent) -> None:
    one.turn = replace(one.turn, state="working", since=ship.now.mono)


def letter(ship: Ship, one: VirtualAgent) -> None:
    one.hung = True  # it stays unread
    ship.agent().call("mail_send", to=one.name, text="something to do")


@pytest.mark.parametrize("exempt", [attach, draft, subagent, turn, letter], ids=lambda fn: fn.__name__)
def test_f72_a_worker_with_a_person_a_draft_mail_or_work_is_exempt(
    ship: Ship, exempt: Callable[[Ship, VirtualAgent], None]
) -> None:
    idle_for(ship)
    for one in helpers(ship):
        exempt(ship, one)
    ship.pass_time(10)
    ship.become(FULL, "RED")
    ship.pass_time(2 * CYCLE_S)
    assert ship.zone() == "RED"
    assert not ship.events("agent_reclaimed")
    assert all(one.lives and one.incarnation == 1 for one in helpers(ship))


REASONS: dict[Callable[[Ship, VirtualAgent], None], str] = {
    attach: "a person looks at its terminal",
    draft: "somebody has typed something into its composer",
    turn: "it is working",
    subagent: "sub-agents of its own run",
    letter: "there is work or mail for it",
}


@pytest.mark.parametrize("exempt", REASONS, ids=lambda fn: fn.__name__)
def test_f72_the_captain_looks_again_and_refuses_what_has_changed_since_the_order(
    ship: Ship, exempt: Callable[[Ship, VirtualAgent], None]
) -> None:
    idle_for(ship)
    chosen: list[VirtualAgent] = []

    def change(berth: Berth) -> None:
        """In the very moment between the order and the captain's look."""
        if berth.name == "dispatcher" and not chosen and ship.read(lambda r: r.items(orders_queue("v-1"))):
            (item,) = ship.read(lambda r: r.items(orders_queue("v-1")))
            chosen.append(ship.agent(f"v-1/{item.body['agent']}"))
            exempt(ship, chosen[0])

    ship.commits = change
    ship.host = FULL
    (refused,) = ship.until("reclaim_refused")
    assert refused.agent == chosen[0].name
    assert refused.body["why"] == REASONS[exempt]
    assert chosen[0].lives
    assert ship.read(lambda r: r.items(orders_queue("v-1"))) == []
    ship.pass_time(CYCLE_S)
    assert chosen[0].lives
    assert not any(one.attached or one.composer for one in helpers(ship) if not one.lives)


def test_f72_an_order_for_an_incarnation_that_is_gone_ends_nobody(ship: Ship) -> None:
    idle_for(ship)

    def change(berth: Berth) -> None:
        if berth.name == "dispatcher" and ship.read(lambda r: r.items(orders_queue("v-1"))):
            ship.commits = lambda berth: None
            body = {"order": "reclaim", "agent": "helper-1", "incarnation": 9, "cause": "x", "by": "dispatcher"}
            (item,) = ship.read(lambda r: r.items(orders_queue("v-1")))

            def swap(tx: Tx) -> None:
                claimed = tx.claim(item.queue, "test", 60.0, item.id)
                assert claimed is not None
                tx.ack(claimed)
                tx.push(item.queue, body, "swapped")

            ship.ledger.run(swap)

    ship.commits = change
    ship.host = FULL
    (refused,) = ship.until("reclaim_refused")
    assert refused.body["why"] == "that incarnation is gone"
    assert all(one.lives for one in helpers(ship))


def test_f72_a_captain_killed_between_the_deed_and_the_record_leaves_a_worker_at_rest(ship: Ship) -> None:
    idle_for(ship)
    captain = ship.member("captain")
    killed: list[str] = []
    end_agent = ship.end_agent

    def end_and_die(agent: VirtualAgent, by: str, run: str, way: str) -> None:
        end_agent(agent, by, run, way)
        if not killed:
            killed.append(agent.key)
            raise KilledInStepError

    ship.end_agent = end_and_die  # type: ignore[method-assign]
    ship.host = FULL
    ship.until("agent_reclaimed", limit_s=600)
    assert captain not in ship.alive
    reclaimed = ship.events("agent_reclaimed")
    assert [f"v-1/{event.agent}" for event in reclaimed] == killed
    assert not ship.events("agent_restarted")
    ship.pass_time(60)
    assert len(ship.events("alert_raised")) == len(ship.events("alert_withdrawn")), "nobody takes it for a death"
    assert not lives(ship, killed[0])


# F72: the leaker is named; F70 and F71.


def test_f72_the_leaker_is_named_with_its_growth_and_is_not_killed(ship: Ship) -> None:
    at_work(ship, replace(IDLERS, notify=Notify(command=("true",))))
    ship.run_until(lambda: len(ship.starts) == 4)
    ship.host = Host(size_bytes=64 * GB, base_bytes=16 * GB)
    writer = ship.agent()
    writer.body.leak_bytes_s, writer.body.leaks_since = 20 * MB, ship.now.mono
    yellow, red = ship.until("zone_changed", count=2, limit_s=3 * HOURS)
    assert [(event.body["before"], event.body["zone"]) for event in (yellow, red)] == [
        ("GREEN", "YELLOW"),
        ("YELLOW", "RED"),
    ]
    assert yellow.body["sensor"] == "largest", "8 GB for one process"
    assert yellow.body["leaker"].startswith("v-1/writer grows by ")
    assert yellow.body["largest"].startswith("v-1/writer ")
    (low,), (critical,) = ship.events("memory_low"), ship.events("memory_critical")
    assert low.run == critical.run == "v-1"
    for event in (low, critical):
        assert event.body["leaker"].startswith("v-1/writer grows by 1.2 GB a minute")
    ship.run_until(lambda: bool(ship.notices), 60)
    (notice,) = ship.notices
    assert notice["title"] == "memory is RED"
    assert "v-1/writer grows by" in notice["body"]
    ship.pass_time(2 * IDLE_S)
    assert len(ship.events("agent_reclaimed")) == 3, "the idle ones"
    assert writer.lives
    assert writer.incarnation == 1


def test_yellow_and_red_are_told_to_every_run_and_a_better_zone_to_nobody(ship: Ship) -> None:
    for name in "vw":
        ship.begin(replace(IDLERS, name=name))
    ship.paces["writer"] = 9 * HOURS
    ship.run_until(lambda: len(ship.starts) == 8)
    ship.become(TIGHT, "YELLOW")
    assert [event.run for event in ship.events("memory_low")] == ["v-1", "w-1"]
    ship.become(FULL, "RED")
    assert [event.run for event in ship.events("memory_critical")] == ["v-1", "w-1"]
    ship.become(ROOMY, "GREEN")
    changes = ship.events("zone_changed")
    assert [event.body["zone"] for event in changes] == ["YELLOW", "RED", "GREEN"]
    assert changes[-1].body["sensor"] == "available", "what it had been red for"
    assert changes[-1].body["why"].startswith("calm again after ")
    assert len(ship.events("memory_low")) == len(ship.events("memory_critical")) == 2


def test_a_change_of_the_zone_is_told_also_where_the_ledger_could_not_be_written_at_first(ship: Ship) -> None:
    at_work(ship)
    dispatcher = ship.berth("dispatcher")
    assert dispatcher is not None
    store = dispatcher.ledger
    tries: list[int] = []

    def run(fn: Callable[[Tx], Any]) -> Any:
        if ship.host is FULL and len(tries) < 6:
            tries.append(1)
            raise OSError("the disk is full")
        return Counted.run(store, fn)  # type: ignore[arg-type]

    store.run = run  # type: ignore[method-assign]
    ship.become(FULL, "RED")
    assert len(tries) == 6
    assert [event.body["zone"] for event in ship.events("zone_changed")] == ["RED"]
    assert len(ship.events("memory_critical")) == 1


@pytest.mark.parametrize(("notify", "told"), [(Notify(), 0), (NOTIFY, 1)], ids=["nobody", "somebody"])
def test_who_wants_to_be_told_hears_of_a_run_that_ended_in_the_queue(notify: Notify, told: int) -> None:
    ship = Ship()
    ship.settings = HostSettings(roles={"judge": 0})
    ship.begin(replace(SHORT, notify=notify))
    ship.run_until(lambda: ship.view("v-1").run.cleared and not ship.crew, 600)
    run = ship.view("v-1").run
    assert (run.state, run.cause) == ("FAILED", "it may not run here: role judge may not run on this host")
    assert [len(ship.events(kind)) for kind in ("run_ended", "run_cleared", "notice_sent")] == [1, 1, told]
    assert not ship.read(lambda reader: reader.keys("active/"))


HEAVY = Shape(start_bytes=400 * MB, full_bytes=2 * GB, grow_s=300.0)


def seen_once(ship: Ship, names: str = "vw") -> None:
    """Each role of these pipelines was seen to take 2 GB once: that is not learnt, but it can come again."""

    def fn(tx: Tx) -> None:
        for name in names:
            for role in (WRITER, JUDGE, HELPERS):
                save(tx, MemoryProfile(harness=role.harness, pipeline=name, role=role.name, peaks={"all": (2 * GB,)}))

    ship.ledger.run(fn)


def heavy(names: str, machine: Host) -> Ship:
    """So many pipelines of three heavy agents each, all started at once."""
    ship = Ship(machine)
    ship.forms = dict.fromkeys(("writer", "helper-1", "helper-2"), HEAVY)
    ship.paces = dict.fromkeys(ship.forms, 600.0)
    seen_once(ship, names)
    crew = replace(IDLERS, roles=(WRITER, replace(HELPERS, count=2)))
    return ship.begin(*(replace(crew, name=name) for name in names))


@pytest.mark.parametrize(("size_gb", "runs"), [(24, 2), (40, 3)])
def test_f70_four_pipelines_at_once_on_a_machine_for_two_all_complete_without_red(size_gb: int, runs: int) -> None:
    """By its memory alone the smaller one holds two; by the number of agents it does not hold all of two at once. The
    larger one holds three as soon as it is learnt that writers rest while helpers work."""
    for_two = Host(size_bytes=size_gb * GB, base_bytes=4 * GB)
    ship = heavy("abcd", for_two)
    most = 0

    def all_over() -> bool:
        nonlocal most
        most = max(most, len(ship.permits("permit/simulated/run:")))
        return all(ship.view(run).run.cleared for run in ship.runs)

    ship.run_until(all_over, 24 * HOURS)
    ship.finish()
    assert most == runs
    assert "RED" not in [event.body["zone"] for event in ship.events("zone_changed")]
    assert ship.lowest_bytes > 0.1 * for_two.size_bytes
    assert not ship.events("agent_reclaimed") or all(s != "working" for _, _, s in ship.keeper.ended_agents)
    assert not ship.events("agent_restarted")
    assert [event.run for event in ship.events("run_admitted")] == ["a-1", "b-1", "c-1", "d-1"]
    assert ship.events("launch_held")


def test_f70_the_same_four_without_the_gate_run_the_machine_out_of_memory() -> None:
    ship = heavy("abcd", Host(size_bytes=1000 * GB, base_bytes=4 * GB))
    ship.settings = HostSettings(parallel=99, wave=99)
    ship.run_until(lambda: all(ship.view(run).run.cleared for run in ship.runs), 24 * HOURS)
    used = 1000 * GB - ship.lowest_bytes
    assert used > 0.9 * 24 * GB, "or the test before proves nothing"


def test_who_becomes_needed_while_it_waits_is_given_the_place_of_who_is_not_any_more(ship: Ship) -> None:
    """It was held when it had no work yet, for the same reason as afterwards."""
    ship.settings = HostSettings(agents=2)
    help_one = replace(HELP, address="one")
    phases = (SHORT.phases[0], Phase(name="help", dispatches=(help_one,)))
    roles = (WRITER, JUDGE, replace(HELPERS, count=1))
    ship.begin(replace(SHORT, roles=roles, phases=phases, deliverable=ByteCheck(path="draft.md")))
    ship.run_until(lambda: ship.held() == {"agent:v-1/helper": "agents"})
    ship.finish(DONE_S + 300)
    assert len(ship.events("agent_reclaimed")) == 1


def test_f71_a_fan_out_pauses_launches_and_ends_nobody(ship: Ship) -> None:
    ship.host = Host(size_bytes=64 * GB, base_bytes=4 * GB)
    ship.forms = {name: Shape(start_bytes=2 * GB, full_bytes=2 * GB, subagent_bytes=MB) for name in ("writer", "judge")}
    at_work(ship).pass_time(30)
    for number in range(10):
        ship.later(ship.now.mono + 6 * number, lambda: ship.agent().start_subagent("reviewer", 1200.0))
    ship.until("zone_changed", limit_s=120)
    assert ship.events("zone_changed")[0].body["sensor"] == "processes"
    ship.begin(replace(SHORT, name="w"))
    ship.pass_time(300)
    assert ship.held() == {"run:w-1": "zone"}
    assert len(ship.agent().running) == 10
    assert ship.keeper.ended_agents == []
    ship.run_until(lambda: ship.view("w-1").run.admitted is not None, 2 * HOURS)
    assert not ship.agent().running
    ship.paces.clear()
    ship.agent().recover()
    ship.finish()
    assert {one.incarnation for one in ship.clients.values()} == {1}
    assert {way for _, way, _ in ship.keeper.ended_agents} == {"clear"}


# The dispatcher may be killed at any instant.


@pytest.mark.parametrize("after", range(1, 13))
def test_a_dispatcher_killed_after_any_of_its_commits_leaks_no_permit_and_starts_nothing_twice(after: int) -> None:
    ship = Ship()
    ship.settings = HostSettings(parallel=1)
    commits = 0

    def count(berth: Berth) -> None:
        nonlocal commits
        commits += berth.name == "dispatcher"
        if berth.name == "dispatcher" and commits % after == 0 and commits < 4 * after:
            raise KilledInStepError

    ship.commits = count
    seen_once(ship)
    ship.work_s = 15.0
    ship.begin(SHORT, replace(SHORT, name="w"))

    def over() -> bool:
        if not any(berth.name in ("dispatcher", "captain") for berth in ship.crew):
            ship.hands.start_crew("dispatcher")  # the operator's unit
        return all(ship.view(run).run.cleared for run in ship.runs)

    ship.run_until(over, HOURS)
    ship.finish()
    assert sorted(ship.starts) == sorted(
        f"{kind}:{run}/{what}"
        for run in ship.runs
        for kind, what in (("agent", "writer"), ("agent", "judge"), ("gate", "1/counted"))
    )
    assert commits >= 3


def test_the_permits_of_a_run_that_the_operator_ends_are_free_for_the_next(ship: Ship) -> None:
    ship.settings = HostSettings(parallel=1)
    seen_once(ship)
    at_work(ship)
    ship.begin(replace(SHORT, name="w"))
    ship.run_until(lambda: ship.held() == {"run:w-1": "parallel"})
    ship.paces.clear()
    ship.order("v-1", "")
    ship.run_until(lambda: ship.view("w-1").run.cleared)
    assert ship.view("w-1").run.state == "COMPLETED"
    assert ship.view("v-1").run.cause == "killed by the operator"
    ship.run_until(lambda: not ship.permits() and not ship.held(), 10)
