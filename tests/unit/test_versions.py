"""Instructions that change in the middle of a run, in virtual time: told in waves, held against who does not read."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from dogwatch.cli.snapshot import take
from dogwatch.coordination.agents import replace_agent, restart
from dogwatch.coordination.tasks import counted
from dogwatch.crew.captain import versions
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import save
from dogwatch.model.brief import Header
from dogwatch.model.plan import Dispatch, Limits, Output, Phase, Plan, Role
from dogwatch.model.versions import Version
from dogwatch.model.view import RunView
from dogwatch.policy.markers import miscounts
from dogwatch.policy.readings import TheFile, is_reading
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine, VirtualAgent, VirtualEyes
from unit.test_virtual_world import DRAFT, REVIEW, begin, finish, plan

PATH = "/project/writer.md"
WRITER = Role(name="writer", harness="scripted", instructions=PATH)
JUDGE = Role(name="judge", harness="scripted")
LIMITS = Limits(nudge_s=500.0, peek_s=500.0, refresh_s=100.0, deadline_s=3000.0)
FINAL = Dispatch(name="final", to="judge", task="Finish.", outputs=(Output(path="final.md"),))


def version(text: str) -> Version:
    return Version(hashlib.sha256(text.encode()).hexdigest(), text, 3)


def with_writer(*phases: Phase, **limits: Any) -> Plan:
    phases = phases or (Phase(name="draft", dispatches=(DRAFT, FINAL)),)
    return replace(plan(*phases, roles=(WRITER, JUDGE)), limits=replace(LIMITS, **limits))


def keeps(kind: str, agent: str = "writer", deed: str = "silent") -> Any:
    """That agent does only this with messages of the kind."""

    def script(who: VirtualAgent, header: Header) -> str:
        return deed if (who.name, header.kind) == (agent, kind) else ""

    return script


def start(ledger: Store, clock: ManualClock, what: Plan, script: Any) -> Machine:
    machine = begin(ledger, clock, what, script)
    machine.instructions[PATH] = version("1.0")
    return machine


def told(machine: Machine, agent: str = "writer") -> bool:
    return any(e.body["kind"] == "refresh" for e in machine.events("message_delivered", agent))


def mail(machine: Machine, text: str = "the draft is nearly there") -> dict[str, Any]:
    call = machine.agents["writer"].call("mail_send", to="judge", text=text)
    machine.run_until(lambda: bool(call.answers), 60)
    return dict(call.answers[0])


def letters(machine: Machine) -> list[str]:
    sent = machine.events("message_sent", "judge")
    return [e.body["message"] for e in sent if e.body["kind"] == "mail"]


def reading(machine: Machine, agent: str = "writer") -> Any:
    return machine.view("v-1").readings[agent]


def test_the_brief_names_the_version_and_a_reading_is_noticed(ledger: Store, clock: ManualClock) -> None:
    machine = start(ledger, clock, with_writer(), keeps("dispatch"))
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    assert f"version 1.0, are in {PATH}" in machine.agents["writer"].prompts[0]
    machine.run_until(lambda: bool(machine.agents["judge"].prompts))
    assert PATH not in machine.agents["judge"].prompts[0]
    assert (reading(machine).version, reading(machine).state) == ("1.0", "told")
    machine.reads["writer", 1, PATH] = clock.now().mono
    machine.run_until(lambda: reading(machine).state == "read", 30)
    assert [e.agent for e in machine.events("instructions_read")] == ["writer"]
    assert not machine.events("instructions_changed")


def test_a_change_is_told_at_the_prompt_and_mail_is_held_until_the_file_was_read(
    ledger: Store, clock: ManualClock
) -> None:
    def script(who: VirtualAgent, header: Header) -> str:
        return "silent" if header.kind in ("dispatch", "refresh") else ""

    machine = start(ledger, clock, with_writer(), script)
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: told(machine), 60)
    (changed,) = machine.events("instructions_changed")
    assert changed.body == {"role": "writer", "path": PATH, "from": "1.0", "to": "1.1"}
    asked = machine.agents["writer"].prompts[-1]
    assert asked.splitlines()[1] == "VERSION_REFRESH_REQUIRED"
    assert PATH in asked
    assert "1.0" in asked
    assert "1.1" in asked
    first, second = mail(machine, "one"), mail(machine, "two")
    assert first["held"] == second["held"] == f"held until you have read {PATH}"
    assert [e.body["to"] for e in machine.events("message_held")] == ["judge", "judge"]
    assert letters(machine) == []
    machine.reads["writer", 1, PATH] = clock.now().mono
    machine.run_until(lambda: len(letters(machine)) == 2, 30)
    assert letters(machine) == [first["message"], second["message"]], "in their order"
    assert "held" not in mail(machine, "three")
    assert reading(machine).lapses == 0
    assert not machine.events("agent_restarted")
    assert not machine.events("refresh_expired")


def test_reports_of_one_that_owes_are_taken_and_the_run_goes_on(ledger: Store, clock: ManualClock) -> None:
    machine = start(ledger, clock, with_writer(), lambda who, header: "silent" if who.name == "writer" else "")
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: told(machine), 60)
    machine.agents["writer"].work("draft", "- draft.md (file)")
    assert finish(machine, 60) == ("COMPLETED", "")
    assert not machine.events("refresh_expired")


def test_the_hold_runs_out_counts_against_the_agent_and_a_late_reading_is_noted(
    ledger: Store, clock: ManualClock
) -> None:
    machine = start(ledger, clock, with_writer(), lambda who, header: "silent" if who.name == "writer" else "")
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: told(machine), 60)
    at = machine.events("message_delivered", "writer")[-1].at
    held = mail(machine)
    machine.run_until(lambda: bool(machine.events("refresh_expired")), 200)
    (expired,) = machine.events("refresh_expired")
    assert 100.0 <= expired.at.since(at) < 106.0
    assert (expired.agent, expired.body["held"], expired.body["count"]) == ("writer", 1, 1)
    machine.run_until(lambda: letters(machine) == [held["message"]], 30)
    assert (reading(machine).state, reading(machine).lapses) == ("expired", 1)
    seen = ledger.read(lambda r: take(r, ["v-1"], clock.now()))["runs"][0]
    shown = {agent["agent"]: agent["instructions"] for agent in seen["agents"]}
    assert (shown["writer"]["lapses"], shown["judge"], seen["refresh"]) == (1, None, {"done": 1, "agents": 1})
    machine.reads["writer", 1, PATH] = clock.now().mono
    machine.run_until(lambda: bool(machine.events("instructions_read")), 30)
    assert machine.events("instructions_read")[0].body["late"] is True
    assert reading(machine).lapses == 1, "what has run out stays counted"


def test_an_open_turn_is_not_disturbed_and_a_reading_before_the_refresh_makes_it_needless(
    ledger: Store, clock: ManualClock
) -> None:
    machine = start(ledger, clock, with_writer(), lambda who, header: "")
    machine.work_s = 50.0
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: bool(machine.events("instructions_changed")), 30)
    assert "held" not in mail(machine), "it has not been told"
    machine.reads["writer", 1, PATH] = clock.now().mono
    machine.run_until(lambda: reading(machine).state == "read", 20)
    assert machine.agents["writer"].turn.state == "working"
    assert finish(machine, 200) == ("COMPLETED", "")
    assert not told(machine)


def test_nobody_is_told_in_the_middle_of_its_checkpoint(ledger: Store, clock: ManualClock) -> None:
    phases = (Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,)), Phase(name="end", dispatches=(FINAL,)))
    machine = start(ledger, clock, with_writer(*phases), keeps("checkpoint", "judge"))
    machine.run_until(lambda: bool(machine.agents.get("judge") and machine.agents["judge"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: bool(machine.events("instructions_changed")), 30)
    machine.run_until(lambda: clock.now().since(machine.events("instructions_changed")[0].at) > 20, 60)
    assert not told(machine)
    machine.work_s = 30.0
    machine.agents["judge"].call("checkpoint", checkpoint="review", verdict="approve")
    machine.run_until(lambda: told(machine), 60)
    assert machine.events("message_delivered", "writer")[-1].at.mono > machine.events("checkpoint_closed")[0].at.mono


def test_a_change_for_all_goes_in_waves_and_only_the_newest_version_counts(ledger: Store, clock: ManualClock) -> None:
    roles = (replace(WRITER, name="worker", count=8), JUDGE)
    every = Dispatch(name="all", to="worker", address="all", task="Wait.", outputs=(Output(path="{agent}.md"),))
    draft = replace(DRAFT, to="judge")
    what = plan(Phase(name="draft", dispatches=(every, draft)), roles=roles)
    what = replace(what, limits=replace(LIMITS, refresh_wave=3))
    machine = start(ledger, clock, what, lambda who, header: "silent")
    machine.run_until(lambda: len(machine.events("task_dispatched")) == 9)
    machine.run_until(lambda: all(agent.prompts for agent in machine.agents.values()), 60)

    def owing() -> list[str]:
        view = machine.view("v-1")
        return [name for name, one in view.readings.items() if one.state in ("asked", "owes")]

    machine.instructions[PATH] = version("2")
    machine.run_until(lambda: len([a for a in owing() if told(machine, a)]) == 3, 60)
    first = owing()
    assert len(first) == 3
    for name in first[:2]:
        machine.reads[name, 1, PATH] = clock.now().mono
    machine.run_until(lambda: len([a for a in owing() if told(machine, a)]) == 3 and owing() != first, 60)
    progress = ledger.read(lambda r: take(r, ["v-1"], clock.now()))["runs"][0]["refresh"]
    assert progress == {"done": 2, "agents": 8}
    machine.instructions[PATH] = version("3")
    machine.run_until(lambda: len(machine.events("instructions_changed")) == 2, 60)
    read: dict[str, float] = {}

    def read_all() -> bool:
        assert len(owing()) <= 3
        for name in owing():
            if machine.view("v-1").readings[name].version == "3" and told(machine, name):
                machine.reads[name, 1, PATH] = read.setdefault(name, clock.now().mono)
        return all(one.state == "read" and one.version == "3" for one in machine.view("v-1").readings.values())

    machine.run_until(read_all, 300)
    assert not machine.events("refresh_expired")
    assert ledger.read(lambda r: take(r, ["v-1"], clock.now()))["runs"][0]["refresh"] == {"done": 8, "agents": 8}


def test_instructions_that_change_all_the_time_are_asked_for_now_and_then(ledger: Store, clock: ManualClock) -> None:
    machine = start(ledger, clock, with_writer(), lambda who, header: "silent" if who.name == "writer" else "")
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: told(machine), 60)
    held, count = mail(machine), 1
    since = machine.events("message_delivered", "writer")[-1].at

    def rewritten() -> bool:
        nonlocal count
        if clock.now().since(since) > 3 * count:
            count += 1
            machine.instructions[PATH] = version(f"1.{count}")
        return clock.now().since(since) > 90

    machine.run_until(rewritten, 200)
    asked = [e for e in machine.events("message_sent", "writer") if e.body["kind"] == "refresh"]
    gaps = [later.at.since(earlier.at) for earlier, later in pairwise(asked)]
    assert count > 2 * len(asked), "most versions were overtaken before they were asked for"
    assert len(asked) > 2
    assert min(gaps) >= LIMITS.refresh_s / 10
    assert letters(machine) == [], "what is owed is owed meanwhile"
    machine.run_until(lambda: letters(machine) == [held["message"]], 60)
    assert 100.0 <= machine.events("refresh_expired")[0].at.since(since) < 110.0
    machine.run_until(lambda: reading(machine).version == f"1.{count}", 60)


def test_a_new_incarnation_has_its_brief_owes_nothing_and_the_mail_of_the_last_one_goes_out(
    ledger: Store, clock: ManualClock
) -> None:
    machine = start(ledger, clock, with_writer(), lambda who, header: "silent" if who.name == "writer" else "")
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: told(machine), 60)
    held = mail(machine)
    view = machine.view("v-1")
    ledger.run(lambda tx: restart(tx, view, view.agents["writer"], "exited", [], counts=False))
    machine.run_until(lambda: letters(machine) == [held["message"]], 60)
    machine.run_until(lambda: machine.agents["writer"].incarnation == 2 and bool(machine.agents["writer"].prompts), 60)
    assert "version 1.1" in machine.agents["writer"].prompts[0]
    machine.run_until(lambda: reading(machine).incarnation == 2, 30)
    assert (reading(machine).state, reading(machine).version) == ("told", "1.1")
    assert "held" not in mail(machine)
    assert len([e for e in machine.events("message_sent", "writer") if e.body["kind"] == "refresh"]) == 1


def test_a_file_that_is_gone_or_being_written_is_no_change(ledger: Store, clock: ManualClock) -> None:
    machine = start(ledger, clock, with_writer(), keeps("dispatch"))
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    since = clock.now()
    del machine.instructions[PATH]
    machine.run_until(lambda: clock.now().since(since) > 10, 30)
    machine.instructions[PATH] = replace(version("half"), settled=False)
    machine.run_until(lambda: clock.now().since(since) > 20, 30)
    machine.instructions[PATH] = version("1.0")
    machine.run_until(lambda: clock.now().since(since) > 30, 30)
    assert not machine.events("instructions_changed")


def test_held_mail_that_is_sent_again_is_one_letter(ledger: Store, clock: ManualClock) -> None:
    machine = start(ledger, clock, with_writer(), lambda who, header: "silent" if who.name == "writer" else "")
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: told(machine), 60)
    send = partial(machine.agents["writer"].call, "mail_send", to="judge", text="once", op_id="the-same")
    calls = [send(), send()]
    machine.run_until(lambda: all(call.answers for call in calls), 30)
    machine.reads["writer", 1, PATH] = clock.now().mono
    machine.run_until(lambda: bool(letters(machine)), 30)
    late = send()
    machine.run_until(lambda: bool(late.answers), 30)
    assert {call.answers[0]["message"] for call in (*calls, late)} == set(letters(machine))
    assert len(letters(machine)) == 1


class KilledError(BaseException):
    """A captain is killed here."""


def test_mail_keeps_its_order_when_the_captain_is_killed_before_it_lets_the_first_go(
    ledger: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = start(ledger, clock, with_writer(), lambda who, header: "silent" if who.name == "writer" else "")
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: told(machine), 60)
    first = mail(machine)["message"]

    def die(_: object) -> None:
        raise KilledError

    machine.reads["writer", 1, PATH] = clock.now().mono
    with monkeypatch.context() as patch:
        patch.setattr(versions, "_let_go", die)
        with pytest.raises(KilledError):
            machine.run_until(lambda: False, 30)
    assert reading(machine).state == "read"
    machine.kill(machine.member("captain"))
    second = mail(machine)
    assert "held" not in second
    machine.run_until(lambda: len(letters(machine)) == 2, 60)
    assert letters(machine) == [first, second["message"]]


def test_a_disagree_in_mail_that_was_held_counts_once_when_it_goes_out(ledger: Store, clock: ManualClock) -> None:
    roles = (replace(WRITER, instructions=""), replace(JUDGE, instructions=PATH), replace(JUDGE, name="editor"))
    last = replace(FINAL, to="editor")
    phases = (Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,)), Phase(name="final", dispatches=(last,)))
    what = replace(with_writer(*phases), roles=roles)
    silent = ("final", "judge")  # the last task, and the refresh
    machine = start(ledger, clock, what, lambda who, header: "silent" if header.subject in silent else "")
    machine.run_until(lambda: bool(machine.events("phase_ended")), 60)
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: told(machine, "judge"), 60)
    send = partial(machine.agents["judge"].call, "mail_send", to="writer", text="DISAGREE: I was wrong", op_id="one")
    call = send()
    machine.run_until(lambda: bool(call.answers), 30)
    assert "held" in call.answers[0]
    assert not machine.events("checkpoint_reopened")
    machine.run_until(lambda: len(machine.events("checkpoint_closed")) == 2, 200)
    again = send()
    machine.run_until(lambda: bool(again.answers), 30)
    assert again.answers[0]["message"] == call.answers[0]["message"]
    assert len(machine.events("checkpoint_reopened")) == 1


def test_a_refresh_that_was_queued_before_a_checkpoint_waits_for_its_end(ledger: Store, clock: ManualClock) -> None:
    roles = (replace(WRITER, instructions=""), replace(JUDGE, instructions=PATH))
    final = replace(FINAL, to="writer")
    second = replace(REVIEW, name="second", artifact="final.md", author="final")
    end = replace(FINAL, name="end", to="writer", outputs=(Output(path="end.md"),))
    phases = (
        Phase(name="draft", dispatches=(DRAFT,), checkpoints=(REVIEW,)),
        Phase(name="final", dispatches=(final,), checkpoints=(second,)),
        Phase(name="end", dispatches=(end,)),
    )
    what = replace(with_writer(*phases), roles=roles)
    machine = start(ledger, clock, what, lambda who, header: "silent" if header.subject in ("final", "end") else "")
    machine.run_until(lambda: bool(machine.agents.get("writer") and "final" in machine.agents["writer"].orders), 60)
    judge, writer = machine.agents["judge"], machine.agents["writer"]
    judge.composer = "somebody types here"
    machine.instructions[PATH] = version("1.1")
    machine.run_until(lambda: any(e.body["kind"] == "refresh" for e in machine.events("message_sent", "judge")), 30)
    writer.work("final", writer.orders["final"])
    machine.run_until(lambda: len(machine.events("checkpoint_asked")) == 2, 60)
    machine.work_s, judge.composer = 20.0, ""
    machine.run_until(lambda: told(machine, "judge"), 100)
    assert len(machine.events("checkpoint_closed")) == 2


def test_what_was_reported_is_counted_for_who_takes_its_holders_place(ledger: Store, clock: ManualClock) -> None:
    machine = start(ledger, clock, with_writer(), keeps("dispatch"))
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    view = machine.view("v-1")
    reported = replace(view.tasks["draft"], state="reported")
    stalled = replace(view.agents["writer"], health="unresponsive")
    ledger.run(lambda tx: (save(tx, reported), save(tx, stalled)))
    view = machine.view("v-1")
    ledger.run(lambda tx: replace_agent(tx, view, stalled, "hung", []))
    assert machine.view("v-1").tasks["draft"].agent == "writer-r1"
    assert ledger.read(lambda reader: miscounts(*counted(reader, "v-1"))) == []


@pytest.mark.parametrize(
    "given",
    [
        {"command": "cat --help writer.md"},
        {"command": "bat -r 1:1 writer.md"},
        {"command": "bat --line-range=1:2 writer.md"},
        {"command": "more +100 writer.md"},
        {"command": "cat writer.md", "run_in_background": True},
    ],
)
def test_a_command_that_does_not_show_the_file_proves_nothing(given: dict[str, Any]) -> None:
    call = {"tool_name": "Bash", "cwd": "/project", "tool_input": given}
    assert not is_reading(call, TheFile(frozenset({PATH}), 3))
    plain = {"tool_name": "Bash", "cwd": "/project", "tool_input": {"command": "cat -n writer.md"}}
    assert is_reading(plain, TheFile(frozenset({PATH}), 3))


def test_a_reader_goes_on_where_it_was_when_a_long_file_becomes_longer(
    ledger: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = set()

    def read_at(self: VirtualEyes, view: RunView, agent: str, path: str, lines: int) -> float:
        asked.add((agent, path, lines))
        return 0.0

    monkeypatch.setattr(VirtualEyes, "read_at", read_at)
    machine = start(ledger, clock, with_writer(), keeps("dispatch"))
    machine.instructions[PATH] = replace(version("1"), lines=300)
    machine.run_until(lambda: bool(asked), 60)
    machine.instructions[PATH] = replace(version("2"), lines=400)
    machine.run_until(lambda: told(machine), 60)
    assert asked == {("writer", PATH, 200)}
