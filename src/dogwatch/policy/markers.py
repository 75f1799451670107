"""Dispatch markers: no task goes from agent to agent without one, and every dispatch is accounted for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from dogwatch.model.records import AgentRecord, TaskRecord
from dogwatch.model.versions import DispatchCount
from dogwatch.model.view import RunView

OPEN = frozenset({"claimed", "reported"})
"""A dispatch whose task is in one of these is under way."""
SETTLED = frozenset({"accepted", "failed"})
OPEN_MAX = 5
"""So many tasks may an agent have given to others that are not settled."""
OUTPUTS_MAX = 20
EXPECT_S_MAX = 86400.0
HINT = 'dogwatch task send AGENT "what to do" --expect 10m --output notes.md'

_CLAIMS = re.compile(r"(?:TASK|DISPATCH)\b|(?i:task|dispatch)\s*[:\]]")
_MARKUP = " \t#*>_`~(-"
_PATH = re.compile(r"[^\s\\{}~/][^\s\\{}]*")


def claims_to_be_a_task(text: str) -> bool:
    """Whether plain mail passes itself off as a dispatch: by its first word, or by a header like the captain's."""
    lines = _plain_lines(text)
    return imitates_header(text) or (bool(lines) and _CLAIMS.match(lines[0].lstrip(_MARKUP + "[")) is not None)


def imitates_header(text: str) -> bool:
    """Whether a line of it looks like the header of one of the captain's own messages."""
    return any(line.casefold().startswith("[dogwatch:") for line in _plain_lines(text))


def _plain_lines(text: str) -> list[str]:
    """The lines that say something, without markup, and without characters that only look like others or like none."""
    plain = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    return [line.lstrip(_MARKUP) for line in plain.splitlines() if line.strip()]


def wrong_marker(expect_s: Any, outputs: Any) -> str:
    """Why this is no marker: an expected time and at least one expected file; empty where it is one."""
    if expect_s is None or not outputs:
        missing = [
            *(["how long it should take"] if expect_s is None else []),
            *([] if outputs else ["which file comes of it"]),
        ]
        return f"a task needs a marker: it does not say {' and '.join(missing)}"
    if isinstance(expect_s, bool) or not isinstance(expect_s, int | float) or not 1 <= expect_s <= EXPECT_S_MAX:
        return f"the expected time is from 1 s to {EXPECT_S_MAX:g} s"
    if not isinstance(outputs, list) or len(outputs) > OUTPUTS_MAX or len(set(map(str, outputs))) != len(outputs):
        return f"the expected files are at most {OUTPUTS_MAX} different paths"
    for path in outputs:
        if not isinstance(path, str) or len(path) > 240 or not _PATH.fullmatch(path):
            return f"{str(path)[:80]!r} is no path relative to the run's output folder, without blanks and braces"
        if any(part in ("", ".", "..") for part in path.split("/")):
            return f"the path {path!r} has an empty part, '.' or '..' in it"
    return ""


def wrong_task(view: RunView, sender: AgentRecord, to: str, outputs: Iterable[str]) -> str:
    """Why this agent may not give that one a task with these outputs now; empty where it may."""
    receiver = view.agents.get(view.current(to))
    if receiver is None:
        return f"there is no agent {to!r} in {view.run.run}"
    if receiver.agent == sender.agent:
        return "a task is for another agent: do it yourself"
    if receiver.is_given_up:
        return f"{receiver.agent} was given up: {receiver.cause}"
    if view.run.state != "RUNNING" or view.task_of(sender.agent) is None:
        return f"{sender.agent} holds no task itself"
    mine = [t for t in view.tasks.values() if t.sender and view.current(t.sender) == sender.agent]
    if sum(task.state not in SETTLED for task in mine) >= OPEN_MAX:
        return f"{sender.agent} has given {OPEN_MAX} tasks to others that are not finished"
    wanted = set(outputs)
    for task in view.tasks.values():
        clash = wanted & {output.path for output in task.outputs}
        if clash and task.state not in SETTLED and task.agent != sender.agent:
            return f"{min(clash)} is written in task {task.task} already"
    return ""


def miscounts(counts: Mapping[str, DispatchCount], tasks: Iterable[TaskRecord]) -> list[str]:
    """Where the dispatches are not those that are finished and those that are open, with the figures: for each agent,
    and in all."""
    open_ones = dict.fromkeys(counts, 0)
    for task in tasks:
        if task.state in OPEN and task.agent in open_ones:  # a run of an earlier version has not counted
            open_ones[task.agent] += 1
    found = [
        _figures(agent, count.dispatched, count.finished, open_ones[agent])
        for agent, count in sorted(counts.items())
        if count.dispatched != count.finished + open_ones[agent]
    ]
    if found:
        dispatched = sum(count.dispatched for count in counts.values())
        finished = sum(count.finished for count in counts.values())
        found.append(_figures("all", dispatched, finished, sum(open_ones.values())))
    return found


def _figures(who: str, dispatched: int, finished: int, is_open: int) -> str:
    return f"{who}: {dispatched} dispatched, {finished} finished + {is_open} open = {finished + is_open}"
