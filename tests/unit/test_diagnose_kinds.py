"""Each diagnosis from the facts that make it, and the neighbour that it must not be taken for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dogwatch.model.folders import folder_at
from dogwatch.model.life import Interrupt
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Dispatch, Limits, Phase, Plan, Role
from dogwatch.model.records import AgentRecord, MessageRecord, RunRecord, SettledStall, TaskRecord
from dogwatch.model.sight import Child, OutputSight, Sight, Subagent, ToolCall, Tree, Turn, Wait
from dogwatch.model.view import Duty, RunView
from dogwatch.policy.diagnose import diagnose
from dogwatch.policy.diagnosis import Diagnosis
from dogwatch.policy.judge import judge
from dogwatch.policy.waits import WaitGraph
from support.records import living_agent, message_record, running

NOW = Moment("boot", 10_000.0, 50_000.0)
LIMITS = Limits()
AGENT = living_agent(since=NOW.plus(-9000))
DUTY = Duty("task", "draft", NOW.plus(-8000), "normal", 1800.0)


def ago(seconds: float) -> float:
    return NOW.mono - seconds


def turn(state: str, quiet_s: float, **changes: Any) -> Turn:
    return replace(Turn(state, ago(3000), ago(quiet_s), 42), **changes)  # type: ignore[arg-type]


def working(quiet_s: float, *, life_s: float | None = None, children: tuple[Child, ...] = (), **changes: Any) -> Sight:
    """An open turn whose last hook was so long ago."""
    more = {name: changes.pop(name) for name in list(changes) if name in Sight.__dataclass_fields__}
    return Sight(
        **{
            "process": "alive",
            "session": "alive",
            "screen": "busy",
            "turn": turn("working", quiet_s, **changes),
            "tree": Tree(cores=0.0, children=children),
            "watched_since": 1.0,
            "life": ago(life_s) if life_s is not None else 0.0,
            **more,
        }
    )


def idle(quiet_s: float, **changes: Any) -> Sight:
    more = {name: changes.pop(name) for name in list(changes) if name in Sight.__dataclass_fields__}
    sight = {"process": "alive", "session": "alive", "screen": "idle", "watched_since": 1.0, "composer": ""}
    return Sight(**{**sight, "turn": turn("idle", quiet_s, **changes), **more})


def found(sight: Sight, duty: Duty | None = DUTY, limits: Limits = LIMITS, **more: Any) -> Diagnosis:
    result = diagnose(AGENT, duty, sight, limits, NOW, **more)
    assert result.action in ("", *result.traits.actions), "the table says what may be advised"
    return result


def tool(age_s: float) -> dict[str, ToolCall]:
    return {"t1": ToolCall("Bash", "make all", ago(age_s))}


def test_a_tool_whose_process_lives_is_waited_for_however_long_it_takes() -> None:
    child = Child(99, "make", 2399.0, 0.0)
    result = found(working(2400, tools=tool(2400), children=(child,)))
    assert (result.kind, result.action, result.waits_for) == ("long_tool", "", "make (pid 99)")
    assert "make (pid 99) for 2399 s" in result.evidence[1]
    assert result.advice == "wait: the tool lives"


def test_only_the_spec_permits_to_interrupt_a_tool() -> None:
    sight = working(2400, tools=tool(2400), children=(Child(99, "make", 2399.0, 0.0),))
    assert found(sight, limits=replace(LIMITS, tool_max_s=2300)).action == "INTERRUPT"
    assert found(sight, limits=replace(LIMITS, tool_max_s=2500)).action == ""


def test_what_an_earlier_call_has_left_running_does_not_speak_for_this_one() -> None:
    server = Child(88, "node", 5000.0, 3.0)
    result = found(working(400, tools=tool(400), children=(server,)))
    assert (result.kind, result.action) == ("stalled", "PROBE")


def test_silent_reasoning_is_work_as_long_as_the_client_lives() -> None:
    assert found(working(5000, life_s=2)).kind == "working"
    assert found(working(5000, life_s=2)).action == ""


@pytest.mark.parametrize(("risk", "claim_s"), [("normal", 300), ("high", 600), ("critical", 900)])
def test_a_turn_from_which_nothing_comes_is_asked_for_a_sign_of_life_when_its_claim_runs_out(
    risk: str, claim_s: float
) -> None:
    duty = replace(DUTY, risk=risk)
    assert found(working(claim_s - 1), duty).action == ""
    result = found(working(claim_s + 1), duty)
    assert (result.kind, result.action) == ("stalled", "PROBE")


def test_a_stopped_process_is_no_sign_of_life_whatever_its_screen_did_last() -> None:
    sight = replace(working(400, life_s=350), tree=Tree(stopped=True, children=(Child(9, "sh", 1.0, 0.0),)))
    result = found(sight)
    assert (result.kind, result.action) == ("stalled", "PROBE")
    assert "process: its process is stopped by a signal" in result.evidence


def test_the_same_call_again_and_again_without_output_is_a_loop() -> None:
    call: dict[str, Any] = {"call": 'Bash {"command": "make check"}', "repeats": 10, "repeats_since": ago(60)}
    result = found(working(1, life_s=0, **call))
    assert (result.kind, result.action) == ("looping", "ESCALATE")
    assert 'Bash {"command": "make check"}' in result.evidence[0]
    assert found(working(1, life_s=0, **{**call, "repeats": 9})).kind == "working"


def test_a_permission_dialog_calls_a_person_and_says_what_about() -> None:
    sight = working(50, screen="permission", screen_since=ago(5), dialog="Bash make deploy", dialog_since=ago(50))
    result = found(sight)
    assert (result.kind, result.action, result.waits_for) == ("awaiting_permission", "ESCALATE", "a person")
    assert "Bash make deploy" in result.advice
    assert found(replace(sight, screen_since=ago(1))).action == "", "it must have stood there for a moment"
    assert found(replace(sight, screen="busy")).kind != "awaiting_permission", "it was answered"


def test_a_client_that_tries_again_by_itself_is_left_to_it() -> None:
    result = found(working(900, screen="retry", life_s=0))
    assert (result.kind, result.action) == ("provider_wait", "HOLD")


def test_a_turn_that_the_provider_ended_is_held_first_and_then_asked_to_go_on() -> None:
    held = found(idle(10, failure="overloaded"))
    assert (held.kind, held.action) == ("provider_wait", "HOLD")
    after = found(idle(100, failure="overloaded"))
    assert (after.kind, after.action) == ("provider_wait", "NUDGE")
    assert found(idle(10, failure="overloaded"), None).kind == "idle", "it owes nothing"


def test_who_has_waited_for_a_person_at_its_start_has_its_time_to_start_when_the_dialog_is_gone() -> None:
    asked = replace(AGENT, settled=SettledStall(stall="#1:startup_dialog", again=NOW))
    for gone_s, kind in ((0.0, "starting"), (LIMITS.startup_s - 1, "starting"), (LIMITS.startup_s, "startup_stall")):
        sight = Sight(process="alive", session="alive", screen="starting", screen_since=ago(gone_s), turn=Turn())
        assert diagnose(asked, None, sight, LIMITS, NOW).kind == kind, gone_s
        assert diagnose(AGENT, None, sight, LIMITS, NOW).kind == "startup_stall"


def test_a_startup_dialog_calls_a_person_with_its_text() -> None:
    lines = ("Do you trust the files in this folder?", "1. No, exit", "2. Yes")
    fresh = Turn()
    sight = Sight(process="alive", session="alive", screen="dialog", screen_since=ago(5), lines=lines, turn=fresh)
    result = found(sight)
    assert (result.kind, result.action) == ("startup_dialog", "ESCALATE")
    assert set(lines) <= set(result.evidence)


def test_stopping_again_and_again_is_a_loop_only_while_it_goes_on() -> None:
    looping = found(idle(1, stops=4, stops_since=ago(7), screen="busy"))
    assert (looping.kind, looping.action) == ("stop_loop", "INTERRUPT")
    assert looping.evidence[0] == "hooks: 4 times in this turn it tried to stop after a hook had held it, for 7 s"
    assert found(idle(1, stops=3, screen="busy")).kind == "working", "a stop that is held now and then is healthy"
    assert found(idle(1, stops=4)).kind == "idle", "the prompt is free: it has stopped at last"
    assert found(idle(60, stops=9)).kind == "silent_turn"
    assert found(working(1, stops=9)).kind == "working", "in a tool it does what the hook asks for"
    assert found(working(1, stops=4, held=True)).kind == "stop_loop", "its client says that the stop was held"


def test_a_screen_that_is_busy_with_a_sub_agent_is_no_stop_that_was_held() -> None:
    running = {"a1": Subagent("researcher", ago(60))}
    assert found(idle(1, stops=4, own=ago(1), screen="busy", subagents=running)).kind == "waiting"
    assert found(idle(1, stops=5, own=ago(1), screen="busy", subagents=running)).kind == "stop_loop"


def test_a_screen_that_cannot_be_read_needs_a_further_stop() -> None:
    assert found(idle(1, stops=4, own=ago(1), screen="unknown")).kind == "idle"
    assert found(idle(1, stops=5, own=ago(1), screen="unknown")).kind == "stop_loop"


def test_a_loop_that_was_interrupted_is_not_interrupted_by_every_alert() -> None:
    interrupt = Interrupt(diagnosis="stop_loop", presses=(NOW.plus(-2),))
    agent = AGENT.while_running(lambda life: replace(life, interrupt=interrupt))
    result = diagnose(agent, DUTY, idle(1, stops=6, screen="busy"), LIMITS, NOW)
    assert (result.kind, result.action) == ("stop_loop", "")


def test_a_running_sub_agent_is_waited_for_until_its_time_is_over() -> None:
    running = {"a1": Subagent("researcher", ago(600))}
    result = found(idle(500, subagents=running))
    assert (result.kind, result.action, result.waits_for) == ("waiting", "", "sub-agent researcher")
    late = {"a1": Subagent("researcher", ago(1900))}
    for sight in (idle(500, subagents=late), working(500, life_s=1, subagents=late)):
        result = found(sight)
        assert (result.kind, result.action) == ("subagent_overdue", "NUDGE")


def test_an_output_in_the_wrong_place_is_named() -> None:
    result = found(idle(100, elsewhere=("/p/wrong/draft.md",)))
    assert (result.kind, result.action) == ("wrong_path", "NUDGE")
    assert "files: found at /p/wrong/draft.md" in result.evidence


def test_who_waits_for_an_answer_is_not_silent_and_a_ring_is_a_deadlock() -> None:
    letter = Wait("writer", "judge", "mail m01", 90.0)
    result = found(idle(100), awaited=[letter])
    assert (result.kind, result.action, result.waits_for) == ("waiting", "", "judge")
    result = found(idle(100), awaited=[letter], ring=("writer", "judge"))
    assert (result.kind, result.action, result.waits_for) == ("deadlock", "NUDGE", "judge")
    assert "writer waits for judge waits for writer" in result.evidence[1]


@pytest.mark.parametrize("duty", [None, Duty("task", "draft", None)])
@pytest.mark.parametrize("quiet_s", [1, 1e3, 1e7])
def test_idle_with_nothing_to_do_is_healthy_for_ever(duty: Duty | None, quiet_s: float) -> None:
    result = found(idle(quiet_s), duty)
    assert (result.kind, result.action) == ("idle", "")


def a_run(agent: AgentRecord, *letters: MessageRecord) -> RunView:
    """A run whose writer holds its task since long ago."""
    task = TaskRecord(
        run="r-1",
        task="draft",
        dispatch="draft",
        phase=0,
        holders=("writer",),
        text="",
        state="claimed",
        agent="writer",
        dispatched=DUTY.delivered,
        delivered=DUTY.delivered,
    )
    dispatch = Dispatch(name="draft", to="writer", task="Write.")
    role, phase = Role(name="writer", harness="scripted"), Phase(name="draft", dispatches=(dispatch,))
    plan = Plan(name="r", roles=(role,), phases=(phase,), deliverable=ByteCheck(path="draft.md"))
    run = RunRecord(
        run="r-1",
        spec="",
        project_folder=folder_at("/p"),
        output_folder=folder_at("/p/out"),
        created=NOW.plus(-9000),
        state="RUNNING",
    )
    messages = {letter.id: letter for letter in letters}
    return RunView(plan=plan, run=run, agents={"writer": agent}, tasks={"draft": task}, messages=messages)


def judged(view: RunView, sight: Sight) -> tuple[str, str, str]:
    result = judge(view, "writer", sight, WaitGraph(()), NOW)
    return result.kind, result.action, result.waits_for


def test_who_waits_for_its_provider_is_never_restarted_for_it_a_person_is_called_instead() -> None:
    sight = idle(100, failure="overloaded")
    for nudges, action in ((0, "NUDGE"), (LIMITS.nudges_max, "ESCALATE")):
        agent = replace(AGENT, life=running(NOW.plus(-9000), nudges=nudges))
        assert judged(a_run(agent), sight)[1] == action


def a_letter(age_s: float, kind: str = "mail") -> MessageRecord:
    return message_record(sender="clerk", kind=kind, subject="from-clerk", body="found: 42", queued=NOW.plus(-age_s))


def test_an_agent_whose_mail_is_on_its_way_is_not_nudged_for_its_silence() -> None:
    assert judged(a_run(AGENT, a_letter(0.1)), idle(1000)) == ("waiting", "", "clerk")
    # Mail that does not arrive must not hide the silence for ever, and a nudge is no answer.
    assert judged(a_run(AGENT, a_letter(LIMITS.nudge_s)), idle(1000)) == ("silent_turn", "NUDGE", "")
    assert judged(a_run(AGENT, a_letter(0.1, "nudge")), idle(1000)) == ("silent_turn", "NUDGE", "")
    newer = replace(a_letter(0.1), id="m2")
    assert judged(a_run(AGENT, a_letter(LIMITS.nudge_s), newer), idle(1000)) == ("silent_turn", "NUDGE", "")


def test_an_agent_whose_letter_was_just_acknowledged_has_time_to_get_its_answer() -> None:
    for age_s, expected in ((0.1, ("waiting", "", "an answer")), (LIMITS.nudge_s, ("silent_turn", "NUDGE", ""))):
        assert judged(a_run(replace(AGENT, answered=NOW.plus(-age_s))), idle(1000)) == expected


@pytest.mark.parametrize(("period", "repeats", "kind"), [(2, 7, "looping"), (2, 6, "working"), (1, 7, "working")])
def test_calls_that_take_turns_are_a_loop_after_fewer_laps(period: int, repeats: int, kind: str) -> None:
    sight = working(1, life_s=0, call="a, then b", period=period, repeats=repeats, repeats_since=ago(60))
    assert found(sight).kind == kind


WAITING_SHELL = Child(99, "sh", 700.0, 0.0)


def test_tools_that_look_for_each_others_files_are_a_deadlock_for_a_person() -> None:
    sight = working(700, tools=tool(700), children=(WAITING_SHELL,), life_s=0)
    result = found(sight, ring=("writer", "clerk"))
    assert (result.kind, result.action, result.waits_for) == ("deadlock", "ESCALATE", "clerk")
    assert "writer waits for clerk waits for writer" in result.evidence[1]


def test_a_tool_that_only_waits_long_after_an_approval_is_a_checkpoint_deadlock() -> None:
    duty = replace(DUTY, approved="reading", approved_at=NOW.plus(-700))
    sight = working(650, tools=tool(650), children=(WAITING_SHELL,), life_s=0)
    result = found(sight, duty)
    assert (result.kind, result.action) == ("checkpoint_deadlock", "ESCALATE")
    assert "reading was approved" in result.evidence[1]
    assert result.advice.startswith("writer should have acted")


@pytest.mark.parametrize("cores", [0.5, None])
def test_a_tool_that_works_after_an_approval_is_long_work(cores: float | None) -> None:
    duty = replace(DUTY, approved="reading", approved_at=NOW.plus(-700))
    sight = working(650, tools=tool(650), life_s=0)
    assert found(replace(sight, tree=Tree(cores=cores, children=(WAITING_SHELL,))), duty).kind == "long_tool"


def test_a_young_tool_after_an_old_approval_is_long_work() -> None:
    duty = replace(DUTY, approved="reading", approved_at=NOW.plus(-7000))
    child = Child(99, "sh", 90.0, 0.0)
    assert found(working(90, tools=tool(90), children=(child,), life_s=0), duty).kind == "long_tool"


def test_a_client_that_was_stopped_while_it_tried_again_is_stalled() -> None:
    sight = working(900, screen="retry", life_s=890)
    assert found(replace(sight, tree=Tree(stopped=True))).kind == "stalled"
    assert found(replace(sight, tree=Tree(stopped=False))).kind == "provider_wait"


def test_files_that_the_repeated_calls_themselves_write_are_no_progress() -> None:
    calls = (("1", "Write A", "/p/out/draft.md"), ("2", "Bash make check", ""), ("3", "Write B", "/p/out/draft.md"))
    loop: dict[str, Any] = {"calls": calls, "period": 3, "repeats": 10, "repeats_since": ago(60)}
    wall = NOW.wall - 5
    flips = working(1, life_s=0, **loop, outputs=(OutputSight("draft.md", 9, wall, is_new=True),))
    assert found(flips).kind == "looping"
    other = working(1, life_s=0, **loop, outputs=(OutputSight("data.csv", 9, wall, is_new=True),))
    assert found(other).kind == "working", "something else has come of it"


def test_what_the_state_file_says_is_named_and_surer_than_the_screen() -> None:
    sight = working(700, life_s=700, screen="idle", screen_since=ago(700))
    by_screen, by_file = found(sight), found(replace(sight, source="state file"))
    assert (by_screen.kind, by_file.kind) == ("silent_turn", "silent_turn")
    assert (by_screen.source, by_file.source) == ("screen", "state file")
    assert by_screen.confidence < by_file.confidence < 0.95


@pytest.mark.parametrize(
    ("screen", "source", "kind", "action"),
    [
        ("busy", "state file", "working", ""),
        ("idle", "state file", "startup_stall", "RESTART"),
        ("busy", "screen", "startup_stall", "RESTART"),
        ("unknown", "screen", "startup_stall", "RESTART"),
    ],
)
def test_a_client_that_says_it_is_busy_has_started_though_its_hooks_are_silent(
    screen: str, source: str, kind: str, action: str
) -> None:
    sight = Sight(process="alive", session="alive", screen=screen, source=source, watched_since=1.0)
    diagnosis = found(sight, None)
    assert (diagnosis.kind, diagnosis.action) == (kind, action)


def test_a_client_that_is_gone_from_below_its_launcher_is_dead_whatever_its_screen_still_shows() -> None:
    def left(quiet_s: float, *children: Child) -> Diagnosis:
        return found(idle(quiet_s, pid=99, tree=Tree(cores=0.0, children=children)))

    assert left(600).kind == "exited"
    assert "the client (pid 99) is gone" in left(600).evidence[0]
    assert left(5).kind != "exited", "the launcher may be starting it anew"
    assert left(600, Child(99, "claude", 900.0, 0.0)).kind == "silent_turn"
    assert left(600, Child(98, "claude", 900.0, 0.0)).kind == "silent_turn", "somebody is there, perhaps a new one"
    assert found(idle(600, pid=99, tree=None)).kind == "silent_turn", "nothing is known of the processes"


def test_a_tool_that_was_interrupted_is_not_interrupted_again_at_once() -> None:
    child = Child(99, "make", 2399.0, 0.0)
    limits = replace(LIMITS, tool_max_s=60)
    sight = working(2400, tools=tool(2400), children=(child,))
    assert found(sight, limits=limits).action == "INTERRUPT"
    interrupt = Interrupt(diagnosis="long_tool", presses=(NOW.plus(-2),))
    agent = AGENT.while_running(lambda life: replace(life, interrupt=interrupt))
    assert diagnose(agent, DUTY, sight, limits, NOW).action == ""
