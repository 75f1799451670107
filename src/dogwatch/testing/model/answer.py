"""What a step comes to for one request, still without a protocol: parts to say, and how the saying ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dogwatch.errors import UsageError
from dogwatch.model.brief import headers
from dogwatch.testing.model.conversation import Question
from dogwatch.testing.model.scenario import Scenario, Step, Usage

Ending = Literal["complete", "error", "drop", "hang", "tokens", "pings"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the client shall use."""

    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Texts and tool calls, in order; how fast; and how it ends, where it does not end well after so many tokens."""

    parts: tuple[str | Call, ...]
    usage: Usage
    delay_s: float = 0.0
    token_s: float = 0.0
    ending: Ending = "complete"
    tokens: int = 0
    status: int = 200
    message: str = ""
    retry_after_s: float | None = None


def answer(step: Step, question: Question, scenario: Scenario) -> Answer:
    """The answer of the step to the question; UsageError where the client has not the tool that it needs."""
    usage = step.arguments.get("usage") or scenario.usage
    token_s = step.arguments.get("token_s")
    token_s = scenario.token_s if token_s is None else token_s
    if step.name == "endless":
        return Answer((step["text"] or " ",), usage, token_s=step["every_s"], ending=step["send"])
    if step.name == "status":
        message = step["message"] or f"scripted {step['code']}"
        return Answer(
            (step["text"],),
            usage,
            token_s=token_s,
            ending="error",
            tokens=step["tokens"],
            status=step["code"],
            message=message,
            retry_after_s=step["retry_after_s"],
        )
    if step.name in ("drop", "hang"):
        ending: Ending = "drop" if step.name == "drop" else "hang"
        return Answer((step["text"],), usage, token_s=token_s, ending=ending, tokens=step["tokens"])
    text: tuple[str | Call, ...] = (step["text"],) if step.arguments.get("text") else ()
    known = {**scenario.variables, **_message(question)}
    calls = (Call(call.name, _filled(dict(call.input), known)) for call in _calls(step, question))
    parts = (*text, *calls) or ("",)
    return Answer(parts, usage, delay_s=step["delay_s"], token_s=token_s)


def tokens_of(text: str) -> list[str]:
    """The text in pieces that are sent one by one: words with the blanks before them."""
    return re.findall(r"\s*\S+|\s+$", text)


def _message(question: Question) -> dict[str, str]:
    """What dogwatch's own message that the turn is about is called."""
    found = [header for each in question.turn.rounds for header in headers(each.text)]
    return {"dogwatch:message": found[-1].id, "dogwatch:subject": found[-1].subject} if found else {}


def _filled(value: Any, known: Mapping[str, str]) -> Any:
    """The value with `${NAME}` filled in wherever the name is known, in all its texts."""
    if isinstance(value, str):
        return re.sub(r"\$\{([\w:]+)\}", lambda found: known.get(found[1], found[0]), value) if "${" in value else value
    if isinstance(value, dict):
        return {key: _filled(one, known) for key, one in value.items()}
    return [_filled(one, known) for one in value] if isinstance(value, list) else value


def _calls(step: Step, question: Question) -> tuple[Call, ...]:
    if step.name == "tool":
        return (Call(step["name"], step["input"]),)
    if step.name == "tools":
        return tuple(Call(call["name"], call["input"]) for call in step["calls"])
    if step.name in CLIENT_TOOLS:
        for name, fill in CLIENT_TOOLS[step.name].items():
            if name in question.tools:
                return (Call(name, {**fill(step), **step["input"]}),)
        offered = ", ".join(question.tools) or "none"
        raise UsageError(f"the client offers no tool for the step {step.name}", hint=f"it offers: {offered}")
    return ()


def _claude_shell(step: Step) -> dict[str, Any]:
    return {"command": step["command"], "description": "Scripted command"}


def _claude_agent(step: Step) -> dict[str, Any]:
    agent_type = step["type"] or "general-purpose"
    return {"description": "Scripted sub-agent", "prompt": step["prompt"], "subagent_type": agent_type}


def _opencode_agent(step: Step) -> dict[str, Any]:
    return {"description": "Scripted sub-agent", "prompt": step["prompt"], "subagent_type": step["type"] or "general"}


def _codex_shell(step: Step) -> dict[str, Any]:
    # It comes back from a command that takes longer, and lets it run on.
    return {"cmd": step["command"], "yield_time_ms": 30_000}


def _codex_code(step: Step) -> dict[str, Any]:
    """To some models it offers one tool alone, for programs that use its others."""
    return {"input": f"text(await tools.exec_command({json.dumps(_codex_shell(step))}));"}


def _codex_agent(step: Step) -> dict[str, Any]:
    return {"message": step["prompt"], **({"agent_type": step["type"]} if step["type"] else {})}


def _codex_member(step: Step) -> dict[str, Any]:
    return {"task_name": "scripted", "message": step["prompt"], "fork_turns": "none"}


def _gemini_agent(step: Step) -> dict[str, Any]:
    return {"agent_name": step["type"] or "generalist", "prompt": step["prompt"]}


CLIENT_TOOLS: dict[str, dict[str, Callable[[Step], dict[str, Any]]]] = {
    "shell": {
        "Bash": _claude_shell,
        "exec_command": _codex_shell,
        "functions.exec": _codex_code,
        "bash": _claude_shell,
        "run_shell_command": _claude_shell,
    },
    "agent": {
        "Agent": _claude_agent,
        "Task": _claude_agent,
        "multi_agent_v1.spawn_agent": _codex_agent,
        "collaboration.spawn_agent": _codex_member,
        "task": _opencode_agent,
        "invoke_agent": _gemini_agent,
    },
}
"""For steps that every client has a tool for: the tool's name in each client, and what it takes."""
