"""Claude Code: how it is recognised, and the patterns of its screen (seen with 2.1.325)."""

from __future__ import annotations

import glob
import json
import math
import os
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from dogwatch.harness.api import Launch, Rehearsal, Screen, Start, State
from dogwatch.harness.claude_facts import ClaudeFacts, config_folder
from dogwatch.harness.neutral import trimmed
from dogwatch.model.brief import check_in
from dogwatch.model.plan import Role

OWN_COMMANDS = ("Bash(dogwatch:*)",)
"""What every agent may run unasked: its way to the captain."""
READING = "Read,Grep,Glob"
"""The tools of a check-in. What else it was told of in the conversation, the client refuses."""
DUMMY_KEY = "sk-ant-scripted-model-no-real-key-0000"
"""What is sent to the scripted model; the client asks once for each key whether it may be used."""
_CONTEXT_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
# A rule may carry the session's name near its end.
_RULE = re.compile(r"─{8,}(?: .* ─+)?$")
_PROMPT = re.compile(r"[❯>](?:\s|$)")
_STATUS = re.compile(r"[·✢✳✶✻✽*] ")
_RETRY = re.compile(r"[·✢✳✶✻✽*] .*(?:Retrying in \d+\s?s · attempt \d+/\d+|Waiting for API response · will retry in)")
_BUSY = re.compile(r"[·✢✳✶✻✽*] (?:[^…]+…|Waiting for \d+ background agent)")
_INTERRUPT = re.compile(r"\besc to interrupt\b")
_ERROR = re.compile(r"● API Error\b")
_CHOICE = re.compile(r"\s*❯ \S")
_PERMISSION = re.compile(r"\s*(?:Do you want to|Would you like to) (?!use this API key)")
_PLACEHOLDER = re.compile(r"Press up to edit queued messages$|Try \"")
# A shell's prompt, perhaps over the rest of a rule that a killed client has left behind.
_SHELL = re.compile(r"(?![─❯●>])\S[^─❯●]*[$#%] ?─*$")
_RESUME = re.compile(r"claude --resume \S+$")


EVENTS = (
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "PermissionDenied",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
)
"""The events that tell something; each becomes a line of the spool."""
GATING = ("PreToolUse",)
"""The events whose hook may deny a tool: where it cannot run at all, the tool must not run either."""
HOOK_S = 30
"""The client's own time limit for a hook, after which it goes on without its answer."""
WINDOW_TOKENS = 200_000
"""How much the client keeps in mind before it compacts."""


class Claude(ClaudeFacts):
    """Claude Code."""

    name = "claude"
    version = "2.1.325"
    programs = ("claude", "@anthropic-ai/claude-code")
    package = "@anthropic-ai/claude-code"
    enter_delay_s = 0.3
    pasted = "[Pasted text"
    hooks = True
    guards = True
    sandbox = "auto"
    variables = (
        "ANTHROPIC_*",
        "CLAUDE_*",
        "DISABLE_*",
        "ENABLE_*",
        "BASH_DEFAULT_TIMEOUT_MS",
        "BASH_MAX_TIMEOUT_MS",
        "BASH_MAX_OUTPUT_LENGTH",
        "API_TIMEOUT_MS",
        "MAX_THINKING_TOKENS",
        "MAX_MCP_OUTPUT_TOKENS",
        "MCP_TIMEOUT",
        "MCP_TOOL_TIMEOUT",
        "USE_BUILTIN_RIPGREP",
        "IS_SANDBOX",
        "AWS_* if CLAUDE_CODE_USE_BEDROCK",
        "GOOGLE_* if CLAUDE_CODE_USE_VERTEX",
        "CLOUD_ML_* if CLAUDE_CODE_USE_VERTEX",
        "VERTEX_* if CLAUDE_CODE_USE_VERTEX",
    )

    def start(self, launch: Launch) -> Start:
        """The client with hooks and rules of its own, by flag: no file of the user's is touched."""
        role = launch.role
        settings = f"{launch.folder}/settings.json"
        mode = "--resume" if self.has_conversation(launch) else "--session-id"
        return Start(
            command=(*(role.command or ("claude",)), "--settings", settings, mode, launch.conversation),
            environment={"DISABLE_AUTOUPDATER": "1"},
            files={settings: json.dumps(self.settings(launch), indent=1)},
            hidden=self._hidden(role),
        )

    def rehearsal(self, home: str, project: str, url: str) -> Rehearsal:
        """A home in which the client has nothing to ask, and the variables that keep it from calling anybody else."""
        answers = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "hasSeenAutoDefaultNudge": True,
            "customApiKeyResponses": {"approved": [DUMMY_KEY[-20:]], "rejected": []},
            "projects": {os.path.realpath(project): {"hasTrustDialogAccepted": True}},
        }
        environment = {
            "HOME": home,
            # Said all the same: the operator's own folder, where one is named, is another.
            "CLAUDE_CONFIG_DIR": f"{home}/.claude",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": DUMMY_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }
        files = {f"{home}/.claude/.claude.json": json.dumps(answers)}
        return Rehearsal(environment=environment, files=files, permissions=("Bash",))

    def check_in(self, launch: Launch, question: str) -> Start | None:
        """The client without a terminal, with a copy of the conversation that is kept nowhere, and with the role's own
        rules. `--tools` says nothing of MCP servers: their tools are forbidden apart from it."""
        rules = json.dumps({"permissions": self.settings(launch)["permissions"]})
        # The question stands before all flags that take several words.
        words = ["-p", check_in(question), "--resume", launch.conversation, "--fork-session"]
        words += ["--no-session-persistence", "--settings", rules, "--strict-mcp-config"]
        words += ["--disallowedTools", "mcp__*", "--tools", READING]
        return Start(
            command=(*(launch.role.command or ("claude",)), *words),
            environment={"DISABLE_AUTOUPDATER": "1"},
            hidden=self._hidden(launch.role),
        )

    @staticmethod
    def _hidden(role: Role) -> tuple[str, ...]:
        """State files are named after the pid, which is the same in every sandbox: each gets a folder of its own."""
        return (f"{config_folder(role)}/sessions",)

    def settings(self, launch: Launch) -> dict[str, Any]:
        """What the client is told by `--settings`: a hook for each event, and the role's permissions."""
        run = f"{shlex.quote(launch.python)} -I -S {shlex.quote(launch.hook)}"
        hooks = {}
        for event in EVENTS:
            command = f"{run} {event} || exit 2" if event in GATING else f"{run} {event}"
            hooks[event] = [{"hooks": [{"type": "command", "command": command, "timeout": HOOK_S}]}]
        rules = launch.role.permissions
        denied = [rule.removeprefix("deny:").strip() for rule in rules if rule.startswith("deny:")]
        allowed = [rule for rule in rules if not rule.startswith("deny:")]
        permissions: dict[str, Any] = {"allow": [*OWN_COMMANDS, *allowed], "deny": denied}
        if rules:
            # Rules decide only in this mode; without any, the mode is the user's own.
            permissions["defaultMode"] = "default"
        # A file in the project or the home could switch the hooks off, also of a running client, or tell them that they
        # are those of somebody else: this goes before them.
        return {"disableAllHooks": False, "env": dict(launch.marks), "hooks": hooks, "permissions": permissions}

    def has_conversation(self, launch: Launch) -> bool:
        """Whether the client has kept this conversation, so that it can go on with it."""
        folder = config_folder(launch.role)
        return bool(glob.glob(f"{glob.escape(folder)}/projects/*/{launch.conversation}.jsonl"))

    def context(self, tail: bytes) -> float | None:
        """From the last answer of the model that counts its tokens; after a compaction nothing is known for a while."""
        for line in reversed(tail.splitlines()):
            if b'"compact_boundary"' in line:
                return None
            if b'"usage"' not in line or b'"isSidechain":true' in line or b'"<synthetic>"' in line:
                continue  # a sub-agent's, or words of the client's own such as "API Error", which cost nothing
            try:
                usage = json.loads(line)["message"]["usage"]
                share = float(sum(usage.get(name) or 0 for name in _CONTEXT_TOKENS) / WINDOW_TOKENS)
            except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
                continue
            return share if math.isfinite(share) else None
        return None

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """Only the box of the composer, or of a dialog, and the status line above it count: the rest is history."""
        shown = trimmed(lines)
        rules = [number for number, line in enumerate(shown) if _RULE.match(line)]
        below = shown[rules[-1] + 1 :] if rules else shown
        if any(_SHELL.match(line) for line in below[-1:] + [line for line in below if line.endswith("─")]):
            return Screen("shell", None)
        if not rules:
            return Screen("unknown", None)
        if len(rules) > 1 and _PROMPT.match(shown[rules[-2] + 1]):
            if any(line[:1].strip() for line in below):
                return Screen("unknown", None)  # text at the margin below the composer is not the client's own
            above = shown[: rules[-2]]
            return Screen(_state(above, below), _composer(shown[rules[-2] + 1 : rules[-1]]))
        if any(_CHOICE.match(line) for line in below):
            return Screen("permission" if any(_PERMISSION.match(line) for line in below) else "dialog", None)
        return Screen("unknown", None)

    def question(self, lines: Sequence[str]) -> str:
        """What the open dialog asks, in a few words: a tool with its first line, or the question itself."""
        shown = trimmed(lines)
        rules = [number for number, line in enumerate(shown) if _RULE.match(line)]
        dialog = [line.strip() for line in shown[rules[-1] + 1 :] if line.strip()] if rules else []
        dashed = [number for number, line in enumerate(dialog) if set(line) == {"╌"}]
        if dialog and dialog[0] == "Bash command" and len(dashed) > 1:
            return f"Bash {dialog[dashed[0] + 1]}"
        if len(dashed) > 1:
            return " ".join(line for line in dialog[: dashed[0]] if not line.startswith("Tip:"))
        return next((line for line in dialog if "?" in line), dialog[0] if dialog else "")

    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]:
        """What it has left on the screen of a pane where it no longer runs."""
        shown = [line for line in trimmed(lines) if line]
        if any(_RESUME.match(line) for line in shown[-2:]):
            return "ended"
        last = shown[-8:]
        return "killed" if any(_RULE.match(one) and two.startswith("❯") for one, two in pairwise(last)) else ""


def _state(above: Sequence[str], footer: Sequence[str]) -> State:
    margin = [line for line in above if line[:1].strip()]
    status = margin.pop() if margin else ""
    if _RETRY.match(status):
        return "retry"
    if _BUSY.match(status) or any(_INTERRUPT.search(line) for line in footer):
        return "busy"
    if _STATUS.match(status):
        status = margin.pop() if margin else ""  # "Baked for 3s" stays; what it stands below is the last answer
    return "error" if _ERROR.match(status) else "idle"


def _composer(lines: Sequence[str]) -> str:
    """The text without its mark and indentation; empty where only a hint of the client's stands there."""
    text = "\n".join(line[2:] for line in lines)
    return "" if _PLACEHOLDER.match(text) else text
