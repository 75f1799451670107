"""The scenario file of a scripted agent: read, checked, with all defaults filled in. No other file knows its form."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from dogwatch.errors import UsageError
from dogwatch.model.brief import KINDS

OCCASIONS = ("start", *KINDS, "notification", "prompt")
"""What a rule may wait for: the start, a message of a kind, a finished sub-agent, any other prompt."""

_REQUIRED = object()
_HINT = "docs/reference/scenario.md lists all keys and steps"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, with all its arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.arguments[key]


@dataclass(frozen=True, slots=True)
class Rule:
    """When this happens, do that."""

    on: str
    do: tuple[Step, ...]
    subject: str = "*"
    incarnation: tuple[int, ...] = ()
    times: int | None = None

    def applies(self, on: str, subject: str, incarnation: int, used: int) -> bool:
        """Whether the rule is for this occasion, having been used `used` times before."""
        return (
            self.on == on
            and fnmatchcase(subject, self.subject)
            and (not self.incarnation or incarnation in self.incarnation)
            and (self.times is None or used < self.times)
        )


@dataclass(frozen=True, slots=True)
class CheckIn:
    """What a copy of the agent answers when it is asked how far it is: a text, once there is such a file, and how it
    ends."""

    text: str = "I was asked: {question}"
    until: str = ""
    exit: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scripted agent's character."""

    work_s: float = 1.0
    start_delay_s: float = 0.0
    seed: int = 0
    shell: bool = False
    content: str = ""
    check_in: CheckIn = CheckIn()
    rules: tuple[Rule, ...] = ()


def load(path: str) -> Scenario:
    """The scenario in the file at `path`; YAML unless its name ends with .json."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if path.endswith(".json"):
            data = json.loads(text)
        else:
            import yaml  # takes as long as all other imports together, so only where it is needed

            data = yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"the scenario cannot be read: {error}", hint="name a file with --scenario") from error
    except Exception as error:  # both parsers have their own errors, and a file may be any bytes
        raise UsageError(f"{path} is neither YAML nor JSON: {error}", hint=_HINT) from error
    return parse({} if data is None else data)


def parse(data: Any) -> Scenario:
    """The scenario in plain values, as YAML or JSON give them."""
    keys = _keys("", data, {*_TOP, "rules"})
    values = _fields("", {key: value for key, value in keys.items() if key != "rules"}, _TOP)
    rules = keys.get("rules", [])
    if not isinstance(rules, list):
        raise _wrong("rules", "a list", rules)
    scenario = Scenario(**values, rules=tuple(_rule(f"rules[{n}]", rule) for n, rule in enumerate(rules)))
    for number, rule in enumerate(scenario.rules):
        for step in rule.do:
            if step.name == "shell" and not scenario.shell:
                raise UsageError(f"rules[{number}].do: the step shell needs shell: true at the top", hint=_HINT)
            if step.name == "startup_dialog" and rule.on != "start":
                raise UsageError(f"rules[{number}].do: startup_dialog belongs to a rule with on: start", hint=_HINT)
    return scenario


def _rule(where: str, data: Any) -> Rule:
    # YAML 1.1 reads the plain key `on` as the value true.
    named = {("on" if key is True else key): value for key, value in data.items()} if isinstance(data, dict) else data
    keys = _keys(where, named, {*_RULE, "do"})
    values = _fields(where, {key: value for key, value in keys.items() if key != "do"}, _RULE)
    do = keys.get("do", [])
    if not isinstance(do, list) or not do:
        raise _wrong(f"{where}.do", "a list of steps", do)
    return Rule(**values, do=tuple(_step(f"{where}.do[{n}]", step) for n, step in enumerate(do)))


def _step(where: str, data: Any) -> Step:
    """A step is its name alone, or one name with its arguments: a mapping, or the plain value of the first one."""
    value: Any = {}
    if isinstance(data, str):
        name = data
    elif isinstance(data, dict) and len(data) == 1:
        ((name, value),) = data.items()
        value = {} if value is None else value
    else:
        raise _wrong(where, "a step: its name, or `name: arguments`", data)
    if name not in STEPS:
        raise UsageError(f"{where}: there is no step {name!r}", hint=f"the steps are {', '.join(STEPS)}")
    shape = STEPS[name]
    if not isinstance(value, dict):
        if not shape:
            raise UsageError(f"{where}.{name} takes no arguments, got {value!r}", hint=_HINT)
        value = {next(iter(shape)): value}
    return Step(name, _fields(f"{where}.{name}", _keys(f"{where}.{name}", value, set(shape)), shape))


def _keys(where: str, data: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(where or "the scenario", "a mapping", data)
    for key in data:
        if key not in known:
            place = f"{where}.{key}" if where else str(key)
            raise UsageError(f"{place}: unknown key", hint=f"known here: {', '.join(sorted(known)) or 'none'}")
    return data


def _fields(where: str, data: Mapping[str, Any], shape: Mapping[str, Field]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, (check, default) in shape.items():
        place = f"{where}.{key}" if where else key
        if key not in data:
            if default is _REQUIRED:
                raise UsageError(f"{place}: is missing", hint=_HINT)
            values[key] = default
        else:
            values[key] = check(place, data[key])
    return values


def _wrong(where: str, wanted: str, value: Any) -> UsageError:
    return UsageError(f"{where}: must be {wanted}, not {value!r}", hint=_HINT)


def _seconds(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e7:
        raise _wrong(where, "a number of seconds", value)
    return float(value)


def _share(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _wrong(where, "a share between 0 and 1", value)
    return float(value)


def _whole(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(where, "a whole number, 0 or more", value)
    return value


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "a text", value)
    return value


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def _words(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise _wrong(where, "a list of texts", value)
    return tuple(value)


def _numbers(where: str, value: Any) -> tuple[int, ...]:
    return tuple(_whole(where, number) for number in (value if isinstance(value, list) else [value]))


def _one_of(*choices: Any) -> Callable[[str, Any], Any]:
    def check(where: str, value: Any) -> Any:
        if value not in choices:
            raise _wrong(where, " or ".join(str(choice) for choice in choices), value)
        return value

    return check


def _signal(where: str, value: Any) -> int:
    if isinstance(value, str) and value in signal.Signals.__members__:
        return signal.Signals[value].value
    if isinstance(value, int) and any(value == known for known in signal.Signals):
        return value
    raise _wrong(where, "a signal such as SIGKILL", value)


def _check_in(where: str, value: Any) -> CheckIn:
    given = {"text": value} if isinstance(value, str) else value
    return CheckIn(**_fields(where, _keys(where, given, set(_CHECK_IN)), _CHECK_IN))


Field = tuple[Callable[[str, Any], Any], Any]

_TOP: dict[str, Field] = {
    "work_s": (_seconds, 1.0),
    "start_delay_s": (_seconds, 0.0),
    "seed": (_whole, 0),
    "shell": (_flag, False),
    "content": (_text, ""),
    "check_in": (_check_in, CheckIn()),
}
_CHECK_IN: dict[str, Field] = {
    "text": (_text, CheckIn().text),
    "until": (_text, ""),
    "exit": (_whole, 0),
}
_RULE: dict[str, Field] = {
    "on": (_one_of(*OCCASIONS), _REQUIRED),
    "subject": (_text, "*"),
    "incarnation": (_numbers, ()),
    "times": (_whole, None),
}
STEPS: dict[str, dict[str, Field]] = {
    "work": {"seconds": (_seconds, _REQUIRED)},
    "wait": {"seconds": (_seconds, _REQUIRED)},
    "say": {"text": (_text, _REQUIRED)},
    "tool": {"seconds": (_seconds, None), "command": (_words, ())},
    "continue": {},
    "write": {
        "path": (_text, _REQUIRED),
        "content": (_text, ""),
        "bytes": (_whole, 0),
        "copies": (_whole, 1),
    },
    "write_outputs": {"wrong_path": (_text, "")},
    "report": {"outcome": (_one_of("done", "failed"), _REQUIRED), "note": (_text, "")},
    "lose_report": {},
    "assert_edit": {"path": (_text, _REQUIRED), "text": (_text, _REQUIRED)},
    "approve": {},
    "revise": {"note": (_text, _REQUIRED)},
    "mail_send": {"to": (_text, _REQUIRED), "text": (_text, _REQUIRED)},
    "heartbeat": {},
    "silent": {},
    "hang": {},
    "spin": {"seconds": (_seconds, None)},
    "exit": {"code": (_whole, 0)},
    "crash": {"signal": (_signal, signal.SIGKILL.value)},
    "shell": {},
    "startup_dialog": {},
    "permission": {"text": (_text, "make deploy")},
    "provider_error": {
        "code": (_one_of(429, 500, 529), 529),
        "retries": (_whole, 3),
        "seconds": (_seconds, 1.0),
        "final": (_flag, False),
    },
    "swallow_enter": {"times": (_whole, 1)},
    "draft": {"text": (_text, _REQUIRED)},
    "grow": {"mb": (_whole, _REQUIRED), "seconds": (_seconds, 0.0)},
    "release": {},
    "subagent": {
        "type": (_text, "general-purpose"),
        "seconds": (_seconds, 1.0),
        "output": (_text, ""),
        "never": (_flag, False),
        "says": (_text, ""),
    },
    "stop_loop": {"times": (_whole, None), "seconds": (_seconds, 0.1), "deaf": (_flag, False)},
    "context": {"used": (_share, _REQUIRED), "full": (_flag, False)},
    "compact": {"seconds": (_seconds, 1.0)},
    "old_error": {},
    "flash_prompt": {"seconds": (_seconds, 0.3)},
}
