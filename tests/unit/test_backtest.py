"""Recorded runs under other thresholds: what would have come earlier, later, wrongly or not at all."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dogwatch.cli.backtest import settings
from dogwatch.cli.framework import run_command
from dogwatch.errors import NotFoundError, RefusedError, UsageError
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Store
from dogwatch.ledger.compaction import compact_part
from dogwatch.model.brief import Header
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits, Phase, Plan
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.model.sight import Turn
from dogwatch.model.spool import render
from dogwatch.sim import hands
from dogwatch.sim.aftermath import Aftermath, Change, aftermath
from dogwatch.sim.hindsight import Backtest, Difference, backtest
from dogwatch.sim.ledger import SimStore
from dogwatch.sim.recording import Axis, Said, read_recording
from dogwatch.sim.refold import Records
from dogwatch.testing.clock import ManualClock
from dogwatch.world.home import Home
from support.cli_ledgers import short_home
from support.virtual import Machine, Script, VirtualAgent
from unit.test_virtual_world import DRAFT, THREE_PHASES, begin, finish, plan

LIMITS = Limits(
    nudge_s=20.0,
    peek_s=20.0,
    claim_s=60.0,
    probe_s=30.0,
    tier1_s=60.0,
    tier2_s=120.0,
    tier3_s=180.0,
    restarts_max=5,
    deadline_s=1500.0,
)
ONE_PHASE = replace(plan(Phase(name="draft", dispatches=(DRAFT,))), limits=LIMITS)
SWEEP_S = 2 * LIMITS.sweep_s


@pytest.fixture
def home() -> Iterator[Home]:
    with short_home() as folder:
        yield Home(str(folder))


@pytest.fixture(autouse=True)
def _hooked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual agents whose hooks write spools."""

    class Hooked(VirtualAgent):
        def __init__(self, machine: Machine, run: RunRecord, record: AgentRecord, process: ProcessId) -> None:
            super().__init__(machine, run, record, process)
            self.hook("SessionStart")

        def hook(self, event: str, **payload: Any) -> None:
            path, now = Path(home.spool(self.run.run, self.name)), self.machine.now
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(render(now.wall, now.mono, self.incarnation, self.process.pid, event, payload))

        def submit(self) -> None:
            prompts = len(self.prompts)
            super().submit()
            for prompt in self.prompts[prompts:]:
                self.hook("UserPromptSubmit", prompt=prompt)

        def stop(self) -> None:
            super().stop()
            self.hook("Stop")

    monkeypatch.setattr(hands, "VirtualAgent", Hooked)
    monkeypatch.setenv("DOGWATCH_HOME", home.path)


@pytest.fixture
def ledger(clock: ManualClock) -> Store:
    return SimStore(clock)


@pytest.fixture
def kept(home: Home, clock: ManualClock) -> Iterator[Store]:
    """The ledger of the home, in a file."""
    store = open_store(home.ledger, clock)
    yield store
    store.close()


def played(ledger: Store, clock: ManualClock, what: Plan, script: Script, work_s: float = 1.0) -> Machine:
    machine = begin(ledger, clock, what, script)
    machine.work_s = work_s
    finish(machine, 2000)
    return machine


def tried(ledger: Store, home: Home, **changes: float) -> Backtest:
    return backtest(read_recording(ledger, home, "v-1"), changes)


def only(found: Backtest) -> Difference:
    """The one difference there is, of the writer or of the run."""
    (one,) = (one for one in found.differences if one.agent != "judge")
    return one


def first(agent: str, deed: str) -> Script:
    """The agent's first incarnation does this deed with its dispatch."""

    def script(who: VirtualAgent, header: Header) -> str:
        return deed if who.name == agent and who.incarnation == 1 and header.kind == "dispatch" else ""

    return script


def waits_for_mail(until_s: float) -> Script:
    """The writer asks the judge something, waits for the answer, and after a while goes on without it."""

    def script(who: VirtualAgent, header: Header) -> str:
        if who.name == "judge":
            return "silent"
        who.call("mail_send", to="judge", text="May I?")
        who.after(until_s, lambda: who.work("draft", who.orders["draft"]))
        return "silent"

    return script


def stops_over_its_letter(who: VirtualAgent, header: Header) -> str:
    """The writer asks the judge something and stops; the judge takes the letter a while later and does not answer."""

    def acknowledge() -> None:
        who.call("mail_ack", message=header.id)

    if who.name == "judge" and header.kind == "mail":
        who.after(12.0, acknowledge)
        return "silent"
    if who.name == "writer" and header.kind == "dispatch":
        who.call("mail_send", to="judge", text="May I?")
        return "silent"
    return ""


SCENES: dict[str, tuple[Plan, Script]] = {
    "nobody stalls": (replace(THREE_PHASES, limits=LIMITS), lambda who, header: ""),
    "a silent turn": (ONE_PHASE, first("writer", "silent")),
    "a hang": (replace(THREE_PHASES, limits=LIMITS), first("writer", "hang")),
    "a death": (ONE_PHASE, first("writer", "die")),
    "a lost report": (ONE_PHASE, first("writer", "lose_report")),
    "a long wait": (ONE_PHASE, waits_for_mail(200.0)),
    "a letter that was taken": (ONE_PHASE, stops_over_its_letter),
}


@pytest.mark.parametrize("scene", SCENES)
def test_with_the_recorded_thresholds_nothing_differs_and_every_alert_is_found_again(
    ledger: Store, clock: ManualClock, home: Home, scene: str
) -> None:
    machine = played(ledger, clock, *SCENES[scene])
    found = tried(ledger, home)
    assert found.differences == []
    assert found.fidelity.missing == []
    assert found.fidelity.extra == []
    assert bool(found.fidelity.recorded) == bool(machine.events("alert_raised"))
    same = {name: getattr(LIMITS, name) for name in ("tier2_s", "claim_s", "nudge_s")}
    assert tried(ledger, home, **same).differences == []
    assert tried(ledger, home, refresh_s=1.0).differences == [], "nothing here depends on it"


@pytest.mark.parametrize("scene", SCENES)
def test_the_events_alone_give_the_records_again(ledger: Store, clock: ManualClock, home: Home, scene: str) -> None:
    played(ledger, clock, *SCENES[scene])
    recording = read_recording(ledger, home, "v-1")
    final, records = recording.final, Records(recording.final)
    for past in recording.events:
        records.fold(past.event)
    assert (records.run.state, records.run.phase) == (final.run.state, final.run.phase)
    for found, kept in zip(records.tasks.values(), final.tasks.values(), strict=True):
        assert found == replace(
            kept, attempt=found.attempt, marker={}, outputs=found.outputs, note="", rescued=found.rescued
        )
    for agent, record in final.agents.items():
        again = records.agents[agent]
        for name in "incarnation stalled answered successor".split():
            assert getattr(again, name) == getattr(record, name), (agent, name)
        unknown: dict[str, Any] = {"pane": "", "sandboxed": False, "guarded": False, "progress_percent": None}
        assert again.last == (replace(record.last, **unknown) if record.last is not None else None), agent
    assert records.checkpoints == {name: replace(one, notes="") for name, one in final.checkpoints.items()}


@pytest.mark.parametrize(("scene", "is_alone"), [("a silent turn", True), ("a long wait", True), ("a death", False)])
def test_what_is_found_only_by_the_alerts_own_word_is_counted_apart(
    ledger: Store, clock: ManualClock, home: Home, scene: str, is_alone: bool
) -> None:
    played(ledger, clock, *SCENES[scene])
    found = tried(ledger, home).fidelity
    assert found.recorded == found.reproduced > 0
    assert found.unaided == (found.recorded if is_alone else 0)


def test_a_lower_tier_comes_earlier_by_the_difference_and_a_higher_one_later(
    ledger: Store, clock: ManualClock, home: Home
) -> None:
    played(ledger, clock, ONE_PHASE, waits_for_mail(170.0))
    one = only(tried(ledger, home, tier2_s=90.0))
    assert (one.agent, one.what, one.diagnosis, one.change) == ("writer", "STALL_ALERT", "waiting", "earlier")
    assert one.difference_s == pytest.approx(90.0 - LIMITS.tier2_s, abs=SWEEP_S)
    assert one.recorded_s == pytest.approx(one.baseline_s, abs=SWEEP_S)
    assert (one.verdict, one.assumed) == ("wrong", False), "it went on by itself"
    assert one.why.startswith("it went on by itself after ")
    afterwards = only(tried(ledger, home, tier2_s=150.0))
    assert (afterwards.change, afterwards.verdict) == ("later", "right")
    assert afterwards.difference_s == pytest.approx(30.0, abs=SWEEP_S)
    never = only(tried(ledger, home, tier2_s=175.0))
    assert (never.change, never.changed_s, never.verdict) == ("never", None, "right")
    new = only(tried(ledger, home, tier3_s=140.0))
    assert (new.change, new.what, new.verdict, new.recorded_s) == ("new", "STALL_CRITICAL", "wrong", None)


def test_a_role_keeps_the_limits_that_it_has_of_its_own(ledger: Store, clock: ManualClock, home: Home) -> None:
    own = replace(ONE_PHASE.roles[0], limits={"tier2_s": LIMITS.tier2_s})
    played(ledger, clock, replace(ONE_PHASE, roles=(own, *ONE_PHASE.roles[1:])), waits_for_mail(170.0))
    found = tried(ledger, home, tier2_s=90.0)
    assert [one for one in found.differences if one.agent == "writer"] == []
    assert found.notes == ["tier2_s is set for writer itself, and was left there"]


def test_a_nudge_that_was_needed_is_right_earlier_and_late_later(ledger: Store, clock: ManualClock, home: Home) -> None:
    machine = played(ledger, clock, ONE_PHASE, first("writer", "silent"))
    assert len(machine.events("agent_nudged")) == 1
    one = only(tried(ledger, home, nudge_s=8.0))
    assert (one.what, one.change, one.verdict) == ("NUDGE", "earlier", "right")
    assert one.difference_s == pytest.approx(8.0 - LIMITS.nudge_s, abs=SWEEP_S)
    assert re.fullmatch(r"it needed a nudge 1\d s later", one.why)
    one = only(tried(ledger, home, nudge_s=50.0))
    assert (one.what, one.change, one.verdict, one.lasting) == ("NUDGE", "later", "late", True)
    assert one.difference_s == pytest.approx(50.0 - LIMITS.nudge_s, abs=SWEEP_S)


def test_a_probe_of_an_agent_that_works_is_called_wrong(ledger: Store, clock: ManualClock, home: Home) -> None:
    """It thinks for longer than the lower claim, and not for as long as the recorded one."""
    machine = played(ledger, clock, ONE_PHASE, lambda who, header: "", work_s=50.0)
    assert not machine.events("alert_raised")
    one = only(tried(ledger, home, claim_s=25.0))
    assert (one.what, one.change, one.verdict, one.assumed) == ("PROBE", "new", "wrong", True)
    assert re.fullmatch(r"it went on by itself after 2\d s", one.why)
    assert tried(ledger, home, claim_s=55.0).differences == []


def test_who_was_silent_for_longer_than_its_claim_and_never_probed_showed_life(
    ledger: Store, clock: ManualClock, home: Home
) -> None:
    machine = played(ledger, clock, ONE_PHASE, lambda who, header: "", work_s=200.0)
    assert not machine.events("alert_raised")
    assert tried(ledger, home, claim_s=25.0).differences == []


def test_a_hang_is_probed_earlier_or_later_by_the_difference(ledger: Store, clock: ManualClock, home: Home) -> None:
    machine = played(ledger, clock, *SCENES["a hang"])
    (probed,), (stalled,) = machine.events("agent_probed"), machine.events("agent_stalled")
    one = next(d for d in tried(ledger, home, claim_s=40.0).differences if d.what == "PROBE")
    assert (one.agent, one.change, one.verdict, one.assumed) == ("writer", "earlier", "right", False)
    assert one.difference_s == pytest.approx(-20.0, abs=SWEEP_S)
    assert re.fullmatch(r"it needed a probe (1|2)\d s later", one.why)
    one = next(d for d in tried(ledger, home, claim_s=100.0).differences if d.what == "PROBE")
    assert (one.change, one.verdict, one.lasting) == ("later", "late", True)
    assert one.difference_s == pytest.approx(40.0, abs=SWEEP_S)
    one = only(tried(ledger, home, probe_s=10.0))
    assert (one.what, one.stall, one.change, one.verdict) == ("RESTART", "#1:unanswered", "earlier", "right")
    assert one.changed_s is not None
    assert one.baseline_s is not None
    assert one.baseline_s - one.changed_s == pytest.approx(stalled.at.since(probed.at) - 10.0, abs=SWEEP_S)


def test_a_shorter_probe_would_have_ended_one_that_answers(ledger: Store, clock: ManualClock, home: Home) -> None:
    machine = begin(ledger, clock, ONE_PHASE, first("writer", "hang"))
    machine.run_until(lambda: bool(machine.events("agent_probed")))
    writer = machine.agents["writer"]
    writer.after(15.0, lambda: writer.work("draft", writer.orders["draft"]))
    finish(machine, 600)
    assert not machine.events("agent_restarted")
    found = [one for one in tried(ledger, home, probe_s=5.0).differences if one.what == "RESTART"]
    assert [(one.change, one.verdict, one.recorded_s) for one in found] == [("new", "wrong", None)]
    assert found[0].why.startswith("it went on by itself after")


def test_a_rescue_comes_with_its_own_threshold(ledger: Store, clock: ManualClock, home: Home) -> None:
    played(ledger, clock, *SCENES["a lost report"])
    one = only(tried(ledger, home, peek_s=8.0))
    assert (one.what, one.change, one.verdict) == ("RESCUE", "earlier", "right")
    assert one.difference_s == pytest.approx(8.0 - LIMITS.peek_s, abs=SWEEP_S)


def test_a_run_that_moves_again_would_have_been_ended_wrongly(ledger: Store, clock: ManualClock, home: Home) -> None:
    played(ledger, clock, ONE_PHASE, lambda who, header: "", work_s=300.0)
    one = only(tried(ledger, home, deadline_s=100.0))
    assert (one.agent, one.what, one.change, one.verdict) == ("", "run_ended", "new", "wrong")


def test_of_a_stall_that_was_touched_only_the_first_difference_is_judged(
    ledger: Store, clock: ManualClock, home: Home
) -> None:
    played(ledger, clock, *SCENES["a hang"])
    found = tried(ledger, home, claim_s=30.0, tier1_s=40.0)
    stalls = [(one.agent, one.stall) for one in found.differences]
    assert len(stalls) == len(set(stalls))
    assert found.following > 0


def tables(home: Home) -> dict[str, list[Any]]:
    with sqlite3.connect(f"file:{home.ledger}?mode=ro", uri=True) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: list(database.execute(f"SELECT * FROM {name} ORDER BY 1")) for name in names}


def test_the_record_does_not_change_by_a_byte(
    kept: Store, clock: ManualClock, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    played(kept, clock, *SCENES["a silent turn"])
    before = tables(home)
    spools = {path: path.read_bytes() for path in Path(home.run("v-1")).rglob("*.spool")}
    assert before["events"]
    assert before["documents"]
    assert spools
    assert run_command(["backtest", "v-1", "--set", "stall.nudge_s=8"]) == 0
    assert "NUDGE" in capsys.readouterr().out
    assert tables(home) == before
    assert {path: path.read_bytes() for path in Path(home.run("v-1")).rglob("*.spool")} == spools
    shown = tried(kept, home, nudge_s=8.0)
    assert kept.run(lambda tx: compact_part(tx, clock.now().wall + 1))[0] > 0
    assert tried(kept, home, nudge_s=8.0) == shown, "archived events are replayed like all others"


def test_without_spools_it_says_so_and_judges_no_silence(ledger: Store, clock: ManualClock, home: Home) -> None:
    played(ledger, clock, *SCENES["a hang"])
    for path in Path(home.run("v-1")).rglob("*.spool"):
        path.unlink()
    found = tried(ledger, home, claim_s=30.0)
    assert found.differences == []
    assert found.notes[0] == "the spool of judge is not there any more: its silences cannot be replayed"
    assert 0 < len(found.fidelity.missing) <= found.fidelity.recorded


def test_a_run_that_is_not_there_or_still_goes_on_is_refused(ledger: Store, clock: ManualClock, home: Home) -> None:
    begin(ledger, clock, ONE_PHASE)
    with pytest.raises(RefusedError, match="v-1 still goes on"):
        tried(ledger, home)
    with pytest.raises(NotFoundError, match="there is no run 'v-2'"):
        read_recording(ledger, home, "v-2")


def test_events_that_tell_too_little_are_passed_over_and_counted(ledger: Store, clock: ManualClock, home: Home) -> None:
    played(ledger, clock, *SCENES["a silent turn"])
    recording = read_recording(ledger, home, "v-1")
    bare = [replace(past, event=replace(past.event, body={})) for past in recording.events if past.event.agent]
    found = backtest(replace(recording, events=[*recording.events[:-2], *bare, *recording.events[-2:]]), {})
    assert re.fullmatch(r"\d+ events of an older dogwatch tell too little to be replayed", found.notes[0])


def test_people_and_programs_are_told_the_same(
    kept: Store, clock: ManualClock, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    played(kept, clock, *SCENES["a silent turn"])
    words = ["backtest", "v-1", "v-1", "--set", "limits.nudge_s=8"]
    assert run_command(words) == 0
    shown = capsys.readouterr().out
    assert run_command([*words, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["set"] == {"nudge_s": {"recorded": 20.0, "changed": 8.0}}
    (one,) = told["differences"]
    assert (one["agent"], one["what"], one["change"], one["verdict"]) == ("writer", "NUDGE", "earlier", "right")
    assert one["difference_s"] == pytest.approx(-12.0, abs=SWEEP_S)
    assert told["summary"]["earlier"] == told["summary"]["right"] == 1
    assert "v-1: nudge_s 20 → 8" in shown
    assert re.search(r"writer +NUDGE \(silent_turn\) .* 1\d s earlier +right: it needed a nudge 1\d s later", shown)
    assert "1 difference: 1 earlier; judged: 1 right" in shown
    assert "finds 1 of 1 recorded alert again within 4 s, 1 by events and spools alone" in shown
    assert run_command(["backtest", "v-1"]) == 0
    assert "nothing would have been different" in capsys.readouterr().out
    assert run_command(["backtest", "v-1", "v-3"]) == NotFoundError.exit_code


def test_limits_are_named_in_three_ways() -> None:
    named = settings(["stall.tier2_s=300", "limits.nudge_s=5.5", "repeats_max=4"])
    assert named == {"tier2_s": 300.0, "nudge_s": 5.5, "repeats_max": 4}


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("stall.tier22_s=300", "there is no such limit", "tier2_s"),
        ("roles.tier2_s=300", "there is no such limit", "tier2_s"),
        ("memory.available_yellow=0.25", "memory zones cannot be replayed", "not between"),
        ("tier2_s=soon", "number", "docs/reference/spec.md"),
        ("tier2_s=-1", "greater", "docs/reference/spec.md"),
        ("repeats_max=2.5", "integer", "docs/reference/spec.md"),
        ("receipt_s=5", "it cannot be replayed", "tier2_s"),
        ("tier2_s", "is not K=V", ""),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_a_hint(word: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        settings([word])
    assert hint in caught.value.hint


def test_the_axis_goes_on_over_a_reboot() -> None:
    axis = Axis([Moment("a", 100.0, 5000.0), Moment("a", 130.0, 5030.0), Moment("b", 7.0, 5090.0)])
    assert [axis.t(Moment("a", 130.0, 0.0)), axis.t(Moment("b", 17.0, 0.0))] == [30.0, 100.0]
    assert axis.now(20.0) == Moment("a", 120.0, 5020.0)
    assert axis.now(100.0) == Moment("b", 17.0, 5100.0)


@pytest.mark.parametrize(
    ("past", "sooner", "not_sooner"),
    [
        (Aftermath(50.0, by_itself=True), ("wrong", "by itself after 50 s"), ("right", "by itself after 50 s")),
        (Aftermath(240.0, needed="a nudge"), ("right", "a nudge 4 min later"), ("late", "stood still for longer")),
        (Aftermath(9.0, needed="a probe", answered=True), ("unknown", "sign of life"), ("unknown", "sign of life")),
        (Aftermath(9000.0, told="mail"), ("unknown", "after 2.5 h (mail)"), ("unknown", "after 2.5 h (mail)")),
        (Aftermath(5.0, ended="the run is FAILED"), ("unknown", "FAILED"), ("unknown", "FAILED")),
        (Aftermath(5.0), ("unknown", "the record ends"), ("unknown", "the record ends")),
    ],
)
def test_a_change_is_judged_by_what_came_next(
    past: Aftermath, sooner: tuple[str, str], not_sooner: tuple[str, str]
) -> None:
    sooner_ones: tuple[Change, ...] = ("earlier", "new", "graver")
    other_ones: tuple[Change, ...] = ("later", "never", "milder")
    for change in (*sooner_ones, *other_ones):
        verdict, why = past.judge(change)
        expected = sooner if change in sooner_ones else not_sooner
        assert verdict == expected[0]
        assert expected[1] in why


def test_who_was_asked_for_a_permission_needed_a_person_and_who_loops_has_not_gone_on(
    ledger: Store, clock: ManualClock, home: Home
) -> None:
    played(ledger, clock, ONE_PHASE, lambda who, header: "", work_s=30.0)
    recording = read_recording(ledger, home, "v-1")
    told = next(past.t for past in recording.events if past.event.kind == "message_delivered") + 5
    assert aftermath(recording, "writer", "stalled", told).by_itself
    assert aftermath(recording, "writer", "awaiting_permission", told).needed == "a person"
    busy = Said(1.0, Turn(state="working", repeats=5), "PreToolUse")
    recording.voices["writer", 1].said[:] = [*recording.voices["writer", 1].said[:2], replace(busy, t=told + 1)]
    assert aftermath(recording, "writer", "silent_turn", told).seconds == pytest.approx(1.0)
    assert aftermath(recording, "writer", "looping", told).seconds > 20
