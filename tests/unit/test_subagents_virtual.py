"""The captain and sub-agents, in virtual time: overdue ones are mailed for until they are settled, and a late DISAGREE
opens a step again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dogwatch.coordination.usage import AgentTally, SubagentTold
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load
from dogwatch.model.brief import Header
from dogwatch.model.keys import verdicts_queue
from dogwatch.model.plan import Checkpoint, Dispatch, Gate, Limits, Output, Phase, Role
from dogwatch.model.records import WatchRecord
from dogwatch.model.sight import Subagent
from dogwatch.testing.clock import ManualClock
from support.virtual import Call, Machine, Script, VirtualAgent
from unit.test_virtual_world import DRAFT, FINAL, LIMITS, REVIEW, THREE_PHASES, begin, finish, plan

LATE_S = 20.0
DELEGATING = replace(
    THREE_PHASES,
    limits=Limits(nudge_s=10.0, peek_s=10.0, subagent_s=600.0, nudges_max=2, deadline_s=5000.0),
    time_limits={"research*": LATE_S},
)


def delegates(then: Callable[[VirtualAgent, Header], str] = lambda agent, header: "silent") -> Script:
    """The writer starts a researcher with its first dispatch and ends its turn; `then` is what it does with mail."""

    def script(agent: VirtualAgent, header: Header) -> str:
        if agent.name != "writer" or header.subject == "final":
            return ""
        if header.kind == "dispatch" and agent.incarnation == 1:
            start(agent, "a1")
            return "silent"
        return then(agent, header) if header.kind == "mail" else ""

    return script


def start(agent: VirtualAgent, identity: str, kind: str = "researcher") -> None:
    mono = agent.machine.now.mono
    running = {**agent.turn.subagents, identity: Subagent(kind, mono, identity)}
    agent.turn = replace(agent.turn, subagents=running, begun={**agent.turn.begun, kind: mono})


def end(agent: VirtualAgent, identity: str) -> None:
    running = {key: one for key, one in agent.turn.subagents.items() if key != identity}
    agent.turn = replace(agent.turn, subagents=running)


def work(machine: Machine) -> None:
    writer = machine.agents["writer"]
    writer.work("draft", writer.orders["draft"])


def letters(machine: Machine) -> list[str]:
    return [text for a in machine.agents.values() for text in a.prompts if " mail subagent-" in text]


def settled(machine: Machine) -> list[tuple[str, str]]:
    return [(e.body["type"], e.body["how"]) for e in machine.events("subagent_settled")]


def test_the_parent_is_mailed_once_for_each_time_and_then_a_person_is_called(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: bool(machine.events("person_called")), 600)
    (overdue,) = machine.events("subagent_overdue", "writer")
    assert (overdue.body["type"], overdue.body["limit_s"]) == ("researcher", LATE_S)
    mails = [e for e in machine.events("message_sent", "writer") if e.body["kind"] == "mail"]
    assert len(mails) == 2
    assert LATE_S <= mails[1].at.since(mails[0].at) < LATE_S + 5
    machine.run_until(lambda: len(letters(machine)) == 2, 60)
    assert 'dogwatch subagent skip researcher --note "why"' in letters(machine)[0]
    assert machine.events("person_called")[0].body["diagnosis"] == "subagent_overdue"
    machine.run_until(lambda: machine.now.mono > mails[1].at.mono + 5 * LATE_S, 600)
    assert len(machine.events("person_called")) == 1, "once"
    assert len([e for e in machine.events("message_sent", "writer") if e.body["kind"] == "mail"]) == 2
    assert not machine.events("agent_nudged", "writer"), "it waits: that is no silence"
    assert not machine.events("agent_restarted")
    assert settled(machine) == [], "it is open until something settles it"
    start(machine.agents["writer"], "a2")
    machine.run_until(lambda: bool(settled(machine)), 60)
    assert settled(machine) == [("researcher", "started_again")]


def test_a_fan_out_is_on_the_ledger_within_a_sweep(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, lambda agent, header: "silent" if agent.name == "writer" else "")

    def counted() -> int:
        seen = ledger.read(lambda reader: load(reader, WatchRecord, "watch/v-1"))
        return seen.agents["writer"].subagents if seen is not None and "writer" in seen.agents else -1

    machine.run_until(lambda: counted() == 0 and "draft" in machine.agents["writer"].orders, 60)
    writer, asked = machine.agents["writer"], machine.now.mono
    coming = {f"c{number}": Subagent("researcher", asked, f"c{number}") for number in range(10)}
    writer.turn = replace(writer.turn, announced=coming)
    machine.run_until(lambda: counted() == 10, 60)
    assert machine.now.mono - asked <= 2 * LIMITS.sweep_s
    for identity in coming:
        start(writer, identity)
    end(writer, "c0")
    writer.turn = replace(writer.turn, announced={})
    changed = machine.now.mono
    machine.run_until(lambda: counted() == 9, 60)
    assert machine.now.mono - changed <= 2 * LIMITS.sweep_s


def test_a_documented_skip_settles_it_and_the_work_goes_on_without_it(ledger: Store, clock: ManualClock) -> None:
    def skip(agent: VirtualAgent, header: Header) -> str:
        agent.call("subagent_skip", type="researcher", note="the archive is down")
        return "read"

    machine = begin(ledger, clock, DELEGATING, delegates(skip))
    machine.run_until(lambda: bool(settled(machine)), 300)
    (event,) = machine.events("subagent_settled")
    assert (event.body["how"], event.body["note"]) == ("skipped", "the archive is down")
    # Nobody waits for it any more: an idle prompt with open work is what it always is.
    assert finish(machine, 300) == ("COMPLETED", "")
    assert machine.events("agent_nudged", "writer")[0].body["diagnosis"] == "silent_turn"
    assert not machine.events("person_called")
    assert settled(machine) == [("researcher", "skipped")]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"type": "researcher", "note": " "}, "documented with a note"),
        ({"type": "checker", "note": "no time"}, "no sub-agent 'checker' of writer is overdue"),
        ({"note": "no time"}, "type must be"),
    ],
)
def test_a_skip_that_says_nothing_is_refused(ledger: Store, clock: ManualClock, body: dict[str, Any], why: str) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: bool(machine.events("subagent_overdue")), 300)
    call = machine.agents["writer"].call("subagent_skip", **body)
    machine.run_until(lambda: bool(call.answers), 60)
    assert call.answers[0]["ok"] is False
    assert why in call.answers[0]["message"]
    assert settled(machine) == []


def test_one_that_ends_after_all_settles_itself_and_nothing_more_is_said(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: bool(letters(machine)), 300)
    end(machine.agents["writer"], "a1")
    machine.run_until(lambda: bool(settled(machine)), 60)
    work(machine)
    assert finish(machine, 300)[0] == "COMPLETED"
    assert settled(machine) == [("researcher", "ended")]
    assert len(letters(machine)) == 1


def test_one_is_lost_with_its_parent(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: bool(machine.events("subagent_overdue")), 300)
    machine.kill(machine.agents["writer"].process)
    assert finish(machine, 300)[0] == "COMPLETED"
    assert settled(machine) == [("researcher", "lost")]


def test_a_parent_that_goes_on_without_a_word_leaves_it_open_until_the_end(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: bool(letters(machine)), 300)
    work(machine)
    assert finish(machine, 300)[0] == "COMPLETED"
    assert settled(machine) == [("researcher", "run_ended")]


def test_several_overdue_ones_are_each_mailed_for(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: bool(machine.events("subagent_overdue")), 300)
    start(machine.agents["writer"], "a2", "research-assistant")
    machine.run_until(lambda: len(machine.events("subagent_overdue")) == 2, 300)
    assert [e.body["type"] for e in machine.events("subagent_overdue")] == ["researcher", "research-assistant"]


def test_many_of_one_type_are_one_letter_and_one_call(ledger: Store, clock: ManualClock) -> None:
    def script(agent: VirtualAgent, header: Header) -> str:
        if agent.name == "writer" and header.kind == "dispatch":
            for number in range(12):
                start(agent, f"a{number}")
        return "silent"

    machine = begin(ledger, clock, DELEGATING, script)
    machine.run_until(lambda: bool(letters(machine)), 300)
    assert len(machine.events("subagent_overdue")) == 12
    assert "researcher (and 11 more of that type)" in letters(machine)[0]
    assert 'dogwatch subagent skip researcher --note "why"' in letters(machine)[0]
    machine.run_until(lambda: bool(machine.events("person_called")), 300)
    since = machine.now
    machine.run_until(lambda: machine.now.since(since) > 3 * LATE_S, 300)
    assert len([e for e in machine.events("message_sent", "writer") if e.body["kind"] == "mail"]) == 2
    assert len(machine.events("person_called")) == 1
    call = machine.agents["writer"].call("subagent_skip", type="researcher", note="the archive is down")
    machine.run_until(lambda: bool(call.answers), 60)
    assert call.answers[0]["skipped"] == 12


def test_what_is_settled_is_forgotten_when_it_runs_no_more(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: bool(letters(machine)), 300)
    writer = machine.agents["writer"]
    writer.call("subagent_skip", type="researcher", note="no time")
    machine.run_until(lambda: bool(settled(machine)), 60)
    since = machine.now
    machine.run_until(lambda: machine.now.since(since) > 5, 60)
    assert [one.settled for one in machine.view("v-1").overdue] == ["skipped"], "it still runs: nobody waits for it"
    end(writer, "a1")
    machine.run_until(lambda: not machine.view("v-1").overdue, 60)
    start(writer, "a2")
    machine.run_until(lambda: len(machine.events("subagent_overdue")) == 2, 300)
    end(writer, "a2")
    machine.run_until(lambda: not machine.view("v-1").overdue, 60)
    assert settled(machine) == [("researcher", "skipped"), ("researcher", "ended")]


def test_a_parent_that_cannot_read_its_mail_is_no_reason_to_repeat_it(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: "writer" in machine.agents and bool(machine.agents["writer"].turn.subagents), 60)
    writer = machine.agents["writer"]
    machine.run_until(lambda: writer.turn.state == "idle", 60)
    writer.turn = replace(writer.turn, state="working", since=machine.now.mono)
    machine.run_until(lambda: bool(machine.events("person_called")), 300)
    assert len([e for e in machine.events("message_sent", "writer") if e.body["kind"] == "mail"]) == 1
    assert [e.body["action"] for e in machine.events("alert_raised", "writer")] == ["NUDGE", "NUDGE", "ESCALATE"]
    assert not machine.events("alert_withdrawn")


def test_a_captain_that_is_killed_tells_nobody_twice(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, DELEGATING, delegates())
    machine.run_until(lambda: bool(machine.events("subagent_overdue")), 300)
    for _ in range(5):
        machine.kill(machine.member("captain"))
        machine.run_until(lambda: any(b.name == "captain" and b.member for b in machine.crew), 60)
    machine.run_until(lambda: bool(letters(machine)), 60)
    mails = [e for e in machine.events("message_sent", "writer") if e.body["kind"] == "mail"]
    assert len(machine.events("subagent_overdue")) == 1
    assert len(mails) == len(letters(machine)) == 1


# A late DISAGREE


def validator(
    machine: Machine, said: str, parent: str = "writer", identity: str = "v1", kind: str = "cross-validator"
) -> None:
    """A sub-agent that was at work since the dispatch of the draft comes to its end."""
    since = machine.events("task_dispatched", "writer")[0].at.mono + 0.1
    started = SubagentTold(incarnation=1, key=f"1:{identity}", id=identity, type=kind, since=since)
    ended = replace(started, how="ended", seconds=5.0, objection=said)
    before = machine.tallies.get(parent, AgentTally()).told
    machine.tallies[parent] = AgentTally(told=(*before, started, ended))
    machine.ring()


SLOW_FINAL = plan(
    Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,), gates=(Gate(name="early", command=("true",)),)),
    Phase(name="final", dispatches=(FINAL,)),
    path="final.md",
)


def slow_final(agent: VirtualAgent, header: Header) -> str:
    """The writer takes its time over the last task, and goes on when it is nudged."""
    return "silent" if header.kind == "dispatch" and header.subject == "final" else ""


def approved(machine: Machine) -> bool:
    return bool(machine.events("phase_ended"))


def rounds(machine: Machine) -> list[tuple[int, str]]:
    return [(e.body["round"], e.body["state"]) for e in machine.events("checkpoint_closed")]


@pytest.mark.parametrize("parent", ["writer", "judge"])
def test_a_disagree_after_the_approval_opens_the_step_again(ledger: Store, clock: ManualClock, parent: str) -> None:
    machine = begin(ledger, clock, SLOW_FINAL, slow_final)
    machine.run_until(lambda: approved(machine), 60)
    validator(machine, "DISAGREE: the sum is wrong", parent)
    assert finish(machine, 300) == ("COMPLETED", "")
    (reopened,) = machine.events("checkpoint_reopened")
    assert (reopened.body["checkpoint"], reopened.body["by"]) == ("review", f"{parent}/cross-validator")
    assert reopened.body["note"] == "DISAGREE: the sum is wrong"
    assert rounds(machine) == [(1, "approved"), (2, "approved")]
    assert [e.body["phase"] for e in machine.events("phase_reopened")] == ["draft"]
    told = [text for text in machine.agents["writer"].prompts if " dispatch draft]" in text]
    assert len(told) == 2
    assert "the sum is wrong" in told[1]
    assert len(machine.events("gate_passed")) == 2, "its gates hold for the new work"
    accepted = [e.body["task"] for e in machine.events("task_accepted")]
    assert sorted(accepted) == ["draft", "draft", "final"], "what was under way meanwhile counts"


def test_a_word_counts_once_however_often_it_is_heard(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, SLOW_FINAL, slow_final)
    machine.run_until(lambda: approved(machine), 60)
    validator(machine, "DISAGREE")
    machine.run_until(lambda: len(rounds(machine)) == 2, 200)
    machine.kill(machine.member("watchdog"))
    assert finish(machine, 300)[0] == "COMPLETED"
    assert len(machine.events("subagent_ended", "writer")) == len(machine.events("checkpoint_reopened")) == 1


def test_not_more_than_so_many_words_are_heard_in_one_step(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, SLOW_FINAL, slow_final)
    machine.run_until(lambda: approved(machine), 60)
    queue, now = verdicts_queue("v-1"), machine.now.mono
    said = {"run": "v-1", "agent": "writer", "type": "researcher", "since": now, "text": "DISAGREE"}
    ledger.run(lambda tx: [tx.push(queue, said, f"w{number}") for number in range(50)])

    def left() -> int:
        return len(ledger.read(lambda reader: reader.items(queue)))

    sizes = [left()]

    def is_heard() -> bool:
        sizes.append(left())
        return sizes[-1] == 0

    machine.run_until(is_heard, 60)
    assert list(dict.fromkeys(sizes)) == [50, 30, 10, 0]


def test_reviewers_and_validators_that_never_agree_end_with_a_person(ledger: Store, clock: ManualClock) -> None:
    stubborn = replace(SLOW_FINAL.phases[0], checkpoints=(replace(REVIEW, rounds_max=2),))
    others = tuple(Phase(name=f"p{n}", dispatches=(replace(FINAL, name=f"p{n}"),)) for n in range(3))
    machine = begin(ledger, clock, replace(SLOW_FINAL, phases=(stubborn, *others)))
    for number in range(1, 4):
        machine.run_until(lambda number=number: rounds(machine).count((number, "approved")) == 1, 300)  # type: ignore[misc]
        validator(machine, "DISAGREE with review", identity=f"v{number}")
    assert finish(machine, 600)[0] == "COMPLETED", "what everybody has approved is not failed by it"
    assert len(machine.events("checkpoint_reopened")) == 2
    assert [e.body["diagnosis"] for e in machine.events("person_called")] == ["disagreement"]


def test_a_disagree_before_the_approval_is_a_revision_of_that_round(ledger: Store, clock: ManualClock) -> None:
    def waits(agent: VirtualAgent, header: Header) -> str:
        is_first = header.kind == "checkpoint" and len(agent.prompts) == 1
        return "silent" if is_first else ""

    machine = begin(ledger, clock, THREE_PHASES, waits)
    machine.run_until(lambda: bool(machine.events("checkpoint_asked")), 60)
    validator(machine, "DISAGREE: no sources")
    machine.run_until(lambda: bool(machine.events("checkpoint_answered")), 60)
    machine.agents["judge"].call("checkpoint", checkpoint="review", verdict="approve")
    assert finish(machine, 300)[0] == "COMPLETED"
    assert rounds(machine) == [(1, "revised"), (2, "approved")]
    assert not machine.events("checkpoint_reopened")
    assert "no sources" in machine.agents["writer"].prompts[1]


def test_a_sub_agents_word_is_no_approval_and_other_sub_agents_have_no_say(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, SLOW_FINAL, slow_final)
    machine.run_until(lambda: approved(machine), 60)
    validator(machine, "", identity="v1")
    validator(machine, "DISAGREE", identity="v2", kind="researcher")
    assert finish(machine, 300)[0] == "COMPLETED"
    assert rounds(machine) == [(1, "approved")]
    assert [e.body["verdict"] for e in machine.events("subagent_ended")] == ["", "disagree"]


@pytest.mark.parametrize("way", ["checkpoint", "mail"])
def test_a_reviewer_that_changes_its_mind_opens_the_step_again(ledger: Store, clock: ManualClock, way: str) -> None:
    machine = begin(ledger, clock, SLOW_FINAL, slow_final)
    machine.run_until(lambda: approved(machine), 60)
    judge = machine.agents["judge"]
    if way == "checkpoint":
        call = judge.call("checkpoint", checkpoint="review", verdict="revise", note="I was wrong")
    else:
        call = judge.call("mail_send", to="writer", text="DISAGREE: I was wrong")
    machine.calls.append(Call(call.body))  # the same once more: its answer was lost
    assert finish(machine, 300)[0] == "COMPLETED"
    (reopened,) = machine.events("checkpoint_reopened")
    assert reopened.body["by"] == "judge"
    assert rounds(machine) == [(1, "approved"), (2, "approved")]


def test_after_the_run_it_is_only_recorded(ledger: Store, clock: ManualClock) -> None:
    machine = begin(ledger, clock, THREE_PHASES)
    machine.run_until(lambda: machine.view("v-1").run.over, 60)
    validator(machine, "DISAGREE")
    assert finish(machine, 60) == ("COMPLETED", "")
    assert [e.body["verdict"] for e in machine.events("subagent_ended", "writer")] == ["disagree"]
    assert not machine.events("checkpoint_reopened")


def test_a_step_of_the_phase_under_way_goes_back_with_its_gates(ledger: Store, clock: ManualClock) -> None:
    other = Checkpoint(name="second", artifact="draft.md", author="draft", reviewers=("judge",), validators=())
    first = replace(SLOW_FINAL.phases[0], checkpoints=(REVIEW, other))
    machine = begin(ledger, clock, replace(SLOW_FINAL, phases=(first, SLOW_FINAL.phases[1])))
    machine.run_until(lambda: bool(machine.events("checkpoint_closed")), 60)
    validator(machine, "DISAGREE")
    assert finish(machine, 300) == ("COMPLETED", "")
    assert len(machine.events("checkpoint_reopened")) == 1
    assert not machine.events("phase_reopened")
    closed = [(e.body["checkpoint"], e.body["state"]) for e in machine.events("checkpoint_closed")]
    assert closed.count(("review", "approved")) == 2
    assert closed[-1][1] == "approved"


def test_a_role_whose_name_has_a_time_limit_is_expected_to_keep_it(ledger: Store, clock: ManualClock) -> None:
    said = replace(FINAL, expect_s=77.0)
    phases = (replace(SLOW_FINAL.phases[0]), replace(SLOW_FINAL.phases[1], dispatches=(said,)))
    machine = begin(ledger, clock, replace(SLOW_FINAL, phases=phases, time_limits={"writ*": 33.0}, limits=LIMITS))
    assert finish(machine, 300)[0] == "COMPLETED"
    sent = {e.body["task"]: (e.body["expect_s"], e.body["expect_from"]) for e in machine.events("task_dispatched")}
    assert sent == {"draft": (33.0, "the time limit of writ*"), "final": (77.0, "the pipeline file")}


ROLES = tuple(Role(name=name, harness="scripted") for name in ("writer", "editor", "judge"))


def step(name: str, to: str, *, reviewed: bool = True) -> Phase:
    dispatch = Dispatch(name=name, to=to, task="Write.", outputs=(Output(path=f"{name}.md"),))
    review = Checkpoint(name=f"{name}-review", artifact=f"{name}.md", author=name, reviewers=("judge",))
    return Phase(name=name, dispatches=(dispatch,), checkpoints=(review,) if reviewed else ())


def test_one_word_against_two_steps_opens_both_again(ledger: Store, clock: ManualClock) -> None:
    phases = (step("alpha", "writer"), step("beta", "editor"), step("omega", "writer", reviewed=False))
    machine = begin(
        ledger, clock, plan(*phases, roles=ROLES, path="omega.md"), lambda agent, header: slow_omega(header)
    )
    machine.run_until(lambda: len(machine.events("phase_ended")) == 2, 100)
    validator(machine, "DISAGREE: neither alpha-review nor beta-review holds", "judge")
    assert finish(machine, 400) == ("COMPLETED", "")
    view = machine.view("v-1")
    assert {name: (one.state, one.round, one.reopened) for name, one in view.checkpoints.items()} == {
        "alpha-review": ("approved", 2, 1),
        "beta-review": ("approved", 2, 1),
    }
    assert {task.state for task in view.tasks.values()} == {"accepted"}


def slow_omega(header: Header) -> str:
    return "silent" if header.kind == "dispatch" and header.subject == "omega" else ""


def test_what_an_agent_has_sent_goes_on_when_the_run_is_sent_back(ledger: Store, clock: ManualClock) -> None:
    """Or its sender, which is also the author, would wait for it for ever."""
    long = Dispatch(name="long", to="editor", task="Write.", outputs=(Output(path="long.md"),))
    last = step("omega", "writer", reviewed=False)
    phases = (step("alpha", "writer"), replace(last, dispatches=(*last.dispatches, long)))
    what = replace(plan(*phases, roles=ROLES, path="omega.md"), limits=Limits(nudge_s=5000.0, peek_s=5000.0))

    def script(agent: VirtualAgent, header: Header) -> str:
        if (agent.name, header.kind) == ("writer", "mail"):
            agent.work("omega", agent.orders["omega"])
            return "read"
        return "silent" if header.subject in ("omega", "long") else ""

    machine = begin(ledger, clock, what, script)
    machine.run_until(lambda: {"omega", "long"} <= {o for a in machine.agents.values() for o in a.orders}, 100)
    call = machine.agents["writer"].call("task_send", to="editor", text="Sum.", expect_s=60.0, outputs=["sums.md"])
    machine.run_until(lambda: bool(call.answers), 30)
    validator(machine, "DISAGREE with alpha-review", "judge")
    machine.run_until(lambda: bool(machine.events("phase_reopened")), 60)
    editor = machine.agents["editor"]
    editor.work("long", editor.orders["long"])
    assert finish(machine, 300) == ("COMPLETED", "")


def test_a_step_that_was_opened_again_has_a_round_more(ledger: Store, clock: ManualClock) -> None:
    def script(agent: VirtualAgent, header: Header) -> str:
        asked = sum(" checkpoint review]" in text for text in agent.prompts)
        return "revise" if header.kind == "checkpoint" and asked == 2 else slow_final(agent, header)

    twice = replace(SLOW_FINAL.phases[0], checkpoints=(replace(REVIEW, rounds_max=2),))
    machine = begin(ledger, clock, replace(SLOW_FINAL, phases=(twice, SLOW_FINAL.phases[1])), script)
    machine.run_until(lambda: approved(machine), 60)
    validator(machine, "DISAGREE")
    assert finish(machine, 400) == ("COMPLETED", "")
    assert rounds(machine) == [(1, "approved"), (2, "revised"), (3, "approved")]


@pytest.mark.parametrize("late", [True, False])
def test_what_sub_agents_say_is_in_no_event_of_a_sensitive_run(ledger: Store, clock: ManualClock, late: bool) -> None:
    def script(agent: VirtualAgent, header: Header) -> str:
        is_first = not late and header.kind == "checkpoint" and len(agent.prompts) == 1
        return "silent" if is_first else slow_final(agent, header)

    machine = begin(ledger, clock, replace(SLOW_FINAL, sensitive=True), script)
    machine.run_until(lambda: bool(machine.events("phase_ended" if late else "checkpoint_asked")), 60)
    validator(machine, "DISAGREE: no word of this")
    if not late:
        machine.run_until(lambda: bool(machine.events("checkpoint_answered")), 60)
        machine.agents["judge"].call("checkpoint", checkpoint="review", verdict="approve")
    assert finish(machine, 300)[0] == "COMPLETED"
    assert any("no word of this" in text for text in machine.agents["writer"].prompts), "its author is told"
    assert not [event.kind for event in machine.events() if "no word of this" in str(event.body)]
