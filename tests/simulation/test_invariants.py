"""Every invariant really fires: the machine, the ledger or the crew is broken on purpose, and it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dogwatch.crew.captain.captain import Captain
from dogwatch.crew.dispatcher.dispatcher import Dispatcher
from dogwatch.ledger.api import Lease, Tx
from dogwatch.ledger.records import change, load_all, save
from dogwatch.model import keys
from dogwatch.model.admission import Launch, PermitRecord
from dogwatch.model.brief import Header
from dogwatch.model.memory import HostSettings
from dogwatch.model.records import RunRecord
from dogwatch.sim.agents import VirtualAgent
from dogwatch.sim.berths import Berth
from dogwatch.sim.hands import VirtualCrewHands, VirtualHands
from dogwatch.sim.invariants import INVARIANTS
from dogwatch.sim.scenarios import Drawn, Setup
from dogwatch.sim.simulation import Simulation
from dogwatch.testing.events import PlainEvent

RUN = "sim-1"
SEED = 0
BOUND_S = 600.0


class Roomy(Drawn):
    """One run with enough memory for everybody, and no cap but those that a test sets."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.settings = HostSettings(parallel=0, wave=0)
        self.host = replace(self.host, size_bytes=10**12)


def machine() -> Simulation:
    """A simulation in which nothing goes wrong by itself."""
    made = Simulation(Setup(seed=SEED, runs=1, agents=3, hours=0.5), Roomy, with_faults=False)
    made.begin()
    return made


def go(made: Simulation, fact: Callable[[], bool]) -> None:
    """Until something is so."""
    made.run_until(fact, BOUND_S)


def at_work(made: Simulation) -> VirtualAgent:
    """The first agent that is at work on something."""
    go(made, lambda: any(one.turn.state == "working" for one in made.clients.values()))
    return next(one for one in made.clients.values() if one.turn.state == "working")


def captain(made: Simulation) -> Berth:
    found = made.berth("captain", RUN)
    assert found is not None
    return found


def write(made: Simulation, fn: Callable[[Tx], object]) -> None:
    made.ledger.run(fn)
    made.ring()


def remove(made: Simulation, key: str) -> None:
    """A document is gone, and something else has happened."""

    def fn(tx: Tx) -> None:
        tx.delete(key)
        tx.append(PlainEvent("heartbeat_received", {}, run=RUN))

    write(made, fn)


def kill_the_healthy(made: Simulation) -> None:
    """A captain that gives an agent up because it has not heard of it for a moment."""
    agent = at_work(made)
    body = {"reason": "stalled", "evidence": [], "incarnation": agent.incarnation + 1, "backoff_s": 0.0}
    write(made, lambda tx: tx.append(PlainEvent("agent_restarted", body, run=RUN, agent=agent.name)))


def kill_who_waits_for_a_person(made: Simulation) -> None:
    agent = at_work(made)
    agent.do("dialog", Header("m0", "dispatch", "p0-0"), "")
    body = {"reason": "stalled", "evidence": [], "incarnation": agent.incarnation + 1, "backoff_s": 0.0}
    write(made, lambda tx: tx.append(PlainEvent("agent_restarted", body, run=RUN, agent=agent.name)))


def end_without_a_word(made: Simulation) -> None:
    agent = at_work(made)
    record = made.view(RUN).agents[agent.name]
    VirtualHands(made, "captain", RUN).dismiss(record)


def clear_a_run_that_goes_on(made: Simulation) -> None:
    at_work(made)
    VirtualHands(made, "captain", RUN).clear(RUN, [])


def end_somebody_elses_agent(made: Simulation) -> None:
    agent = at_work(made)
    record = made.view(RUN).agents[agent.name]
    VirtualHands(made, "captain", "sim-2").dismiss(record)


def watchdog_with_hands(made: Simulation) -> None:
    at_work(made)
    VirtualCrewHands(made, "watchdog", RUN).end_silent_crew(captain(made).process)


def end_a_captain_at_work(made: Simulation) -> None:
    at_work(made)
    VirtualCrewHands(made, "dispatcher").end_silent_crew(captain(made).process)


def start_twice(made: Simulation) -> None:
    agent = at_work(made)
    view = made.view(RUN)
    del made.clients[agent.key]
    VirtualHands(made, "captain", RUN).spawn(view.run, view.plan, view.agents[agent.name])


def leave_the_old_one_alive(made: Simulation) -> None:
    agent = at_work(made)
    view = made.view(RUN)
    made.past.append(made.clients.pop(agent.key))
    record = replace(view.agents[agent.name], incarnation=2)
    VirtualHands(made, "captain", RUN).spawn(view.run, view.plan, record)


def go_back_to_an_earlier_incarnation(made: Simulation) -> None:
    agent = at_work(made)
    write(made, lambda tx: tx.append(PlainEvent("agent_spawned", {"incarnation": 0}, run=RUN, agent=agent.name)))


def look_away_at_the_cap(made: Simulation) -> None:
    """The operator allows fewer agents than there are, and the dispatcher does not see it."""
    made.settings = HostSettings(parallel=0, wave=0)
    made.invariants.settings = HostSettings(agents=1)
    at_work(made)


def grant_too_much(made: Simulation) -> None:
    at_work(made)
    made.invariants.settings = HostSettings(agents=2)


def take_a_permit_away(made: Simulation) -> None:
    agent = at_work(made)
    go(made, lambda: bool(made.ledger.read(lambda r: load_all(r, PermitRecord, keys.permits(r.host, "agent")))))
    remove(made, keys.permit(made.ledger.host, f"agent:{agent.key}"))


def grant_twice(made: Simulation) -> None:
    agent = at_work(made)
    launch = Launch(kind="agent", holder=f"agent:{agent.key}#2", run=RUN, agent=agent.name)
    permit = PermitRecord(host=made.ledger.host, launch=launch, granted=made.now, process=agent.process)

    def fn(tx: Tx) -> None:
        save(tx, permit)
        tx.append(PlainEvent("heartbeat_received", {}, run=RUN))

    write(made, fn)


def lose_a_task(made: Simulation) -> None:
    at_work(made)
    name = next(iter(made.view(RUN).tasks))
    go(made, lambda: RUN in made.invariants.tasks)
    remove(made, f"task/{RUN}/{name}")


def complete_without_the_work(made: Simulation) -> None:
    at_work(made)
    write(made, lambda tx: change(tx, RunRecord, f"run/{RUN}", lambda r: replace(r, state="COMPLETED", cleared=True)))


def never_end(made: Simulation) -> None:
    """Nobody is there to end it."""
    at_work(made)
    made.crew.clear()


def end_without_a_cause(made: Simulation) -> None:
    at_work(made)
    write(made, lambda tx: tx.append(PlainEvent("run_ended", {"state": "FAILED", "cause": ""}, run=RUN)))


def stand_still(made: Simulation) -> None:
    """All agents are idle and well, and nothing is done for as long as the run may take."""
    go(made, lambda: len(made.clients) == 3)
    made.run_until(lambda: made.elapsed_s > 1, 10)
    for agent in made.clients.values():
        agent.due, agent.turn, agent.ill = [], replace(agent.turn, state="idle", newest=0.0), ""
    made.last_fault_s = -1000.0
    body = {"state": "FAILED", "cause": "no progress for 900 s"}
    write(made, lambda tx: tx.append(PlainEvent("run_ended", body, run=RUN)))


def change_what_was_delivered(made: Simulation) -> None:
    at_work(made)
    go(made, lambda: made.view(RUN).run.cleared)
    run, plan = made.view(RUN).run, made.view(RUN).plan
    made.write(f"{run.output}/{plan.deliverable.path}", b"something else")


def clear_and_leave_one(made: Simulation) -> None:
    at_work(made)
    write(made, lambda tx: tx.append(PlainEvent("run_cleared", {"processes": 0}, run=RUN)))


def keep_a_permit(made: Simulation) -> None:
    launch = Launch(kind="process", holder="process:1@1")
    body = {"launch": {"kind": launch.kind, "holder": launch.holder, "run": ""}, "granted": [], "left": True}
    go(made, made.is_over)
    made.ledger.run(lambda tx: tx.put(keys.permit(tx.host, "process:1@1"), body))


def tell_a_tier_twice(made: Simulation) -> None:
    agent = at_work(made)
    alert = {"stall": "#1:hang:1", "tier": 1, "action": ""}
    for number in ("a", "b"):
        told = {**alert, "alert": f"{agent.name}#1:hang:1:{number}"}
        event = PlainEvent("alert_raised", told, run=RUN, agent=agent.name)
        write(made, lambda tx, event=event: tx.append(event))  # type: ignore[misc]


def ask_for_the_same_again_and_again(made: Simulation) -> None:
    agent = at_work(made)
    alert = {"stall": "#1:x", "tier": 0, "action": "NUDGE"}
    for number in range(2):
        told = {**alert, "alert": f"{agent.name}#1:x/{number}"}
        event = PlainEvent("alert_raised", told, run=RUN, agent=agent.name)
        write(made, lambda tx, event=event: tx.append(event))  # type: ignore[misc]


def go_back_with_a_fence(made: Simulation) -> None:
    at_work(made)
    berth = captain(made)
    assert isinstance(berth.member, Captain)
    lease: Lease = berth.member.lease
    made.witness.joined(berth, replace(lease, fence=lease.fence))


def use_an_operation_twice(made: Simulation) -> None:
    at_work(made)
    event = made.events()[-1]
    made.seen(replace(event, op_id="the-same"))
    made.seen(replace(event, op_id="the-same"))


def type_twice(made: Simulation) -> None:
    agent = at_work(made)
    agent.composer = agent.prompts[-1]
    agent.submit()


def record_what_nobody_knows(made: Simulation) -> None:
    at_work(made)
    write(made, lambda tx: tx.append(PlainEvent("something_happened", {}, run=RUN)))


def break_a_step(made: Simulation) -> None:
    at_work(made)

    def fails(world: object, ledger: object, now: object) -> float:
        raise ZeroDivisionError("for the test")

    berth = made.berth("dispatcher")
    assert berth is not None
    assert isinstance(berth.member, Dispatcher)
    berth.member.step = fails  # type: ignore[method-assign]
    made.ring()


def break_a_call(made: Simulation) -> None:
    agent = at_work(made)
    made.note('{"member": "captain", "run": "sim-1", "event": "request_failed", "error": "KeyError: 1"}')
    assert agent.lives


def change_a_record(made: Simulation) -> None:
    at_work(made)
    document = made.ledger.read(lambda reader: reader.get(f"run/{RUN}"))
    assert document is not None
    document.body["spec"] = "another"  # type: ignore[index]


BREAKS: tuple[tuple[str, Callable[[Simulation], None]], ...] = (
    ("no_healthy_agent_killed", kill_the_healthy),
    ("no_healthy_agent_killed", kill_who_waits_for_a_person),
    ("every_end_is_recorded", end_without_a_word),
    ("every_end_is_recorded", clear_a_run_that_goes_on),
    ("kill_table_holds", end_somebody_elses_agent),
    ("kill_table_holds", watchdog_with_hands),
    ("no_healthy_crew_ended", end_a_captain_at_work),
    ("one_process_for_each_incarnation", start_twice),
    ("one_process_for_each_incarnation", leave_the_old_one_alive),
    ("incarnations_only_grow", go_back_to_an_earlier_incarnation),
    ("caps_hold", look_away_at_the_cap),
    ("caps_hold", grant_too_much),
    ("permits_are_for_one", take_a_permit_away),
    ("permits_are_for_one", grant_twice),
    ("no_task_is_lost", lose_a_task),
    ("no_task_is_lost", complete_without_the_work),
    ("every_run_ends", never_end),
    ("every_run_ends", end_without_a_cause),
    ("no_run_stands_still", stand_still),
    ("what_is_delivered_is_there", change_what_was_delivered),
    ("nothing_is_left", clear_and_leave_one),
    ("nothing_is_left", keep_a_permit),
    ("one_alert_for_each_tier_and_stall", tell_a_tier_twice),
    ("one_alert_for_each_tier_and_stall", ask_for_the_same_again_and_again),
    ("fences_only_grow", go_back_with_a_fence),
    ("operations_are_unique", use_an_operation_twice),
    ("messages_arrive_once", type_twice),
    ("events_are_known", record_what_nobody_knows),
    ("steps_can_be_made", break_a_step),
    ("steps_can_be_made", break_a_call),
    ("records_are_not_changed", change_a_record),
)


def test_without_a_break_nothing_is_found() -> None:
    result = Simulation(Setup(seed=SEED, runs=1, agents=3, hours=0.5), Roomy, with_faults=False).run()
    assert [str(violation) for violation in result.violations] == []


@pytest.mark.parametrize(("name", "break_it"), BREAKS, ids=[broken.__name__ for _, broken in BREAKS])
def test_it_fires(name: str, break_it: Callable[[Simulation], None]) -> None:
    made = machine()
    break_it(made)
    if made.crew or made.open_runs:
        made.at(made.elapsed_s + 30, lambda: None)
        until = made.elapsed_s + 30
        while made.elapsed_s < until and not any(one.name == name for one in made.invariants.found):
            made.tick()
    made.invariants.finish()
    assert name in {one.name for one in made.invariants.found}


def test_every_invariant_has_a_break() -> None:
    assert {name for name, _ in BREAKS} == set(INVARIANTS)


def test_a_name_that_is_no_invariant_is_refused() -> None:
    with pytest.raises(KeyError):
        machine().invariants.broken("whatever", "")
