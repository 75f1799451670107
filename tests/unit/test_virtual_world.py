"""The crew on a machine that is not there: whole pipelines in virtual time, with the very steps of the real crew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.coordination.runs import create_run
from dogwatch.coordination.usage import AgentTally
from dogwatch.ledger.api import Store
from dogwatch.model.brief import Header
from dogwatch.model.keys import orders_queue
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Gate, Limits, Output, Phase, Plan, Role
from dogwatch.model.tally import Tally, Tokens
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine, Script, VirtualAgent

DRAFT = Dispatch(name="draft", to="writer", task="Write.", outputs=(Output(path="draft.md"),))
FINAL = Dispatch(name="final", to="writer", task="Finish.", outputs=(Output(path="final.md"),))
COLLECT = Dispatch(name="collect", to="worker", address="any", task="Collect.", outputs=(Output(path="data.csv"),))
REVIEW = Checkpoint(name="review", artifact="draft.md", author="draft", reviewers=("judge",))
WRITER, JUDGE = Role(name="writer", harness="scripted"), Role(name="judge", harness="scripted")
WORKERS = Role(name="worker", harness="scripted", count=2)
LIMITS = Limits(nudge_s=10.0, peek_s=10.0, restarts_max=2, restart_backoff_s=1.0, deadline_s=500.0)


def plan(*phases: Phase, roles: tuple[Role, ...] = (WRITER, JUDGE), path: str = "draft.md") -> Plan:
    return Plan(name="v", roles=roles, phases=phases, deliverable=ByteCheck(path=path), limits=LIMITS)


def begin(ledger: Store, clock: ManualClock, what: Plan, script: Script = lambda agent, header: "") -> Machine:
    """A machine with one run and a dispatcher, as `dogwatch run` leaves it."""
    ledger.run(lambda tx: create_run(tx, what, "/project", "/out", "/pipeline.yaml"))
    machine = Machine(ledger, clock, script)
    machine.hands.start_crew("dispatcher")
    return machine


def finish(machine: Machine, limit_s: float = 600.0) -> tuple[str, str]:
    machine.run_until(lambda: machine.view("v-1").run.cleared, limit_s)
    assert machine.failures == [], "a step or a request failed"
    run = machine.view("v-1").run
    return run.state, run.cause


def by_incarnation(agent: str, deed: str, until: int = 1, kind: str = "dispatch") -> Script:
    """The agent does this deed with messages of the kind up to that incarnation, and what is usual later."""

    def script(who: VirtualAgent, header: Header) -> str:
        return deed if who.name == agent and header.kind == kind and who.incarnation <= until else ""

    return script


THREE_PHASES = plan(
    Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,)),
    Phase(name="gated", gates=(Gate(name="counted", command=("true",)),)),
    Phase(name="final", dispatches=(FINAL,)),
    path="final.md",
)


def test_a_whole_pipeline_is_completed_in_virtual_time(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES)
    assert finish(machine, 60) == ("COMPLETED", "")
    assert [e.body["phase"] for e in machine.events("phase_ended")] == ["draft", "gated", "final"]
    assert machine.cleared == ["v-1"]
    assert [agent.incarnation for agent in machine.agents.values()] == [1, 1]
    assert not machine.events("alert_raised")


def test_an_agent_that_dies_is_replaced_and_its_task_is_done_by_its_successor(
    ledger: Store, clock: ManualClock
) -> None:
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("writer", "die"))
    assert finish(machine, 60) == ("COMPLETED", "")
    assert [e.body["diagnosis"] for e in machine.events("alert_raised")] == ["exited"]
    assert [e.body["incarnation"] for e in machine.events("agent_spawned", "writer")] == [1, 2]
    assert len(machine.events("agent_spawned", "judge")) == 1


def test_an_agent_that_falls_silent_is_nudged_once_after_the_threshold_and_goes_on(
    ledger: Store, clock: ManualClock
) -> None:
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("writer", "silent"))
    machine.run_until(lambda: bool(machine.events("agent_nudged")))
    silent, nudged = machine.events("message_delivered", "writer")[0], machine.events("agent_nudged")[0]
    assert LIMITS.nudge_s <= nudged.at.since(silent.at) < LIMITS.nudge_s + 2 * LIMITS.sweep_s + 2
    assert finish(machine, 120)[0] == "COMPLETED"
    assert len([e for e in machine.events("message_delivered") if e.body["kind"] == "nudge"]) == 2
    assert not machine.events("agent_restarted")


def test_a_lost_report_is_rescued_and_nobody_is_restarted(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("writer", "lose_report"))
    assert finish(machine, 120)[0] == "COMPLETED"
    assert [e.body["task"] for e in machine.events("task_rescued")] == ["draft", "final"]
    assert not machine.events("agent_restarted")


def test_neither_long_work_nor_having_nothing_to_do_is_a_reason_to_act(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, plan(Phase(name="draft", dispatches=(DRAFT,))))
    machine.work_s = 40 * LIMITS.nudge_s
    assert finish(machine)[0] == "COMPLETED"
    assert not machine.events("alert_raised")
    assert not machine.events("agent_restarted")


@pytest.mark.parametrize("member", ["captain", "watchdog", "dispatcher"])
def test_a_crew_member_that_is_killed_is_replaced_and_nothing_is_done_twice(
    ledger: Store, clock: ManualClock, member: str
) -> None:
    machine = begin(ledger, clock, THREE_PHASES)
    machine.run_until(lambda: bool(machine.events("task_dispatched")))
    machine.kill(machine.member(member))
    assert finish(machine, 120)[0] == "COMPLETED"
    assert [e.body["member"] for e in machine.events("crew_lost")] == [member]
    assert [e.body["member"] for e in machine.events("crew_revived")] == [member]
    assert [len(agent.prompts) for agent in machine.agents.values()] == [1, 2]
    assert len(machine.events("agent_spawned")) == 2


def test_a_captain_that_lives_and_does_nothing_is_ended_and_replaced(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES)
    machine.run_until(lambda: bool(machine.events("task_dispatched")))
    stuck = machine.member("captain")
    berth = next(berth for berth in machine.crew if berth.process == stuck)
    berth.step = lambda machine: setattr(berth, "due", machine.now.mono + 1)  # type: ignore[method-assign]
    assert finish(machine, 120)[0] == "COMPLETED"
    assert stuck not in machine.alive
    assert [e.body["member"] for e in machine.events("crew_silent")] == ["captain"]


def test_an_agent_that_always_dies_is_given_up_and_the_run_fails_with_that_cause(
    ledger: Store, clock: ManualClock
) -> None:
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("writer", "die", until=99))
    state, cause = finish(machine, 600)
    assert state == "FAILED"
    assert "writer failed 3 times" in cause
    assert len(machine.events("agent_spawned", "writer")) == 3


def test_the_deadline_ends_a_run_in_which_nothing_moves(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES)
    machine.run_until(lambda: bool(machine.agents) and bool(machine.agents["writer"].prompts))
    machine.agents["writer"].due = []
    state, cause = finish(machine, 800)
    assert (state, cause) == ("FAILED", "deadline: not finished within 500 s")


def test_a_suspended_machine_ends_with_nobody_restarted(ledger: Store, clock: ManualClock) -> None:
    """The wall clock jumps by hours while no time passes."""
    machine = begin(ledger, clock, THREE_PHASES)
    machine.run_until(lambda: bool(machine.events("task_dispatched")))
    clock.step_wall(7 * 3600)
    assert finish(machine, 120)[0] == "COMPLETED"
    assert not machine.events("alert_raised")


def test_a_reviewer_that_was_given_up_fails_the_review_and_not_the_captain(ledger: Store, clock: ManualClock) -> None:
    """The reviewer is lost before anybody asks it."""
    machine = begin(ledger, clock, THREE_PHASES)

    def kill_judge() -> bool:
        judge = machine.agents.get("judge")
        if judge is not None and judge.process in machine.alive and machine.view("v-1").agents["judge"].running:
            machine.kill(judge.process)
        return machine.view("v-1").agents["judge"].state == "ERROR" if machine.agents else False

    machine.script = by_incarnation("writer", "silent", kind="dispatch")
    machine.run_until(kill_judge)
    state, cause = finish(machine)
    assert state == "FAILED"
    assert "review" in cause


def test_a_task_for_any_holder_goes_to_the_other_when_its_first_holder_was_given_up(
    ledger: Store, clock: ManualClock
) -> None:
    what = plan(Phase(name="collect", dispatches=(COLLECT,)), roles=(WORKERS,), path="data.csv")
    machine = begin(ledger, clock, replace(what, limits=replace(LIMITS, restarts_max=0)))
    machine.run_until(lambda: bool(machine.events("task_claimed")))
    first = machine.events("task_claimed")[0].agent
    machine.kill(machine.agents[first].process)
    assert finish(machine)[0] == "COMPLETED"
    assert machine.events("task_accepted")[0].agent != first


def test_the_path_of_an_offered_task_is_that_of_the_agent_that_does_it_in_the_end(
    ledger: Store, clock: ManualClock
) -> None:
    named = replace(COLLECT, outputs=(Output(path="{agent}.csv"), Output(path="data.csv")))
    what = plan(Phase(name="collect", dispatches=(named,)), roles=(WORKERS,), path="data.csv")
    machine = begin(ledger, clock, what)
    machine.run_until(lambda: bool(machine.events("task_claimed")))
    first = machine.events("task_claimed")[0].agent
    machine.kill(machine.agents[first].process)
    assert finish(machine)[0] == "COMPLETED"
    done = machine.events("task_accepted")[0].agent
    assert f"/out/v-1/{done}.csv" in machine.files


def test_an_order_to_kill_an_agent_that_was_given_up_does_not_stop_the_captain(
    ledger: Store, clock: ManualClock
) -> None:
    what = plan(Phase(name="draft", dispatches=(DRAFT,)))
    machine = begin(ledger, clock, what, by_incarnation("writer", "silent"))

    def kill_judge() -> bool:
        judge = machine.agents.get("judge")
        if judge is not None and judge.process in machine.alive:
            machine.kill(judge.process)
        return bool(machine.agents) and machine.view("v-1").agents["judge"].state == "ERROR"

    machine.run_until(kill_judge)
    ledger.run(lambda tx: tx.push(orders_queue("v-1"), {"agent": "judge", "cause": "", "by": "operator"}, "o1"))
    machine.ring()
    assert finish(machine)[0] == "COMPLETED"


def test_an_agent_killed_by_the_operator_more_often_than_it_may_fail_gets_its_next_incarnation(
    ledger: Store, clock: ManualClock
) -> None:
    """An operator's kill is no failure of the agent."""
    what = plan(Phase(name="draft", dispatches=(DRAFT,)))
    machine = begin(ledger, clock, what, by_incarnation("writer", "silent", until=9))
    for number in range(LIMITS.restarts_max + 1):
        machine.run_until(lambda number=number: len(machine.events("task_dispatched")) > number)  # type: ignore[misc]
        ledger.run(lambda tx, n=number: tx.push(orders_queue("v-1"), {"agent": "writer"}, f"o{n}"))  # type: ignore[misc]
        machine.ring()
    machine.run_until(lambda: len(machine.events("agent_restarted")) > LIMITS.restarts_max)
    assert not machine.events("agent_quarantined")


def test_a_phase_of_only_checkpoints_is_reviewed(ledger: Store, clock: ManualClock) -> None:
    machine = begin(
        ledger, clock, plan(Phase(name="draft", dispatches=(DRAFT,)), Phase(name="review", checkpoints=(REVIEW,)))
    )
    assert finish(machine)[0] == "COMPLETED"
    assert [e.body["state"] for e in machine.events("checkpoint_closed")] == ["approved"]


def test_a_revision_asked_for_in_a_later_phase_reaches_the_author_before_the_next_round(
    ledger: Store, clock: ManualClock
) -> None:
    final = Phase(name="final", dispatches=(FINAL,), checkpoints=(REVIEW,))
    rounds: list[int] = []

    def script(who: VirtualAgent, header: Header) -> str:
        if header.kind != "checkpoint":
            return ""
        rounds.append(len(rounds) + 1)
        return "revise" if len(rounds) == 1 else "approve"

    machine = begin(ledger, clock, plan(Phase(name="draft", dispatches=(DRAFT,)), final), script)
    assert finish(machine)[0] == "COMPLETED"
    drafts = [e for e in machine.events("task_dispatched") if e.body["task"] == "draft"]
    assert len(drafts) == 2, "the author was never told to revise"
    second = next(e for e in machine.events("checkpoint_asked") if e.body["round"] == 2)
    assert drafts[1].at.mono < second.at.mono
    assert machine.view("v-1").tasks["draft"].state == "accepted"


@pytest.mark.parametrize("acknowledged", [False, True])
def test_mail_that_is_read_while_it_is_being_typed_does_not_block_the_composer(
    ledger: Store, clock: ManualClock, acknowledged: bool
) -> None:
    """A tool of the agent reads its mail, and may deal with it, in the very moment between paste and Enter."""
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("judge", "hold", kind="never"))
    machine.run_until(lambda: bool(machine.events("task_dispatched")))
    machine.agents["writer"].call("mail_send", to="judge", text="the draft comes soon")
    machine.run_until(lambda: machine.agents["judge"].composer != "")
    machine.agents["judge"].call("mail_read")
    if acknowledged:
        (letter,) = [e.body["message"] for e in machine.events("message_sent", "judge") if e.body["kind"] == "mail"]
        machine.agents["judge"].call("mail_ack", message=letter)
    assert finish(machine)[0] == "COMPLETED"


def test_a_letter_that_was_read_together_with_another_is_not_forgotten(ledger: Store, clock: ManualClock) -> None:
    """It comes while the agent reads the first one: the agent sees it, was never told of it, and answers the first."""
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("writer", "silent"))
    machine.run_until(lambda: bool(machine.events("task_dispatched")))
    machine.agents["writer"].call("mail_send", to="judge", text="the first")
    machine.run_until(lambda: bool(machine.agents["judge"].prompts))
    machine.agents["writer"].call("mail_send", to="judge", text="the second")
    assert finish(machine)[0] == "COMPLETED"
    read = [e.body["message"] for e in machine.events("message_read", "judge")]
    assert len(read) == 2
    delivered = [e.body["message"] for e in machine.events("message_delivered", "judge") if e.body["kind"] == "mail"]
    assert delivered == read[:1], "the second was read before it was told of"
    assert {e.body["message"] for e in machine.events("message_acknowledged", "judge")} == set(read)


def test_an_ignored_letter_keeps_nobody_from_being_asked_for_the_next_one(ledger: Store, clock: ManualClock) -> None:
    def script(who: VirtualAgent, header: Header) -> str:
        if who.name == "writer":
            return "dialog"
        letters = [e.body["message"] for e in machine.events("message_sent", "judge") if e.body["kind"] == "mail"]
        return "silent" if header.kind == "mail" or header.subject == letters[0] else ""

    machine = begin(ledger, clock, THREE_PHASES, script)
    machine.run_until(lambda: bool(machine.events("message_sent")))
    machine.agents["writer"].call("mail_send", to="judge", text="the first")
    machine.run_until(lambda: len(machine.events("agent_nudged", "judge")) == LIMITS.nudges_max)
    machine.agents["writer"].call("mail_send", to="judge", text="the second")
    finish(machine)
    first, second = [e.body["message"] for e in machine.events("message_sent", "judge") if e.body["kind"] == "mail"]
    nudged = [e.body["subject"] for e in machine.events("agent_nudged", "judge")]
    assert nudged == [first] * LIMITS.nudges_max + [second]
    assert [e.body["message"] for e in machine.events("message_acknowledged", "judge")] == [second]


def test_a_letter_that_nobody_answers_does_not_hide_a_review(ledger: Store, clock: ManualClock) -> None:
    def script(who: VirtualAgent, header: Header) -> str:
        if who.name == "writer":
            return ""
        letters = [e.body["message"] for e in machine.events("message_sent", "judge") if e.body["kind"] == "mail"]
        return "silent" if header.kind in ("mail", "checkpoint") or header.subject in letters else ""

    machine = begin(ledger, clock, THREE_PHASES, script)
    machine.run_until(lambda: any(e.body["kind"] == "checkpoint" for e in machine.events("message_delivered", "judge")))
    machine.agents["writer"].call("mail_send", to="judge", text="what do you think?")
    assert finish(machine)[0] == "COMPLETED"
    assert machine.events("agent_nudged", "judge")[0].body["subject"] == "review"
    assert len(machine.events("agent_spawned", "judge")) == 1


@pytest.mark.parametrize("kind", ["mail", "offer"])
def test_who_answers_no_letter_and_takes_no_offer_is_asked_as_often_as_may_be_and_then_left_alone(
    ledger: Store, clock: ManualClock, kind: str
) -> None:
    def script(who: VirtualAgent, header: Header) -> str:
        return "dialog" if who.name == "writer" else "silent"

    pools = plan(Phase(name="collect", dispatches=(COLLECT,)), roles=(WORKERS, JUDGE), path="data.csv")
    machine = begin(ledger, clock, THREE_PHASES if kind == "mail" else pools, script)
    machine.run_until(lambda: bool(machine.events("message_sent")))
    if kind == "mail":
        machine.agents["writer"].call("mail_send", to="judge", text="what do you think?")
    finish(machine)
    asked = "judge" if kind == "mail" else "worker-1"
    assert len(machine.events("agent_nudged", asked)) == LIMITS.nudges_max
    assert len(machine.events("agent_spawned", asked)) == 1
    assert len(machine.events("alert_raised", asked)) <= LIMITS.nudges_max + 3, "one for each nudge and each tier"


def test_mail_sent_again_with_the_same_operation_after_the_receiver_was_replaced_arrives_once(
    ledger: Store, clock: ManualClock
) -> None:
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("writer", "silent"))
    machine.run_until(lambda: bool(machine.events("task_dispatched")))
    machine.agents["writer"].call("mail_send", to="judge", text="once", op_id="the-same")
    machine.run_until(lambda: bool(machine.events("message_acknowledged")))
    machine.kill(machine.agents["judge"].process)
    machine.run_until(lambda: len(machine.events("agent_spawned", "judge")) == 2)
    machine.agents["writer"].call("mail_send", to="judge", text="once", op_id="the-same")
    assert finish(machine)[0] == "COMPLETED"
    sent = [e for e in machine.events("message_sent", "judge") if e.body["kind"] == "mail"]
    assert len(sent) == 1


def test_a_replaced_reviewer_is_asked_again_and_its_answer_counts(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("judge", "die", kind="checkpoint"))
    assert finish(machine)[0] == "COMPLETED"
    assert [e.body["round"] for e in machine.events("checkpoint_answered")] == [1]
    assert machine.agents["judge"].incarnation == 2


def test_a_review_whose_reviewer_is_lost_between_two_rounds_is_told_to_have_failed(
    ledger: Store, clock: ManualClock
) -> None:
    def objects(who: VirtualAgent, header: Header) -> str:
        if who.name != "judge" or header.kind != "checkpoint":
            return ""
        who.call("checkpoint", checkpoint="review", verdict="revise", note="too short")
        return "objected"

    machine = begin(ledger, clock, THREE_PHASES, objects)
    machine.run_until(lambda: bool(machine.events("checkpoint_answered")))
    machine.work_s = 200.0
    machine.mishap = lambda what, agent: "fail" if what == "spawn" else ""
    machine.kill(machine.agents["judge"].process)
    assert finish(machine)[1].startswith("checkpoint review failed: reviewer judge is lost")
    assert [e.body["state"] for e in machine.events("checkpoint_closed")] == ["revised", "failed"]


def test_a_task_that_fails_as_often_as_it_may_ends_the_run_with_its_reason(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES, by_incarnation("writer", "fail"))
    assert finish(machine) == ("FAILED", "task draft failed: it cannot be done")
    assert [e.body["attempt"] for e in machine.events("task_dispatched")] == [1, 2]


def test_a_report_that_does_not_stand_is_an_error_of_the_agents(ledger: Store, clock: ManualClock) -> None:
    def lie(agent: VirtualAgent, header: Header) -> str:
        if header.kind != "dispatch" or len(agent.prompts) > 1:
            return ""
        agent.call("report", task=header.subject, result="done")
        return "lied"

    machine = begin(ledger, clock, plan(Phase(name="draft", dispatches=(DRAFT,))), lie)
    assert finish(machine)[0] == "COMPLETED"
    [error] = machine.events("agent_error")
    assert (error.agent, error.body["type"], error.body["severity"]) == ("writer", "validation_failure", "warning")
    assert "draft.md" in error.body["message"]


def test_what_was_used_is_on_the_ledger_when_the_run_is_cleared(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, plan(Phase(name="draft", dispatches=(DRAFT,))))
    machine.run_until(lambda: bool(machine.events("task_accepted")))
    machine.tallies["writer"] = AgentTally(incarnations={"1": Tally(own={"opus": Tokens(3, 30, 3, 0, 0)})})
    finish(machine)
    told = [(event.agent, event.body["calls"]) for event in machine.events("usage_recorded")]
    assert told == [("writer", 3), ("", 3)]
