"""The guard in Claude Code's own settings: how its hook stands there, is put in, taken out, and fired for a proof."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any, Literal

from dogwatch.errors import RefusedError
from dogwatch.harness.claude import HOOK_S
from dogwatch.harness.claude_files import UNCHANGED, an_object, content
from dogwatch.harness.claude_gifts import Gift
from dogwatch.harness.json_text import Key, put, remove
from dogwatch.values import dataclass

KIND = "hooks"
EVENT = "PreToolUse"
MATCHER = "Bash|Write|Edit|MultiEdit|NotebookEdit"
FIRE_S = 2.0 * HOOK_S
"""How long a hook may take when it is only tried: it is the client that is in a hurry."""
CANARY = "tmux kill-server"
HARMLESS = "ls"
DENIED = 2
_TAIL = [EVENT, "alone", "||", "exit", "2"]
_HOOK_FILE = os.path.join("dogwatch", "guard", "hook.py")

State = Literal["installed", "outdated", "not installed", "broken", "disabled", "unreadable"]


@dataclass(frozen=True, slots=True)
class Found:
    """A hook of dogwatch's in a file: the number of its entry under the event, its own number there, how many there
    are in that entry, what the entry is for, and itself."""

    entry: int
    number: int
    of: int
    matcher: str
    hook: dict[str, Any]


def command_line(python: str, hook: str) -> str:
    """What the client is to run."""
    return f"{shlex.quote(python)} -I -S {shlex.quote(hook)} {EVENT} alone || exit 2"


def installed(path: str, text: str | None, command: str) -> tuple[str, Gift | None]:
    """The text with the one hook in it, and what is to be remembered: nothing where there was one already. Such a one,
    perhaps of another python or another place of dogwatch, is brought up to date."""
    said = content(path, text)
    ours = list(_ours(path, said))
    gift = None if ours else Gift(kind=KIND, file=path, made=_to_be_made(path, text, said))
    new = text if text and text.strip() else "{}\n"
    hook = _hook(command)
    if len(ours) == 1 and ours[0].matcher == MATCHER:
        place: list[Key] = [KIND, EVENT, ours[0].entry, "hooks", ours[0].number]
        return (new if ours[0].hook == hook else put(new, place, hook)), gift
    new = _without(new, ours)
    entry = {"matcher": MATCHER, "hooks": [hook]}
    if KIND not in said:
        return put(new, [KIND], {EVENT: [entry]}), gift
    if EVENT not in said[KIND]:
        return put(new, [KIND, EVENT], [entry]), gift
    return put(new, [KIND, EVENT, len(content(path, new)[KIND][EVENT])], entry), gift


def _hook(command: str) -> dict[str, Any]:
    return {"type": "command", "command": command, "timeout": HOOK_S}


def _to_be_made(path: str, text: str | None, said: dict[str, Any]) -> tuple[str, ...]:
    """What the hook needs around it and is not there yet."""
    missing = {
        "folder": not os.path.isdir(os.path.dirname(path)),
        "file": text is None,
        "hooks": KIND not in said,
        "event": EVENT not in said.get(KIND, {}),
    }
    return tuple(name for name, is_missing in missing.items() if is_missing)


def uninstalled(path: str, text: str | None, gift: Gift | None) -> str | None:
    """The text without any hook of dogwatch's, and without what had to be made for it and is empty now. Where nothing
    is remembered, empty containers count as made, and the file as the user's own."""
    ours = list(_ours(path, content(path, text)))
    if text is None or not ours:
        return text
    text = _without(text, ours)
    made = gift.made if gift is not None else ("hooks", "event")
    if "event" in made and not content(path, text)[KIND][EVENT]:
        text = remove(text, [KIND, EVENT])
    if "hooks" in made and not content(path, text)[KIND]:
        text = remove(text, [KIND])
    return None if "file" in made and not content(path, text) else text


def state_of(path: str, text: str | None, command: str) -> tuple[State, str]:
    """How the guard stands in the file, and what is to be said about that."""
    ours = list(_ours(path, content(path, text)))
    if not ours:
        return "not installed", ""
    for found in ours:
        words = shlex.split(found.hook["command"])
        for file, name in ((words[0], "the interpreter"), (words[3], "the hook")):
            if not os.path.isfile(file):
                return "broken", f"{name} {file} is not there, so every tool is denied"
    if len(ours) > 1:
        return "outdated", "it stands there more than once"
    if ours[0].hook != _hook(command):
        return "outdated", "another dogwatch, or another hand, has written it"
    if ours[0].matcher != MATCHER:
        return "outdated", f"it is only for {ours[0].matcher or 'another matcher'}"
    return "installed", ""


def fire(command: str, cwd: str, shell_command: str) -> int:
    """The exit code of the hook for a shell command that is about to be run, as the client would run the hook."""
    payload = {
        "session_id": "dogwatch-hooks-status",
        "transcript_path": "",
        "cwd": cwd,
        "permission_mode": "default",
        "hook_event_name": EVENT,
        "tool_name": "Bash",
        "tool_input": {"command": shell_command},
        "tool_use_id": "dogwatch-hooks-status",
    }
    variables = {name: value for name, value in os.environ.items() if not name.startswith("DOGWATCH_")}
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps(payload).encode(),
            cwd=cwd,
            env={**variables, "CLAUDE_PROJECT_DIR": cwd},
            capture_output=True,
            timeout=FIRE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return done.returncode


def _without(text: str, ours: list[Found]) -> str:
    """From the last to the first, so that the numbers of the others stay right."""
    for entry in sorted({found.entry for found in ours}, reverse=True):
        here = [found for found in ours if found.entry == entry]
        place: list[Key] = [KIND, EVENT, entry]
        if len(here) == here[0].of:
            text = remove(text, place)
            continue
        for found in reversed(here):
            text = remove(text, [*place, "hooks", found.number])
    return text


def _ours(path: str, said: dict[str, Any]) -> Iterator[Found]:
    """Every hook of dogwatch's; refuses settings that the client would not understand either."""
    entries = an_object(path, KIND, said.get(KIND, {})).get(EVENT, [])
    for number, entry in enumerate(_a_list(path, f"{KIND}.{EVENT}", entries)):
        name = f"{KIND}.{EVENT}[{number}]"
        hooks = _a_list(path, f"{name}.hooks", an_object(path, name, entry).get("hooks", []))
        for place, hook in enumerate(hooks):
            if _is_ours(an_object(path, f"{name}.hooks[{place}]", hook).get("command")):
                yield Found(number, place, len(hooks), str(entry.get("matcher", "")), hook)


def _a_list(path: str, name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise RefusedError(f"{name} in {path} is no JSON array", hint=f"{UNCHANGED}; mend the file first")
    return value


def _is_ours(command: Any) -> bool:
    """Whether this is dogwatch's line to the letter, whichever python and whichever place it names."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    if len(words) != 9 or words[1:3] != ["-I", "-S"] or words[4:] != _TAIL:
        return False
    return words[3].endswith(os.sep + _HOOK_FILE) and command == command_line(words[0], words[3])
