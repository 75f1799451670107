"""Who makes room for whom: nobody waits for ever for a place that an idle one keeps, and nobody rests in vain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.ledger.records import load, load_all
from dogwatch.model import keys
from dogwatch.model.admission import WaitRecord
from dogwatch.model.keys import orders_queue
from dogwatch.model.memory import CYCLE_S, GB, IDLE_S, HostRecord, HostSettings
from dogwatch.model.plan import ByteCheck, Dispatch, Output, Phase, Plan
from dogwatch.policy.reclaim import ASKED_AGAIN_S
from dogwatch.sim.eyes import VirtualEyes
from dogwatch.sim.memory import Host, Shape
from unit.test_admission_virtual import (
    DRAFT,
    FULL,
    HELP,
    HELPERS,
    HOURS,
    IDLERS,
    JUDGE,
    LIMITS,
    MB,
    REVIEW,
    ROOMY,
    SHORT,
    TIGHT,
    WRITER,
    Ship,
    at_work,
    helpers,
    idle_for,
    lives,
)

TWO_REVIEWERS = Plan(
    name="v",
    roles=(WRITER, JUDGE, replace(HELPERS, count=1)),
    phases=(Phase(name="draft", dispatches=(DRAFT,), checkpoints=(replace(REVIEW, reviewers=("judge", "helper")),)),),
    deliverable=ByteCheck(path="draft.md"),
    limits=LIMITS,
)


@pytest.fixture
def ship() -> Ship:
    return Ship()


def host(ship: Ship) -> HostRecord:
    found = ship.read(lambda reader: load(reader, HostRecord, keys.host(reader.host)))
    assert found is not None
    return found


@pytest.mark.parametrize("settings", [HostSettings(agents=1), HostSettings(harnesses={"scripted": 1})])
def test_a_reviewer_that_has_voted_makes_room_for_the_next(ship: Ship, settings: HostSettings) -> None:
    ship.settings = settings
    ship.begin(TWO_REVIEWERS).finish(5 * HOURS)
    assert {way for _, way, _ in ship.keeper.ended_agents} <= {"dismiss", "clear"}
    assert all(turn == "idle" for _, way, turn in ship.keeper.ended_agents if way == "dismiss")


def test_a_reviewer_that_has_voted_is_not_what_keeps_memory_short_for_ever(ship: Ship) -> None:
    ship.paces["writer"] = HOURS
    ship.forms["helper"] = Shape(start_bytes=9 * GB, full_bytes=9 * GB)
    ship.begin(TWO_REVIEWERS)
    ship.run_until(lambda: lives(ship) and ship.agent().turn.state == "working")
    ship.pass_time(IDLE_S + 100)
    ship.agent("v-1/judge").body.shape = Shape(start_bytes=10 * GB, full_bytes=10 * GB)
    ship.become(FULL, "RED")
    assert ship.until("agent_reclaimed", limit_s=600)[0].agent == "judge"
    ship.host = ROOMY
    ship.agent().recover()
    ship.finish(5 * HOURS)


def test_who_may_not_rest_keeps_nobody_else_from_making_room(ship: Ship) -> None:
    ship.forms = {f"helper-{n}": Shape(start_bytes=n * GB, full_bytes=n * GB) for n in (1, 2, 3)}
    idle_for(ship)
    ship.agent("v-1/helper-3").attached = True
    ship.become(FULL, "RED")
    reclaimed = ship.until("agent_reclaimed", count=2, limit_s=5 * CYCLE_S)
    assert [event.agent for event in reclaimed] == ["helper-2", "helper-1"]
    assert {event.agent for event in ship.events("reclaim_refused")} == {"helper-3"}


def test_a_refused_order_is_not_repeated_all_the_time(ship: Ship) -> None:
    phases = (Phase(name="help", dispatches=(HELP,)), Phase(name="draft", dispatches=(DRAFT,)))
    ship.paces["writer"] = 2 * HOURS
    ship.begin(replace(IDLERS, phases=phases))
    ship.run_until(lambda: lives(ship) and ship.agent().turn.state == "working", 600)
    ship.agent("v-1/helper-1").attached = True
    ship.become(TIGHT, "YELLOW")
    ship.begin(replace(SHORT, name="w"))
    ship.pass_time(HOURS)
    assert 1 <= len(ship.events("reclaim_refused")) <= HOURS / ASKED_AGAIN_S + 1
    assert {event.agent for event in ship.events("agent_reclaimed")} == {"helper-2", "helper-3"}


def test_nobody_rests_for_a_place_that_it_does_not_have(ship: Ship) -> None:
    idle_for(ship)
    ship.paces["judge"] = 60
    ship.begin(replace(SHORT, name="w"))
    ship.run_until(lambda: lives(ship, "w-1/judge"), 100)
    ship.settings = HostSettings(roles={"judge": 0})
    ship.pass_time(30)
    ship.kill(ship.agent("w-1/judge").process)
    ship.pass_time(HOURS)
    assert ship.held() == {"agent:w-1/judge": "role"}
    assert not ship.events("order_given")


def test_nobody_rests_while_memory_only_has_to_stay_better_for_a_while(ship: Ship) -> None:
    ship.settings = HostSettings(calm_s=3600.0)
    idle_for(ship).become(FULL, "RED")
    ship.host = ROOMY
    ship.pass_time(1000)
    assert ship.zone() == "RED"
    assert len(ship.events("agent_reclaimed")) <= 1, "one was ordered before anybody had seen that it is better"


def test_what_one_agent_takes_for_a_moment_says_nothing_of_how_many_fit(ship: Ship) -> None:
    names = ("writer", *(f"helper-{number}" for number in range(1, 6)))
    ship.host = Host(size_bytes=64 * GB, base_bytes=4 * GB)
    ship.forms = dict.fromkeys(names, Shape(start_bytes=400 * MB, full_bytes=400 * MB))
    at_work(ship, replace(IDLERS, roles=(WRITER, replace(HELPERS, count=5))))
    ship.run_until(lambda: len(ship.starts) == 6)
    ship.pass_time(60)
    ship.agent().body.spikes.append((ship.now.mono + 100, ship.now.mono + 130, 40 * GB))
    ship.until("zone_changed", limit_s=300)
    ship.pass_time(600)
    assert host(ship).agent_bytes < GB
    assert ship.zone() == "GREEN"
    assert not ship.events("order_given")


def test_settings_that_nobody_could_ever_read_hold_everything(ship: Ship, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = "host.yaml: there is no setting 'agent'"
    monkeypatch.setattr(VirtualEyes, "settings", lambda self: (HostSettings(), problem))
    ship.begin(SHORT).pass_time(120)
    assert ship.held() == {"run:v-1": "blind"}
    (wait,) = ship.read(lambda reader: load_all(reader, WaitRecord, "waits/"))
    assert problem in wait.answer.reason
    monkeypatch.setattr(VirtualEyes, "settings", lambda self: (HostSettings(agents=5), ""))
    ship.run_until(lambda: lives(ship), 60)
    monkeypatch.setattr(VirtualEyes, "settings", lambda self: (HostSettings(), problem))
    ship.finish()
    assert host(ship).settings.agents == 5, "the last that could be read still hold"


@pytest.mark.parametrize("back_s", [0.0, 12 * HOURS])
def test_a_clock_that_is_behind_after_a_reboot_delays_nobody(ship: Ship, back_s: float) -> None:
    ship.settings = HostSettings(agents=1)
    ship.begin(SHORT)
    ship.run_until(lambda: ship.held() == {"agent:v-1/writer": "agents"}, 600)
    ship.pass_time(60)
    ship.reboot()
    ship.clock.step_wall(-back_s)
    ship.hands.start_crew("dispatcher")
    ship.finish(HOURS)


def test_red_after_such_a_reboot_sends_idle_workers_to_rest(ship: Ship) -> None:
    idle_for(ship).become(FULL, "RED")
    before = ship.until("agent_reclaimed", limit_s=300)
    ship.host = ROOMY
    ship.reboot()
    ship.clock.step_wall(-24 * HOURS)
    ship.hands.start_crew("dispatcher")
    ship.pass_time(900)
    ship.become(FULL, "RED")
    ship.until("agent_reclaimed", count=len(before) + 1, limit_s=2 * IDLE_S)


@pytest.mark.parametrize("resting", [2, 3])
def test_who_rests_comes_back_while_its_fellows_are_busy(resting: int) -> None:
    outputs = [Output(path=f"h{number}.md") for number in range(6)]
    pool = tuple(
        Dispatch(name=f"help{number}", to="helper", address="any", task="Help.", outputs=(output,))
        for number, output in enumerate(outputs)
    )
    ship = idle_for_plan(replace(IDLERS, phases=(IDLERS.phases[0], Phase(name="help", dispatches=pool))))
    ship.become(FULL, "RED")
    ship.until("agent_reclaimed", count=resting, limit_s=5 * CYCLE_S)
    ship.become(ROOMY, "GREEN")
    ship.paces = {f"helper-{number}": 1800.0 for number in (1, 2, 3)}
    ship.agent().recover()
    ship.run_until(lambda: all(one.lives and one.turn.state == "working" for one in helpers(ship)), 1800)


def idle_for_plan(plan: Plan) -> Ship:
    ship = Ship()
    at_work(ship, plan)
    ship.run_until(lambda: len(ship.starts) == 4)
    ship.pass_time(IDLE_S + 60)
    return ship


def test_who_waits_is_told_the_zone_as_it_is_now(ship: Ship) -> None:
    at_work(ship).become(TIGHT, "YELLOW")
    ship.begin(replace(SHORT, name="w")).pass_time(60)
    ship.become(FULL, "RED")
    ship.pass_time(60)
    (wait,) = ship.read(lambda reader: load_all(reader, WaitRecord, keys.waits(reader.host, "run")))
    assert wait.answer.reason.startswith("memory is RED")


def test_a_run_that_cannot_be_read_stops_nobody_who_looks_after_all(ship: Ship) -> None:
    idle_for(ship)
    ship.begin(replace(SHORT, name="w"))
    ship.run_until(lambda: lives(ship, "w-1/judge"), 100)
    ship.ledger.run(lambda tx: tx.put("plan/w-1", {"x": 1}))
    dispatcher = next(berth for berth in ship.crew if berth.name == "dispatcher")
    ship.host = FULL
    ship.clock.advance(30)
    dispatcher.step(ship)
    assert ship.zone() == "RED"
    assert len(ship.read(lambda reader: reader.items(orders_queue("v-1")))) == 1
