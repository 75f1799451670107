"""The scripted agent: how it is started, and the patterns of its screen."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from dogwatch.errors import UsageError
from dogwatch.harness.api import Launch, Screen, Start, State
from dogwatch.harness.neutral import Neutral

# Transcript and composer lines never begin with this character, so a rule is always the client's own.
_RULE = re.compile(r"─{20,}$")
_BUSY = re.compile(r"[·✢✳✶✻✽*] (\S+…|Waiting for \d+ background agent)")
_RETRY = re.compile(r"[·✢✳✶✻✽*] .*Retrying in \d+s · attempt \d+/\d+")
_ERROR = re.compile(r"✘ API Error")
_PERMISSION = re.compile(r"\s*Do you want to proceed\?")
_TRUST = re.compile(r"\s*Do you trust the files in this folder\?")
_STARTING = re.compile(r"\s*Starting…$")
# A shell's prompt, perhaps over the rest of a rule that a killed client has left behind.
_SHELL = re.compile(r"[^─❯●]*[$#%] ?─*$")
_DEAD = re.compile(r"Pane is dead")


class Scripted(Neutral):
    """The client of `dogwatch.testing.agent`."""

    name = "scripted"
    version = ""
    enter_delay_s = 0.2
    pasted = "[Pasted text"
    hooks = True
    guards = False
    sandbox = "off"
    variables = ("SCRIPTED_*",)

    def start(self, launch: Launch) -> Start:
        """The scripted agent with the role's scenario."""
        role = launch.role
        if not role.script:
            raise UsageError(f"the role {role.name} has no script", hint="give it `script: FILE`, a scenario")
        return Start(command=(launch.python, "-m", "dogwatch.testing.agent", "--scenario", role.script))

    def check_in(self, launch: Launch, question: str) -> Start | None:
        """What its scenario answers."""
        return Start(command=(*self.start(launch).command, "--check-in", question))

    def context(self, tail: bytes) -> float | None:
        """From the last line that counts tokens."""
        for line in reversed(tail.splitlines()):
            try:
                entry = json.loads(line)
                usage = entry["message"]["usage"]
                share = float((usage["input_tokens"] + usage["cache_read_input_tokens"]) / entry["window"])
                return share if math.isfinite(share) else None
            except (ValueError, LookupError, TypeError, ArithmeticError):
                continue
        return None

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """Only what stands from the last status line on counts: text higher up is history."""
        shown = [line.rstrip() for line in lines]
        while shown and not shown[-1]:
            shown.pop()
        if not shown or _DEAD.match(shown[-1]):
            return Screen("unknown", None)
        if _SHELL.match(shown[-1]):
            return Screen("shell", None)
        rules = [number for number, line in enumerate(shown) if _RULE.match(line)]
        if not rules:
            return Screen("starting" if _STARTING.match(shown[-1]) else "unknown", None)
        below = shown[rules[-1] + 1 :]
        if any(_SHELL.match(line) and line.endswith("─") for line in below):
            return Screen("shell", None)
        if any(_PERMISSION.match(line) for line in below):
            return Screen("permission", None)
        if any(_TRUST.match(line) for line in below):
            return Screen("dialog", None)
        if len(rules) < 2 or not shown[rules[-2] + 1].startswith("❯") or any(line[:2].strip() for line in below):
            return Screen("unknown", None)  # text at the margin below the composer is not the client's own
        status = shown[rules[-2] - 1] if rules[-2] else ""
        return Screen(_state(status), _composer(shown[rules[-2] + 1 : rules[-1]]))


def _state(status: str) -> State:
    if _RETRY.match(status):
        return "retry"
    if _BUSY.match(status):
        return "busy"
    return "error" if _ERROR.match(status) else "idle"


def _composer(lines: Sequence[str]) -> str:
    """The text without its mark and indentation. A line that the client has wrapped stays wrapped."""
    return "\n".join(line.removeprefix("❯").removeprefix(" ") if n == 0 else line[2:] for n, line in enumerate(lines))
