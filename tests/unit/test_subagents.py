"""Sub-agents by what hooks tell of them: who runs, how long it may, when it is late, what it says in the end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from dogwatch.coordination.usage import AgentTally, SubagentTold
from dogwatch.crew.shared.tallies import TallyReader
from dogwatch.harness import harness
from dogwatch.model.folders import folder_at
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Limits, Phase, Plan, Role
from dogwatch.model.records import CheckpointRecord, OverdueSubagent, RunRecord, TaskRecord
from dogwatch.model.sight import OutputSight, Sight, Subagent, Turn
from dogwatch.model.spool import PAYLOAD_BYTES_MAX, SpoolLine, render
from dogwatch.model.tally import Lives, Tally
from dogwatch.model.view import Duty, RunView
from dogwatch.policy.diagnose import diagnose
from dogwatch.policy.diagnosis import Case, Diagnosis
from dogwatch.policy.learning import DEFAULT_S, SAMPLES_MIN, expectation
from dogwatch.policy.selfchecks import Facts, run_checks
from dogwatch.policy.subagents import asked_for_with, count, is_gone, settled_by
from dogwatch.policy.time_limits import subagent_s, time_limit
from dogwatch.policy.turns import ANNOUNCED_S, failed, fold
from dogwatch.policy.verdicts import disagrees, objected_by_mail, objected_by_subagent
from support.records import living_agent

HOOKS = Path(__file__).parent.parent / "data" / "hooks"
NOW = Moment("boot", 10_000.0, 50_000.0)
LIMITS = Limits()
WRITER = living_agent(since=NOW.plus(-9000))
DUTY = Duty("task", "draft", NOW.plus(-8000), "normal", 1800.0)


def ago(seconds: float) -> float:
    return NOW.mono - seconds


# How long they may run


def test_the_longest_pattern_that_matches_counts() -> None:
    table = {"*": 60.0, "aa-*": 120.0, "aa-data-step7": 240.0}
    limits = {name: subagent_s(name, LIMITS, table) for name in ("aa-data-step7", "aa-data-step71", "aa-x", "other")}
    assert limits == {"aa-data-step7": 240.0, "aa-data-step71": 600.0, "aa-x": 120.0, "other": 60.0}


def test_the_built_in_limits_are_there_and_can_be_set() -> None:
    built_in = {"aa-data-step3": 600, "aa-execution-step": 900, "aa-framework": 1800, "aa-data": 1800, "aa-final": 1800}
    limits = Limits(subagent_s=7.0)
    assert {name: subagent_s(name, limits, {}) for name in built_in} == built_in
    assert subagent_s("aa-finals", limits, {}) == 7.0, "no pattern matches"
    assert subagent_s("aa-data-step3", limits, {"aa-data-step*": 5.0}) == 5.0


def test_the_same_table_says_how_long_a_sessions_task_should_take() -> None:
    limit = time_limit(("analyst", "analyst-2"), {"analyst": 50.0, "analyst-?": 70.0})
    assert limit is not None
    assert expectation(None, "analyst", [5.0] * SAMPLES_MIN, limit) == (70.0, "the time limit of analyst-?")
    assert expectation(60.0, "analyst", [], limit) == (60.0, "the pipeline file")
    assert expectation(None, "writer", [], time_limit(("writer",), {})) == (DEFAULT_S, "the default")


# Who runs


def line(name: str, mono: float, cut: bool = False, **changes: Any) -> SpoolLine:
    payload = {**json.loads((HOOKS / f"{name}.json").read_text()), **changes}
    raw = json.dumps(payload).encode()
    size = len(raw)
    if cut:
        assert size > PAYLOAD_BYTES_MAX
        raw = raw[:PAYLOAD_BYTES_MAX]
    return SpoolLine(mono + 1e9, mono, 1, 4711, payload["hook_event_name"], size, raw)


def after(*lines: SpoolLine) -> Turn:
    turn = Turn()
    for one in (line("SessionStart-startup", 1), line("UserPromptSubmit", 2), *lines):
        turn = fold(turn, one)
    return turn


A1: dict[str, Any] = {"agent_id": "a1", "agent_type": "researcher"}
IN_BACKGROUND = {"id": "a1", "type": "subagent", "status": "running", "agent_type": "researcher"}


def test_a_stop_while_a_sub_agent_runs_is_not_the_end_of_its_work() -> None:
    stopped = after(line("SubagentStart", 3, **A1), line("Stop", 5, background_tasks=[IN_BACKGROUND]))
    assert (stopped.state, stopped.subagents) == ("idle", {"a1": Subagent("researcher", 3, "a1")})
    sight = Sight(process="alive", session="alive", screen="idle", turn=stopped, watched_since=1.0, composer="")
    duty = replace(DUTY, asked=Moment("boot", 2.0, 2.0), delivered=Moment("boot", 2.0, 2.0))
    found = diagnose(WRITER, duty, sight, LIMITS, Moment("boot", 1500.0, 1500.0))
    assert (found.kind, found.action, found.waits_for) == ("waiting", "", "sub-agent researcher")


def test_a_client_that_ends_its_turn_says_itself_what_still_runs() -> None:
    shell = {"id": "b1", "type": "shell", "status": "running", "command": "make"}
    done = {**IN_BACKGROUND, "id": "a2", "status": "completed"}
    only_told = after(line("Stop", 5, background_tasks=[IN_BACKGROUND, shell, done, "?"]))
    assert only_told.subagents == {"a1": Subagent("researcher", 5, "a1")}, "its start was not heard"
    gone = after(line("SubagentStart", 3, **A1), line("Stop", 5, background_tasks=[]))
    assert gone.subagents == {}, "it was interrupted, and its end was not told"
    silent = {**json.loads((HOOKS / "Stop.json").read_text())}
    silent.pop("background_tasks")
    raw = json.dumps(silent).encode()
    other = after(line("SubagentStart", 3, **A1), SpoolLine(1e9, 5, 1, 4711, "Stop", len(raw), raw))
    assert list(other.subagents) == ["a1"], "another client says nothing of what runs"


# Who is about to start


LIVES: tuple[Literal["alive", "unknown", "dead"], ...] = ("alive", "unknown", "dead")


def counted(turn: Turn, mono: float = 10.0) -> int:
    return count(Sight(process="alive", turn=turn), Moment("boot", mono, mono))


def call(number: int, mono: float, name: str = "PreToolUse-Agent", **changes: Any) -> SpoolLine:
    return line(name, mono, tool_use_id=f"call-{number}", **changes)


ANNOUNCEMENTS = ("PreToolUse-Agent", "PreToolUse-codex-spawn_agent", "PreToolUse-opencode-Task")


@pytest.mark.parametrize("name", ANNOUNCEMENTS)
def test_a_fan_out_is_counted_before_it_starts_and_nobody_is_counted_twice(name: str) -> None:
    turn = after(*(call(number, 3 + number / 100, name) for number in range(10)))
    assert (counted(turn), turn.subagents) == (10, {})
    for number in range(10):
        turn = fold(turn, line("SubagentStart", 4 + number / 100, agent_id=f"a{number}", agent_type="default"))
        assert counted(turn) == 10
    assert (len(turn.subagents), turn.announced) == (10, {})
    for number in range(10):
        stopped = line("SubagentStop", 5 + number / 100, agent_id=f"a{number}", agent_type="default")
        turn = fold(turn, stopped)
        assert counted(turn) == 9 - number


def test_only_the_tools_that_start_sub_agents_announce_one() -> None:
    said = {"command": 'echo "tool_name": "Task"', "tool_name": "Task", "subagent_type": "x"}
    others = ("Bash", "TaskCreate", "TaskOutput", "AgentList", "invoke_agent", "wait_agent", "")
    turn = after(*(line("PreToolUse", 3, tool_name=name, tool_input=said) for name in others))
    assert turn.announced == {}
    assert counted(after(line("PreToolUse", 3, tool_name="Task", tool_input={}, agent_id="a9"))) == 1, (
        "a sub-agent's own"
    )


def test_a_start_takes_the_place_of_the_announcement_of_its_type() -> None:
    writer, tester = ({"description": "?", "prompt": "?", "subagent_type": kind} for kind in ("writer", "tester"))
    turn = after(call(1, 3, tool_input=writer), call(2, 3, tool_input=tester))
    turn = fold(turn, line("SubagentStart", 4, agent_id="a2", agent_type="tester"))
    assert [one.type for one in turn.announced.values()] == ["writer"]
    turn = fold(turn, line("SubagentStart", 4, agent_id="a3", agent_type="another"))
    assert turn.announced == {}, "whatever it is called, it was asked for"


@pytest.mark.parametrize("event", ["PostToolUseFailure", "Denied", "PermissionDenied"])
def test_a_call_that_fails_or_is_denied_starts_nobody(event: str) -> None:
    turn = after(call(1, 3), call(2, 3))
    refused = replace(call(2, 4), event=event)
    assert list(fold(turn, refused).announced) == ["call-1"]


def test_the_answer_to_the_call_may_come_before_the_start() -> None:
    """As Codex tells it."""
    name = "PreToolUse-codex-spawn_agent"
    turn = fold(after(call(1, 3, name), call(2, 3, name)), replace(call(1, 4, name), event="PostToolUse"))
    assert counted(turn) == 2
    turn = fold(turn, line("SubagentStart", 4, agent_id="a1", agent_type="default"))
    assert (counted(turn), len(turn.subagents)) == (2, 1)


@pytest.mark.parametrize(
    "name", ["Stop", "StopFailure", "SessionEnd-other", "SessionStart-startup", "UserPromptSubmit"]
)
def test_whoever_has_not_come_by_the_end_of_the_turn_does_not_come(name: str) -> None:
    assert after(call(1, 3), line(name, 4)).announced == {}
    assert list(after(call(1, 3), line("SessionStart-compact", 4)).announced) == ["call-1"]
    assert failed(after(call(1, 3)), 5.0, "overloaded").announced == {}


def test_an_announcement_that_nothing_comes_of_is_forgotten() -> None:
    turn = after(call(1, 3))
    assert counted(turn, 3 + ANNOUNCED_S) == 1
    assert counted(turn, 4 + ANNOUNCED_S) == 0
    assert list(fold(turn, call(2, 4 + ANNOUNCED_S)).announced) == ["call-2"]


def test_an_announcement_with_a_prompt_that_was_cut_counts_too() -> None:
    given = {"subagent_type": "writer", "prompt": "x" * PAYLOAD_BYTES_MAX}
    turn = after(
        line("PreToolUse-Agent", 3, True, tool_input=given), line("PreToolUse-Agent", 4, True, tool_input=given)
    )
    assert counted(turn) == 2
    assert counted(fold(turn, line("SubagentStart", 5, **A1))) == 2


def test_the_sub_agents_of_a_dead_agent_take_no_memory() -> None:
    turn = after(line("SubagentStart", 3, **A1), call(1, 3))
    now = Moment("boot", 10.0, 10.0)
    looks = [count(Sight(process=life, turn=turn), now) for life in LIVES]
    assert looks == [2, 2, 0], "of one that cannot be seen nobody knows that it is dead"


def test_a_new_session_has_no_sub_agents_and_a_compaction_keeps_them() -> None:
    started = line("SubagentStart", 3, **A1)
    assert list(after(started, line("SessionStart-compact", 5)).subagents) == ["a1"]
    assert after(started, line("SessionStart-startup", 5, source="clear")).subagents == {}
    assert after(started, line("SessionEnd-other", 5)).subagents == {}


def test_a_payload_that_was_cut_still_says_whose_it_is() -> None:
    long = "x" * PAYLOAD_BYTES_MAX
    ended = after(
        line("SubagentStart", 3, **A1),
        line("Stop", 5, background_tasks=[IN_BACKGROUND]),
        line("PostToolUse-in-subagent", 7, cut=True, tool_response={"stdout": long}, **A1),
    )
    assert (ended.state, ended.since, ended.newest) == ("idle", 5, 7), "the parent's turn was not opened again"
    assert fold(ended, line("SubagentStop", 9, cut=True, last_assistant_message=long, **A1)).subagents == {}
    own = line("PostToolUse", 8, cut=True, tool_input={"agent_id": "a1"}, tool_response={"stdout": long})
    assert fold(ended, own).state == "working", "only a tool's words name a sub-agent"


def test_what_a_sub_agent_writes_is_its_output() -> None:
    write: dict[str, Any] = {"tool_name": "Write", "tool_input": {"file_path": "notes.md"}}
    turn = after(
        line("SubagentStart", 3, **A1),
        line("PostToolUse-in-subagent", 5, **A1),
        line("PostToolUse-in-subagent", 7, **write, **A1),
        line("PostToolUse", 9, **write),
    )
    assert turn.subagents["a1"].wrote == 7
    assert turn.begun == {"researcher": 3}


# When they are late


def sight(state: str = "idle", screen: str = "idle", outputs: tuple[OutputSight, ...] = (), **changes: Any) -> Sight:
    turn = replace(Turn(state, ago(3000), ago(500), 42), **changes)  # type: ignore[arg-type]
    life = {"watched_since": 1.0, "life": ago(1) if state == "working" else 0.0, "outputs": outputs}
    return Sight(process="alive", session="alive", screen=screen, turn=turn, **life)  # type: ignore[arg-type]


def running(seconds: float, kind: str = "researcher", **changes: Any) -> dict[str, Subagent]:
    return {"a1": replace(Subagent(kind, ago(seconds), "a1"), **changes)}


def told(seconds_ago: float, mails: int = 1, **changes: Any) -> dict[str, OverdueSubagent]:
    known = OverdueSubagent(
        run="r-1",
        agent="writer",
        incarnation=1,
        id="a1",
        type="researcher",
        limit_s=1800.0,
        ran_s=1801.0,
        opened=NOW.plus(-seconds_ago),
        told=NOW.plus(-seconds_ago),
        mails=mails,
    )
    return {"a1": replace(known, **changes)}


def found(what: Sight, overdue: dict[str, OverdueSubagent] | None = None, **table: float) -> Diagnosis:
    names = {name.replace("_", "-"): value for name, value in table.items()}
    return diagnose(WRITER, DUTY, what, LIMITS, NOW, time_limits=names, overdue=overdue or {})


@pytest.mark.parametrize(("kind", "seconds"), [("researcher", 1800), ("aa-data-step2", 600), ("slow", 5000)])
def test_it_is_late_after_the_time_of_its_type(kind: str, seconds: float) -> None:
    assert found(sight(subagents=running(seconds - 1, kind)), slow=5000.0).kind == "waiting"
    for one in (
        sight(subagents=running(seconds + 1, kind)),
        sight("working", "busy", subagents=running(seconds + 1, kind)),
    ):
        late = found(one, slow=5000.0)
        assert (late.kind, late.action, late.waits_for) == ("subagent_overdue", "NUDGE", f"sub-agent {kind}")
        assert late.evidence[0].endswith(f"without output, {seconds} s are allowed")


def test_output_of_its_own_or_of_its_parents_task_gives_it_time() -> None:
    assert found(sight(subagents=running(5000, wrote=ago(1700)))).kind == "waiting"
    assert found(sight(subagents=running(5000, wrote=ago(1900)))).kind == "subagent_overdue"
    written = OutputSight("draft.md", 10, NOW.wall - 1700, is_new=True)
    assert found(sight(subagents=running(5000), outputs=(written,))).kind == "waiting"


def test_its_parent_is_told_again_after_each_further_time_and_then_a_person() -> None:
    late = sight(subagents=running(9000))
    actions = {
        "just told": found(late, told(100)).action,
        "told, and its time has passed again": found(late, told(1801)).action,
        "told twice": found(late, told(1801, mails=2)).action,
        "a person was called": found(late, told(1801, mails=2, called=True)).action,
    }
    assert list(actions.values()) == ["", "NUDGE", "ESCALATE", ""], actions
    assert found(late, told(100)).kind == "subagent_overdue", "it is late as long as nothing has settled it"


def test_each_of_several_that_are_late_is_told_of() -> None:
    both = {**running(9000), "a2": Subagent("checker", ago(2000), "a2")}
    late = found(sight(subagents=both), told(100)).late
    assert late is not None
    assert late.subagent.id == "a2"


def test_those_of_one_type_are_told_of_together() -> None:
    several = {f"a{n}": Subagent("researcher", ago(9000 - n), f"a{n}") for n in range(1, 5)}
    others = {"b1": Subagent("checker", ago(8000), "b1"), "a9": Subagent("researcher", ago(10), "a9")}
    late = found(sight(subagents={**several, **others}), told(100))
    assert late.late is not None
    assert late.late.subagent.id == "a2", "of the first its parent was told a short while ago"
    assert late.evidence[1:] == ("hooks: 2 more of that type are late as well",)
    case = Case(WRITER, DUTY, sight(subagents={**several, **others}), LIMITS, NOW, overdue=told(100))
    assert [one.subagent.id for one in asked_for_with(case, late.late)] == ["a2", "a3", "a4"]


def test_one_that_runs_no_more_is_gone() -> None:
    known = told(100)["a1"]
    turn = Turn("idle", subagents=running(1901))
    assert not is_gone(known, WRITER, turn)
    assert not is_gone(known, WRITER, None), "nothing could be seen"
    assert not is_gone(known, WRITER, Turn()), "its spool could not be read"
    assert is_gone(known, WRITER, replace(turn, subagents={}))
    assert is_gone(known, replace(WRITER, incarnation=2), turn)
    assert is_gone(known, None, turn)


def test_one_that_is_settled_is_not_waited_for_any_more() -> None:
    result = found(sight(subagents=running(9000)), told(100, settled="skipped"))
    assert (result.kind, result.action) == ("silent_turn", "NUDGE")
    again = {**running(9000), "a2": Subagent("researcher", ago(10), "a2")}
    assert found(sight(subagents=again, begun={"researcher": ago(10)})).kind == "waiting", "it was started again"


def test_a_client_that_looks_idle_in_an_open_turn_waits_for_its_sub_agent() -> None:
    """Codex shows its prompt while a sub-agent runs."""
    looks_idle = sight("working", "idle", subagents=running(700))
    result = found(replace(looks_idle, screen_since=ago(700)))
    assert (result.kind, result.action) == ("waiting", "")


def test_outputs_of_an_agent_that_died_over_its_sub_agent_may_be_half_written() -> None:
    dead = replace(sight(subagents=running(60)), process="dead", session="dead", outputs_fresh=True)
    assert found(dead).action == "RESTART"
    assert found(replace(dead, turn=replace(dead.turn, subagents={}))).action == "RESCUE"


def test_what_has_settled_it() -> None:
    known = told(100)["a1"]
    turn = Turn("idle", subagents=running(1901))
    assert settled_by(known, WRITER, turn) == ""
    assert settled_by(known, WRITER, None) == "", "nothing could be seen"
    assert settled_by(known, WRITER, Turn()) == "", "its spool could not be read"
    assert settled_by(known, WRITER, replace(turn, subagents={})) == "ended"
    assert settled_by(known, WRITER, replace(turn, begun={"researcher": ago(1901)})) == ""
    assert settled_by(known, WRITER, replace(turn, begun={"researcher": ago(50)})) == "started_again"
    assert settled_by(known, WRITER, replace(turn, begun={"checker": ago(50)})) == ""
    assert settled_by(known, replace(WRITER, incarnation=2), turn) == "lost"
    assert settled_by(known, None, turn) == "lost"


def test_the_self_check_fails_until_it_is_settled_also_when_the_task_is_done() -> None:
    def result(overdue: dict[str, OverdueSubagent]) -> tuple[str, str]:
        view = replace(the_view(), overdue=list(overdue.values()))
        checks = run_checks(Facts(view=view, sights={"writer": sight()}, now=NOW))
        return next((one.result, one.detail) for one in checks if one.name == "SUBAGENTS_IN_TIME")

    assert result({}) == ("ok", "")
    assert result(told(100)) == ("failed", "researcher of writer: told 100 s ago, and not settled")
    assert result(told(100, settled="skipped")) == ("ok", "")


# What is counted of them


class Spool:
    """An agent's spool, second by second."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "writer.spool"
        self.mono = 0.0

    def hook(self, event: str, incarnation: int = 1, **payload: Any) -> Spool:
        self.mono += 1.0
        with self.path.open("ab") as file:
            file.write(render(self.mono + 1e9, self.mono, incarnation, 77, event, payload))
        return self

    def read(self) -> AgentTally:
        return TallyReader(str(self.path), harness("scripted")).read()[0]


def ends(tally: AgentTally) -> list[tuple[str, str, float]]:
    return [(one.id, one.how, one.seconds) for one in tally.told if isinstance(one, SubagentTold)]


def test_starts_and_ends_are_told_once_each_however_short_it_was(tmp_path: Path) -> None:
    spool = Spool(tmp_path).hook("SessionStart").hook("SubagentStart", **A1)
    spool.hook("PostToolUse", tool_name="Write", **A1).hook("SubagentStop", **A1).hook("SubagentStop", **A1)
    tally = spool.hook("SubagentStart", **A1).hook("SubagentStop", **A1).read()
    assert ends(tally) == [("a1", "", 0.0), ("a1", "ended", 2.0), ("a1", "", 0.0), ("a1", "ended", 1.0)]
    assert len({(one.key, bool(one.how)) for one in tally.told if isinstance(one, SubagentTold)}) == 4
    assert tally.incarnations["1"].lives == {"researcher": Lives(started=2, ended=2, seconds=3.0)}


@pytest.mark.parametrize("last", [("SessionEnd", 1), ("SessionStart", 2)], ids=["session", "incarnation"])
def test_one_that_never_tells_of_its_end_is_lost_with_its_client(tmp_path: Path, last: tuple[str, int]) -> None:
    tally = Spool(tmp_path).hook("SessionStart").hook("SubagentStart", **A1).hook(last[0], last[1]).read()
    assert ends(tally) == [("a1", "", 0.0), ("a1", "lost", 1.0)]
    assert tally.incarnations["1"].lives == {"researcher": Lives(started=1, lost=1, seconds=1.0)}
    assert tally.running == ()


def test_what_still_runs_when_the_run_is_over_was_lost(tmp_path: Path) -> None:
    tally = Spool(tmp_path).hook("SessionStart").hook("SubagentStart", **A1).read()
    assert [one.id for one in tally.running] == ["a1"]
    over = tally.at_its_end(12.0)
    assert ends(over) == [("a1", "", 0.0), ("a1", "lost", 10.0)]
    assert over.incarnations["1"].lives == {"researcher": Lives(started=1, lost=1, seconds=10.0)}


def test_counts_of_sub_agents_are_added_and_never_shrink() -> None:
    one, two = (
        Tally(lives={"a": Lives(started=2, seconds=1.0)}),
        Tally(lives={"a": Lives(started=1, ended=1), "b": Lives()}),
    )
    assert one.plus(two).lives == {"a": Lives(started=3, ended=1, seconds=1.0), "b": Lives()}
    assert one.larger(two).lives == {"a": Lives(started=2, ended=1, seconds=1.0), "b": Lives()}


def test_what_it_says_against_work_is_kept_without_tokens_and_nothing_else_is(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    token = "ghp_" + "a1B2" * 9
    for said in ("AGREE", f"With {token} I read it.\nDISAGREE: the sum is wrong", None):
        spool.hook("SubagentStart", **A1).hook("SubagentStop", last_assistant_message=said, **A1)
    objections = [one.objection for one in spool.read().told if isinstance(one, SubagentTold) and one.how]
    assert [bool(text) for text in objections] == [False, True, False]
    assert "DISAGREE: the sum is wrong" in objections[1]
    assert token not in objections[1]


# What they say in the end


@pytest.mark.parametrize(
    "text",
    [
        "DISAGREE",
        "Verdict: **DISAGREE**, the sum is wrong.",
        "Say AGREE or DISAGREE.\n\nDISAGREE",
        "AGREE? No: DISAGREE.",
    ],
)
def test_a_disagreement_is_the_last_verdict_of_a_text(text: str) -> None:
    assert disagrees(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AGREE",
        "I disagree a little",
        "DISAGREEMENT",
        "NON-DISAGREE",
        "DISAGREE or AGREE? AGREE.",
        "I do not DISAGREE",
    ],
)
def test_all_else_is_none(text: str) -> None:
    assert not disagrees(text)


def the_view(state: str = "approved", round_: int = 1, **plan: Any) -> RunView:
    """A draft of writer's, dispatched 1000 s ago, that judge has reviewed; and an earlier step of the same writer."""
    outline = Checkpoint(name="outline-review", artifact="outline.md", author="outline", reviewers=("judge",))
    review = replace(Checkpoint(name="review", artifact="draft.md", author="draft", reviewers=("judge",)), **plan)
    roles = tuple(Role(name=name, harness="scripted") for name in ("writer", "judge", "cross-validator"))
    dispatches = tuple(Dispatch(name=name, to="writer", task="Write.") for name in ("outline", "draft"))
    phases = tuple(
        Phase(name=dispatch.name, dispatches=(dispatch,), checkpoints=(checkpoint,))
        for dispatch, checkpoint in zip(dispatches, (outline, review), strict=True)
    )
    tasks = {
        dispatch.name: TaskRecord(
            run="r-1",
            task=dispatch.name,
            dispatch=dispatch.name,
            phase=number,
            holders=("writer",),
            text="",
            state="accepted",
            agent="writer",
            dispatched=NOW.plus(-sent),
        )
        for number, (dispatch, sent) in enumerate(zip(dispatches, (3000, 1000), strict=True))
    }
    agents = {name: replace(WRITER, agent=name, role=name) for name in ("writer", "judge", "cross-validator")}
    records = {
        "outline-review": CheckpointRecord(
            run="r-1", checkpoint="outline-review", phase=0, state="approved", round=1, closed=NOW.plus(-2000)
        ),
        "review": CheckpointRecord(
            run="r-1", checkpoint="review", phase=1, state=state, round=round_, closed=NOW.plus(-100)
        ),
    }
    run = RunRecord(
        run="r-1",
        spec="",
        project_folder=folder_at("/p"),
        output_folder=folder_at("/o"),
        created=NOW.plus(-9000),
        state="RUNNING",
        phase=1,
    )
    deliverable = ByteCheck(path="draft.md")
    plan_ = Plan(name="r", roles=roles, phases=phases, deliverable=deliverable)
    return RunView(plan=plan_, run=run, agents=agents, tasks=tasks, checkpoints=records)


@pytest.mark.parametrize("parent", ["writer", "judge"])
@pytest.mark.parametrize(
    ("started_ago", "about"),
    [(500, ["review"]), (50, ["review"]), (2500, ["outline-review"]), (1500, ["outline-review"]), (4000, [])],
    ids=["at work when it was approved", "began later", "of the earlier step", "between the two", "before all"],
)
def test_the_step_that_a_validator_was_at_work_for_is_meant(parent: str, started_ago: float, about: list[str]) -> None:
    assert objected_by_subagent(the_view(), parent, "cross-validator", NOW.plus(-started_ago), "DISAGREE") == about


def test_after_a_reboot_the_wall_clock_says_what_a_validator_was_at_work_for() -> None:
    """The monotonic clock has begun anew: whatever it says now is smaller than all that it said before."""
    now = Moment("next boot", 60.0, NOW.wall + 100)
    assert objected_by_subagent(the_view(), "writer", "cross-validator", now.plus(-50), "DISAGREE") == ["review"]
    view, closed = the_view(), Moment("next boot", 20.0, NOW.wall + 60)
    again = replace(view.checkpoints["outline-review"], closed=closed)
    view = replace(view, checkpoints={**view.checkpoints, "outline-review": again})
    assert objected_by_subagent(view, "writer", "cross-validator", now.plus(-10), "DISAGREE") == ["outline-review"]
    assert objected_by_mail(view, "judge", "writer", "DISAGREE") == ["outline-review"]


def test_a_step_that_is_named_is_meant() -> None:
    for text in ("DISAGREE with outline.md", "DISAGREE (outline-review)"):
        assert objected_by_subagent(the_view(), "writer", "cross-validator", NOW.plus(-50), text) == ["outline-review"]
    assert objected_by_subagent(
        the_view(), "writer", "cross-validator", NOW.plus(-50), "DISAGREE: see my-outline.md"
    ) == ["review"]


def test_others_than_validators_of_those_concerned_have_no_say() -> None:
    assert objected_by_subagent(the_view(), "writer", "researcher", NOW.plus(-500), "DISAGREE") == []
    assert objected_by_subagent(the_view(), "cross-validator", "cross-validator", NOW.plus(-500), "DISAGREE") == []
    view = the_view(validators=("checker-*",))
    assert objected_by_subagent(view, "writer", "cross-validator", NOW.plus(-500), "DISAGREE") == []
    assert objected_by_subagent(view, "writer", "checker-2", NOW.plus(-500), "DISAGREE") == ["review"]


def test_before_the_approval_it_is_about_the_round_under_way() -> None:
    assert objected_by_subagent(the_view("asked"), "judge", "validator", NOW.plus(-500), "DISAGREE") == ["review"]
    assert objected_by_subagent(the_view("revised"), "judge", "validator", NOW.plus(-500), "DISAGREE") == []
    anew = the_view(round_=2)
    assert objected_by_subagent(anew, "judge", "validator", NOW.plus(-1500), "DISAGREE") == ["review"], (
        "of an earlier round"
    )


def test_a_letter_to_the_author_counts_from_reviewers_and_validators_after_the_approval() -> None:
    for sender in ("judge", "cross-validator"):
        assert objected_by_mail(the_view(), sender, "writer", "DISAGREE") == ["review"]
        assert objected_by_mail(the_view(), sender, "writer", "DISAGREE: outline.md") == ["outline-review"]
        assert objected_by_mail(the_view(), "writer", sender, "DISAGREE") == []
    assert objected_by_mail(the_view("asked"), "judge", "writer", "DISAGREE: draft.md") == ["outline-review"]
