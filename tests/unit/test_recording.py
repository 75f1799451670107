"""A scenario made from hand-written spools: what each agent did for which message, whatever is another in each run."""

from __future__ import annotations

import json
from typing import Any

from dogwatch.model.spool import PAYLOAD_BYTES_MAX, SpoolLine, parse, render
from dogwatch.testing.model import parse as parse_scenario
from dogwatch.testing.model.recording import Played, Recording, record
from dogwatch.testing.model.rehearsal import as_yaml

PATHS = {"/proj/out/tide-1": "DOGWATCH_OUTPUT", "/proj": "DOGWATCH_PROJECT"}


class Spool:
    """An agent's spool, with one second between its lines."""

    def __init__(self, agent: str, role: str = "", begin: float = 100.0) -> None:
        self.agent, self.role, self.at, self.incarnation = agent, role or agent, begin, 1
        self.lines: list[SpoolLine] = []
        self._calls = 0

    def hook(self, event: str, **payload: Any) -> Spool:
        self.at += 1.0
        line = parse(render(1.7e9 + self.at, self.at, self.incarnation, 7, event, payload))
        assert line is not None
        self.lines.append(line)
        return self

    def told(self, kind: str, subject: str, message: str = "m0123456789") -> Spool:
        return self.hook("UserPromptSubmit", prompt=f"[dogwatch:{message} {kind} {subject}]\nPlease do it.")

    def call(self, name: str, subagent: str = "", **given: Any) -> Spool:
        self._calls += 1
        own = {"agent_id": subagent} if subagent else {}
        return self.hook("PreToolUse", tool_name=name, tool_input=given, tool_use_id=f"t{self._calls}", **own)

    def denied(self) -> Spool:
        return self.hook("Denied", rule="tmux", tool_use_id=f"t{self._calls}")

    def stop(self, said: str = "Done so.") -> Spool:
        return self.hook("Stop", last_assistant_message=said)

    @property
    def played(self) -> Played:
        return Played(self.agent, self.role, self.lines)


def recorded(*spools: Spool, **options: Any) -> Recording:
    recording = record([spool.played for spool in spools], PATHS, **options)
    if recording.scenario:
        parse_scenario(recording.scenario)
    return recording


def rules(recording: Recording, name: str) -> list[dict[str, Any]]:
    return [rule for rule in recording.scenario["rules"] if rule["name"] == name]


def test_calls_follow_their_message_with_variables_for_what_is_another_in_each_run() -> None:
    writer = Spool("writer").hook("SessionStart", source="startup").told("dispatch", "draft")
    writer.call("Bash", command="make -C /proj > /proj/out/tide-1/log", description="Make", timeout=5000)
    writer.call("Write", file_path="/proj/out/tide-1/draft.md", content="in /proj2, not in /proj.\nm0123456789")
    writer.call("Bash", command="dogwatch report done --task draft", description="Report").stop("It is written.")
    found = recorded(writer)
    (rule,) = rules(found, "writer: dispatch draft")
    command = "make -C ${DOGWATCH_PROJECT} > ${DOGWATCH_OUTPUT}/log"
    written = {"file_path": "${DOGWATCH_OUTPUT}/draft.md", "content": "in /proj2, not in ${DOGWATCH_PROJECT}.\n"}
    written["content"] += "${dogwatch:message}"
    assert rule["role"] == "writer"
    assert rule["do"] == [
        {"shell": {"command": command, "input": {"timeout": 5000}}},
        {"tool": {"name": "Write", "input": written}},
        {"shell": "dogwatch report done --task draft"},
        {"text": "It is written."},
    ]
    assert (found.notes, found.calls) == ((), 3)


def test_the_same_question_is_answered_in_order_and_by_each_role_for_itself() -> None:
    strict, kind = Spool("judge-1", "judge"), Spool("judge-2", "judge", 100.5)
    strict.told("checkpoint", "review").call("Bash", command="dogwatch checkpoint revise review").stop()
    kind.told("checkpoint", "review").call("Bash", command="dogwatch checkpoint approve review").stop()
    strict.told("checkpoint", "review", "m1").call("Bash", command="dogwatch checkpoint approve review").stop()
    other = Spool("editor").told("checkpoint", "review").call("Bash", command="echo seen").stop()
    found = recorded(strict, kind, other).scenario["rules"]
    asked = [(rule["role"], rule.get("times"), rule["do"][0]["shell"]) for rule in found if rule.get("role")]
    assert asked == [
        ("judge", 1, "dogwatch checkpoint revise review"),
        ("judge", 1, "dogwatch checkpoint approve review"),
        ("judge", None, "dogwatch checkpoint approve review"),
        ("editor", None, "echo seen"),
    ]


def test_what_an_agent_did_before_it_died_is_left_out_where_it_did_it_again() -> None:
    writer = Spool("writer").told("dispatch", "draft", "m1").call("Bash", command="half")
    writer.incarnation = 2
    writer.hook("SessionStart", source="resume").told("dispatch", "draft", "m2").call("Bash", command="whole").stop()
    (rule,) = rules(recorded(writer), "writer: dispatch draft")
    assert [step for step in rule["do"] if "shell" in step] == [{"shell": "whole"}]
    assert "times" not in rule
    (nudged,) = rules(recorded(writer), "draft, when nudged")
    assert nudged["do"] == rule["do"]


def test_mail_at_the_end_of_a_turn_is_answered_apart_and_in_its_middle_changes_nothing() -> None:
    writer = Spool("writer").told("dispatch", "draft").call("Bash", command="one")
    writer.hook("Delivered", prompt="[dogwatch:mdef mail from-clerk]").call("Bash", command="two")
    writer.hook("StopHeld", last_assistant_message="It is written.")
    writer.hook("Delivered", prompt="[dogwatch:mabc mail from-clerk]")
    writer.call("Bash", command="dogwatch mail ack mabc").stop("Both are done.")
    found = recorded(writer)
    assert rules(found, "writer: dispatch draft")[0]["do"] == [
        {"shell": "one"},
        {"shell": "two"},
        {"text": "It is written."},
    ]
    (mail,) = rules(found, "writer: mail from-clerk")
    assert mail["do"] == [{"shell": "dogwatch mail ack ${dogwatch:message}"}, {"text": "Both are done."}]


def test_sub_agents_are_recorded_apart_and_known_by_their_prompt() -> None:
    writer = Spool("writer").told("dispatch", "draft")
    writer.call("Agent", prompt="Look at /proj/a (all).", subagent_type="Explore", description="Look")
    writer.hook("SubagentStart", agent_id="a1", agent_type="Explore").call("Bash", "a1", command="ls /proj/a")
    writer.hook("SubagentStop", agent_id="a1", last_assistant_message="I have looked.").stop()
    found = recorded(writer)
    (parent,), (child,) = rules(found, "writer: dispatch draft"), rules(found, "writer: a sub-agent")
    told = {"prompt": "Look at ${DOGWATCH_PROJECT}/a (all).", "type": "Explore", "input": {"description": "Look"}}
    assert parent["do"] == [{"agent": told}, {"text": "Done so."}]
    assert child["do"] == [{"shell": "ls ${DOGWATCH_PROJECT}/a"}, {"text": "I have looked."}]
    pattern = parse_scenario(found.scenario).rules[
        [rule["name"] for rule in found.scenario["rules"]].index(child["name"])
    ]
    assert pattern.prompt is not None
    assert pattern.prompt.search("Look at /another/copy/a (all).")
    assert not pattern.prompt.search("Look at /another/copy/b (all).")


def test_what_cannot_be_recorded_is_said() -> None:
    writer = Spool("writer").hook("UserPromptSubmit", prompt="hello from a person").call("Bash", command="ls").stop()
    writer.told("dispatch", "draft").call("Bash", command="tmux kill-server").denied()
    writer.hook("PermissionRequest", tool_name="WebFetch").call("Write", content="x" * 2 * PAYLOAD_BYTES_MAX)
    cut = writer.lines[-1]
    writer.lines[-1] = SpoolLine(cut.wall, cut.mono, 1, 7, "PreToolUse", cut.payload_bytes, cut.raw[:PAYLOAD_BYTES_MAX])
    found = recorded(writer)
    (rule,) = rules(found, "writer: dispatch draft")
    assert rule["do"] == [{"text": "Done."}]
    assert [note.removeprefix("writer: ") for note in found.notes] == [
        "what a person typed is left out, with what came of it",
        "a call that the guard denied is left out",
        "a person was asked whether WebFetch may be used, and will be asked again",
        "a tool call was too long for the spool and is left out",
    ]


def test_tokens_are_redacted_and_pauses_kept_only_on_demand() -> None:
    secret = "sk-ant-" + "a1" * 20
    writer = Spool("writer").told("dispatch", "draft").call("Bash", command=f"curl -H 'x-api-key: {secret}' x").stop()
    assert secret not in json.dumps(recorded(writer).scenario)
    assert "delay_s" not in json.dumps(recorded(writer).scenario)
    (rule,) = rules(recorded(writer, pace=True), "writer: dispatch draft")
    assert rule["do"][0]["shell"]["delay_s"] == 1.0


def test_nothing_recorded_is_no_scenario() -> None:
    assert recorded(Spool("writer").hook("SessionStart")).scenario == {}


def test_a_scenario_is_written_as_people_read_it() -> None:
    text = as_yaml({"rules": [{"do": [{"shell": "one\ntwo\n"}, {"text": "ä"}]}]})
    assert text == "rules:\n- do:\n  - shell: |\n      one\n      two\n  - text: ä\n"
