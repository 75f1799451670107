"""OpenCode: how it is started and recognised, and the patterns of its screen (seen with 1.18.33)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from dogwatch.errors import RefusedError
from dogwatch.harness.api import Launch, Rehearsal, Screen, Start, State
from dogwatch.harness.neutral import trimmed
from dogwatch.harness.opencode_facts import OpenCodeFacts, session_of, spool_of
from dogwatch.model.brief import check_in

PLUGIN = Path(__file__).with_name("opencode_plugin.js")
DUMMY_KEY = "scripted-model-no-real-key"
"""What is sent to the scripted model."""
SCHEMA = "https://opencode.ai/config.json"
OFFLINE = {"npm_config_offline": "true"}
"""Before it loads any plugin, the client installs a package of its own into its config folder, and without a network
hangs there. Ours needs no package: with this the client fails at once and goes on. The plugin takes the
variable away again, before anything else is started with it."""
CONTENT, FILE = "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG"
"""Two ways to give the client more configuration than the user's own."""
READING = ("read", "glob", "grep", "list", "lsp")
UNASKED = (*READING, "skill", "task", "todowrite", "todoread")
"""What a role with rules of its own need not allow. A sub-agent's tools are asked for one by one."""
OWN_COMMANDS = "dogwatch *"
"""What every agent may run unasked: its way to the captain."""
_RULE = re.compile(r"([\w*?-]+)(?:\((.*)\))?", re.DOTALL)
_BAR = re.compile(r"\s+┃")
_EDGE = re.compile(r"\s+╹▀{8,}")
_PERMISSION = re.compile(r"\s+┃\s+△ Permission required")
_RETRY = re.compile(r"\[retrying (?:in .* )?attempt #\d+\]")
_BUSY = re.compile(r"\besc (?:again to )?interrupt\b")
_PLACEHOLDER = re.compile(r"Ask anything…")
# Its own lines are all indented.
_SHELL = re.compile(r"\S.*[$#%](?:\s|$)")
_RESUME = re.compile(r"\s*Continue\s+opencode -s \S+$")


class OpenCode(OpenCodeFacts):
    """OpenCode."""

    name = "opencode"
    version = "1.18.33"
    programs = ("opencode",)
    package = "opencode-ai"
    enter_delay_s = 0.3
    pasted = "[Pasted ~"
    # Esc twice. Sent at once they would be one key, Meta-Esc; in this form each is told from the next.
    interrupt_keys = ("Escape", "[27u", "Escape", "[27u")
    hooks = True
    guards = True
    sandbox = "auto"
    variables = (
        "OPENCODE_*",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "OPENROUTER_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "DEEPSEEK_API_KEY",
        "XAI_API_KEY",
        "CEREBRAS_API_KEY",
    )

    def start(self, launch: Launch) -> Start:
        """The client with dogwatch's plugin, besides the user's own configuration: no file of theirs is touched."""
        session = session_of(launch)
        plugin = f"{launch.folder}/dogwatch.js"
        files = {plugin: self.plugin(launch, session)}
        config = json.dumps({"$schema": SCHEMA, "plugin": [Path(plugin).as_uri()]})
        given = {**os.environ, **launch.role.environment}
        if not given.get(CONTENT):
            told = {CONTENT: config}
        elif not given.get(FILE):
            files[f"{launch.folder}/opencode.json"] = config
            told = {FILE: f"{launch.folder}/opencode.json"}
        else:
            raise RefusedError(
                f"both {FILE} and {CONTENT} are set: there is no place left for dogwatch's plugin",
                hint=f"put what {CONTENT} has into the file that {FILE} names",
            )
        words = ("--session", session) if session else ()
        return Start(
            command=(*(launch.role.command or ("opencode",)), *words),
            environment={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_PURE": "0", **OFFLINE, **told},
            files=files,
        )

    def plugin(self, launch: Launch, session: str = "") -> str:
        """The plugin's text, with what it must know of this agent at its head."""
        settings = {
            "python": launch.python,
            "hook": launch.hook,
            "marks": dict(launch.marks),
            "conversation": launch.conversation,
            "session": session,
            "transcript": spool_of(launch),
            "permissions": {"own": own_rules(launch.role.permissions), "always": self._always(launch)},
            "passing": sorted(OFFLINE),
        }
        return f"const SETTINGS = {json.dumps(settings, indent=1)}\n\n{PLUGIN.read_text(encoding='utf-8')}"

    @staticmethod
    def _always(launch: Launch) -> dict[str, dict[str, str]]:
        """What is allowed whatever the rules say. The names are patterns, and so no names that the user's rules have:
        in their place these would stand before others that decide."""
        output = launch.marks.get("DOGWATCH_OUTPUT", "")
        always = {"bas?": {OWN_COMMANDS: "allow"}}
        return {**always, "external_director?": {output: "allow", f"{output}/*": "allow"}} if output else always

    def rehearsal(self, home: str, project: str, url: str) -> Rehearsal:
        """A home in which the client knows the scripted model only, and the variables that keep it from calling
        anybody else."""
        model = {"name": "scripted", "tool_call": True, "limit": {"context": 128_000, "output": 8_000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": f"{url}/v1", "apiKey": DUMMY_KEY},
            "models": {"scripted": model},
        }
        config = {
            "$schema": SCHEMA,
            "provider": {"scripted": provider},
            "enabled_providers": ["scripted"],
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "share": "disabled",
            "autoupdate": False,
        }
        environment = {
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/.config",
            "XDG_DATA_HOME": f"{home}/.local/share",
            "XDG_STATE_HOME": f"{home}/.local/state",
            "XDG_CACHE_HOME": f"{home}/.cache",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        }
        return Rehearsal(
            environment=environment, files={f"{home}/.config/opencode/opencode.json": json.dumps(config, indent=1)}
        )

    def check_in(self, launch: Launch, question: str) -> Start | None:
        """The client without a terminal, with a copy of the conversation, which stays in its list of sessions. It may
        read what the role may."""
        session = session_of(launch)
        if not session:
            return None
        rules = {"*": "deny", **dict.fromkeys(READING, "allow")}
        denied = {name: rule for name, rule in (own_rules(launch.role.permissions) or {}).items() if name in READING}
        words = ("run", "--session", session, "--fork", check_in(question))
        return Start(
            command=(*(launch.role.command or ("opencode",)), *words),
            environment={
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_PURE": "1",
                "OPENCODE_PERMISSION": json.dumps({**rules, **denied}),
                **OFFLINE,
            },
        )

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """The last block with a bar at its left, which is the composer or a dialog, and what stands below it count."""
        shown = trimmed(lines)
        bars = [number for number, line in enumerate(shown) if _BAR.match(line)]
        below = shown[bars[-1] + 1 :] if bars else shown
        if any(_SHELL.match(line) for line in below):
            return Screen("shell", None)
        if not bars:
            return Screen("unknown", None)
        block = _last_block(shown, bars[-1])
        if any(_PERMISSION.match(line) for line in block):
            return Screen("permission", None)
        # On the first page a tip and an empty field stand below the composer, so its distance from the end varies.
        edge = _EDGE.match(below[0]) if below else None
        if edge is None:
            return Screen("unknown", None)
        # What stands to the right of the composer is a bar of facts.
        return Screen(_state(below[1:]), _composer([line[: edge.end()] for line in block]))

    def question(self, lines: Sequence[str]) -> str:
        """What the open dialog asks, in a few words: a command, or the dialog's heading."""
        shown = trimmed(lines)
        bars = [number for number, line in enumerate(shown) if _BAR.match(line)]
        block = [line.strip().removeprefix("┃").strip() for line in _last_block(shown, bars[-1])] if bars else []
        command = next((line[2:] for line in block if line.startswith("$ ")), "")
        return f"Bash {command}" if command else next((line[2:] for line in block if line.startswith(("# ", "→ "))), "")

    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]:
        """What it has left on the screen of a pane where it no longer runs."""
        shown = [line for line in trimmed(lines) if line]
        if any(_RESUME.match(line) for line in shown[-2:]):
            return "ended"
        return "killed" if any(_EDGE.match(line) for line in shown[-3:]) else ""


def own_rules(permissions: Sequence[str]) -> dict[str, Any] | None:
    """A role's rules as the client has them: `bash`, `bash(npm test *)`, or either after `deny:`; whatever no rule
    names is asked for. None where the role has none: then the user's own hold."""
    if not permissions:
        return None
    rules: dict[str, dict[str, str]] = {"*": {"*": "ask"}, **{name: {"*": "allow"} for name in UNASKED}}
    # Of all that fit, the last decides: what forbids comes after what allows.
    for rule in sorted(permissions, key=lambda rule: rule.startswith("deny:")):
        action = "deny" if rule.startswith("deny:") else "allow"
        found = _RULE.fullmatch(rule.removeprefix("deny:").strip())
        if found is None:
            raise RefusedError(f"{rule!r} is no rule of OpenCode's", hint="write bash, bash(npm test *) or deny: edit")
        name, pattern = found[1], found[2] or "*"
        known = rules.pop(name, {"*": "ask"})
        known.pop(pattern, None)
        rules[name] = {**known, pattern: action}
    # Some of its tools take no patterns, and the client does not start with one for them.
    return {name: rule["*"] if len(rule) == 1 and "*" in rule else rule for name, rule in rules.items()}


def _state(footer: Sequence[str]) -> State:
    if any(_RETRY.search(line) for line in footer):
        return "retry"
    return "busy" if any(_BUSY.search(line) for line in footer) else "idle"


def _last_block(shown: Sequence[str], end: int) -> Sequence[str]:
    start = end
    while start > 0 and _BAR.match(shown[start - 1]):
        start -= 1
    return shown[start : end + 1]


def _composer(block: Sequence[str]) -> str:
    """The text between the first line, which is empty, and the last two: an empty one and the model's name."""
    text = "\n".join(line.strip().removeprefix("┃").removeprefix("  ") for line in block[1:-2])
    return "" if _PLACEHOLDER.match(text) else text
