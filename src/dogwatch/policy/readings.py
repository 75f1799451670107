"""Whether a client has read a file itself, from its hooks: a reading tool, or one plain reading command of its shell.

Only a call that has succeeded counts, and it counts from its beginning: what came into the file later was not seen.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dogwatch.model.spool import SpoolLine

LINES_MIN = 200
"""So much of a longer file must have been read at least: clients read long files in parts."""
READERS = frozenset({"read", "readfile", "read_file", "read_text_file", "view", "view_file", "open_file", "fs_read"})
SHELLS = frozenset(
    {"bash", "shell", "sh", "run_shell_command", "local_shell", "shell_command", "exec_command", "execute_command"}
)
_PATHS = ("file_path", "absolute_path", "filePath", "path", "filename")
_FOLDERS = ("workdir", "cwd", "directory", "dir_path")
_WHOLE = frozenset({"cat", "nl", "less", "more", "bat", "batcat"})
_HARMLESS = re.compile(r"-(?!.*[hrV])[A-Za-z]+|--(?:plain|number|show-all|paging=\w+|style=[\w,]+|color=\w+)")
"""Options with which they show the whole file, and not a part of it or their help."""
_RANGE = re.compile(r"(?P<first>\d+),(?P<last>\d+|\$)p")
_TEXT = r'"(?:[^"\\]|\\.)*"'


@dataclass(frozen=True, slots=True)
class TheFile:
    """The file in question: its absolute names, and how many lines it has."""

    names: frozenset[str]
    lines: int


@dataclass(frozen=True, slots=True)
class Reads:
    """When the newest reading began, on the monotonic clock; 0 for none. `begun` are calls that have not ended."""

    at: float = 0.0
    begun: Mapping[str, float] = field(default_factory=dict)


def note(reads: Reads, line: SpoolLine, file: TheFile) -> Reads:
    """What is known after one more hook event of the agent's current incarnation."""
    if line.event not in ("PreToolUse", "PostToolUse") or not any(
        posixpath.basename(name).encode() in line.raw for name in file.names
    ):
        return reads
    call = line.payload() or _beginning(line.raw)
    if "agent_id" in call or not is_reading(call, file):
        return reads
    use = str(call.get("tool_use_id") or "")
    if line.event == "PreToolUse":
        return replace(reads, begun={**reads.begun, use: line.mono})
    if _has_failed(call.get("tool_response")):
        return reads
    # Of a long answer only the beginning is kept, and the call's id stands behind it.
    began = reads.begun.get(use) or max(reads.begun.values(), default=line.mono)
    return Reads(max(reads.at, began), {key: at for key, at in reads.begun.items() if key != use and at > began})


def is_reading(call: Mapping[str, Any], file: TheFile) -> bool:
    """Whether the tool call shows the file to the client: all of it, or the beginning of a long one."""
    name = str(call.get("tool_name") or "").lower().rpartition("__")[2]
    given = call.get("tool_input")
    if not isinstance(given, Mapping):
        return False
    folder = next((str(given[key]) for key in _FOLDERS if given.get(key)), "")
    folder = posixpath.join(str(call.get("cwd") or "/"), folder)
    if name in READERS:
        path = next((given[key] for key in _PATHS if isinstance(given.get(key), str)), "")
        return bool(path) and _is(path, folder, file) and _covers(given, file)
    if name in SHELLS and not (given.get("run_in_background") or given.get("is_background")):
        words = _words(given.get("command", given.get("cmd")))
        return bool(words) and _shows(words, folder, file)
    return False


def _is(path: str, folder: str, file: TheFile) -> bool:
    return posixpath.normpath(posixpath.join(folder, path)) in file.names


def _covers(given: Mapping[str, Any], file: TheFile) -> bool:
    """Whether the part that was asked for is enough of the file."""
    span = given.get("view_range")
    if isinstance(span, Sequence) and len(span) == 2:
        return _is_enough(span[0], None if span[1] == -1 else span[1], file)
    first = given.get("offset", given.get("start_line"))
    last = given.get("limit", given.get("end_line"))
    return _is_enough(0 if first is None else first, last, file)


def _is_enough(first: Any, last: Any, file: TheFile) -> bool:
    needed = min(file.lines, LINES_MIN)
    begins = isinstance(first, int | float) and first <= 1
    return begins and (last is None or (isinstance(last, int | float) and last >= needed))


def _words(command: Any) -> list[str]:
    """The words of one plain command; none where it is more than that."""
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        if len(command) != 3 or command[1] not in ("-c", "-lc"):
            return command
        command = command[2]
    if not isinstance(command, str) or "\n" in command.strip():
        return []
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return []
    return [] if any(not word.strip("();<>|&") for word in words if word) else words


def _shows(words: Sequence[str], folder: str, file: TheFile) -> bool:
    program, rest = posixpath.basename(words[0]), list(words[1:])
    paths = [word for word in rest if not word.startswith("-")]
    if program in _WHOLE:
        is_whole = all(_HARMLESS.fullmatch(word) for word in rest if word.startswith(("-", "+")))
        return is_whole and any(_is(path, folder, file) for path in paths)
    if not rest or not _is(rest[-1], folder, file):
        return False
    options = " ".join(rest[:-1])
    if program == "head":
        count = re.fullmatch(r"(?:-n ?|--lines[ =]|-)(?P<count>\d+)", options)
        return _is_enough(1, int(count["count"]) if count else 10, file) if count or not options else False
    if program == "tail":
        return bool(re.fullmatch(r"(?:-n ?|--lines[ =])\+[01]", options))
    span = _RANGE.fullmatch(options.removeprefix("-n ")) if program == "sed" and options.startswith("-n ") else None
    return span is not None and _is_enough(int(span["first"]), None if span["last"] == "$" else int(span["last"]), file)


def _has_failed(answer: Any) -> bool:
    if not isinstance(answer, Mapping):
        return False
    codes = [answer.get(name) for name in ("exit_code", "exitCode", "returncode")]
    return any(code not in (None, 0) for code in codes) or bool(answer.get("error")) or answer.get("success") is False


def _beginning(raw: bytes) -> dict[str, Any]:
    """What stands before the answer in a payload that was cut."""
    text = raw.decode(errors="replace")
    found: dict[str, Any] = {}
    for key in ("tool_name", "cwd", "agent_id"):
        if match := re.search(rf'"{key}"\s*:\s*(?P<value>{_TEXT})', text):
            found[key] = json.loads(match["value"], strict=False)
    if match := re.search(r'"tool_input"\s*:\s*', text):
        try:
            found["tool_input"], _ = json.JSONDecoder().raw_decode(text, match.end())
        except ValueError:
            return {}
    return found
