"""Codex: how it is started and recognised, and the patterns of its screen (seen with 0.166.0)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from dogwatch.harness.api import Launch, Rehearsal, Screen, Start, State
from dogwatch.harness.codex_facts import CodexFacts, config_folder
from dogwatch.harness.neutral import trimmed
from dogwatch.model.brief import check_in
from dogwatch.model.plan import Role
from dogwatch.model.spool import PAYLOAD_BYTES_MAX, parse

EVENTS = {
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "UserPromptSubmit": "user_prompt_submit",
    "PreToolUse": "pre_tool_use",
    "PostToolUse": "post_tool_use",
    "PermissionRequest": "permission_request",
    "Stop": "stop",
    "Interrupt": "interrupt",
    "SubagentStart": "subagent_start",
    "SubagentStop": "subagent_stop",
    "PreCompact": "pre_compact",
    "PostCompact": "post_compact",
}
"""The events that tell something, and what the client calls each where it keeps whom it trusts."""
GATING = ("PreToolUse",)
"""The events whose hook may deny a tool: where it cannot run at all, the tool must not run either."""
UNHEARD = "sh -c 'echo \"dogwatch: the guard has not let it pass\" >&2; exit 2'"
"""After an exit code 2 without any words the client goes on. This is the same in all shells, in fish too."""
HOOK_S = 30
"""The client's own time limit for a hook, after which it goes on without its answer."""
GATE_S = 600
"""The same where the hook may deny. It answers within seconds by itself; on a machine that stalls for longer the tool
has to wait, for without an answer it would run."""
ENDING_S = 3
"""All that the client gives a hook of an end."""
ENDINGS = ("SessionEnd", "Interrupt")
LAYER = "/<session-flags>/config.toml"
"""The file that the client names as the origin of what flags say."""
SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
APPROVALS = ("untrusted", "on-request", "never")
LINE_BYTES_MAX = 2 * PAYLOAD_BYTES_MAX
DUMMY_KEY = "sk-scripted-model-no-real-key-0000"
KEY_VARIABLE = "OPENAI_API_KEY"
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PROMPT = re.compile(r"›(?:\s|$)")
_RETRY = re.compile(r"[•◦] Reconnecting\.\.\. \d+/\d+")
_BUSY = re.compile(r"[•◦] .*\(.*\besc to interrupt\)")
_ERROR = re.compile(r"■ (?!Conversation interrupted)")
_CONFIRM = re.compile(
    r"\s*(?:Press enter to confirm or esc to|enter confirm · esc|enter/esc confirm|.*enter review · esc)"
)
_ASKED = re.compile(r"\s*Would you like to ")
_BEFORE = re.compile(r"\s*(?:Hooks need review|Lifecycle hooks from|Do you trust )")
_SPINNING = re.compile(r"[⠀-⣿] ")
_ACTION = "[ ! ] Action Required"
_PLACEHOLDER = "Ask Codex to do anything"
_SHELL = re.compile(r"(?![›•◦■✔>])\S[^›•◦■]*[$#%]$")
_RESUME = re.compile(r"\s*codex resume \S+$")


class Codex(CodexFacts):
    """The Codex CLI."""

    name = "codex"
    version = "0.166.0"
    programs = ("codex", "@openai/codex")
    package = "@openai/codex"
    enter_delay_s = 0.5
    pasted = "[Pasted Content"
    hooks = True
    guards = True
    speaks_first = False
    sandbox = "auto"
    variables = ("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*")

    def start(self, launch: Launch) -> Start:
        """The client with hooks of its own, and the trust in these alone, by flag: no file of the user's is touched.
        Which of its conversations an agent goes on with is told by its hooks."""
        begun, session = self._conversation(launch)
        incarnation = launch.marks.get("DOGWATCH_INCARNATION", "")
        words = [*(launch.role.command or ("codex",)), *(("resume", session) if session else ()), "--no-daemon"]
        return Start(
            command=(*words, *_flags({**self._rules(launch), **self.settings(launch)})),
            files={} if begun else {_note(launch): incarnation},
        )

    def rehearsal(self, home: str, project: str, url: str) -> Rehearsal:
        """A home in which the client has nothing to ask, and calls nobody else. Its own sandbox is off: it does not
        work where this folder lies below the one for temporary files."""
        provider = {"name": "scripted", "base_url": f"{url}/v1", "env_key": KEY_VARIABLE, "wire_api": "responses"}
        config = {
            "model": "scripted",
            "model_provider": "scripted",
            "model_providers.scripted": provider,
            "sandbox_mode": SANDBOXES[-1],
            "check_for_update_on_startup": False,
            "analytics.enabled": False,
            "feedback.enabled": False,
            "features.daemon_auto_start": False,
            "features.plugins": False,
            "features.apps": False,
            f"projects.{_quoted(os.path.realpath(project))}.trust_level": "trusted",
        }
        folder = f"{home}/.codex"
        text = "".join(f"{name} = {_toml(value)}\n" for name, value in config.items())
        return Rehearsal(
            environment={"HOME": home, "CODEX_HOME": folder, KEY_VARIABLE: DUMMY_KEY},
            files={f"{folder}/config.toml": text},
            permissions=(SANDBOXES[-1], APPROVALS[-1]),
        )

    def check_in(self, launch: Launch, question: str) -> Start | None:
        """The client without a terminal, with a copy of the conversation that is kept nowhere. Its own sandbox lets it
        only read; the user's MCP servers are not started, for what they do is outside of that."""
        _, session = self._conversation(launch)
        if not session:
            return None
        servers = {f"mcp_servers.{_quoted(name)}.enabled": False for name in _servers(launch.role)}
        words = [*(launch.role.command or ("codex",)), "exec", "--ephemeral", "--skip-git-repo-check"]
        rules = {"sandbox_mode": SANDBOXES[0], "approval_policy": APPROVALS[-1], "features.daemon_auto_start": False}
        words += _flags({**rules, **servers})
        return Start(command=(*words, "fork", session, check_in(question)))

    def settings(self, launch: Launch) -> dict[str, Any]:
        """What the client is told by flag, before all files: a hook for each event, that these hooks and no others are
        trusted by this, that its tools have the agent's marks, and that all of it runs below the agent's own pane."""
        # The shell's parent is the client; where the shell stays, the hook's own parent is not.
        run = f"CLAUDE_PID=$PPID {shlex.quote(launch.python)} -I -S {shlex.quote(launch.hook)}"
        settings: dict[str, Any] = {"features.hooks": True, "features.daemon_auto_start": False}
        # What is typed into a program that runs is judged by no hook: programs get nothing to read.
        settings["features.unified_exec_tty"] = False
        # A login shell makes a PATH of its own, without the way to the captain.
        settings["allow_login_shell"] = False
        settings |= {f"shell_environment_policy.set.{name}": value for name, value in launch.marks.items()}
        trusted = {}
        for event, key in EVENTS.items():
            command = f"{run} {event} || {UNHEARD}" if event in GATING else f"{run} {event}"
            seconds = ENDING_S if event in ENDINGS else GATE_S if event in GATING else HOOK_S
            settings[f"hooks.{event}"] = [{"hooks": [{"type": "command", "command": command, "timeout": seconds}]}]
            trusted[f"{LAYER}:{key}:0:0"] = {"enabled": True, "trusted_hash": trusted_hash(key, command, seconds)}
        return {**settings, "hooks.state": trusted}

    @staticmethod
    def _rules(launch: Launch) -> dict[str, Any]:
        """The role's permissions. In a namespace of ours its own sandbox is off, unless the role names one. One that
        lets nobody out would cut the way to the captain as well."""
        rules: dict[str, Any] = {"sandbox_workspace_write.network_access": True}
        if launch.sandboxed:
            rules["sandbox_mode"] = SANDBOXES[-1]
        for word in launch.role.permissions:
            key, given, value = word.partition("=")
            if word in SANDBOXES:
                rules["sandbox_mode"] = word
            elif word in APPROVALS:
                rules["approval_policy"] = word
            elif given:
                rules[key.strip()] = Literally(value.strip())
            else:
                rules[word] = ""
        return rules

    def _conversation(self, launch: Launch) -> tuple[bool, str]:
        """Whether this conversation was begun before, and the client's own name for it where it has kept it. What was
        begun by a certain incarnation belongs to all later ones, until there is a new one."""
        try:
            with open(_note(launch), encoding="utf-8") as file:
                first = int(file.read() or 0)
        except (OSError, ValueError):
            return False, ""
        found = ""
        for raw in _lines(launch.spool):
            if b"\tSessionStart\t" not in raw or (line := parse(raw)) is None or line.incarnation < first:
                continue
            told = line.payload()
            session, path = str(told.get("session_id")), str(told.get("transcript_path"))
            if _ID.fullmatch(session) and os.path.isfile(path):
                found = session
        return True, found

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """The composer, or a dialog, and the line at the margin above it count. The title tells of work without one."""
        shown = trimmed(lines)
        prompts = [number for number, line in enumerate(shown) if _PROMPT.match(line)]
        below = shown[prompts[-1] + 1 :] if prompts else shown
        if any(_SHELL.match(line) for line in below):
            return Screen("shell", None)
        if not prompts:
            return Screen("unknown", None)
        if _CONFIRM.match(shown[-1]):
            asked = next((line for line in reversed(shown) if _ASKED.match(line) or _BEFORE.match(line)), "")
            return Screen("permission" if _ASKED.match(asked) else "dialog", None)
        if any(line[:1].strip() for line in below) or "" not in below:
            return Screen("unknown", None)  # the client's own footer is indented and stands apart
        if title.startswith(_ACTION):
            return Screen("permission", None)
        return Screen(_state(shown[: prompts[-1]], title), _composer(shown[prompts[-1] :]))

    def question(self, lines: Sequence[str]) -> str:
        """What the open dialog asks, in a few words: the command, or the question itself."""
        shown = trimmed(lines)
        asked = [number for number, line in enumerate(shown) if _ASKED.match(line) or _BEFORE.match(line)]
        dialog = [line.strip() for line in shown[asked[-1] :]] if asked else []
        command = next((line[2:] for line in dialog if line.startswith("$ ")), "")
        return f"Bash {command}" if command else dialog[0] if dialog else ""

    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]:
        """What it has left on the screen of a pane where it no longer runs."""
        shown = [line for line in trimmed(lines) if line]
        if any(_RESUME.match(line) for line in shown[-2:]):
            return "ended"
        footer = bool(shown) and shown[-1].startswith("  ")
        return "killed" if footer and any(_PROMPT.match(line) for line in shown[-6:]) else ""


class Literally(str):
    """A value as the client's own notation has it."""


def trusted_hash(key: str, command: str, seconds: int) -> str:
    """How the client knows a hook that it was told to trust: by all that it would run."""
    hook = {"type": "command", "command": command, "timeout": seconds, "async": False}
    known = json.dumps({"event_name": key, "hooks": [hook]}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(known.encode(errors='surrogateescape')).hexdigest()}"


def _note(launch: Launch) -> str:
    """The file that says which incarnation has begun a conversation."""
    return f"{launch.folder}/conversations/{launch.conversation}"


def _lines(spool: str) -> Iterator[bytes]:
    """The lines of a spool. The agent can put anything there: a pipe is not waited for, nor an endless line read."""
    with contextlib.suppress(OSError):
        fd = os.open(spool, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                yield from iter(lambda: file.readline(LINE_BYTES_MAX), b"")


def _servers(role: Role) -> Iterator[str]:
    """The names of the user's MCP servers."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        with open(f"{config_folder(role)}/config.toml", "rb") as file:
            servers = tomllib.load(file).get("mcp_servers")
        yield from servers if isinstance(servers, dict) else ()


def _flags(settings: Mapping[str, Any]) -> list[str]:
    # A name without a value is refused by the client, in its own words.
    given = (name if value == "" else f"{name}={_toml(value)}" for name, value in settings.items())
    return [word for flag in given for word in ("-c", flag)]


def _toml(value: Any) -> str:
    """The value in TOML, on one line."""
    if isinstance(value, Literally):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_quoted(key)}={_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_toml, value)) + "]"
    return str(value) if isinstance(value, int) else _quoted(value)


def _quoted(text: str) -> str:
    """A text as TOML and JSON both write it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _state(above: Sequence[str], title: str) -> State:
    status = next((line for line in reversed(above) if line[:1].strip()), "")
    if _RETRY.match(status):
        return "retry"
    if _BUSY.match(status) or _SPINNING.match(title):
        return "busy"
    return "error" if _ERROR.match(status) else "idle"


def _composer(lines: Sequence[str]) -> str:
    """The text without its mark and indentation, up to the empty line above the footer."""
    footer = max(number for number, line in enumerate(lines) if not line)
    text = "\n".join(line[2:] for line in lines[:footer]).rstrip("\n")
    return "" if text == _PLACEHOLDER else text
