"""Messages that a client's own hooks hand out: each once, whole, and only to whom it is for."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.actions import postbox
from dogwatch.model.moment import Moment
from dogwatch.model.records import MessageRecord
from support.helpers import wait_for
from support.hooking import AGENT, INCARNATION, RUN, SAMPLES, HookedAgent, command_line, hooked_agent
from support.records import message_record

HEADER = "[dogwatch:{} mail] hello"
PROMPT = (SAMPLES / "UserPromptSubmit.json").read_bytes()


@pytest.fixture
def agent() -> Iterator[HookedAgent]:
    with hooked_agent() as made:
        yield made


def put(agent: HookedAgent, number: int, body: str = "", incarnation: int = INCARNATION) -> MessageRecord:
    queued = Moment("boot", float(number), 1_000_000.0 + number)
    addressed = {"run": RUN, "to": AGENT, "incarnation": incarnation, "sender": "operator"}
    message = message_record(**addressed, id=f"m{number}", body=body, queued=queued)
    postbox.put(agent.box(), message, f"{HEADER.format(message.id)}\n{body}")
    return message


def carried(answer: bytes) -> str:
    """The text that goes to the model with this answer of a hook."""
    if not answer:
        return ""
    told = json.loads(answer)
    text = told["reason"] if "decision" in told else told["hookSpecificOutput"]["additionalContext"]
    assert isinstance(text, str)
    return text


def stop(agent: HookedAgent, **changed: object) -> str:
    payload = json.loads((SAMPLES / "Stop.json").read_bytes()) | changed
    done = agent.hook("Stop", json.dumps(payload).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    return carried(done.stdout)


@pytest.mark.parametrize("event", ["PostToolUse", "PostToolUseFailure", "UserPromptSubmit"])
def test_a_message_goes_with_the_next_event_that_can_carry_it(agent: HookedAgent, event: str) -> None:
    put(agent, 1, "look here")
    for silent in ("PreToolUse", "Notification", "SessionEnd", "SubagentStop"):
        assert agent.hook(silent, b'{"tool_name":"Read","tool_input":{}}').stdout == b""
    done = agent.hook(event, (SAMPLES / f"{event}.json").read_bytes())
    assert json.loads(done.stdout)["hookSpecificOutput"]["hookEventName"] == event
    assert carried(done.stdout) == f"{HEADER.format('m1')}\nlook here"
    assert [line.event for line in agent.lines()][-2:] == [event, "Delivered"]
    assert agent.lines("Delivered")[0].raw.decode() == HEADER.format("m1")
    assert agent.hook(event, PROMPT).stdout == b""
    assert len(agent.lines("Delivered")) == 1


def test_a_stop_is_held_once_for_a_message(agent: HookedAgent) -> None:
    put(agent, 1, "one more thing")
    assert stop(agent, stop_hook_active=True) == ""
    assert stop(agent).endswith("one more thing")
    assert stop(agent) == ""
    put(agent, 2)
    assert stop(agent, stop_hook_active=True) == ""
    assert [line.event for line in agent.lines()] == ["Stop", "StopHeld", "Delivered", "Stop", "Stop"]


def test_a_sub_agent_does_not_get_its_parents_mail(agent: HookedAgent) -> None:
    put(agent, 1)
    done = agent.hook("PostToolUse", (SAMPLES / "PostToolUse-in-subagent.json").read_bytes())
    assert (done.returncode, done.stdout) == (0, b"")
    assert stop(agent, agent_id="a1") == ""
    assert len(os.listdir(agent.box())) == 1
    assert [line.event for line in agent.lines()] == ["PostToolUse", "Stop"]


def test_a_message_for_another_incarnation_stays(agent: HookedAgent) -> None:
    for incarnation in (1, 12, 22, 3, 0):
        put(agent, incarnation, incarnation=incarnation)
    Path(agent.box(), f"x.{INCARNATION}.new").write_text("half", encoding="utf-8")
    assert stop(agent) == ""
    assert len(os.listdir(agent.box())) == 6
    put(agent, 7)
    assert stop(agent) == f"{HEADER.format('m7')}\n"
    assert len(os.listdir(agent.box())) == 6
    postbox.empty(agent.box())
    assert os.listdir(agent.box()) == []
    assert agent.lines("Delivered")[0].incarnation == INCARNATION


@pytest.mark.parametrize(
    "body",
    [
        "tab\tand\ttab",
        "".join(map(chr, range(32))) + "\x7f\x1b[31mred",
        "😀 é \u2028 \ufeff \U0010ffff",
        "one\r\ntwo\rthree\n\n",
        "lone \ud800 and \udfff and \udcff",
        '"quotes" \\ and \\n </script>',
        "",
        " " * 1000,
        "x" * 200_000,
    ],
)
def test_a_message_arrives_as_it_was_written(agent: HookedAgent, body: str) -> None:
    put(agent, 1, body)
    assert stop(agent) == f"{HEADER.format('m1')}\n{body}"
    assert agent.lines("Delivered")[0].raw.decode() == HEADER.format("m1")


def test_a_strange_header_does_not_hinder_the_receipt(agent: HookedAgent) -> None:
    message = put(agent, 1)
    postbox.put(agent.box(), message, "[dogwatch:m1 mail] \ud800\t\r\nhello")
    assert stop(agent) == "[dogwatch:m1 mail] \ud800\t\r\nhello"
    assert agent.lines("Delivered")[0].raw.startswith(b"[dogwatch:m1 mail] ")


def test_what_does_not_fit_into_one_answer_goes_with_the_next_in_order(agent: HookedAgent) -> None:
    for number in range(1, 6):
        put(agent, number, "x" * 4000)
    answers = [stop(agent) for _ in range(4)]
    found = [[f"m{number}" for number in range(1, 6) if HEADER.format(f"m{number}") in text] for text in answers]
    assert found == [["m1", "m2"], ["m3", "m4"], ["m5"], []]


def test_the_same_message_put_twice_is_delivered_once(agent: HookedAgent) -> None:
    put(agent, 1)
    put(agent, 1)
    assert stop(agent).count("[dogwatch:m1 ") == 1
    assert stop(agent) == ""


def test_hooks_at_the_same_time_hand_out_each_message_once(agent: HookedAgent) -> None:
    names = [f"m{number}" for number in range(1, 21)]
    for number in range(1, 21):
        put(agent, number, "x" * 2900)
    processes = [
        subprocess.Popen(
            command_line("UserPromptSubmit"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=agent.environment
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(PROMPT)
        process.stdin.close()
    answers = []
    for process in processes:
        with process:
            assert process.stdout is not None
            answers.append(process.stdout.read())
    texts = [carried(answer) for answer in answers]
    receipts = b" ".join(line.raw for line in agent.lines("Delivered")).decode()
    for name in names:
        assert "".join(texts).count(HEADER.format(name)) == 1
        assert receipts.count(HEADER.format(name)) == 1
    assert len(agent.lines("Delivered")) == len([text for text in texts if text])
    assert len(agent.lines("UserPromptSubmit")) == 8
    assert os.listdir(agent.box()) == []


def test_of_a_hook_and_a_captain_that_takes_it_back_exactly_one_has_the_message(agent: HookedAgent) -> None:
    for _ in range(4):
        messages = [put(agent, number) for number in range(1, 201)]
        line = command_line("UserPromptSubmit")
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=agent.environment) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(PROMPT)
            process.stdin.close()
            wait_for(lambda: len(os.listdir(agent.box())) < 200, what="the hook's first message")
            back = {message.id for message in reversed(messages) if postbox.take_back(agent.box(), message)}
            text = carried(process.stdout.read())
        handed = {message.id for message in messages if f"{HEADER.format(message.id)}\n" in text}
        assert handed
        assert handed & back == set()
        assert handed | back == {message.id for message in messages}
        assert not any(postbox.take_back(agent.box(), message) for message in messages)
