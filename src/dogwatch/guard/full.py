"""The full guard: judges a tool call that is not plainly harmless, for the agent that makes it.

Who calls is told by the registry that the captain writes and by the processes above this one, not by what the caller
says. Whatever cannot be told is a denial, with what mends it.
"""

import os
from _json import make_scanner

from dogwatch.guard.bash.files import normal
from dogwatch.guard.bash.state import World
from dogwatch.guard.judge import Caller, Verdict, judge
from dogwatch.guard.languages import codex_patch as patch
from dogwatch.guard.rules.paths import may_write
from dogwatch.guard.verdict import Denied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from dogwatch.guard.interfaces import Spool

DENIED = "Denied"
SHOWN_MAX = 4000
FILE_BYTES_MAX = 262_144
WRITERS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
GEMINI_WRITERS = {"write_file": "file_path", "replace": "file_path"}
SHELL, GEMINI_SHELL = "Bash", "run_shell_command"
COMMANDS = ("command", "cmd", "script")
"""What other tools call a command that they run."""
_CODE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""Where dogwatch itself lies: its guard must not be changed."""
_MEND = "ask the operator to run `dogwatch doctor`; plain commands such as ls still work"


def answer(
    payload: bytes, spool: "Spool", alone: bool, gemini: bool, starters: "Collection[bytes]", hold: bytes
) -> int:
    """The exit code for a tool call: 0 lets it run; 2 denies it, with the reason on standard error and in the spool.
    Tools named in `starters` start a sub-agent, which is denied while the file `hold` says why."""
    call = parsed(payload)
    verdict = _verdict(call, alone, gemini, starters, hold)
    if verdict.allowed:
        return 0
    os.write(2, verdict.said().encode("utf-8", "replace"))
    if not alone:
        tool_input = call.get("tool_input")
        command = tool_input.get("command") if isinstance(tool_input, dict) else ""
        line = _object(
            rule=verdict.rule,
            reason=verdict.reason,
            tool=_text(call.get("tool_name")),
            command=_text(command)[:SHOWN_MAX],
            tool_use_id=_text(call.get("tool_use_id")),
        )
        spool.append(DENIED, line, len(line))
    return 2


def _verdict(
    call: "Mapping[str, Any]", alone: bool, gemini: bool, starters: "Collection[bytes]", hold: bytes
) -> Verdict:
    try:
        name = call.get("tool_name")
        tool_input = call.get("tool_input")
        if not isinstance(name, str) or not isinstance(tool_input, dict):
            raise Denied("payload", "the client's account of this call cannot be read", _MEND)
        if name.encode("utf-8", "replace") in starters:
            _may_start_subagent(hold)
        cwd = _text(call.get("cwd"))
        if gemini and name == GEMINI_SHELL and tool_input.get("dir_path"):
            cwd = os.path.join(cwd, _text(tool_input["dir_path"]))
        # An agent of ours may have a client of its own, with hooks that its user has installed.
        caller = _alone(cwd) if alone and "DOGWATCH_RUN" not in os.environ else _registered(cwd)
        return _judged(name, tool_input, caller, gemini)
    except Denied as denied:
        return Verdict(False, denied.rule, denied.reason, denied.hint)


def _may_start_subagent(hold: bytes) -> None:
    """Denied while the captain of the run holds such starts: then that file is there."""
    if not hold:
        return
    try:
        with open(hold, encoding="utf-8", errors="replace") as file:
            why = file.read(SHOWN_MAX).strip()
    except OSError:
        return
    hint = "do the work yourself, or try again in a few minutes; `dogwatch queue` shows the zone"
    raise Denied("memory", f"no sub-agent may start now: {why}", hint)


def judge_words(words: "list[str]") -> Verdict:
    """The verdict on a program that the agent, or a job that it has left behind, starts by these words."""
    try:
        return judge(_joined(words), _registered(os.getcwd(), left_behind=os.getppid() == 1))
    except Denied as denied:
        return Verdict(False, denied.rule, denied.reason, denied.hint)


def _judged(name: str, tool_input: "Mapping[str, Any]", caller: Caller, gemini: bool) -> Verdict:
    writers = GEMINI_WRITERS if gemini else WRITERS
    if name in writers:
        path = tool_input.get(writers[name])
        if not isinstance(path, str):
            raise Denied("payload", f"{name} names no file", _MEND)
        _may_write(caller, path, caller.cwd)
        return Verdict(True)
    if name == patch.TOOL:
        paths = list(patch.written(_text(tool_input.get("command"))))
        if not paths:
            raise Denied("payload", f"{name} names no file", _MEND)
        for path in paths:
            _may_write(caller, path, caller.cwd)
        return Verdict(True)
    commands = [_joined(tool_input[key]) for key in COMMANDS if key in tool_input]
    if name == (GEMINI_SHELL if gemini else SHELL) and not any(commands):
        raise Denied("payload", "the call has no command", _MEND)
    for command in commands:
        if patch.BEGIN in command:
            # A client may apply it by itself, without a program that could be judged.
            folder = os.path.join(caller.cwd, os.path.expanduser(patch.folder(command)))
            for path in patch.written(command):
                _may_write(caller, path, folder)
        verdict = judge(command, caller)
        if not verdict.allowed:
            return verdict
    return Verdict(True)


def _may_write(caller: Caller, path: str, cwd: str) -> None:
    """Denied where the file may not be written, by its name or by where that leads."""
    world = World(caller)
    real = os.path.realpath(os.path.join(cwd or "/", os.path.expanduser(path)))
    for one in {normal(path, cwd), real}:
        may_write(world, one, path)


def _joined(words: object) -> str:
    """A command as bash reads it, from a text or from its words."""
    if isinstance(words, list):
        return " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in words)
    return _text(words)


# Who calls


def _registered(cwd: str, left_behind: bool = False) -> Caller:
    """The agent that this process runs for, as the captain has registered it. Above one that is `left_behind` there is
    nobody any more: its marks must do."""
    env = os.environ
    home, run, agent = env.get("DOGWATCH_HOME", ""), env.get("DOGWATCH_RUN", ""), env.get("DOGWATCH_ROLE", "")
    incarnation = env.get("DOGWATCH_INCARNATION", "")
    entry = None
    try:
        with open(f"{home}/runs/{run}/registry.jsonl", "rb") as file:
            for line in file:
                one = parsed(line)
                if one.get("agent") == agent and str(one.get("incarnation")) == incarnation:
                    entry = one
    except OSError as error:
        raise Denied("registry", f"the registry of the run cannot be read ({error.strerror})", _MEND) from None
    if entry is None:
        raise Denied("caller", f"{agent or 'this caller'} is not in the registry of {run or 'any run'}", _MEND)
    above = list(_above(os.getpid()))
    place = entry.get("pid_namespace")
    namespace = bool(place) and os.readlink("/proc/self/ns/pid") != place
    known = {(entry.get("pid"), entry.get("start")), *above}
    if not namespace and not left_behind and len(known) > len(above):
        raise Denied("caller", f"this process was not started by {agent} of {run}", _MEND)

    def own() -> "set[int]":
        marks = [f"DOGWATCH_HOME={home}", f"DOGWATCH_RUN={run}", f"DOGWATCH_ROLE={agent}"]
        wanted = {mark.encode() for mark in (*marks, f"DOGWATCH_INCARNATION={incarnation}")}
        return {pid for pid in _pids() if wanted <= _environment(pid)} - {pid for pid, _ in known}

    project = env.get("DOGWATCH_PROJECT", "")
    if _is_in(cwd, home) and not (_is_in(project, home) and _is_in(cwd, project)):
        # The engine takes the folder that a command starts in for the agent's own.
        raise Denied("path.dogwatch", "nothing but looking is done in dogwatch's own folder", f"first: cd {project}")
    folder = f"{home}/runs/{run}/agents/{agent}"
    return Caller(
        namespace=namespace,
        own_pids=own,
        ancestors={pid for pid, _ in above},
        files=Changed(float(entry.get("time") or 0)),
        home=home,
        # Who works on dogwatch itself must be able to.
        protected=(folder,) if _is_in(_CODE, project) else (folder, _CODE),
        cwd=cwd,
        env=env,
    )


def _alone(cwd: str) -> Caller:
    """A client that nobody has registered: what it has started is its own."""
    client = os.environ.get("CLAUDE_PID", "")
    above = list(_above(os.getpid()))
    if not client.isdigit() or int(client) not in (pid for pid, _ in above):
        client = str(os.getppid())
    root = int(client)

    def own() -> "set[int]":
        return {pid for pid in _pids() if any(one == root for one, _ in _above(pid))} - {pid for pid, _ in above}

    started = next((start for pid, start in above if pid == root), 0)
    config = os.environ.get("CLAUDE_CONFIG_DIR")
    protected = (f"{config}/settings.json", f"{config}/.claude.json") if config else ()
    home = os.environ.get("DOGWATCH_HOME", "")
    return Caller(own_pids=own, files=Changed(_wall(started)), home=home, protected=protected, cwd=cwd, env=os.environ)


class Changed:
    """The files that were changed since the agent was started, by absolute path: what it runs of them is judged."""

    def __init__(self, since: float) -> None:
        self.since = since

    def get(self, path: str) -> "str | None":
        try:
            about = os.stat(path)
            if about.st_ctime < self.since - 1 or about.st_mode & 0o170000 != 0o100000:
                return None  # a pipe would be waited for
            with open(path, "rb") as file:
                return file.read(FILE_BYTES_MAX).decode("utf-8", "replace")
        except (OSError, ValueError):
            return None


def _is_in(path: str, folder: str) -> bool:
    real, outer = os.path.realpath(path), os.path.realpath(folder)
    return bool(path) and (real == outer or real.startswith(f"{outer}/"))


def _above(pid: int) -> "Iterator[tuple[int, int]]":
    """The process and those above it, each with its start time."""
    while pid > 0:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return
        yield pid, int(fields[19])
        pid = int(fields[1])


def _pids() -> "list[int]":
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environment(pid: int) -> "set[bytes]":
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return set(file.read().split(b"\0"))
    except OSError:
        return set()


def _wall(start: int) -> float:
    """The wall time at which a process with this start time began."""
    with open("/proc/stat", "rb") as file:
        boot = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
    return boot + start / os.sysconf("SC_CLK_TCK")


# JSON without `json`, which takes longer to import than a command to judge


class _Plain:
    """What the scanner asks its maker for."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def parsed(text: bytes) -> "dict[str, Any]":
    """The JSON object in `text`; empty where there is none."""
    try:
        words = text.decode("utf-8", "surrogateescape").strip(" \t\r\n")
        value, end = make_scanner(_Plain())(words, 0)  # type: ignore[arg-type]
    except (ValueError, StopIteration, RecursionError, SystemError):
        return {}  # without `json` the scanner has no error of its own to raise
    return value if isinstance(value, dict) and end == len(words) else {}


def _object(**values: str) -> bytes:
    return b"{" + b",".join(f'"{name}":'.encode() + quoted(value) for name, value in values.items()) + b"}"


def quoted(text: str) -> bytes:
    """The text as JSON writes it, in plain ASCII."""
    from _json import encode_basestring_ascii

    return encode_basestring_ascii(text).encode("ascii", "replace")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
