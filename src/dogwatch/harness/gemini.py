"""Gemini CLI: how it is recognised, and the patterns of its screen (seen with 0.61.0)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from dogwatch.harness import Screen, State

_RULE = re.compile(r"─{8,}$")
_PROMPT = re.compile(r" [>!*](?:\s|$)")
_BUSY = re.compile(r"\s*\S.*\(esc to cancel\b")
_ERROR = re.compile(r"✕ ")
_ALLOW = re.compile(r"[\s│]*(?:Allow execution of|Apply this change|Do you want to proceed)\b.*\?")
_CHOICE = re.compile(r"[\s│]*● 1\. ")
_READY, _WORKING, _ACTION = "◇", "✦", "✋"
_PLACEHOLDER = "Type your message or @path/to/file"
_SHELL = re.compile(r"\S[^─✦>]*[$#%]$")
_RESUME = re.compile(r"[│\s]*To resume this session: gemini --resume \S+")


class Gemini:
    """The Gemini CLI."""

    name = "gemini"
    programs = ("gemini", "@google/gemini-cli")

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """The composer below the last rule and the status line above it count. The title tells what these do not."""
        shown = _trimmed(lines)
        rules = [number for number, line in enumerate(shown) if _RULE.match(line)]
        below = shown[rules[-1] + 1 :] if rules else shown
        if any(_SHELL.match(line) for line in below):
            return Screen("shell", None)
        if title.startswith(_ACTION) or _asks(shown[rules[-1] - 12 if rules and rules[-1] > 12 else 0 :]):
            return Screen("permission", None)
        prompts = [number for number, line in enumerate(below) if _PROMPT.match(line)]
        if not rules or not prompts:
            return Screen("unknown", None)
        return Screen(_state(shown[: rules[-1]], title), _composer(below[prompts[0] :]))

    def question(self, lines: Sequence[str]) -> str:
        """What the open dialog asks."""
        asked = [line.strip(" │") for line in lines if _ALLOW.match(line)]
        return asked[-1] if asked else ""

    def remains(self, lines: Sequence[str]) -> Literal["", "ended", "killed"]:
        """What it has left on the screen of a pane where it no longer runs."""
        shown = [line for line in _trimmed(lines) if line]
        if any(_RESUME.match(line) for line in shown[-8:]):
            return "ended"
        last = shown[-8:]
        ruled = next((number for number, line in enumerate(last) if _RULE.match(line)), len(last))
        return "killed" if any(_PROMPT.match(line) for line in last[ruled + 1 :]) else ""


def _asks(live: Sequence[str]) -> bool:
    return any(_ALLOW.match(line) for line in live) and any(_CHOICE.match(line) for line in live)


def _state(above: Sequence[str], title: str) -> State:
    status = above[-1] if above else ""
    if _BUSY.match(status) or title.startswith(_WORKING):
        return "busy"
    last = next((line for line in reversed(above) if line[:1].strip()), "")
    return "error" if _ERROR.match(last) else "idle"


def _composer(lines: Sequence[str]) -> str:
    """The text without its mark and indentation, up to the empty line above the footer."""
    end = lines.index("") if "" in lines else len(lines)
    text = "\n".join(line[3:] for line in lines[:end])
    return "" if text.strip() == _PLACEHOLDER else text


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Without the blanks at the ends of lines and without empty last lines."""
    shown = [line.rstrip() for line in lines]
    while shown and not shown[-1]:
        shown.pop()
    return shown
