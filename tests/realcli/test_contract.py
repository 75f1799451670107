"""The harness contract: what must be true of every client, on the real one, against the scripted model."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dogwatch.harness import harness
from faults.watching import decisions, process_of, wait_seen, watch
from realcli.lab import (
    DONE,
    FOREVER,
    INSIDE,
    REPORT,
    WAIT,
    WRITE,
    Lab,
    asked,
    command_lines,
    directives,
    model,
    on,
    results,
    told,
    until,
)
from support.helpers import wait_for


def test_it_takes_its_task_runs_tools_and_reports(lab: Lab, client: str) -> None:
    heard = lab.fleet.base / "heard"
    with model(on("dispatch draft", until(heard), WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, patient=True)
        # The captain hears of a delivery from the client's hook: of a report that comes first, it hears no delivery.
        wait_for(lambda: len(lab.delivered()) >= 2, 150, lab.fleet.tail)
        heard.touch()
        lab.deliver(run)
    assert not lab.fleet.events("alert_raised")
    told = [event.body for event in lab.fleet.events("message_delivered", "writer")]
    assert [(body["kind"], body["tries"]) for body in told] == [("canary", 1), ("dispatch", 1)]
    assert [event.body for event in lab.fleet.events("guard_proven", "writer")] == [{"incarnation": 1}]


def test_it_is_nudged_when_it_stops_over_its_task(lab: Lab, client: str) -> None:
    with model(on("nudge draft", WRITE, REPORT, DONE), on("dispatch draft", {"text": "I shall see."})) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
    assert decisions(lab.fleet, run, "writer") == [("NUDGE", "recovered")]
    assert [event.body["diagnosis"] for event in lab.fleet.events("agent_nudged", "writer")] == ["silent_turn"]


def test_it_survives_errors_of_its_provider_without_a_touch(lab: Lab, client: str) -> None:
    overloaded = {"status": {"code": 529, "times": 2, "retry_after_s": 1}}
    with model(on("dispatch draft", overloaded, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
        assert [request.status for request in asked(scripted)][:3] == [529, 529, 200]
    assert not lab.fleet.events("agent_restarted")
    assert not lab.fleet.events("agent_nudged")


def test_when_it_is_killed_the_next_incarnation_goes_on_with_its_conversation(lab: Lab, client: str) -> None:
    with model(
        on("dispatch draft", FOREVER, times=1),
        on("dispatch draft", WRITE, REPORT, DONE),
    ) as scripted:
        run = lab.launch(scripted, long_tool_s=2)
        wait_seen(lab.fleet, run, "writer", "long_tool", 150)
        lab.fleet.kill(process_of(lab.fleet, run, "writer"), signal.SIGKILL)
        lab.deliver(run)
        first, *others = asked(scripted)
        assert {request.conversation for request in others} == {first.conversation}
        assert others[-1].messages > first.messages, "what was said before the death is still there"
    assert [event.body["reason"] for event in lab.fleet.events("agent_restarted", "writer")] == ["exited"]


def test_a_long_task_with_all_kinds_of_characters_arrives_character_for_character(lab: Lab, client: str) -> None:
    # But for tabs, of which the client's composer makes four blanks.
    odd = ["Write the draft.", "quotes ' \" `$(x)` \\ end", "emoji 🐕‍🦺 — ä", "  indented", ""]
    text = "\n".join([*odd, *(f"line {n}" for n in range(5000)), "the last line"])
    with model(on("Write the draft", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, task=text)
        lab.deliver(run)
        sent = json.dumps(asked(scripted)[0].body, ensure_ascii=False)
        assert json.dumps(text, ensure_ascii=False)[1:-1] in sent
    spool = Path(lab.fleet.home.spool(run, "writer")).read_bytes()
    assert spool.count(b"\tUserPromptSubmit\t") == 1


def test_a_tool_that_may_not_run_so_long_is_interrupted_and_its_client_told_to_go_on(lab: Lab, client: str) -> None:
    with model(on("nudge draft", WRITE, REPORT, DONE), on("dispatch draft", FOREVER)) as scripted:
        run = lab.launch(scripted, long_tool_s=1, tool_max_s=3)
        process = lab.process(run)
        event = lab.fleet.wait_event("agent_interrupted", "writer", 200)
        assert event.body["diagnosis"] == "long_tool"
        # Esc may run no hook: that the turn is over, only the client's state file and its screen tell then.
        ended = lab.fleet.wait_event("turn_ended", "writer")
        assert (ended.body["diagnosis"], ended.body["how"]) == ("long_tool", "interrupted")
        # Codex keeps a command that was interrupted as a terminal in the background, for all that anybody presses.
        if client != "codex":
            wait_for(lambda: "time.sleep(300)" not in "\n".join(command_lines(process.pid)), 60, lab.fleet.tail)
        lab.deliver(run)
    assert len(lab.fleet.events("agent_interrupted", "writer")) == 1
    assert [body.body["diagnosis"] for body in lab.fleet.events("agent_nudged", "writer")] == ["silent_turn"]
    assert not lab.fleet.events("agent_restarted")


def test_f52_in_its_namespace_a_program_that_no_hook_has_read_finds_nobody_to_harm(lab: Lab, client: str) -> None:
    with model(on("dispatch draft", WAIT)) as scripted:
        run = lab.settled(scripted)
        captain, socket = lab.captain(run), lab.fleet.home.tmux(run)
        words = f"python3 {INSIDE} look {captain.pid} {socket} {lab.fleet.project} {scripted.url}"
        lab.mail(run, directives({"shell": words}, WRITE, REPORT, DONE))
        lab.deliver(run)
        # Some clients put words of their own around what a command prints.
        seen = json.loads(results(scripted)[0][results(scripted)[0].index("{") :])
    assert seen["kill"] == "ProcessLookupError"
    assert seen["socket"] == "FileNotFoundError"
    assert seen["pids"] < 12
    assert "tmux" not in seen["commands"]
    written = {seen[name] for name in ("home", "program", "registry", "settings")}
    assert written == {"OSError"}, "the file system is read-only"
    assert {seen[name] for name in ("project", "person", "network")} == {"done"}
    assert (lab.fleet.project / "mine").exists()
    assert (lab.home / "mine").exists()


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_f50_what_would_end_others_is_denied_in_words_and_the_work_goes_on(lab: Lab, client: str, sandbox: str) -> None:
    with model(on("dispatch draft", WAIT)) as scripted:
        run = lab.settled(scripted, sandbox=sandbox)
        clerk, socket = lab.process(run, "clerk"), lab.fleet.home.tmux(run)
        commands = {
            "tmux kill-server": "tmux.kill-server",
            f"bash -c 'tmux -S {socket} kill-session -t {run}-clerk'": "tmux.kill-session",
        }
        if sandbox == "off":
            commands[f"kill -9 {clerk.pid}"] = "kill.foreign"
        lab.mail(run, directives(*({"shell": command} for command in commands), WRITE, REPORT, DONE))
        lab.deliver(run)
        answers = results(scripted)
    for rule, answer in zip(commands.values(), answers, strict=False):
        assert f"denied by {rule}: " in answer
    assert [(entry["command"], entry["rule"]) for entry in lab.denials(run)] == list(commands.items())
    assert lab.fleet.view(run).agents["clerk"].process == clerk
    assert not lab.fleet.events("agent_restarted")


def test_mail_reaches_an_agent_at_work_in_the_same_turn_and_once(lab: Lab, client: str) -> None:
    gate = lab.fleet.base / "go"
    with model(on("dispatch draft", until(gate), WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, clerk=True, patient=True)
        wait_for(lambda: lab.spool(run, "PreToolUse"), 90, lab.fleet.tail)
        letter = lab.mail(run, "a letter to one at work")
        wait_for(lambda: list(Path(lab.fleet.home.post(run, "writer")).glob("*.1")), 60, lab.fleet.tail)
        gate.touch()
        wait_for(lambda: lab.delivered("mail") == [letter], 60, lab.fleet.tail)
        lab.deliver(run)
        assert told(asked(scripted)[-1]).count("a letter to one at work") == 1
    assert len(lab.spool(run, "UserPromptSubmit")) == 1, "nothing was typed but the task"


def test_f40_f43_a_draft_is_left_as_it_is_and_the_message_comes_when_it_is_gone(lab: Lab, client: str) -> None:
    draft = "half a thought of somebody"
    with model(on("dispatch draft", WAIT), on("mail from-clerk", WRITE, REPORT, DONE)) as scripted:
        run = lab.settled(scripted)
        lab.keys(run, "-l", draft)
        wait_for(lambda: lab.composer(run) == draft, 30, lambda: "\n".join(lab.screen(run)))
        lab.mail(run, "Wake up.")
        assert {lab.composer(run) for _ in lab.steps(run)} == {draft}
        assert not lab.delivered("mail")
        lab.keys(run, *harness(client).clear_keys)
        lab.deliver(run)
        assert told(asked(scripted)[-1]).count("Wake up.") == 1
    prompts = [line.payload()["prompt"] for line in lab.spool(run, "UserPromptSubmit")]
    assert len(prompts) == 2
    assert not [prompt for prompt in prompts if draft in prompt]


def test_f08_a_permission_dialog_calls_a_person_once_and_gets_no_key(lab: Lab, client: str) -> None:
    mark = lab.fleet.project / "mark"
    asks = lab.asking(mark)
    with model(on("dispatch draft", asks.step, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, clerk=True, dialog_s=1, nudge_s=1, peek_s=1, role=asks.role)
        seen = wait_seen(lab.fleet, run, "writer", "awaiting_permission", 150)
        assert seen.waits_for == "a person"
        called = lab.fleet.wait_event("person_called", "writer")
        assert "mark" in called.body["evidence"][0]
        lab.mail(run, "Are you there?")
        states = {harness(client).read(lab.screen(run), lab.title(run)).state for _ in lab.steps(run)}
        assert states == {"permission"}
        assert not mark.exists()
        lab.keys(run, *asks.yes)
        wait_for(mark.exists, 60, lambda: "\n".join(lab.screen(run)))
        lab.deliver(run)
    assert len(lab.fleet.events("person_called", "writer")) == 1
    assert not lab.fleet.events("agent_restarted")


def test_a_sub_agent_is_seen_from_its_start_to_its_end(lab: Lab, client: str) -> None:
    gate = lab.fleet.base / "go"
    sub = {"agent": {"prompt": directives(until(gate), {"text": "The sub-agent has looked."})}}
    with model(on("dispatch draft", sub, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, patient=True)
        wait_for(lambda: lab.spool(run, "SubagentStart"), 90, lab.fleet.tail)
        wait_for(
            lambda: [one for one in lab.spool(run, "PreToolUse") if "agent_id" in one.payload()], 90, lab.fleet.tail
        )
        assert not lab.spool(run, "SubagentStop")
        gate.touch()
        lab.deliver(run)
    [started], [ended] = lab.spool(run, "SubagentStart"), lab.spool(run, "SubagentStop")
    assert started.payload()["agent_id"] == ended.payload()["agent_id"]
    assert started.payload()["agent_type"]
    assert not lab.fleet.events("agent_nudged")
    assert not lab.fleet.events("agent_restarted")


def test_its_model_calls_tokens_and_context_are_counted(lab: Lab, client: str) -> None:
    usage = {"input_tokens": 50_000, "output_tokens": 7}

    def counted(run: str) -> dict[str, Any]:
        agents = json.loads(lab.fleet.cli("status", run, "--json").stdout)["runs"][0]["agents"]
        used: dict[str, Any] = next(agent["usage"] for agent in agents if agent["agent"] == "writer")
        return used

    # It is counted at rest: some clients tell of a call only when its tools are done, and the last one ends the run.
    with model(on("dispatch draft", {"shell": "true"}, WAIT), usage=usage) as scripted:
        run = lab.settled(scripted)
        context = wait_for(lambda: watch(lab.fleet, run).agents["writer"].context, 60, lab.fleet.tail)
        calls = len(asked(scripted))
        wait_for(lambda: counted(run)["calls"] >= calls, 60, lab.fleet.tail)
        used = counted(run)
        lab.mail(run, directives(WRITE, REPORT, DONE))
        lab.deliver(run)
    assert context is not None
    assert 0.01 < context < 1
    assert used["calls"] == calls == 2
    assert (used["input_tokens"], used["output_tokens"]) == (50_000 * calls, 7 * calls)
    assert counted(run)["calls"] > calls


def test_f57_new_instructions_are_told_at_the_prompt_and_its_own_reading_is_the_proof(lab: Lab, client: str) -> None:
    path = lab.fleet.project / "writer.md"
    path.write_text("---\nversion: 1\n---\nWrite well.\n")
    send = {"shell": "dogwatch mail send clerk 'I have begun.'"}
    sent = lab.fleet.base / "sent"
    refresh = on("VERSION_REFRESH_REQUIRED", send, lab.reading(path), until(sent), WRITE, REPORT, DONE)
    with model(refresh, on("dispatch draft", WAIT)) as scripted:
        run = lab.settled(scripted, instructions="writer.md")
        path.write_text("---\nversion: 2\n---\nWrite better.\n")
        # The captain looks whether it has read them, and lets the letter go: not for a run that is over.
        letters = partial(lab.fleet.events, "message_sent", "clerk")
        wait_for(lambda: any(one.body["kind"] == "mail" for one in letters()), 150, lab.fleet.tail)
        sent.touch()
        lab.deliver(run)
    assert [event.body["to"] for event in lab.fleet.events("instructions_changed")] == ["2"]
    [held], [read] = lab.fleet.events("message_held", "writer"), lab.fleet.events("instructions_read", "writer")
    assert (read.body["version"], read.body["late"]) == ("2", False)
    kinds = [(event.kind, event.body.get("message")) for event in lab.fleet.events()]
    order = [("message_held", held), ("instructions_read", read), ("message_sent", held)]
    at = [kinds.index((kind, event.body["message"])) for kind, event in order]
    assert at == sorted(at)


def test_mail_that_comes_at_the_very_end_holds_the_stop_once(lab: Lab, client: str) -> None:
    slowly = {"text": {"text": "I have done all that I could do for now. " * 4, "token_s": 0.2}}
    heard = lab.fleet.base / "heard"
    with model(on("One thing more", until(heard), WRITE, REPORT, DONE), on("dispatch draft", slowly)) as scripted:
        run = lab.launch(scripted, clerk=True, patient=True)
        wait_for(lambda: asked(scripted), 90, lab.fleet.tail)
        message = lab.mail(run, "One thing more.")
        wait_for(lambda: lab.delivered("mail"), 90, lab.fleet.tail)
        heard.touch()
        lab.deliver(run)
    events = [line.event for line in lab.spool(run)]
    assert events.count("StopHeld") == 1
    assert events.index("StopHeld") < events.index("PreToolUse")
    assert lab.delivered("mail") == [message]
    assert not lab.fleet.events("agent_nudged")
