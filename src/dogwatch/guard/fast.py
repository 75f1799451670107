"""The fast hook: one line of the agent's spool for each event, and an answer where the client waits for one.

It runs inside every turn, so it imports only what is built in: `os` would add a tenth to its time, `json` double it.
A tool call that is plainly harmless passes at once; any other is judged by `full`. Messages that wait in the agent's
post box go out with the next event that can carry them, by `post`. Both are loaded only when they are needed, and are
handed what they need from here. The line's form is documented in `docs/reference/spool.md` and read by
`dogwatch.model.spool`.

Only tool calls fail closed: an error at Stop would keep the client from stopping.
"""

import _signal  # type: ignore[import-not-found]
import posix
import time

from dogwatch.guard.plain import plainly_harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

KEPT_BYTES_MAX = 65536
"""How much of a payload is kept in the spool."""
PAYLOAD_BYTES_MAX = 4 * 1024 * 1024
"""A tool call with a longer payload is refused."""
DEADLINE_S = 10.0
"""The hook's own limit, well below the client's, which would go on without an answer."""
GATE = "PreToolUse"
GEMINI = "gemini"
"""The client whose payloads have other shapes."""
CARRIERS = ("PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop")
"""Events whose answer can carry a message to the agent."""
CANARY = b"canary"
_PROMPT = b'"prompt":"[dogwatch:'

EXIT_OK = 0
EXIT_DENY = 2
EXIT_USAGE = 64

_ENOENT, _EINVAL = 2, 22
_SPACES = bytes.maketrans(b"\t\n\r", b"   ")
_NAME = b'"tool_name":"'
_INPUT = b'","tool_input":{'
_COMMAND = b'"command":"'
_READING_TOOLS = frozenset(
    b"Read Glob Grep LS NotebookRead TodoWrite WebFetch WebSearch Task Agent BashOutput AskUserQuestion ExitPlanMode"
    b" EnterPlanMode Skill ToolSearch TaskCreate TaskUpdate TaskList TaskGet TaskOutput KillShell TaskStop".split()
)
"""Tools of the client's own that start no program and write no file. Each client has its own table: what is a tool of
its own for one may be anybody's program under the same name for another."""
_WRITING_TOOLS = (b"Edit", b"Write", b"MultiEdit")
_SHELL = b"Bash"
_GEMINI_READING_TOOLS = frozenset(
    b"read_file read_many_files list_directory glob grep_search search_file_content google_web_search web_fetch"
    b" write_todos update_topic ask_user enter_plan_mode activate_skill get_internal_docs invoke_agent"
    b" complete_task".split()
)
STARTERS = frozenset((b"Task", b"Agent", b"spawn_agent", b"invoke_agent"))
"""Tools that start a sub-agent, by the names that clients have for them. They wait while the captain says so."""
_GEMINI_WRITING_TOOLS = (b"write_file", b"replace")
_GEMINI_SHELL = b"run_shell_command"
_PATH = b'"file_path":"'
_CWD = b'"cwd":"'
_NOT_PLAIN = (b"/.", b"//", b"/tmux-", b"/cgroup.", b"/opencode.json", b"\\")
_KERNEL = (b"/proc/", b"/sys/", b"/dev/")
_CODE = __file__.rpartition("guard/")[0].encode("utf-8", "surrogateescape")
"""Where dogwatch itself lies."""


def main(arguments: list[str]) -> int:
    """Answers the event named by the first argument and returns the exit code."""
    event, how = arguments[0] if arguments else "", arguments[1:]
    if not (event.isascii() and event.isalpha() and len(event) <= 64) or how not in ([], ["alone"], [GEMINI]):
        return _say(EXIT_USAGE, f"{event[:80]!r} is not the name of an event", "run: hook.py EVENT < payload")
    if event == GATE:
        return _gate(alone=how == ["alone"], gemini=how == [GEMINI])
    _watch_the_time(EXIT_OK)
    payload, size = _read(0, PAYLOAD_BYTES_MAX if how == [GEMINI] else KEPT_BYTES_MAX)
    if how == ["alone"]:
        return EXIT_OK
    spool = Spool(posix.environ)
    try:
        if how == [GEMINI]:
            from dogwatch.guard.gemini import translated

            event, payload = translated(event, payload, spool)
            payload, size = payload[:KEPT_BYTES_MAX], len(payload)
        if event == "UserPromptSubmit" and is_canary(payload):
            spool.append("Canary", payload, size)
            return _say(EXIT_DENY, "the guard fires", "this was only a test of it")
        if event not in CARRIERS or not spool.has_post():
            spool.append(event, payload, size)
            return EXIT_OK
        from dogwatch.guard.post import carry

        carry(spool, event, payload, size)
        return EXIT_OK
    except OSError as error:
        return _say(EXIT_OK, f"{event} could not be recorded: {error}", "is DOGWATCH_SPOOL a file that can be written?")


def _gate(alone: bool, gemini: bool = False) -> int:
    """May the client run this tool?"""
    _watch_the_time(EXIT_DENY)
    payload, size = _read(0, PAYLOAD_BYTES_MAX)
    spool = Spool({} if alone else posix.environ)
    problem = ""
    try:
        if gemini and size <= PAYLOAD_BYTES_MAX:
            from dogwatch.guard.gemini import translated

            payload = translated(GATE, payload, spool)[1]
            size = len(payload)
        if not alone:
            spool.append(GATE, payload[:KEPT_BYTES_MAX], size)
    except OSError as error:
        problem = f"the call could not be recorded: {error}"
    if size <= PAYLOAD_BYTES_MAX and is_harmless(payload, gemini):
        return EXIT_OK
    try:
        if problem:
            return _say(EXIT_DENY, problem, "is DOGWATCH_SPOOL a file that can be written? `dogwatch doctor` looks")
        if size > PAYLOAD_BYTES_MAX:
            problem = f"the call has {size:,} bytes, more than {PAYLOAD_BYTES_MAX:,} are not judged"
            return _say(EXIT_DENY, problem, "write large files with a program, or in parts")
        import gc

        gc.disable()  # what is loaded now stays until the end: looking for garbage in it is wasted time
        from dogwatch.guard.full import answer

        return answer(payload, spool, alone, gemini, STARTERS, hold_file(posix.environ))
    except Exception as error:
        return _say(
            EXIT_DENY, f"the guard has failed: {type(error).__name__}: {error}", "dogwatch doctor looks for why"
        )


def is_canary(payload: bytes) -> bool:
    """Whether the prompt is only there to be refused. Its header says so, and nothing else: others may speak of
    canaries."""
    at = payload.find(_PROMPT)
    return at >= 0 and payload[at : payload.find(b"]", at)].split(b" ")[1:2] == [CANARY]


def is_harmless(payload: bytes, gemini: bool = False) -> bool:
    """Whether the call need not be judged. Within JSON's texts quotes are escaped: what is found here are keys. Each
    must be there once, whole and in its place, as the client writes them; anything else is read as JSON by `full`."""
    at = payload.find(_NAME)
    end = payload.find(_INPUT, at)
    if at < 0 or end < 0 or payload.count(b'"tool_name"') != 1 or payload.count(b'"tool_input"') != 1:
        return False
    if payload[:1] != b"{" or payload[-8:].rstrip()[-1:] != b"}" or b"\\u" in payload or b"\\" in payload[:at]:
        return False
    outside_of_texts = b"".join(payload[:at].split(b'"')[::2])
    if outside_of_texts.count(b"{") != outside_of_texts.count(b"}") + 1:
        return False
    name = payload[at + len(_NAME) : end]
    if name in (_GEMINI_READING_TOOLS if gemini else _READING_TOOLS):
        return name not in STARTERS or not is_held(posix.environ)
    begin = end + len(_INPUT)
    if name in (_GEMINI_WRITING_TOOLS if gemini else _WRITING_TOOLS):
        if not payload.startswith(_PATH, begin) or payload.count(b'"file_path"') != 1:
            return False
        begin += len(_PATH)
        return _is_plain_file(payload[begin : payload.find(b'"', begin)], payload[:at])
    if name != (_GEMINI_SHELL if gemini else _SHELL) or (gemini and b'"dir_path"' in payload):
        return False
    if not payload.startswith(_COMMAND, begin) or payload.count(b'"command"') != 1:
        return False
    begin += len(_COMMAND)
    end = payload.find(b'"', begin)
    while end > 0 and payload[end - 1 : end] == b"\\":
        end = payload.find(b'"', end + 1)
    command = payload[begin:end]
    if end < 0 or b"\\\\" in command:
        return False
    return plainly_harmless(command.replace(b'\\"', b'"').replace(b"\\n", b"\n").replace(b"\\t", b"\t"))


def hold_file(environment: "Mapping[bytes, bytes]") -> bytes:
    """Where the captain of the caller's run says that no sub-agent shall start; empty for a caller without a run."""
    home, run = environment.get(b"DOGWATCH_HOME", b""), environment.get(b"DOGWATCH_RUN", b"")
    return home + b"/runs/" + run + b"/hold" if home and run else b""


def is_held(environment: "Mapping[bytes, bytes]") -> bool:
    """Whether sub-agents may not start now."""
    path = hold_file(environment)
    try:
        return bool(path) and bool(posix.stat(path))
    except OSError:
        return False


def _is_plain_file(path: bytes, before: bytes) -> bool:
    """Whether a file lies below the folder that the client works in, with nothing hidden and no link on the way."""
    if before.count(_CWD) != 1 or any(part in path for part in _NOT_PLAIN) or path.startswith(_KERNEL):
        return False
    begin = before.find(_CWD) + len(_CWD)
    cwd = before[begin : before.find(b'"', begin)]
    home = posix.environ.get(b"DOGWATCH_HOME", b"")
    if not path.startswith(cwd + b"/") or (home and path.startswith(home + b"/")) or path.startswith(_CODE):
        return False
    at = path.find(b"/", 1)
    while at > 0:
        if _may_be_link(path[:at]):
            return False
        at = path.find(b"/", at + 1)
    return not _may_be_link(path)


def _may_be_link(path: bytes) -> bool:
    try:
        posix.readlink(path)
    except OSError as error:
        return error.errno not in (_EINVAL, _ENOENT)
    return True


class Spool:
    """Where the agent's events go, and where its messages wait; both are named by its environment."""

    def __init__(self, environment: "Mapping[bytes, bytes]") -> None:
        self.environment = environment
        self.path = environment.get(b"DOGWATCH_SPOOL", b"")
        self.box = environment.get(b"DOGWATCH_POST", b"")
        incarnation = environment.get(b"DOGWATCH_INCARNATION", b"")
        self.incarnation = incarnation.decode() if incarnation.isdigit() else "0"
        # Between a client and its hook there may be a shell.
        client = environment.get(b"CLAUDE_PID", b"")
        self.pid = client.decode() if client.isdigit() else str(posix.getppid())

    def append(self, event: str, payload: bytes, size: int) -> None:
        """One write in append mode: the kernel keeps concurrent writers' lines whole."""
        if not self.path:
            raise OSError("DOGWATCH_SPOOL is not set")
        times = f"{time.time():.6f}\t{time.monotonic():.6f}"
        header = f"1\t{times}\t{self.incarnation}\t{self.pid}\t{event}\t{size}\t"
        line = header.encode("ascii") + payload.translate(_SPACES) + b"\n"
        file = posix.open(self.path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        try:
            if posix.write(file, line) != len(line):
                posix.write(file, b"\n")  # so that the next writer's line does not stick to this torn one
                raise OSError("the disk is full")
        finally:
            posix.close(file)

    def tell(self, event: str, payload: bytes) -> None:
        """Appends an event with as much of its payload as is kept."""
        self.append(event, payload[:KEPT_BYTES_MAX], len(payload))

    def is_held(self) -> bool:
        """Whether the agent's sub-agents may not start now."""
        return is_held(self.environment)

    def has_post(self) -> bool:
        """Whether messages wait for this incarnation."""
        try:
            return bool(self.box) and bool(posix.listdir(self.box))
        except OSError:
            return False


def _read(file: int, most: int) -> tuple[bytes, int]:
    """The first bytes of `file`, and how many there were in all; a client may send any amount."""
    kept = bytearray()
    total = 0
    try:
        while chunk := posix.read(file, 65536):
            kept += chunk[: most - len(kept)]
            total += len(chunk)
    except OSError:
        pass  # a closed stdin is an empty payload; the event itself still counts
    return bytes(kept), total


def _watch_the_time(code: int) -> None:
    """Ends this process with `code` when it takes too long, before the client goes on without it."""

    def late(*_: object) -> "NoReturn":
        _say(code, f"no answer was found within {DEADLINE_S:.0f} seconds", "is the machine overloaded? Try it again")
        posix._exit(code)

    _signal.signal(_signal.SIGALRM, late)
    _signal.setitimer(_signal.ITIMER_REAL, DEADLINE_S)


def _say(code: int, message: str, hint: str) -> int:
    try:  # noqa: SIM105 - contextlib takes longer to import
        posix.write(2, f"dogwatch: {message}\nhint: {hint}\n".encode("utf-8", "replace"))
    except OSError:
        pass  # nobody listens; the code says the same
    return code
