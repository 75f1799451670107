"""Whether a client has read a file itself, from its hooks: a reading tool, or a plain reading command of its shell.

Only a call that has succeeded counts, and it counts from its beginning: what came into the file later was not seen.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from dogwatch.model.spool import SpoolLine
from dogwatch.values import dataclass

LINES_MIN = 200
"""So much of a longer file must have been read at least: clients read long files in parts."""
BEGUN_MAX = 100
"""So many calls that have not ended are kept, the newest: some never tell of their end."""
STARS_MAX = 6
"""A pattern with more of them is nobody's, and would take long to match."""
READERS = frozenset({"read", "readfile", "read_file", "read_text_file", "view", "view_file", "open_file", "fs_read"})
SHELLS = frozenset(
    {"bash", "shell", "sh", "run_shell_command", "local_shell", "shell_command", "exec_command", "execute_command"}
)
MANY_READERS = frozenset({"read_many_files"})
_PATHS = ("file_path", "absolute_path", "filePath", "path", "filename")
_FOLDERS = ("workdir", "cwd", "directory", "dir_path")
_WHOLE = frozenset({"cat", "nl", "less", "more", "bat", "batcat"})
_HARMLESS = re.compile(r"-(?!.*[hrV])[A-Za-z]+|--(?:plain|number|show-all|paging=\w+|style=[\w,]+|color=\w+)")
"""Options with which they show the whole file, and not a part of it or their help."""
_RANGE = re.compile(r"(?:-n |-n -e |-ne )(?P<first>\d+),(?P<last>\d+|\$)p")
_STARS = re.compile(r"(?P<deep>\*\*/)|(?P<star>\*+)|(?P<one>\?)")
_TEXT = r'"(?:[^"\\]|\\.)*"'
_GLOB = {"\ue000": "*", "\ue001": "?"}
"""How stars and question marks stand in words where the shell takes them for patterns."""
_UNKNOWN = "\ue002"
"""How whatever the shell puts in there stands in words: nobody knows it here."""
_ATOM = re.compile(
    r"""(?P<blank>[ \t]+)|(?P<single>'[^']*')|(?P<double>"(?:[^"\\]|\\.)*")|(?P<escaped>\\.)"""
    r"""|(?P<quiet>2>[ ]*(?:/dev/null|&1)(?![^ \t;&|]))|(?P<join>&&|\|\||[;|])|(?P<redirect>[<>])"""
    r"""|(?P<comment>\#.*)|(?P<word>[^\s'"\\;&|<>(){}`\#]+)"""
)
"""The pieces of a plain shell line. A bare `&`, brackets and the like are none."""
_EXPANDED = re.compile(r"[$`]")
_CONTROL = frozenset(
    "if then elif else fi for while until do done case esac select function coproc time exit exec return eval source . "
    "set alias unalias trap break continue shopt enable".split()
)
"""With one of these, what stands behind it may never be run, or mean something else."""
_MOVES = frozenset({"cd", "pushd", "popd"})
_Part = tuple[str, list[str]]
"""What stands before a command, and its words; none where its output goes elsewhere."""


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
    if line.event not in ("PreToolUse", "PostToolUse") or not _may_name(line.raw, file):
        return reads
    call = line.payload() or _beginning(line.raw)
    if "agent_id" in call or not is_reading(call, file):
        return reads
    use = str(call.get("tool_use_id") or "")
    if line.event == "PreToolUse":
        newest = sorted({**reads.begun, use: line.mono}.items(), key=lambda one: one[1])[-BEGUN_MAX:]
        return replace(reads, begun=dict(newest))
    if _has_failed(call.get("tool_response")):
        return reads
    # Of a long answer only the beginning is kept, and the call's id stands behind it.
    began = reads.begun.get(use) or max(reads.begun.values(), default=line.mono)
    return Reads(max(reads.at, began), {key: at for key, at in reads.begun.items() if key != use and at > began})


def _may_name(raw: bytes, file: TheFile) -> bool:
    """Whether it is worth looking closer: the file's name stands there, or a pattern that could mean it."""
    names = {posixpath.basename(name) for name in file.names}
    return any(mark in raw for mark in (b"*", b"?")) or any(
        name.encode() in raw or json.dumps(name)[1:-1].encode() in raw for name in names
    )


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
    if name in MANY_READERS:
        return _is_among(given, folder, file)
    if name in SHELLS and not (given.get("run_in_background") or given.get("is_background")):
        parts = _plain_parts(given.get("command", given.get("cmd")), folder)
        return any(_shows(words, place, file) for words, place in parts)
    return False


def _is_among(given: Mapping[str, Any], folder: str, file: TheFile) -> bool:
    """Whether the paths and patterns of a tool that reads many files mean the file too."""
    paths = [path for key in ("paths", "include") for path in _listed(given.get(key))]
    return not given.get("exclude") and any(_matches(path, folder, file) for path in paths)


def _listed(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [f"{one}/*" if one.endswith("**") else one for one in values if isinstance(one, str) and one]


def _matches(pattern: str, folder: str, file: TheFile) -> bool:
    """Whether the pattern means the file: no star stands for a slash, but `**/` for any folders."""
    if _is(pattern, folder, file):
        return True
    whole = posixpath.normpath(posixpath.join(folder, pattern))
    stars = list(_STARS.finditer(whole))
    if not 0 < len(stars) <= STARS_MAX:
        return False
    regex, end = "", 0
    for found in stars:
        at_start = found.start() == 0 or whole[found.start() - 1] == "/"
        seen = r"(?!\.)" if at_start else ""  # hidden files are not meant
        means = {"deep": r"(?:[^/.][^/]*/)*", "star": rf"{seen}[^/]*", "one": rf"{seen}[^/]"}
        regex += re.escape(whole[end : found.start()]) + means[str(found.lastgroup)]
        end = found.end()
    regex += re.escape(whole[end:])
    return any(re.fullmatch(regex, name) for name in file.names)


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
    needed, first, last = min(file.lines, LINES_MIN), _number(first), _number(last)
    begins = isinstance(first, int | float) and first <= 1
    return begins and (last is None or (isinstance(last, int | float) and last >= needed))


def _number(value: Any) -> Any:
    """Some clients give numbers as text."""
    is_text = isinstance(value, str) and len(value) < 10 and value.strip().isdecimal()
    return int(value) if is_text else value


def _plain_parts(command: Any, folder: str) -> Iterator[tuple[list[str], str]]:
    """The words of each plain command that was run, and the folder that it was run in."""
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        if len(command) != 3 or command[1] not in ("-c", "-lc"):
            yield command, folder
            return
        command = command[2]
    parts = _split(command) if isinstance(command, str) else []
    if any(words and words[0] in _CONTROL for _, words in parts):
        return
    lists = _lists(parts)
    for number, one in enumerate(lists):
        joins = [join for join, _ in one[1:]] + [""]
        is_proven = number == len(lists) - 1 and "||" not in joins
        is_sure = True  # nothing before it in its list can have kept it from being run
        for at, ((before, words), after) in enumerate(zip(one, joins, strict=True)):
            if words and words[0] in _MOVES:
                is_leading = number == at == 0 and before in ("", ";") and after in ("", "&&")
                folder = _moved(words, folder) if is_leading else _UNKNOWN
                is_sure = is_sure and is_leading
                continue
            if (is_proven or is_sure) and before not in ("|", "||") and after not in ("|", "||"):
                yield words, folder
            is_sure = False


def _lists(parts: list[_Part]) -> list[list[_Part]]:
    """The parts between semicolons."""
    found: list[list[_Part]] = []
    for join, words in parts:
        if join in ("", ";") or not found:
            found.append([])
        found[-1].append((join, words))
    return found


def _moved(words: list[str], folder: str) -> str:
    """The folder after a `cd`."""
    given = [word for word in words[1:] if word != "--"]
    is_plain = (
        len(given) == 1 and not given[0].startswith(("-", "~")) and not any(m in given[0] for m in (*_GLOB, _UNKNOWN))
    )
    return posixpath.join(folder, given[0]) if is_plain and words[0] == "cd" else _UNKNOWN


def _split(command: str) -> list[_Part]:
    """The commands of the line, each with what joins it to the one before; none where it is more than that."""
    command = command.strip()
    if "\n" in command or any(mark in command for mark in (*_GLOB, _UNKNOWN)):
        return []
    parts: list[_Part] = []
    join, words, word, is_open, is_plain, at = "", list[str](), "", False, True, 0
    while at <= len(command):
        atom = _ATOM.match(command, at)
        if atom is None and at < len(command):
            return []
        kind, text = (str(atom.lastgroup), atom[0]) if atom is not None else ("join", "")
        if kind == "quiet" and is_open:
            kind, text = "word", "2"
        if kind == "comment" and is_open:
            kind, text = "word", "#"
        at += len(text) or 1
        if kind in ("single", "double", "escaped", "word"):
            literal = _literal(kind, text)
            if literal is None or (
                kind in ("single", "double") and command[at - len(text) - 1 : at - len(text)] == "$"
            ):
                return []
            word, is_open = word + literal, True
            continue
        if is_open:
            words.append(word)
            word, is_open = "", False
        if kind == "redirect":
            is_plain = False
        elif kind == "join":
            if words or text:
                parts.append((join, words if is_plain else []))
            join, words, is_plain = text, [], True
    return parts


def _literal(kind: str, text: str) -> str | None:
    """What the shell makes of a piece of a word; None where that would take a shell."""
    if kind == "single":
        return text[1:-1]
    if kind == "escaped":
        return text[1:]
    if kind == "double":
        if "$(" in text or "${" in text or "`" in text:
            return None
        return _EXPANDED.sub(_UNKNOWN, re.sub(r"\\([$`\"\\])", r"\1", text[1:-1]))
    stars = {star: mark for mark, star in _GLOB.items()}
    return "".join(stars.get(char, char) for char in re.sub(r"[$\[]", _UNKNOWN, text))


def _shows(words: Sequence[str], folder: str, file: TheFile) -> bool:
    """Whether the one command prints enough of the file."""
    if not words or any(mark in words[0] for mark in (*_GLOB, _UNKNOWN)):
        return False
    program, rest = posixpath.basename(words[0]), list(words[1:])
    paths = [word for word in rest if not word.startswith("-")]
    if program in _WHOLE:
        is_whole = all(_HARMLESS.fullmatch(word) for word in rest if word.startswith(("-", "+")))
        return is_whole and any(_is_given(path, folder, file) for path in paths)
    if not rest or not _is_given(rest[-1], folder, file):
        return False
    options = " ".join(rest[:-1])
    if program == "head":
        count = re.fullmatch(r"(?:-n ?|--lines[ =]|-)(?P<count>\d+)", options)
        return _is_enough(1, int(count["count"]) if count else 10, file) if count or not options else False
    if program == "tail":
        return bool(re.fullmatch(r"(?:-n ?|--lines[ =])\+[01]", options))
    # The lines of several files are one sequence for sed: only one that is named counts.
    span = _RANGE.fullmatch(options) if program == "sed" and _is(rest[-1], folder, file) else None
    return span is not None and _is_enough(int(span["first"]), None if span["last"] == "$" else int(span["last"]), file)


def _is_given(word: str, folder: str, file: TheFile) -> bool:
    """Whether the word of a command means the file: its name, or a pattern of the shell."""
    if _is(word, folder, file):
        return True
    if _UNKNOWN in word or not any(mark in word for mark in _GLOB) or any(mark in word for mark in _GLOB.values()):
        return False
    pattern = re.sub(r"\*+", "*", "".join(_GLOB.get(char, char) for char in word))
    return not any(mark in folder for mark in (_UNKNOWN, "*", "?")) and _matches(pattern, folder, file)


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
