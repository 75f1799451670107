"""Makes a scenario from what agents have really done: their spools say which tools they called after which message.

The clients' own hooks tell it, so it is the same for all of them. What the models said between their calls is not
recorded, and what a person typed is left out: in a rehearsal nobody types it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dogwatch.model.brief import Header, headers
from dogwatch.model.redact import Redactor
from dogwatch.model.spool import SpoolLine
from dogwatch.testing.model.answer import CLIENT_TOOLS
from dogwatch.testing.model.rehearsal import common_rules, header

PROMPT_MAX = 300
"""So much of a sub-agent's prompt tells it from others."""
PAUSE_S_MIN = 0.1


@dataclass(frozen=True, slots=True)
class Played:
    """What one agent has done, as its spool tells it."""

    agent: str
    role: str
    lines: Sequence[SpoolLine]


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    input: Mapping[str, Any]
    pause_s: float


@dataclass(slots=True)
class _Scene:
    """What was done for one message, or by one sub-agent for its prompt."""

    agent: str
    role: str
    at: float
    header: Header | None = None
    prompt: str = ""
    calls: list[_Call] = field(default_factory=list)
    text: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """The scenario in plain values, what should be said of it, and how many tool calls are in it."""

    scenario: Mapping[str, Any]
    notes: tuple[str, ...]
    calls: int


def record(
    played: Iterable[Played], paths: Mapping[str, str], redactor: Redactor | None = None, *, pace: bool = False
) -> Recording:
    """The scenario of a run. `paths` are those of the run with the variables that stand for them in a rehearsal; with
    `pace` the models' pauses are kept."""
    notes: Counter[str] = Counter()
    scenes: list[_Scene] = []
    for one in played:
        scenes += _Reader(one, notes).read()
    writer = _Writer(paths, redactor or Redactor(), pace)
    rules = [rule for group in _grouped(scenes) for rule in writer.rules(group)]
    rules += writer.nudges(scenes)
    told = tuple(f"{text} ({count} times)" if count > 1 else text for text, count in notes.items())
    scenario = {"rules": [*rules, *common_rules()]} if rules else {}
    return Recording(scenario, told, sum(len(one.calls) for one in scenes))


class _Reader:
    """Divides an agent's spool into scenes."""

    def __init__(self, played: Played, notes: Counter[str]) -> None:
        self._played = played
        self._notes = notes
        self._scenes: list[_Scene] = []
        self._current: _Scene | None = None
        self._subagents: dict[str, _Scene] = {}
        self._asked: list[tuple[str, str]] = []
        self._newest = 0.0
        self._held = False

    def read(self) -> list[_Scene]:
        for line in self._played.lines:
            payload = line.payload()
            if not payload and line.payload_bytes > len(line.raw) and line.event == "PreToolUse":
                self._note("a tool call was too long for the spool and is left out")
            identity = payload.get("agent_id")
            if isinstance(identity, str) and identity:
                self._take_of_subagent(identity, line, payload)
            else:
                self._take(line, payload)
                self._held = line.event == "StopHeld"
            self._newest = line.mono
        return [*self._scenes, *self._subagents.values()]

    def _take(self, line: SpoolLine, payload: Mapping[str, Any]) -> None:
        if line.event == "UserPromptSubmit" or (line.event == "Delivered" and self._held):
            # A prompt that was cut is no JSON any more; its header still stands in the raw bytes.
            found = headers(str(payload.get("prompt") or "") or line.raw.decode(errors="replace"))
            if not found:
                self._note("what a person typed is left out, with what came of it")
            self._current = self._scene(line, found[0] if found else None)
            if found:
                self._scenes.append(self._current)
        elif line.event == "SessionStart" and payload.get("source") != "compact":
            self._current = None
        elif line.event == "Denied":
            self._forget(str(payload.get("tool_use_id") or ""))
        elif line.event == "PermissionRequest":
            self._note(f"a person was asked whether {payload.get('tool_name')} may be used, and will be asked again")
        elif self._current is not None and line.event == "PreToolUse" and payload:
            self._call(self._current, line, payload)
        elif self._current is not None and line.event in ("Stop", "StopHeld"):
            # A stop that is held because mail waits is the end of what was done before.
            self._current.text = str(payload.get("last_assistant_message") or "")
            self._current.ended = True

    def _take_of_subagent(self, identity: str, line: SpoolLine, payload: Mapping[str, Any]) -> None:
        kind = str(payload.get("agent_type") or "")
        if line.event == "SubagentStart":
            match = next((one for one in self._asked if one[0] == kind), self._asked[0] if self._asked else None)
            if match is None:
                self._note("what a sub-agent did is left out, because its prompt is not known")
                return
            self._asked.remove(match)
            scene = self._subagents[identity] = self._scene(line, None)
            scene.prompt, scene.ended = match[1], True
        elif line.event == "Denied":
            self._forget(str(payload.get("tool_use_id") or ""))
        elif identity in self._subagents and line.event == "PreToolUse":
            self._call(self._subagents[identity], line, payload)
        elif identity in self._subagents and line.event == "SubagentStop":
            self._subagents[identity].text = str(payload.get("last_assistant_message") or "")

    def _scene(self, line: SpoolLine, about: Header | None) -> _Scene:
        return _Scene(self._played.agent, self._played.role, line.wall, about)

    def _call(self, scene: _Scene, line: SpoolLine, payload: Mapping[str, Any]) -> None:
        given = payload.get("tool_input")
        name = str(payload.get("tool_name") or "")
        call = _Call(
            str(payload.get("tool_use_id") or ""),
            name,
            given if isinstance(given, dict) else {},
            line.mono - self._newest if self._newest else 0.0,
        )
        scene.calls.append(call)
        if name in CLIENT_TOOLS["agent"]:
            self._asked.append((str(call.input.get("subagent_type") or ""), _prompt(call)))

    def _forget(self, call_id: str) -> None:
        """The guard has denied the call: it would do so again."""
        for scene in (*self._scenes, *self._subagents.values()):
            kept = [call for call in scene.calls if not call_id or call.id != call_id]
            if len(kept) < len(scene.calls):
                scene.calls = kept
                self._note("a call that the guard denied is left out")

    def _note(self, text: str) -> None:
        self._notes[f"{self._played.agent}: {text}"] += 1


class _Writer:
    """Turns scenes into rules."""

    def __init__(self, paths: Mapping[str, str], redactor: Redactor, pace: bool) -> None:
        known = sorted(paths.items(), key=lambda one: -len(one[0]))
        self._paths = [
            (re.compile(rf"{re.escape(path)}(?![\w-]|\.\w)"), f"${{{name}}}") for path, name in known if path
        ]
        self._redactor = redactor
        self._pace = pace
        self._made: dict[int, list[dict[str, Any]]] = {}

    def rules(self, scenes: Sequence[_Scene]) -> list[dict[str, Any]]:
        """One for each time that the same was asked, in order; the last holds for all times that may follow."""
        rules = []
        for number, scene in enumerate(scenes, 1):
            again = {} if number == len(scenes) else {"times": 1}
            rules.append({"name": _name(scene), "role": scene.role, "prompt": self._pattern(scene), **again})
            rules[-1]["do"] = self._steps(scene)
        return rules

    def nudges(self, scenes: Sequence[_Scene]) -> list[dict[str, Any]]:
        """Who stops over a task although it did not when it was recorded begins it anew."""
        latest = {(one.role, one.header.subject): one for one in scenes if one.header and one.header.kind == "dispatch"}
        return [
            {
                "name": f"{subject}, when nudged",
                "role": role,
                "prompt": header("nudge", re.escape(subject)),
                "do": self._steps(scene),
            }
            for (role, subject), scene in latest.items()
        ]

    def _pattern(self, scene: _Scene) -> str:
        if scene.header is not None:
            return header(scene.header.kind, re.escape(scene.header.subject))
        parts = re.split(r"\$\{[\w:]+\}", self._general(scene.prompt, scene)[:PROMPT_MAX])
        return "(?s)" + ".*?".join(re.escape(part) for part in parts)

    def _steps(self, scene: _Scene) -> list[dict[str, Any]]:
        """Made once: in the file a second rule refers to those of the first."""
        if id(scene) not in self._made:
            steps = [self._step(call, scene) for call in scene.calls]
            self._made[id(scene)] = [*steps, {"text": self._general(scene.text, scene) or "Done."}]
        return self._made[id(scene)]

    def _step(self, call: _Call, scene: _Scene) -> dict[str, Any]:
        given = self._general(dict(call.input), scene)
        pause = {"delay_s": round(call.pause_s, 1)} if self._pace and call.pause_s >= PAUSE_S_MIN else {}
        command = given.get("command", given.get("cmd"))
        if call.name in CLIENT_TOOLS["shell"] and isinstance(command, str):
            rest = {key: value for key, value in given.items() if key not in ("command", "cmd", "description")}
            more = {**({"input": rest} if rest else {}), **pause}
            return {"shell": {"command": command, **more} if more else command}
        if call.name in CLIENT_TOOLS["agent"]:
            rest = {key: value for key, value in given.items() if key not in ("prompt", "message", "subagent_type")}
            kind = given.get("subagent_type")
            return {
                "agent": {"prompt": _prompt(call, given), **({"type": kind} if kind else {}), "input": rest, **pause}
            }
        return {"tool": {"name": call.name, "input": given, **pause}}

    def _general(self, value: Any, scene: _Scene) -> Any:
        """The value without tokens, and with variables in place of what is another in each run."""
        return self._named(self._redactor.value(value), scene.header.id if scene.header is not None else "")

    def _named(self, value: Any, message: str) -> Any:
        if isinstance(value, str):
            for pattern, variable in self._paths:
                value = pattern.sub(variable.replace("\\", r"\\"), value)
            return value.replace(message, "${dogwatch:message}") if message else value
        if isinstance(value, dict):
            return {key: self._named(one, message) for key, one in value.items()}
        return [self._named(one, message) for one in value] if isinstance(value, list) else value


def _prompt(call: _Call, given: Mapping[str, Any] | None = None) -> str:
    found = call.input if given is None else given
    return str(found.get("prompt") or found.get("message") or "")


def _name(scene: _Scene) -> str:
    about = f"{scene.header.kind} {scene.header.subject}" if scene.header is not None else "a sub-agent"
    return f"{scene.agent}: {about}"


def _grouped(scenes: Iterable[_Scene]) -> list[list[_Scene]]:
    """The scenes that answer the same message or prompt, oldest first. One that did not come to its end, as when its
    agent died, and that was played again later, is left out."""
    groups: dict[tuple[str, ...], list[_Scene]] = {}
    for scene in sorted(scenes, key=lambda one: one.at):
        about = (scene.header.kind, scene.header.subject) if scene.header is not None else ("", scene.prompt)
        groups.setdefault((scene.role, *about), []).append(scene)
    return [
        [
            one
            for number, one in enumerate(group)
            if one.ended or not any(later.agent == one.agent for later in group[number + 1 :])
        ]
        for group in groups.values()
    ]
