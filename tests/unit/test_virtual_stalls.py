"""Agents that give no sign of life, in virtual time: probed, restarted, replaced, and in the end given up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.coordination.mail import INBOX_MAX
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load_all
from dogwatch.model.brief import Header
from dogwatch.model.plan import Limits, Phase, Plan
from dogwatch.model.records import DecisionRecord
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine, VirtualAgent
from unit.test_virtual_world import DRAFT, REVIEW, THREE_PHASES, begin, finish, plan

LIMITS = Limits(
    nudge_s=10.0,
    peek_s=10.0,
    claim_s=60.0,
    probe_s=30.0,
    unresponsive_s=60.0,
    restarts_max=5,
    restart_backoff_s=1.0,
    deadline_s=3000.0,
)


def with_limits(what: Plan, **changes: float) -> Plan:
    return replace(what, limits=replace(LIMITS, **changes))  # type: ignore[arg-type]


def hangs(agent: VirtualAgent, header: Header) -> str:
    """The writer hangs over every dispatch, whatever incarnation it is; who replaces it does not."""
    return "hang" if agent.name == "writer" and header.kind == "dispatch" else ""


def outcomes(machine: Machine) -> list[tuple[str, str]]:
    found = machine.ledger.read(lambda reader: load_all(reader, DecisionRecord, "decision/v-1/"))
    return [(one.action, one.outcome) for one in sorted(found, key=lambda one: one.at.mono)]


def test_a_hang_is_probed_after_its_claim_and_restarted_only_without_an_answer(
    ledger: Store, clock: ManualClock
) -> None:
    def once(agent: VirtualAgent, header: Header) -> str:
        return "hang" if hangs(agent, header) and agent.incarnation == 1 else ""

    machine = begin(ledger, clock, with_limits(THREE_PHASES), once)
    machine.run_until(lambda: bool(machine.events("agent_probed")))
    (probed,) = machine.events("agent_probed")
    told = machine.events("message_delivered", "writer")[0]
    assert LIMITS.claim_s <= probed.at.since(told.at) < LIMITS.claim_s + 6
    assert finish(machine, 600)[0] == "COMPLETED"
    (stalled,) = machine.events("agent_stalled")
    assert LIMITS.probe_s <= stalled.at.since(probed.at) < LIMITS.probe_s + 4
    assert [e.body["reason"] for e in machine.events("agent_restarted")] == ["stalled"]
    assert len(machine.events("agent_recovered", "writer")) == 1
    assert machine.view("v-1").agents["writer"].health == "healthy"
    assert not machine.events("agent_replaced")
    mails = [e for e in machine.events("message_sent", "judge") if e.body["subject"] == "stall_alert"]
    assert len(mails) == 1, "the others are told of the first stall"
    assert ("PROBE", "not_recovered") in outcomes(machine)


def test_a_sign_of_life_during_the_probe_is_enough(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, with_limits(THREE_PHASES), hangs)
    machine.run_until(lambda: bool(machine.events("agent_probed")))
    writer = machine.agents["writer"]
    writer.hung = False
    machine.run_until(lambda: bool(machine.events("agent_recovered")), 60)
    assert not machine.events("agent_stalled")
    assert writer.process in machine.alive
    view = machine.view("v-1")
    assert (view.agents["writer"].probed, view.agents["writer"].health) == (None, "healthy")


def test_who_stalls_again_is_replaced_and_its_work_mail_and_reviews_go_to_its_successor(
    ledger: Store, clock: ManualClock
) -> None:
    machine = begin(ledger, clock, with_limits(THREE_PHASES), hangs)
    machine.run_until(lambda: bool(machine.events("agent_stalled")))
    machine.agents["judge"].call("mail_send", to="writer", text="How is it going?")
    assert finish(machine, 1200)[0] == "COMPLETED"
    (replaced,) = machine.events("agent_replaced")
    assert (replaced.agent, replaced.body["successor"]) == ("writer", "writer-r1")
    agents = machine.view("v-1").agents
    assert (agents["writer"].health, agents["writer"].state, agents["writer"].process) == ("replaced", "ERROR", None)
    assert agents["writer-r1"].replacement_count == 1
    assert len(agents["writer-r1"].restarts) >= 1, "a new name is no new beginning"
    assert all(agent.process not in machine.alive for agent in machine.past)
    done = {e.body["task"]: e.agent for e in machine.events("task_accepted")}
    assert done == {"draft": "writer-r1", "final": "writer-r1"}
    assert len([e for e in machine.events("message_acknowledged") if e.agent == "writer-r1"]) == 1
    late = machine.events("agent_spawned", "writer")
    assert [e.body["incarnation"] for e in late] == [1, 2]


def test_a_replaced_agent_has_no_voice_any_more(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, with_limits(THREE_PHASES), hangs)
    machine.run_until(lambda: bool(machine.events("agent_replaced")), 1200)
    call = machine.agents["writer"].call("report", task="draft", result="done")
    machine.run_until(lambda: bool(call.answers), 60)
    assert call.answers[0]["ok"] is False
    assert "replaced by writer-r1" in call.answers[0]["message"]


def test_a_reviewer_that_is_replaced_leaves_its_review_to_its_successor(ledger: Store, clock: ManualClock) -> None:
    def script(agent: VirtualAgent, header: Header) -> str:
        return "hang" if agent.name == "judge" and header.kind == "checkpoint" else ""

    what = with_limits(plan(Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,))))
    machine = begin(ledger, clock, what, script)
    assert finish(machine, 1500)[0] == "COMPLETED"
    assert [e.agent for e in machine.events("checkpoint_answered")] == ["judge-r1"]


@pytest.mark.parametrize(("on_failure", "state"), [("fail", "FAILED"), ("partial", "FAILED")])
def test_f39_when_the_successor_fails_too_the_run_ends_with_that_as_its_cause(
    ledger: Store, clock: ManualClock, on_failure: str, state: str
) -> None:
    def always(agent: VirtualAgent, header: Header) -> str:
        return "hang" if agent.name.startswith("writer") and header.kind == "dispatch" else ""

    what = with_limits(plan(Phase(name="draft", dispatches=(DRAFT,))), restarts_max=2, restart_period_s=3000.0)
    what = replace(what, on_task_failure=on_failure)  # type: ignore[arg-type]
    machine = begin(ledger, clock, what, always)
    ended, cause = finish(machine, 2500)
    assert ended == state
    assert "stalled" in cause or "draft.md" in cause
    assert [e.body["successor"] for e in machine.events("agent_replaced")] == ["writer-r1"]
    assert [e.agent for e in machine.events("agent_quarantined")] == ["writer-r1"]


def test_the_inbox_of_a_successor_has_the_same_limit_under_its_old_name(ledger: Store, clock: ManualClock) -> None:
    def script(agent: VirtualAgent, header: Header) -> str:
        # The successor hangs too, so that it reads no letter.
        return "hang" if agent.name.startswith("writer") and header.kind == "dispatch" else ""

    machine = begin(ledger, clock, with_limits(THREE_PHASES), script)
    machine.run_until(lambda: bool(machine.events("task_dispatched", "writer-r1")), 1200)
    judge = machine.agents["judge"]
    calls = [judge.call("mail_send", to="writer", text=f"Letter {number}.") for number in range(INBOX_MAX + 5)]
    machine.run_until(lambda: all(call.answers for call in calls), 60)
    taken = [call.answers[0]["ok"] for call in calls]
    assert taken == [True] * INBOX_MAX + [False] * 5
    refusal = str(calls[-1].answers[0]["message"])
    assert refusal == f"the inbox of writer-r1 is full: {INBOX_MAX} letters wait"


def test_the_environment_of_whoever_simulates_does_not_matter(
    ledger: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOGWATCH_NOTIFY", "true")

    def dies(agent: VirtualAgent, header: Header) -> str:
        return "die" if agent.name == "writer" else ""

    machine = begin(ledger, clock, with_limits(THREE_PHASES, restarts_max=0), dies)
    assert finish(machine, 600)[0] == "FAILED"
    assert machine.events("agent_quarantined")
    assert machine.notices == []
