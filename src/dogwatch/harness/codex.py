"""Codex: how it is recognised, and the patterns of its screen (seen with 0.166.0)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from dogwatch.harness import Screen, State

_PROMPT = re.compile(r"›(?:\s|$)")
_RETRY = re.compile(r"[•◦] Reconnecting\.\.\. \d+/\d+")
_BUSY = re.compile(r"[•◦] .*\(.*\besc to interrupt\)")
_ERROR = re.compile(r"■ (?!Conversation interrupted)")
_CONFIRM = re.compile(r"\s*(?:Press enter to confirm or esc to|enter confirm · esc|.*enter review · esc)")
_ASKED = re.compile(r"\s*Would you like to ")
_BEFORE = re.compile(r"\s*(?:Hooks need review|Lifecycle hooks from|Do you trust )")
_SPINNING = re.compile(r"[⠀-⣿] ")
_ACTION = "[ ! ] Action Required"
_PLACEHOLDER = "Ask Codex to do anything"
_SHELL = re.compile(r"(?![›•◦■✔>])\S[^›•◦■]*[$#%]$")
_RESUME = re.compile(r"\s*codex resume \S+$")


class Codex:
    """The Codex CLI."""

    name = "codex"
    programs = ("codex", "@openai/codex")

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """The composer, or a dialog, and the line at the margin above it count. The title tells of work without one."""
        shown = _trimmed(lines)
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
        shown = _trimmed(lines)
        asked = [number for number, line in enumerate(shown) if _ASKED.match(line) or _BEFORE.match(line)]
        dialog = [line.strip() for line in shown[asked[-1] :]] if asked else []
        command = next((line[2:] for line in dialog if line.startswith("$ ")), "")
        return f"Bash {command}" if command else dialog[0] if dialog else ""

    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]:
        """What it has left on the screen of a pane where it no longer runs."""
        shown = [line for line in _trimmed(lines) if line]
        if any(_RESUME.match(line) for line in shown[-2:]):
            return "ended"
        footer = bool(shown) and shown[-1].startswith("  ")
        return "killed" if footer and any(_PROMPT.match(line) for line in shown[-6:]) else ""


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


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Without the blanks at the ends of lines and without empty last lines."""
    shown = [line.rstrip() for line in lines]
    while shown and not shown[-1]:
        shown.pop()
    return shown
