"""Gemini CLI: how it is started and recognised, and the patterns of its screen (seen with 0.61.0)."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal

from dogwatch.errors import RefusedError
from dogwatch.harness.api import Launch, Rehearsal, Screen, Start, State
from dogwatch.harness.gemini_facts import (
    HOME_VARIABLE,
    GeminiFacts,
    has_conversation,
    links,
    own_home,
    user_folder,
    user_settings,
)
from dogwatch.harness.neutral import trimmed
from dogwatch.model.plan import Role

EVENTS = {
    "SessionStart": "SessionStart",
    "SessionEnd": "SessionEnd",
    "BeforeAgent": "UserPromptSubmit",
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
    "Notification": "PermissionRequest",
    "AfterAgent": "Stop",
    "PreCompress": "PreCompress",
}
"""The client's events, and what Claude Code calls them. The last comes before every request: whether the conversation
was really made shorter is found out by the hook."""
GATING = "BeforeTool"
HOOK_NAME = "dogwatch"
"""One name for all: whoever switches one of them off by its name has switched off all, and that is seen."""
HOOK_MS = 30_000
GATE_MS = 600_000
"""The client's own time limits for a hook, after which it goes on without its answer. The guard answers within seconds
by itself; on a machine that stalls for longer the tool has to wait."""
UNHEARD = '{ [ $? -eq 2 ] || echo "dogwatch: the guard could not be run" >&2; exit 2; }'
"""A hook that cannot run denies. The client takes exit code 2 without any words for a yes."""
SETTINGS: dict[str, Any] = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "vimMode": False},
    "ui": {"hideWindowTitle": False, "dynamicWindowTitle": True, "accessibility": {"screenReader": False}},
    "hooksConfig": {"enabled": True, "notifications": False},
}
"""What an agent's client needs, whatever the user likes for himself."""
ALONE = {"GEMINI_CLI_NO_RELAUNCH": "true"}
"""Otherwise the client lives below a second one that only starts it again, and does not listen to signals."""
OWN_COMMAND = "dogwatch"
"""What every agent may run unasked: its way to the captain."""
DUMMY_KEY = "scripted-model-no-real-key"
"""What is sent to the scripted model."""
_NOTATION = re.compile(r"([\w*.-]+)(?:\((.*)\))?", re.DOTALL)
_RULE = re.compile(r"─{8,}$")
_PROMPT = re.compile(r" [>!*](?:\s|$)")
_BUSY = re.compile(r"\s*\S.*\(esc to cancel\b")
_ERROR = re.compile(r"✕ ")
_ALLOW = re.compile(r"[\s│]*(?:Allow execution of|Apply this change|Do you want to proceed)\b.*\?")
_TRUST = re.compile(r"[\s│]*Do you trust\b.*\?")
_CHOICE = re.compile(r"[\s│]*● 1\. ")
_READY, _WORKING, _ACTION = "◇", "✦", "✋"
_PLACEHOLDER = "Type your message or @path/to/file"
_SHELL = re.compile(r"\S[^─✦>]*[$#%]$")
_RESUME = re.compile(r"[│\s]*To resume this session: gemini --resume \S+")


class Gemini(GeminiFacts):
    """The Gemini CLI."""

    name = "gemini"
    version = "0.61.0"
    programs = ("gemini", "@google/gemini-cli")
    package = "@google/gemini-cli"
    enter_delay_s = 1.0
    pasted = "[Pasted Text:"
    spoilt = "\t@"  # what stands behind an @ is read as a file where there is one, perhaps after a question
    hooks = True
    guards = True
    sandbox = "auto"
    variables = (
        "GEMINI_*",
        "GOOGLE_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_*",
        "GOOGLE_GEMINI_*",
        "GOOGLE_GENAI_*",
        "GOOGLE_VERTEX_*",
        "CODE_ASSIST_ENDPOINT",
        "CLOUD_SHELL",
    )

    def start(self, launch: Launch) -> Start:
        """The client with a home of its own for its files, in which the user's settings have hooks and what else is
        the user's is linked: no file of theirs is touched."""
        role, home = launch.role, own_home(launch)
        if HOME_VARIABLE in role.environment:
            raise RefusedError(
                f"the role {role.name} sets {HOME_VARIABLE}, and its client would not find dogwatch's hooks",
                hint=f"set {HOME_VARIABLE} for dogwatch itself, or HOME for the role",
            )
        rules = f"{launch.folder}/policy.toml"
        words = ["--policy", rules]
        if os.path.isdir(folder := f"{user_folder(role)}/policies"):
            words += ["--policy", folder]  # the flag takes the place of the user's own
        if role.permissions:
            words += ["--approval-mode", "default"]  # rules decide only there; without any, the mode is the user's
        if has_conversation(launch):
            words += ["--resume", "latest"]
        return Start(
            command=(*(role.command or ("gemini",)), *words),
            environment={HOME_VARIABLE: home, **ALONE},
            files={f"{home}/.gemini/settings.json": json.dumps(self.settings(launch), indent=1), rules: policy(role)},
            kept=(f"{home}/.gemini",),
            links=links(launch),
        )

    def settings(self, launch: Launch) -> dict[str, Any]:
        """The user's own settings, with a hook for each event."""
        run = f"CLAUDE_PID=$PPID {shlex.quote(launch.python)} -I -S {shlex.quote(launch.hook)}"
        settings = _merged(user_settings(launch.role), SETTINGS)
        hooks = settings.get("hooks")
        hooks = settings["hooks"] = dict(hooks) if isinstance(hooks, dict) else {}
        for event, name in EVENTS.items():
            command = f"{run} {name} gemini || {UNHEARD}" if event == GATING else f"{run} {name} gemini"
            limit = GATE_MS if event == GATING else HOOK_MS
            hook = {"name": HOOK_NAME, "type": "command", "command": command, "timeout": limit}
            known = hooks.get(event)
            hooks[event] = [*(known if isinstance(known, list) else ()), {"hooks": [hook]}]
        if isinstance(off := settings["hooksConfig"].get("disabled"), list):
            settings["hooksConfig"]["disabled"] = [name for name in off if name != HOOK_NAME]
        return settings

    def rehearsal(self, home: str, project: str, url: str) -> Rehearsal:
        """A home in which the client has nothing to ask, and the variables that keep it from calling anybody else."""
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "ui": {"hideTips": True, "theme": "Default"},
        }
        environment = {"HOME": home, "GEMINI_API_KEY": DUMMY_KEY, "GOOGLE_GEMINI_BASE_URL": url}
        files = {
            f"{home}/.gemini/settings.json": json.dumps(settings, indent=1),
            f"{home}/.gemini/trustedFolders.json": json.dumps({os.path.realpath(project): "TRUST_FOLDER"}),
        }
        return Rehearsal(environment=environment, files=files, permissions=("run_shell_command",))

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """The composer below the last rule and the status line above it count. The title tells what these do not."""
        shown = trimmed(lines)
        rules = [number for number, line in enumerate(shown) if _RULE.match(line)]
        below = shown[rules[-1] + 1 :] if rules else shown
        if any(_SHELL.match(line) for line in below):
            return Screen("shell", None)
        if title.startswith(_ACTION) or _asks(shown[rules[-1] - 12 if rules and rules[-1] > 12 else 0 :]):
            return Screen("permission", None)
        prompts = [number for number, line in enumerate(below) if _PROMPT.match(line)]
        if not rules and any(_CHOICE.match(line) for line in shown):
            return Screen("dialog", None)  # whether the folder is trusted, or how to log in
        if not rules or not prompts:
            return Screen("unknown", None)
        return Screen(_state(shown[: rules[-1]], title), _composer(below[prompts[0] :]))

    def question(self, lines: Sequence[str]) -> str:
        """What the open dialog asks."""
        asked = [line.strip(" │") for line in lines if _ALLOW.match(line) or _TRUST.match(line)]
        return asked[-1] if asked else ""

    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]:
        """What it has left on the screen of a pane where it no longer runs."""
        shown = [line for line in trimmed(lines) if line]
        if any(_RESUME.match(line) for line in shown[-8:]):
            return "ended"
        last = shown[-8:]
        ruled = next((number for number, line in enumerate(last) if _RULE.match(line)), len(last))
        return "killed" if any(_PROMPT.match(line) for line in last[ruled + 1 :]) else ""


def policy(role: Role) -> str:
    """The role's permissions as the client's rules: what is forbidden goes before what is allowed, and both before the
    user's own."""
    lines = _rule("run_shell_command", OWN_COMMAND, "allow")
    for permission in role.permissions:
        is_denied = permission.startswith("deny:")
        found = _NOTATION.fullmatch(permission.removeprefix("deny:").strip())
        if found:
            lines += _rule(found[1], found[2] or "", "deny" if is_denied else "allow")
    return "\n".join(lines) + "\n"


def _rule(tool: str, argument: str, decision: str) -> list[str]:
    """For a shell command the argument is how it begins; for any other tool, a part of what it is given."""
    lines = ["[[rule]]", f"toolName = {json.dumps(tool)}"]
    if argument and tool == "run_shell_command":
        lines.append(f"commandPrefix = {json.dumps(argument.removesuffix(':*').removesuffix('*').rstrip())}")
    elif argument:
        lines.append(f"argsPattern = {json.dumps(re.escape(argument))}")
    lines += [f'decision = "{decision}"', f"priority = {999 if decision == 'deny' else 990}"]
    return [*lines, "allowRedirection = true", ""] if decision == "allow" else [*lines, ""]


def _merged(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Their settings with ours in them."""
    merged = dict(theirs)
    for key, value in ours.items():
        known = merged.get(key)
        merged[key] = _merged(known if isinstance(known, dict) else {}, value) if isinstance(value, dict) else value
    return merged


def _asks(live: Sequence[str]) -> bool:
    return any(_ALLOW.match(line) for line in live) and any(_CHOICE.match(line) for line in live)


def _state(above: Sequence[str], title: str) -> State:
    status = above[-1] if above else ""
    if _BUSY.match(status) or title.startswith(_WORKING):
        return "busy"
    for line in reversed(above):
        if _ERROR.match(line):
            return "error"
        if _PROMPT.match(line) or (line[:1].strip() and not line.startswith("ℹ")):
            break
    return "idle"


def _composer(lines: Sequence[str]) -> str:
    """The text without its mark and indentation, up to the empty line above the footer."""
    end = lines.index("") if "" in lines else len(lines)
    text = "\n".join(line[3:] for line in lines[:end])
    return "" if text.strip() == _PLACEHOLDER else text
