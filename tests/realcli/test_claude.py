"""The harness contract on the real Claude Code, against the scripted model."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from dogwatch.testing.model import ScriptedModel
from faults.pipelines import one_task
from faults.watching import child_named, decisions, process_of, wait_seen
from fleet import Fleet
from realcli.clients import claude_environment, claude_home, program

WRITE = {"shell": 'mkdir -p "$DOGWATCH_OUTPUT" && echo "# Draft" > "$DOGWATCH_OUTPUT/draft.md"'}
REPORT = {"shell": "dogwatch report done --task draft"}
DONE = {"text": "The draft is written."}
FOREVER = {"shell": "python3 -c 'import time; time.sleep(300)'"}


class Lab:
    """A fleet whose writer is a real client."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.home = fleet.base / "home"
        claude_home(self.home, fleet.project)

    def launch(self, model: ScriptedModel, task: str = "Write the draft.", **limits: float) -> str:
        spec = one_task(limits={"nudge_s": 4, "peek_s": 4, "receipt_s": 20, **limits})
        spec["phases"][0]["dispatches"][0]["task"] = task
        spec["roles"]["writer"] = {
            "harness": "claude",
            "command": [program("claude")],
            "permissions": ["Bash"],
            "environment": claude_environment(self.home, model.url),
        }
        return self.fleet.launch(self.fleet.spec(spec, {}))

    def deliver(self, run: str) -> None:
        """Waits for the end, which must be good."""
        view = self.fleet.wait_over(run, 200)
        assert view.run.state == "COMPLETED", f"{view.run.cause}\n{self.fleet.tail()}"


@pytest.fixture
def lab(fleet: Fleet) -> Lab:
    return Lab(fleet)


def model(*rules: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel({"rules": list(rules)})


def on(prompt: str, *do: Any, **match: Any) -> dict[str, Any]:
    return {"prompt": prompt, "do": list(do), **match}


def test_it_takes_its_task_runs_tools_and_reports(lab: Lab) -> None:
    with model(on("dispatch draft", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
    assert not lab.fleet.events("alert_raised")
    told = [event.body for event in lab.fleet.events("message_delivered", "writer")]
    assert [(body["kind"], body["tries"]) for body in told] == [("canary", 1), ("dispatch", 1)]
    assert [event.body for event in lab.fleet.events("guard_proven", "writer")] == [{"incarnation": 1}]


def test_it_is_nudged_when_it_stops_over_its_task(lab: Lab) -> None:
    with model(on("nudge draft", WRITE, REPORT, DONE), on("dispatch draft", {"text": "I shall see."})) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
    assert decisions(lab.fleet, run, "writer") == [("NUDGE", "recovered")]
    assert [event.body["diagnosis"] for event in lab.fleet.events("agent_nudged", "writer")] == ["silent_turn"]


def test_it_survives_errors_of_its_provider_without_a_touch(lab: Lab) -> None:
    overloaded = {"status": {"code": 529, "times": 2, "retry_after_s": 1}}
    with model(on("dispatch draft", overloaded, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted)
        lab.deliver(run)
        assert [request.status for request in scripted.requests if not request.side][:3] == [529, 529, 200]
    assert not lab.fleet.events("agent_restarted")
    assert not lab.fleet.events("agent_nudged")


def test_a_long_tool_is_named_and_left_alone(lab: Lab) -> None:
    with model(on("dispatch draft", FOREVER, WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, long_tool_s=2)
        seen = wait_seen(lab.fleet, run, "writer", "long_tool")
        name, pid = child_named(seen.waits_for)
        assert name in ("bash", "sh", "zsh", "python3")
        assert pid in descendants(process_of(lab.fleet, run, "writer").pid)
        assert not lab.fleet.events("agent_restarted")
        assert not lab.fleet.events("agent_nudged")


def descendants(pid: int) -> set[int]:
    """All processes below that one."""
    below = {int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()}
    return below.union(*(descendants(child) for child in below))


def test_when_it_is_killed_the_next_incarnation_goes_on_with_its_conversation(lab: Lab) -> None:
    with model(
        on("dispatch draft", FOREVER, times=1),
        on("dispatch draft", WRITE, REPORT, DONE),
    ) as scripted:
        run = lab.launch(scripted, long_tool_s=2)
        wait_seen(lab.fleet, run, "writer", "long_tool")
        lab.fleet.kill(process_of(lab.fleet, run, "writer"), signal.SIGKILL)
        lab.deliver(run)
        first, last = [request for request in scripted.requests if not request.side][:1], scripted.requests[-1]
        assert {request.conversation for request in scripted.requests if request.conversation} == {
            first[0].conversation
        }
        assert last.messages > first[0].messages, "what was said before the death is still there"
    assert [event.body["reason"] for event in lab.fleet.events("agent_restarted", "writer")] == ["exited"]


def test_a_long_task_with_all_kinds_of_characters_arrives_character_for_character(lab: Lab) -> None:
    # But for tabs, of which the client's composer makes four blanks.
    odd = ["Write the draft.", "quotes ' \" `$(x)` \\ end", "emoji 🐕‍🦺 — ä", "  indented", ""]
    text = "\n".join([*odd, *(f"line {n}" for n in range(5000)), "the last line"])
    with model(on("Write the draft", WRITE, REPORT, DONE)) as scripted:
        run = lab.launch(scripted, task=text)
        lab.deliver(run)
        sent = json.dumps(next(request for request in scripted.requests if not request.side).body, ensure_ascii=False)
        assert json.dumps(text, ensure_ascii=False)[1:-1] in sent
    spool = Path(lab.fleet.home.spool(run, "writer")).read_bytes()
    assert spool.count(b"\tUserPromptSubmit\t") == 1
