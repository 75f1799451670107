"""From hook events to the state of an agent's turn."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dogwatch.model.brief import headers
from dogwatch.model.sight import Subagent, ToolCall, Turn
from dogwatch.model.spool import TURN_ENDED, SpoolLine

SHOWN_MAX = 120
"""How much of a tool call's words is kept."""
WROTE_MAX = 20
CALL_MAX = 200
PERIOD_MAX = 4
"""So many calls that take turns are still seen as a loop."""
PATCH = "apply_patch"
WRITERS = frozenset({"write", "edit", "multiedit", "write_file", "replace", PATCH})
"""Tools that write files, by the names that clients have for them."""
STARTERS = frozenset({"Agent", "Task", "spawn_agent"})
"""Tools that start a sub-agent, of which their clients tell before they do (Claude Code, OpenCode, Codex)."""
ANNOUNCED_S = 120.0
"""So long a sub-agent that was announced is taken for one that is about to start."""
NAME_MAX = 64
_PATCHING = re.compile(r"\s*(?:cd \S+ && )?apply_?patch\s")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update) File: *(.+?) *$", re.MULTILINE)
_HELD = re.compile(rb'(?<!\\)"stop_hook_active"\s*:\s*true')
_AGENT_ID = re.compile(rb'(?<!\\)"agent_id"\s*:\s*"([^"\\]+)"')
_STARTS = re.compile(rb'(?<!\\)"tool_name"\s*:\s*"(?:%s)"' % "|".join(sorted(STARTERS)).encode())
_WORDS = re.compile(rb'(?<!\\)"(?:tool_input|tool_response|last_assistant_message|prompt)"\s*:')


def fold(turn: Turn, line: SpoolLine) -> Turn:
    """The turn after one more hook event."""
    if line.event == TURN_ENDED:
        return _ended(turn, line)
    newest = max(turn.newest, line.mono)
    running = follow(turn.subagents, line)
    if running is not turn.subagents:
        turn = replace(turn, subagents=running)
    announced = _announced(turn.announced, line)
    if announced is not turn.announced:
        turn = replace(turn, announced=announced)
    if line.event == "SubagentStart":
        turn = replace(turn, begun={**turn.begun, named(line)[1]: line.mono})
    if _subagent_id(line):
        # It may come after its parent's Stop, and says nothing of the parent's own turn.
        return replace(turn, newest=newest)
    turn = replace(turn, newest=newest, own=max(turn.own, line.mono))
    if line.event in ("PostCompact", "SessionStart") and _is_compaction(line):
        return replace(turn, compacted=line.mono, compacting=0.0)
    if line.event == "PreCompact":
        return replace(turn, compacting=line.mono)
    change = _CHANGES.get(line.event)
    return change(turn, line) if change is not None else turn


def follow(running: Mapping[str, Subagent], line: SpoolLine) -> Mapping[str, Subagent]:
    """The sub-agents that run after one more hook event, by id. All who read a spool see the same of them."""
    if line.event == "SubagentStart":
        identity, kind = named(line)
        return {**running, identity: Subagent(kind, line.mono, identity)}
    if line.event == "SubagentStop":
        identity, _ = named(line)
        return {key: one for key, one in running.items() if key != identity} if identity in running else running
    if line.event == "PostToolUse" and running:
        one = running.get(_subagent_id(line))
        is_output = one is not None and _text(line.payload().get("tool_name")).lower() in WRITERS
        return {**running, one.id: replace(one, wrote=line.mono)} if one is not None and is_output else running
    if line.event == "Stop" and b'"background_tasks"' in line.raw:
        return _listed(running, line)
    if line.event in ("SessionStart", "SessionEnd") and not _is_compaction(line) and not _subagent_id(line):
        return {}
    return running


def _announced(coming: Mapping[str, Subagent], line: SpoolLine) -> Mapping[str, Subagent]:
    """The sub-agents that are about to start after one more hook event, by tool call.

    A call that has succeeded does not say that its sub-agent has started: some clients tell of the start later.
    """
    if line.event == "PreToolUse" and _STARTS.search(_WORDS.split(line.raw, maxsplit=1)[0]):
        payload = line.payload()
        given = payload.get("tool_input")
        kind = _short(given.get("subagent_type") or given.get("agent_type")) if isinstance(given, dict) else ""
        # Behind a long prompt the call's id was cut off; then it is known by its time.
        call = _short(payload.get("tool_use_id")) or f"{line.mono:.6f}"
        fresh = {one.id: one for one in coming.values() if line.mono - one.since <= ANNOUNCED_S}
        return {**fresh, call: Subagent(kind, line.mono, call)}
    if not coming:
        return coming
    if line.event == "SubagentStart":
        kind = named(line)[1]
        come = next((call for call, one in coming.items() if one.type == kind), next(iter(coming)))
    elif line.event in ("PostToolUseFailure", "Denied", "PermissionDenied"):
        come = _short(line.payload().get("tool_use_id"))
    else:
        return coming
    return {call: one for call, one in coming.items() if call != come}


def _listed(running: Mapping[str, Subagent], line: SpoolLine) -> Mapping[str, Subagent]:
    """What a client that ends its turn says itself of what still runs: whoever it does not name has ended."""
    tasks = line.payload().get("background_tasks")
    if not isinstance(tasks, list):
        return running
    found = {}
    for task in tasks:
        if isinstance(task, dict) and task.get("type") == "subagent" and task.get("status") == "running":
            identity, kind = _short(task.get("id")), _short(task.get("agent_type")) or "sub-agent"
            found[identity] = running.get(identity) or Subagent(kind, line.mono, identity)
    return running if found == running else found


def _prompted(turn: Turn, line: SpoolLine) -> Turn:
    prompt = line.payload().get("prompt", "")
    # A payload that was cut is no JSON any more; its header still stands in the raw bytes.
    text = prompt if isinstance(prompt, str) and prompt else line.raw.decode(errors="replace")
    seen = {header.id: line.mono for header in headers(text) if header.id not in turn.receipts}
    receipts = {**turn.receipts, **seen} if seen else turn.receipts
    # A client that goes on with a conversation may find its file only after it has told of its start.
    transcript = _text(line.payload().get("transcript_path")) or turn.transcript
    cleared = replace(_open(turn, line), calls=(), laps=(), call="", repeats=0, failure="", announced={})
    # Of a stop that was held, some clients tell as if somebody had prompted them.
    held = bool(line.payload().get("continues"))
    stops = turn.stops if held else 0
    return replace(cleared, receipts=receipts, transcript=transcript, stops=stops, held=held)


def _received(turn: Turn, line: SpoolLine) -> Turn:
    """Messages that went with the answer to a hook, or were refused on purpose: the turn is as it was."""
    seen = {header.id: line.mono for header in headers(line.raw.decode(errors="replace"))}
    return replace(turn, receipts={**seen, **turn.receipts})


def _tool_begun(turn: Turn, line: SpoolLine) -> Turn:
    payload = line.payload()
    name = _text(payload.get("tool_name"))
    tool_input = payload.get("tool_input")
    # Who starts one more sub-agent beside others fans out, and repeats nothing, however alike the calls are.
    fans_out = name in STARTERS and (bool(turn.subagents) or len(turn.announced) > 1)
    call = f"{name} {json.dumps(tool_input, sort_keys=True)}" if payload and not fans_out else ""
    tool = ToolCall(name, _shown(tool_input), line.mono)
    path = _written(name, tool_input) if isinstance(tool_input, dict) else ""
    wrote = (*(one for one in turn.wrote if one != path), path)[-WROTE_MAX:] if path else turn.wrote
    opened = _with_call(_open(turn, line), call, path, line.mono)
    if isinstance(tool_input, dict) and _is_patch(name, tool_input):
        return replace(opened, wrote=wrote)  # done at once by the client itself, which does not always tell of its end
    return replace(opened, wrote=wrote, tools={**turn.tools, _text(payload.get("tool_use_id")) or name: tool})


def _written(name: str, tool_input: Mapping[str, Any]) -> str:
    """The file that a tool is to write, the first where there are several; empty where it is none."""
    if _is_patch(name, tool_input):
        found = _PATCHED.search(_text(tool_input.get("command")))
        return found[1] if found else ""
    return _text(tool_input.get("file_path")) if name.lower() in WRITERS else ""


def _is_patch(name: str, tool_input: Mapping[str, Any]) -> bool:
    """Whether Codex applies a patch: with a tool of its own, or with a command that it never gives to a shell."""
    return name == PATCH or (name == "Bash" and _PATCHING.match(_text(tool_input.get("command"))) is not None)


def _with_call(turn: Turn, call: str, path: str, mono: float) -> Turn:
    """Counts how often the latest calls were made in a row: one of them, or a few that take turns. A call that could
    not be read is like no other."""
    digest = hashlib.blake2b(call.encode(errors="replace"), digest_size=12).hexdigest() if call else ""
    laps = []
    for period in range(1, PERIOD_MAX + 1):
        is_again = bool(digest) and len(turn.calls) >= period and turn.calls[-period][0] == digest
        count, since = turn.laps[period - 1] if turn.laps else (0, mono)
        laps.append((count + 1, since) if is_again else (0, mono))
    calls = (*turn.calls, (digest, call[:CALL_MAX], path))[-PERIOD_MAX:]
    times = [count // period + 1 for period, (count, _) in enumerate(laps, 1)]
    period = times.index(max(times)) + 1
    return replace(
        turn,
        calls=calls,
        laps=tuple(laps),
        call=", then ".join(text for _, text, _ in calls[-period:]),
        period=period,
        repeats=max(times),
        repeats_since=laps[period - 1][1],
    )


def _tool_ended(turn: Turn, line: SpoolLine) -> Turn:
    payload = line.payload()
    ended = _text(payload.get("tool_use_id")) or _text(payload.get("tool_name"))
    # Which one has ended cannot be told from a payload that was cut: the calls that are really open are told again.
    tools = {use: tool for use, tool in turn.tools.items() if payload and use != ended}
    return replace(_open(turn, line), tools=tools)


def _asked(turn: Turn, line: SpoolLine) -> Turn:
    payload = line.payload()
    if line.event == "Notification":
        if payload.get("notification_type") not in ("permission_prompt", "agent_needs_input"):
            return turn
        # The request before it says what it is about.
        text = turn.dialog or _text(payload.get("message"))
    else:
        text = f"{_text(payload.get('tool_name'))} {_shown(payload.get('tool_input'))}".strip()
    return replace(turn, dialog=text or "a permission", dialog_since=turn.dialog_since or line.mono)


def _stopped(turn: Turn, line: SpoolLine) -> Turn:
    """A stop that a hook may hold. Only from the second one on does the client say that it was held before; one that
    was not is the first of its turn."""
    since = turn.stops_since if turn.stops else line.mono
    return replace(_close(turn, line), stops=turn.stops + 1 if _was_held(line) else 0, stops_since=since)


def _was_held(line: SpoolLine) -> bool:
    payload = line.payload()
    # Of a payload that was cut, behind a long last message, the raw bytes still say it.
    return payload.get("stop_hook_active") is True if payload else _HELD.search(line.raw) is not None


def _ended(turn: Turn, line: SpoolLine) -> Turn:
    """The captain has interrupted the turn, of whose end no client tells. What the agent itself was heard of since the
    captain looked belongs to another turn, or to one that goes on after all."""
    payload = line.payload()
    heard = payload.get("heard")
    if not isinstance(heard, int | float) or turn.own > heard:
        return turn
    newest = max(turn.newest, line.mono)
    return replace(_close(turn, line), newest=newest, stops=0, ended=_text(payload.get("ended")))


def failed(turn: Turn, mono: float, failure: str) -> Turn:
    """The turn where an error has ended it at that time, of which only the client's transcript tells. What the agent
    itself was heard of since belongs to another turn."""
    if turn.state != "working" or turn.own >= mono:
        return turn
    ended = replace(turn, tools={}, dialog="", dialog_since=0.0, compacting=0.0, newest=max(turn.newest, mono))
    return replace(ended, state="idle", since=mono, failure=failure, announced={})


def _failed(turn: Turn, line: SpoolLine) -> Turn:
    return replace(_close(turn, line), failure=_text(line.payload().get("error")) or "error")


def _begun(turn: Turn, line: SpoolLine) -> Turn:
    transcript = _text(line.payload().get("transcript_path")) or turn.transcript
    return replace(_close(turn, line), transcript=transcript, stops=0)


def _open(turn: Turn, line: SpoolLine) -> Turn:
    """The client does something: a turn is open, and whatever was asked has been answered."""
    since = turn.since if turn.state == "working" else line.mono
    cleared = replace(turn, dialog="", dialog_since=0.0, compacting=0.0, ended="", held=False)
    return replace(cleared, state="working", since=since, pid=line.pid)


def _close(turn: Turn, line: SpoolLine) -> Turn:
    since = turn.since if turn.state == "idle" else line.mono
    cleared = replace(turn, tools={}, dialog="", dialog_since=0.0, compacting=0.0, held=False, announced={})
    return replace(cleared, state="idle", since=since, pid=line.pid)


_CHANGES: Mapping[str, Callable[[Turn, SpoolLine], Turn]] = {
    "UserPromptSubmit": _prompted,
    "PreToolUse": _tool_begun,
    "PostToolUse": _tool_ended,
    "PostToolUseFailure": _tool_ended,
    "Denied": _tool_ended,
    "Canary": _received,
    "Delivered": _received,
    "StopHeld": lambda turn, line: _open(turn, line),
    "PermissionRequest": _asked,
    "Notification": _asked,
    "Stop": _stopped,
    "StopFailure": _failed,
    "Interrupt": lambda turn, line: replace(_close(turn, line), stops=0),
    "SessionStart": _begun,
    "SessionEnd": _begun,
}


def _subagent_id(line: SpoolLine) -> str:
    """Of which sub-agent the event is; empty where it is the agent's own."""
    if b'"agent_id"' not in line.raw:
        return ""
    payload = line.payload()
    if payload:
        return _short(payload.get("agent_id"))
    # Of a payload that was cut, what stands before the words of a tool or a model still says it.
    found = _AGENT_ID.search(_WORDS.split(line.raw, maxsplit=1)[0])
    return _short(found[1].decode(errors="replace")) if found else ""


def named(line: SpoolLine) -> tuple[str, str]:
    """The id and the type of the sub-agent that starts or stops."""
    identity = _subagent_id(line)
    kind = _short(line.payload().get("agent_type")) or "sub-agent"
    return identity or kind, kind


def _is_compaction(line: SpoolLine) -> bool:
    """A session that goes on with a shorter context, in the middle of a turn or between two."""
    return line.event == "PostCompact" or line.payload().get("source") == "compact"


def _shown(tool_input: Any) -> str:
    """A tool's input in a few words: the command, the path, or whatever comes first."""
    if not isinstance(tool_input, Mapping):
        return ""
    first = next((value for value in tool_input.values() if isinstance(value, str)), "")
    text = tool_input.get("command") or tool_input.get("file_path") or first
    return " ".join(str(text).split())[:SHOWN_MAX]


def _short(value: Any) -> str:
    """A name that a client gives, as it can be kept."""
    return _text(value)[:NAME_MAX].encode(errors="replace").decode().replace("\0", "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
