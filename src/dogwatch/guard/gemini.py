"""What the Gemini CLI tells its hooks, put into the words of Claude Code, which all else understands.

It names neither tool calls nor sub-agents, and tells of a turn's end alike whether its model has answered, its provider
has refused or a person has interrupted it. What its payloads leave out is found in the agent's own spool and in the
client's transcript; what is found nowhere stays unsaid.
"""

import posix
import time
from _json import encode_basestring_ascii
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dogwatch.guard.interfaces import Spool

AGENT_TOOL = b"invoke_agent"
CANCELLED = "Request cancelled."
OVERFLOW = "might exceed the context window limit"
"""What the client notes when a person has interrupted it, and when nothing more fits into its context."""
SPOOL_BYTES = 1024 * 1024
"""How far back sub-agents are looked for."""
TRANSCRIPT_BYTES = 4 * 1024 * 1024
"""A compaction writes what is left of the conversation in one line."""
HELD_S = 5.0
"""So soon after its stop a client goes on that was held."""
WORDS_MAX = 4000
_INPUT = b',"tool_input":'
_RESPONSE = b',"tool_response":'
_TIMESTAMP = b'"timestamp":"'
_RESUMED = b'\n{"$set":{"sessionId":'
_HISTORY = b'{"$set":{"messages":'
_UPDATED = b'"lastUpdated":"'
_TURNS = (b"\tStop\t", b"\tStopFailure\t", b"\tSessionStart\t", b"\tUserPromptSubmit\t")
_COMPARED = (b"\tPreCompress\t", b"\tPostCompact\t", *_TURNS)


def translated(event: str, payload: bytes, spool: "Spool") -> "tuple[str, bytes]":
    """The event and its payload as Claude Code would have them. What else is to be told stands in the spool."""
    if payload[:1] != b"{":
        return event, payload
    if event == "UserPromptSubmit":
        return event, _with(payload, continues="true") if _goes_on(payload, spool) else payload
    if event == "PreToolUse":
        return event, _tool_begins(payload, spool)
    if event == "PostToolUse":
        return _tool_has_ended(payload, spool)
    if event == "PermissionRequest":
        return event, _asked(payload, spool)
    if event in ("PreCompress", "Stop"):
        transcript = _tail(_transcript(payload), TRANSCRIPT_BYTES)
        if _has_compacted(transcript, spool):
            spool.tell("PostCompact", payload)
        return _turn_has_ended(payload, transcript) if event == "Stop" else (event, payload)
    return event, payload


# Tools and sub-agents


def _tool_begins(payload: bytes, spool: "Spool") -> bytes:
    head, _, rest = payload.partition(_INPUT)
    call = _digest(head, rest[:-1])
    whose = _whose(payload, spool)
    if head.endswith(b'"' + AGENT_TOOL + b'"') and not spool.is_held():
        name = _name(_parsed(payload))
        # Calls that the model has made together with this one come from before it, those of the sub-agent from later.
        values = {"agent_id": f"{name}-{call}", "agent_type": name, "started": _iso(time.time())}
        started = _with(payload, **values)
        spool.tell("SubagentStart", started)
    return _with(payload, **({"agent_id": whose} if whose else {}), tool_use_id=call)


def _tool_has_ended(payload: bytes, spool: "Spool") -> "tuple[str, bytes]":
    """Without the tool's answer, which may be long and has its colours with it."""
    before, _, response = payload.partition(_RESPONSE)
    head, _, given = before.partition(_INPUT)
    call = _digest(head, given)
    ended = before + b"}"
    is_agent = head.endswith(b'"' + AGENT_TOOL + b'"')
    told = _parsed(response[:-1]) if is_agent or b'"error":' in response else {}
    if is_agent:
        name = _name(_parsed(ended))
        stopped = _with(
            ended, agent_id=f"{name}-{call}", agent_type=name, last_assistant_message=_words(told.get("llmContent"))
        )
        spool.tell("SubagentStop", stopped)
    values = {"tool_use_id": call}
    tail = _tail(spool.path, SPOOL_BYTES)
    begun = tail[: tail.rfind(f'"tool_use_id":"{call}"'.encode())]
    begun = begun[begun.rfind(b"\n") + 1 :]
    if b"\tPreToolUse\t" in begun and b'"agent_id":"' in begun:
        values["agent_id"] = begun.partition(b'"agent_id":"')[2].partition(b'"')[0].decode("utf-8", "replace")
    event, told_error = "PostToolUse", told.get("error")
    if isinstance(told_error, dict):
        event, values["error"] = "PostToolUseFailure", _text(told_error.get("message")) or "error"
    done = _with(ended, **values)
    if b"ancelled" in response and "agent_id" not in values:
        how, over = _turn_has_ended(before + b"}", _tail(_transcript(before + b"}"), TRANSCRIPT_BYTES))
        if b'"interrupted":' in over[:20]:
            # A person has interrupted the tool and the turn with it: of that the client tells nothing more.
            spool.tell(event, done)
            return how, over
    return event, done


def _asked(payload: bytes, spool: "Spool") -> bytes:
    """A permission is asked for; what it is about stands in the details of the dialog, which may hold whole files."""
    details = _parsed(payload).get("details")
    if not isinstance(details, dict):
        return payload
    about = details.get("command") or details.get("filePath") or details.get("fileName") or details.get("toolName")
    whose = _whose(payload, spool)
    values = {"tool_name": _text(details.get("title")), **({"agent_id": whose} if whose else {})}
    told = _with(payload.partition(b',"details":')[0] + b"}", **values)
    return told[:-1] + b',"tool_input":{"about":' + _quoted(_text(about)[:WORDS_MAX]) + b"}}"


def _whose(payload: bytes, spool: "Spool") -> str:
    """The sub-agent that has made the call: it was running when the call was made. Of several it may be any."""
    tail = _tail(spool.path, SPOOL_BYTES)
    running: dict[bytes, bytes] = {}
    for line in tail[max(tail.rfind(turn) for turn in _TURNS) + 1 :].split(b"\n"):
        is_start = b"\tSubagentStart\t" in line[:200]
        if is_start or b"\tSubagentStop\t" in line[:200]:
            name = _value(line, b'"agent_id":"')
            running.pop(name, None)
            if is_start:
                running[name] = _value(line, b'"started":"')
    made = _value(payload, _TIMESTAMP)
    found = [name for name, started in running.items() if started < made]
    return found[-1].decode("utf-8", "replace") if found else ""


def _digest(head: bytes, given: bytes) -> str:
    """A name for a call: its client has none. Two that are the same have the same."""
    return f"{crc32(given, crc32(head[-80:].rpartition(b':')[2])):08x}{len(given):x}"


def _name(call: "dict[str, Any]") -> str:
    given = call.get("tool_input")
    return (_text(given.get("agent_name")) if isinstance(given, dict) else "") or "sub-agent"


# The end of a turn


def _goes_on(payload: bytes, spool: "Spool") -> bool:
    """Whether this is no prompt of anybody's, but what a hook said that has held the stop a moment ago. Where that is
    wrong nothing is lost: the next stop says whether it was held."""
    last = _tail(spool.path, SPOOL_BYTES).rstrip(b"\n").rpartition(b"\n")[2].split(b"\t")
    if len(last) < 8 or last[5] != b"Stop" or b'"interrupted":' in last[7][:20] or b'"prompt":"[dogwatch:' in payload:
        return False
    return last[2].replace(b".", b"", 1).isdigit() and time.monotonic() - float(last[2]) < HELD_S


def _turn_has_ended(payload: bytes, transcript: bytes) -> "tuple[str, bytes]":
    """What the client has noted since the last prompt tells how. All sub-agents have ended with it."""
    ended = payload[:-1] + b',"background_tasks":[]}'
    for line in reversed(transcript.split(b"\n")):
        if b'"type":"user"' in line[:200] or b'"type":"gemini"' in line[:200]:
            break
        if b'"type":"error"' in line[:200] or b'"type":"info"' in line[:200]:
            said = _words(_parsed(line).get("content"))
            if said == CANCELLED:
                return "Stop", _with(ended, interrupted="true")
            if b'"type":"error"' in line[:200] or OVERFLOW in said:
                return "StopFailure", _with(payload, error=said, last_assistant_message=said)
    return "Stop", ended


def _has_compacted(transcript: bytes, spool: "Spool") -> bool:
    """Whether a shorter conversation has begun since the last look: the client then opens its transcript again."""
    at = transcript.rfind(_RESUMED)
    line = transcript[at + 1 :].partition(b"\n")[2].partition(b"\n")[0] if at >= 0 else b""
    if not line.startswith(_HISTORY):
        return False
    updated = line.rpartition(_UPDATED)[2].partition(b'"')[0].decode("ascii", "replace")
    tail = _tail(spool.path, SPOOL_BYTES)
    looked = tail[max(tail.rfind(one) for one in _COMPARED) :]
    before = tail[: len(tail) - len(looked)].rpartition(b"\n")[2].split(b"\t")
    return len(before) > 1 and updated > _iso(float(before[1] or 0))


# Bytes


def _with(payload: bytes, **values: str) -> bytes:
    """The payload with these values at its head, where they are found even when its end is cut off."""
    return (
        b"{" + b"".join(f'"{name}":'.encode() + _quoted(value) + b"," for name, value in values.items()) + payload[1:]
    )


def _quoted(text: str) -> bytes:
    return encode_basestring_ascii(text).encode("ascii", "replace")


def _parsed(text: bytes) -> "dict[str, Any]":
    """The JSON object in `text`; few events need this, and it takes a while to import."""
    from dogwatch.guard.full import parsed

    return parsed(text)


def _transcript(payload: bytes) -> bytes:
    return _text(_parsed(payload).get("transcript_path")).encode("utf-8", "surrogateescape")


def _tail(path: bytes, most: int) -> bytes:
    """The end of a file; empty where it cannot be read. The agent can put anything there: a pipe is not waited for."""
    try:
        file = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        about = posix.fstat(file)
        if about.st_mode & 0o170000 != 0o100000:
            return b""
        return posix.pread(file, most, max(0, about.st_size - most))
    except OSError:
        return b""
    finally:
        posix.close(file)


def _value(text: bytes, key: bytes) -> bytes:
    """The plain text behind the first of these keys."""
    return text.partition(key)[2].partition(b'"')[0]


def _words(said: object) -> str:
    """A text, or those of several parts."""
    if isinstance(said, list):
        return "\n".join(_words(part) for part in said)[:WORDS_MAX]
    if isinstance(said, dict):
        said = said.get("text")
    return said[:WORDS_MAX] if isinstance(said, str) else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _iso(wall: float) -> str:
    """As the client writes times; as texts they are in order."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall)) + f".{int(wall % 1 * 1000):03d}Z"
