"""The scenario of a scripted model: read, checked, with all defaults filled in. No other file knows its form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dogwatch.errors import UsageError
from dogwatch.testing.model import fields
from dogwatch.testing.model.fields import HINT, REQUIRED, Field, wrong

MARK = "scripted-model:"
"""What begins a directive in a prompt. No client gives it a meaning of its own, as they do to @, /, ! and #."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that an answer says it has cost; None is an estimate."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What one request is answered with, with all arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.arguments[key]

    @property
    def fails(self) -> bool:
        """Whether the client gets no whole answer, so that it asks the same again."""
        return "times" in self.arguments


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests are answered with which steps."""

    do: tuple[Step, ...]
    name: str = ""
    role: str = ""
    prompt: re.Pattern[str] | None = None
    tool_result: re.Pattern[str] | None = None
    system: re.Pattern[str] | None = None
    model: re.Pattern[str] | None = None
    side: bool | str = False
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a scripted model says."""

    answer: str = "This is a scripted answer."
    after_tool: str = "The tool has answered."
    token_s: float = 0.0
    usage: Usage = Usage()
    variables: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()


def load(path: str) -> Scenario:
    """The scenario in the file at `path`; YAML unless its name ends with .json."""
    try:
        with open(path, encoding="utf-8") as file:
            content = file.read()
        if path.endswith(".json"):
            data = json.loads(content)
        else:
            import yaml  # takes as long as all other imports together, so only where it is needed

            data = yaml.safe_load(content)
    except OSError as error:
        raise UsageError(f"the scenario cannot be read: {error}", hint="name a file with --scenario") from error
    except Exception as error:  # both parsers have their own errors, and a file may be any bytes
        raise UsageError(f"{path} is neither YAML nor JSON: {error}", hint=HINT) from error
    return parse({} if data is None else data)


def parse(data: Any) -> Scenario:
    """The scenario in plain values, as YAML or JSON give them."""
    return Scenario(**fields.fields("", data, _TOP))


def directives(prompt: str) -> tuple[Step, ...]:
    """The steps that the prompt itself asks for: behind each mark a step, or a list of steps, in JSON."""
    steps: list[Step] = []
    at = prompt.find(MARK)
    while at >= 0:
        where = f"directive {len(steps) + 1}"
        rest = prompt[at + len(MARK) :].lstrip()
        value: Any
        if bare := re.match(r"[a-z]+\b", rest):
            value, end = bare[0], bare.end()
        else:
            try:
                value, end = json.JSONDecoder().raw_decode(rest)
            except ValueError as error:
                hint = f'behind {MARK} stands a step in JSON, such as {MARK} {{"text": "hello"}}'
                raise UsageError(f"{where}: is no JSON: {error}: {rest[:80]!r}", hint=hint) from error
        steps += _steps(where, value) if isinstance(value, list) else [_step(where, value)]
        prompt = rest[end:]
        at = prompt.find(MARK)
    return tuple(steps)


def saying(text: str) -> Step:
    """The step that answers with a text."""
    return _step("", {"text": text})


def _rules(where: str, data: Any) -> tuple[Rule, ...]:
    if not isinstance(data, list):
        raise wrong(where, "a list", data)
    return tuple(Rule(**fields.fields(f"{where}[{n}]", rule, _RULE)) for n, rule in enumerate(data))


def _steps(where: str, data: Any) -> tuple[Step, ...]:
    if not isinstance(data, list) or not data:
        raise wrong(where, "a list of steps", data)
    return tuple(_step(f"{where}[{n}]", step) for n, step in enumerate(data))


def _step(where: str, data: Any) -> Step:
    """A step is its name alone, or one name with its arguments: a mapping, or the plain value of the first one."""
    value: Any = {}
    if isinstance(data, str):
        name = data
    elif isinstance(data, dict) and len(data) == 1:
        ((name, value),) = data.items()
        value = {} if value is None else value
    else:
        raise wrong(where, "a step: its name, or `name: arguments`", data)
    if name not in STEPS:
        raise UsageError(f"{where}: there is no step {name!r}", hint=f"the steps are {', '.join(STEPS)}")
    shape = STEPS[name]
    if not isinstance(value, dict):
        value = {next(iter(shape)): value}
    return Step(name, fields.fields(f"{where}.{name}", value, shape))


def _usage(where: str, data: Any) -> Usage:
    return Usage(**fields.fields(where, data, _USAGE))


def _variables(where: str, data: Any) -> dict[str, str]:
    return {name: fields.text(f"{where}.{name}", value) for name, value in fields.mapping(where, data).items()}


def _calls(where: str, data: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(data, list) or not data:
        raise wrong(where, "a list of calls", data)
    return tuple(fields.fields(f"{where}[{n}]", call, _CALL) for n, call in enumerate(data))


_USAGE: dict[str, Field] = {
    "input_tokens": (fields.whole, None),
    "output_tokens": (fields.whole, None),
    "cache_read_tokens": (fields.whole, 0),
    "cache_write_tokens": (fields.whole, 0),
}
_TOP: dict[str, Field] = {
    "answer": (fields.text, Scenario().answer),
    "after_tool": (fields.text, Scenario().after_tool),
    "token_s": (fields.seconds, 0.0),
    "usage": (_usage, Usage()),
    "variables": (_variables, {}),
    "rules": (_rules, ()),
}
_RULE: dict[str, Field] = {
    "name": (fields.text, ""),
    "role": (fields.text, ""),
    "prompt": (fields.pattern, None),
    "tool_result": (fields.pattern, None),
    "system": (fields.pattern, None),
    "model": (fields.pattern, None),
    "side": (fields.one_of(True, False, "any"), False),
    "times": (fields.times, None),
    "do": (_steps, REQUIRED),
}
_CALL: dict[str, Field] = {"name": (fields.text, REQUIRED), "input": (fields.mapping, {})}
_ANSWER: dict[str, Field] = {
    "delay_s": (fields.seconds, 0.0),
    "token_s": (fields.seconds, None),
    "usage": (_usage, None),
}
_BROKEN: dict[str, Field] = {
    "tokens": (fields.whole, 0),
    "text": (fields.text, "This answer is cut off in the middle, before it has come to its end."),
    "token_s": (fields.seconds, None),
}
STEPS: dict[str, dict[str, Field]] = {
    "text": {"text": (fields.text, REQUIRED), **_ANSWER},
    "tool": {**_CALL, "text": (fields.text, ""), **_ANSWER},
    "tools": {"calls": (_calls, REQUIRED), "text": (fields.text, ""), **_ANSWER},
    "shell": {"command": (fields.text, REQUIRED), "input": (fields.mapping, {}), "text": (fields.text, ""), **_ANSWER},
    "agent": {
        "prompt": (fields.text, REQUIRED),
        "type": (fields.text, ""),
        "input": (fields.mapping, {}),
        "text": (fields.text, ""),
        **_ANSWER,
    },
    "status": {
        "code": (fields.status, REQUIRED),
        "message": (fields.text, ""),
        "retry_after_s": (fields.seconds, None),
        "times": (fields.times, 1),
        **_BROKEN,
    },
    "drop": {**_BROKEN, "times": (fields.times, 1)},
    "hang": {**_BROKEN, "times": (fields.times, None)},
    "endless": {
        "send": (fields.one_of("tokens", "pings"), "tokens"),
        "every_s": (fields.seconds, 0.1),
        "text": (fields.text, "and so on "),
        "times": (fields.times, None),
    },
}
