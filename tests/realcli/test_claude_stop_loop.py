"""A stop loop of the real Claude Code, under a Stop hook of the user's own that holds every stop.

The client (2.1.325) has a limit of its own: at the ninth stop in a row that a hook holds, it ends the turn by itself,
without any further hook. `CLAUDE_CODE_STOP_HOOK_BLOCK_CAP` moves it. A tool between two stops begins the row anew, so
that a model which runs one each time is held for ever. What the hook says reaches the model as a user message, for
which no `UserPromptSubmit` runs; Esc runs no hook at all and leaves an empty composer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dogwatch.model.spool import TURN_ENDED, SpoolLine, parse
from faults.watching import decisions
from realcli.lab import DONE, REPORT, WRITE, Lab, model, on

HOLD = "echo 'You may not stop yet.' >&2; exit 2"


def hold_every_stop(lab: Lab, **variables: str) -> None:
    """The user's own settings, in the client's home."""
    settings: dict[str, Any] = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": HOLD}]}]}}
    (lab.home / ".claude").mkdir(exist_ok=True)
    (lab.home / ".claude/settings.json").write_text(json.dumps({**settings, "env": variables}))


def spool(lab: Lab, run: str) -> list[SpoolLine]:
    lines = Path(lab.fleet.home.spool(run, "writer")).read_bytes().splitlines()
    return [line for raw in lines if (line := parse(raw)) is not None]


def test_a_stop_loop_is_interrupted_and_the_task_goes_on(lab: Lab) -> None:
    hold_every_stop(lab, CLAUDE_CODE_STOP_HOOK_BLOCK_CAP="100000")
    slowly = {"text": {"text": "I am done with all of it.", "token_s": 0.1}}
    with model(on("nudge draft", WRITE, REPORT, DONE), on("dispatch draft|may not stop", slowly)) as scripted:
        run = lab.launch(scripted, probe_s=60)
        lab.deliver(run)
    assert lab.fleet.events("agent_interrupted", "writer")[0].body["diagnosis"] == "stop_loop"
    ended = lab.fleet.events("turn_ended", "writer")[0]
    assert (ended.body["diagnosis"], ended.body["how"]) == ("stop_loop", "interrupted")
    assert decisions(lab.fleet, run, "writer")[0] == ("INTERRUPT", "recovered")
    assert not lab.fleet.events("agent_restarted")
    lines = spool(lab, run)
    end = next(number for number, line in enumerate(lines) if line.event == TURN_ENDED)
    held = [line.payload()["stop_hook_active"] for line in lines[:end] if line.event == "Stop"]
    assert held[:5] == [False, True, True, True, True]
    assert lines[end + 1].event == "UserPromptSubmit", "after its end nothing more came of the turn"
    assert "nudge draft" in lines[end + 1].payload()["prompt"]
