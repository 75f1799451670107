"""From hook events to the state of an agent's turn."""

from __future__ import annotations

from dataclasses import replace

from dogwatch.model.brief import headers
from dogwatch.model.spool import SpoolLine
from dogwatch.model.view import Turn

ENDS_TURN = frozenset({"Stop", "StopFailure", "SessionStart", "SessionEnd"})
OPENS_TURN = frozenset({"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure"})


def fold(turn: Turn, line: SpoolLine) -> Turn:
    """The turn after one more hook event."""
    newest = max(turn.newest, line.mono)
    if _is_of_subagent(line) or _is_compaction(line):
        return replace(turn, newest=newest)
    receipts = turn.receipts
    if line.event == "UserPromptSubmit":
        prompt = line.payload().get("prompt", "")
        # A payload that was cut is no JSON any more; its header still stands in the raw bytes.
        text = prompt if isinstance(prompt, str) and prompt else line.raw.decode(errors="replace")
        seen = {header.id: line.mono for header in headers(text) if header.id not in receipts}
        receipts = {**receipts, **seen} if seen else receipts
    if line.event in ENDS_TURN:
        since = turn.since if turn.state == "idle" else line.mono
        return Turn("idle", since, newest, line.pid, receipts)
    if line.event in OPENS_TURN:
        since = turn.since if turn.state == "working" else line.mono
        return Turn("working", since, newest, line.pid, receipts)
    return replace(turn, newest=newest, receipts=receipts)


def _is_of_subagent(line: SpoolLine) -> bool:
    """A sub-agent's event: it may come after its parent's Stop and says nothing of the parent's own turn."""
    return b'"agent_id"' in line.raw and "agent_id" in line.payload()


def _is_compaction(line: SpoolLine) -> bool:
    """A session that goes on with a shorter context, in the middle of a turn or between two."""
    return line.event == "SessionStart" and line.payload().get("source") == "compact"
