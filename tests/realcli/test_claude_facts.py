"""What the real Claude Code tells of errors, of model calls and of its own state, all in one run."""

from __future__ import annotations

import json
import selectors

from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.model.sight import STATE_FILE
from realcli.clients import rehearsal
from realcli.lab import DONE, REPORT, WRITE, Lab, asked, directives, model, on
from support.fleet import Fleet
from support.helpers import wait_for

USAGE = {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 30, "cache_write_tokens": 5}
TOOLS = (
    {"shell": "false"},
    {"tool": {"name": "Bash", "input": {"cmd": 5}}},
    {"shell": "cat /etc/hostname"},
    {"agent": {"prompt": directives({"shell": "false"}, {"text": "I have looked."})}},
    {"text": "I shall see."},
)
RULES = (
    on("dispatch draft", *TOOLS, times=1),
    on("nudge draft", {"status": {"code": 429, "times": "always"}}, times=1),
    on("nudge draft", {"status": {"code": 529, "times": "always"}}, times=1),
    on("nudge draft", WRITE, REPORT, DONE),
)


def told_state(fleet: Fleet, run: str) -> str:
    """What the client does, by a look without its screen."""
    with selectors.DefaultSelector() as selector:
        eyes = MachineEyes(fleet.home, fleet.boot, selector, "onlooker", run)
        sight = eyes.look(fleet.view(run), ["writer"], screens=False)["writer"]
    assert sight.source == STATE_FILE or sight.screen == "unknown"
    return sight.screen


def test_errors_have_types_and_calls_and_tokens_are_counted(fleet: Fleet) -> None:
    lab = Lab(fleet, "claude")
    with model(*RULES, usage=USAGE) as scripted:
        role = {
            "permissions": ["Bash", "Agent", "Task", "deny: Bash(cat:*)"],
            "environment": {
                **rehearsal("claude", lab.home, fleet.project, scripted.url),
                "CLAUDE_CODE_MAX_RETRIES": "1",
            },
        }
        run = lab.launch(scripted, role=role, hold_s=1, nudges_max=20)
        wait_for(lambda: told_state(fleet, run) in ("idle", "busy"), 120, "what its own file says")
        lab.deliver(run)
        calls = sum(request.status == 200 for request in asked(scripted))

    told = {event.body["type"]: event.body for event in fleet.events("agent_error", "writer")}
    assert set(told) == {"tool_failed", "validation_failure", "permission_denied", "rate_limited", "overloaded"}
    assert (told["tool_failed"]["tool"], told["tool_failed"]["message"]) == ("Bash", "Exit code 1")
    assert "429" in told["rate_limited"]["message"]

    [writer] = json.loads(fleet.cli("status", run, "--json").stdout)["runs"][0]["agents"]
    assert writer["errors"]["tool_failed"] == 2, "its own and its sub-agent's"
    usage = writer["usage"]
    assert (usage["calls"], usage["subagents"]["calls"]) == (calls, 2)
    assert (usage["input_tokens"], usage["output_tokens"]) == (100 * calls, 7 * calls)
    assert (usage["cache_read_tokens"], usage["cache_creation_tokens"]) == (30 * calls, 5 * calls)
    (lives,) = writer["subagents"].values()
    assert (lives["started"], lives["ended"], lives["lost"]) == (1, 1, 0), "its own word of what runs agrees"
    own, whole = fleet.events("usage_recorded")[-2:]
    assert (own.agent, own.body["calls"]) == ("writer", calls)
    assert (whole.agent, whole.body["calls"]) == ("", calls)
