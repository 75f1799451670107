"""From hook events to the turn, with payloads as a real client sends them (`tests/data/hooks/`)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dogwatch.model.sight import Turn
from dogwatch.model.spool import TURN_ENDED, SpoolLine, parse, render
from dogwatch.policy.turns import fold

HOOKS = Path(__file__).parent.parent / "data" / "hooks"


def line(name: str, mono: float, **changes: Any) -> SpoolLine:
    """The payload of that file as the spool keeps it."""
    payload = {**json.loads((HOOKS / f"{name}.json").read_text()), **changes}
    raw = json.dumps(payload).encode()
    return SpoolLine(mono + 1e9, mono, 1, 4711, payload["hook_event_name"], len(raw), raw)


def after(*lines: SpoolLine, turn: Turn | None = None) -> Turn:
    turn = turn or Turn()
    for one in lines:
        turn = fold(turn, one)
    return turn


WORKING = after(line("SessionStart-startup", 1), line("UserPromptSubmit", 2))


def test_a_client_that_has_started_is_idle() -> None:
    turn = after(line("SessionStart-startup", 1))
    assert turn == Turn("idle", 1, 1, 4711, own=1, transcript=turn.transcript)
    assert turn.transcript.endswith(".jsonl")


def test_a_prompt_opens_a_turn_and_a_stop_ends_it() -> None:
    assert (WORKING.state, WORKING.since) == ("working", 2)
    ended = after(line("PreToolUse", 3), line("PostToolUse", 4), line("Stop", 5), turn=WORKING)
    assert (ended.state, ended.since, ended.newest) == ("idle", 5, 5)


@pytest.mark.parametrize("event", ["Stop", "StopFailure", "SessionEnd-other"])
def test_whatever_ends_a_turn_ends_it(event: str) -> None:
    assert after(line(event, 9), turn=WORKING).state == "idle"


def test_a_turn_lasts_from_its_first_event() -> None:
    assert after(line("PreToolUse", 5), line("PostToolUse", 8), turn=WORKING).since == 2


@pytest.mark.parametrize("event", ["PostToolUse-in-subagent", "SubagentStop"])
def test_a_sub_agent_that_outlives_the_stop_does_not_open_the_turn_again(event: str) -> None:
    turn = after(line("Stop", 5), line(event, 7), turn=WORKING)
    assert (turn.state, turn.since, turn.newest) == ("idle", 5, 7)


def test_a_notification_says_nothing_about_the_turn() -> None:
    assert after(line("Notification-idle_prompt", 7), turn=WORKING).state == "working"


def test_compaction_in_the_middle_of_a_turn_does_not_end_it() -> None:
    """The client announces a compacted session like a new one; the turn goes on behind it."""
    turn = after(line("PreCompact-manual", 5), line("SessionStart-compact", 6), turn=WORKING)
    assert (turn.state, turn.newest) == ("working", 6)


def test_compaction_at_the_prompt_opens_no_turn() -> None:
    idle = after(line("Stop", 4), turn=WORKING)
    assert after(line("PreCompact-manual", 5), line("SessionStart-compact", 6), turn=idle).state == "idle"


def test_a_prompt_is_the_receipt_of_every_message_in_it_at_its_first_time() -> None:
    text = "[dogwatch:m0a dispatch draft]\nWrite.\n[dogwatch:m0b mail from-judge]\nHello."
    turn = after(line("UserPromptSubmit", 3, prompt=text), line("UserPromptSubmit", 9, prompt=text))
    assert turn.receipts == {"m0a": 3, "m0b": 3}


def test_a_payload_that_was_cut_is_still_a_receipt() -> None:
    whole = line("UserPromptSubmit", 3, prompt="[dogwatch:m0a dispatch draft]\n" + "x" * 5000)
    cut = SpoolLine(whole.wall, whole.mono, 1, 4711, whole.event, whole.payload_bytes, whole.raw[:2000])
    assert cut.payload() == {}
    assert after(cut).receipts == {"m0a": 3}


def test_only_a_submitted_prompt_is_a_receipt() -> None:
    quoted = {"command": "echo '[dogwatch:m0a dispatch draft]'"}
    assert after(line("PreToolUse", 3, tool_input=quoted), turn=WORKING).receipts == {}


def test_a_prompt_that_speaks_of_agent_ids_is_no_sub_agents() -> None:
    prompt = '[dogwatch:m0a dispatch draft]\nthe field "agent_id": "x" must be kept'
    turn = after(line("UserPromptSubmit", 3, prompt=prompt))
    assert (turn.state, turn.receipts) == ("working", {"m0a": 3})


def test_a_tool_with_an_agent_id_among_its_arguments_is_no_sub_agents() -> None:
    idle = after(line("Stop", 4), turn=WORKING)
    assert after(line("PreToolUse", 6, tool_input={"agent_id": "a7"}), turn=idle).state == "working"


def test_events_out_of_order_never_make_the_newest_older() -> None:
    assert after(line("PreToolUse", 9), line("PostToolUse", 8), turn=WORKING).newest == 9


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b'{"prompt": 7}', b'{"prompt": null}', b"\xff\xfe", b"{" * 500])
def test_a_payload_that_is_not_what_it_should_be_is_no_reason_to_fail(raw: bytes) -> None:
    turn = fold(Turn(), SpoolLine(1.0, 1.0, 1, 4711, "UserPromptSubmit", len(raw), raw))
    assert (turn.state, dict(turn.receipts)) == ("working", {})


def calls(*names: str) -> Turn:
    """The turn after calls of these tools, one each second."""
    lines = (line("PreToolUse", 3.0 + n, tool_input={"command": name}) for n, name in enumerate(names))
    return after(*lines, turn=WORKING)


def test_the_same_call_in_a_row_is_counted_from_its_first_time() -> None:
    turn = calls("ls", "make", "make", "make")
    assert (turn.period, turn.repeats, turn.repeats_since) == (1, 3, 4.0)
    assert '"make"' in turn.call


@pytest.mark.parametrize("lap", [("cat a", "cat b"), ("cat a", "cat b", "ls"), ("a", "b", "c", "d")])
def test_a_few_calls_that_take_turns_are_counted_by_laps(lap: tuple[str, ...]) -> None:
    turn = calls("make", *lap * 5)
    assert (turn.period, turn.repeats) == (len(lap), 5)
    assert all(f'"{name}"' in turn.call for name in lap)


def test_calls_between_which_others_come_are_no_laps() -> None:
    names = [name for n in range(20) for name in ("make check", f"edit {n}")]
    assert calls(*names).repeats == 1


def test_a_call_that_could_not_be_read_is_like_no_other() -> None:
    cut = [replace(line("PreToolUse", 3.0 + n), raw=b'{"tool_na') for n in range(9)]
    assert after(*cut, turn=WORKING).repeats == 1


def stop(mono: float, *, held: bool) -> SpoolLine:
    return line("Stop", mono, stop_hook_active=held)


def ended(mono: float, heard: float) -> SpoolLine:
    return parse_line(render(mono + 1e9, mono, 1, 4711, TURN_ENDED, {"ended": "stop_loop", "heard": heard}))


def parse_line(raw: bytes) -> SpoolLine:
    found = parse(raw)
    assert found is not None
    return found


LOOPING = after(stop(3, held=False), *(stop(4.0 + n, held=True) for n in range(4)), turn=WORKING)


def test_only_stops_after_a_held_one_count() -> None:
    assert after(stop(3, held=False), turn=WORKING).stops == 0
    assert (LOOPING.stops, LOOPING.stops_since) == (4, 4.0)


def test_a_tool_between_two_stops_does_not_make_the_count_begin_anew() -> None:
    turn = after(line("PreToolUse", 8), line("PostToolUse", 9), stop(10, held=True), turn=LOOPING)
    assert (turn.stops, turn.stops_since) == (5, 4.0)


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart-startup"])
def test_a_new_prompt_and_a_new_session_make_it_begin_anew(event: str) -> None:
    assert after(line(event, 8), turn=LOOPING).stops == 0


def test_a_stop_that_no_hook_had_held_is_the_first_of_its_turn() -> None:
    assert after(stop(8, held=False), turn=LOOPING).stops == 0


def test_a_stop_whose_payload_was_cut_still_says_that_it_was_held() -> None:
    whole = line("Stop", 8, stop_hook_active=True, last_assistant_message="x" * 5000)
    assert after(replace(whole, raw=whole.raw[:-100]), turn=LOOPING).stops == 5
    quoted = line("Stop", 8, stop_hook_active=False, last_assistant_message='"stop_hook_active": true' + "x" * 5000)
    assert after(replace(quoted, raw=quoted.raw[:-100]), turn=LOOPING).stops == 0


def test_the_captain_ends_a_turn_of_whose_end_no_hook_tells() -> None:
    in_a_tool = after(line("PreToolUse", 8), turn=LOOPING)
    turn = after(ended(9, heard=8), turn=in_a_tool)
    assert (turn.state, turn.since, turn.newest, turn.stops, turn.ended) == ("idle", 9, 9, 0, "stop_loop")
    assert not turn.tools
    assert after(line("UserPromptSubmit", 10), turn=turn).ended == ""


def test_what_the_captain_had_not_heard_of_is_not_ended_by_it() -> None:
    prompted = after(line("UserPromptSubmit", 8), turn=LOOPING)
    assert after(ended(9, heard=7), turn=prompted) == prompted


def test_a_sub_agent_that_goes_on_does_not_keep_the_captain_from_ending_a_turn() -> None:
    turn = after(line("PostToolUse-in-subagent", 8), ended(9, heard=7), turn=LOOPING)
    assert (turn.state, turn.ended) == ("idle", "stop_loop")


def started(number: int, mono: float) -> tuple[SpoolLine, SpoolLine]:
    """The call that starts a sub-agent, the same each time, and the sub-agent's own start."""
    call = line("PreToolUse", mono, tool_name="Agent", tool_input={"subagent_type": "reader"}, tool_use_id=f"u{number}")
    return call, line("SubagentStart", mono + 0.1, agent_id=f"a{number}", agent_type="reader")


def test_many_sub_agents_that_are_started_side_by_side_are_no_loop() -> None:
    one_by_one = after(*(one for n in range(10) for one in started(n, 3 + n)), turn=WORKING)
    all_calls_first = after(*(started(n, 3 + n)[0] for n in range(10)), turn=WORKING)
    assert (len(one_by_one.subagents), one_by_one.repeats) == (10, 1)
    assert (len(all_calls_first.announced), all_calls_first.repeats) == (10, 1)


def test_the_same_sub_agent_again_and_again_is_a_loop() -> None:
    lines = [(*started(n, 3 + n), line("SubagentStop", 3.5 + n, agent_id=f"a{n}")) for n in range(10)]
    assert after(*(one for lap in lines for one in lap), turn=WORKING).repeats == 10
