"""Who must be told of new instructions and when, whose reading is proven, and whose time is over.

A change goes through the run in waves, at turn boundaries, and never in the middle of a checkpoint. Only the newest
version counts: one that was overtaken is not asked for any more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dogwatch.model.moment import Moment
from dogwatch.model.sight import Sight
from dogwatch.model.versions import InstructionsRecord, ReadingRecord, Version
from dogwatch.model.view import RunView
from dogwatch.policy.route import checkpoint_plan
from dogwatch.values import dataclass

DIGITS = 12
ASKS_IN_TIME = 10
"""So often may an agent be asked, at most, within the time that it has for one reading."""
_FRONT = re.compile(r"\A---[ \t]*\n(?P<head>.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_VERSION = re.compile(r"^version:[ \t]*(?P<quote>[\"']?)(?P<name>[\w.+-]{1,40})(?P=quote)[ \t]*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ask:
    """The agent is to be told; with `holds`, what it sends is held from then on."""

    agent: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Note:
    """The agent's client has read the newest version."""

    agent: str


@dataclass(frozen=True, slots=True)
class Lapse:
    """The agent was told and has not read it in time: what it sends goes out again."""

    agent: str


Decision = Ask | Note | Lapse


def version_of(data: bytes) -> Version:
    """The version of these bytes: what their front matter says, else the beginning of their digest."""
    digest = hashlib.sha256(data).hexdigest()
    front = _FRONT.match(data.decode(errors="replace").replace("\r\n", "\n"))
    named = _VERSION.search(front["head"]) if front else None
    return Version(digest, named["name"] if named else digest[:DIGITS], data.count(b"\n") + 1)


def changed(view: RunView, found: Mapping[str, Version | None], now: Moment) -> Iterator[InstructionsRecord]:
    """The roles whose instructions are others than before. What cannot be read, or is just being written, is not."""
    for role in view.plan.roles:
        version, known = found.get(role.name), view.instructions.get(role.name)
        if version is None or (known is not None and (known.digest == version.digest or not version.settled)):
            continue
        name = version.name
        if known is not None and known.version == name:
            name = f"{name}+{version.digest[:7]}"  # its author has not counted up
        yield InstructionsRecord(
            run=view.run.run,
            role=role.name,
            path=role.instructions,
            digest=version.digest,
            version=name,
            since=now,
            lines=version.lines,
            changes=known.changes + 1 if known is not None else 0,
        )


def is_behind(view: RunView, agent: str) -> bool:
    """Whether the agent was told of an older version than the newest. One that was told of none has its brief before
    it."""
    reading, newest = view.reading_of(agent), view.instructions.get(view.agents[agent].role)
    return reading is not None and newest is not None and reading.digest != newest.digest


def is_unread(view: RunView, agent: str) -> bool:
    """Whether it is worth looking for a reading of the agent."""
    reading = view.reading_of(agent)
    return reading is not None and (reading.state != "read" or is_behind(view, agent))


def is_held(view: RunView, agent: str) -> bool:
    """Whether what the agent sends is held. An incarnation or an agent that is gone owes nothing."""
    record = view.agents.get(agent)
    reading = view.reading_of(agent) if record is not None and not record.is_given_up else None
    return reading is not None and reading.held is not None


def is_in_checkpoint(view: RunView, agent: str) -> bool:
    """Whether a checkpoint is under way that the agent is the author or a reviewer of."""
    for record in view.checkpoints.values():
        if record.state not in ("asked", "revised"):
            continue
        plan = checkpoint_plan(view, record.checkpoint)
        authors = {view.current(task.agent) for task in view.tasks.values() if task.dispatch == plan.author}
        if agent in authors or agent in plan.reviewers:
            return True
    return False


def candidates(view: RunView) -> tuple[str, ...]:
    """Who could be told now, as far as the ledger knows."""
    return tuple(
        name
        for name, agent in view.agents.items()
        if agent.running and is_behind(view, name) and not is_in_checkpoint(view, name)
    )


def decide(view: RunView, sights: Mapping[str, Sight], reads: Mapping[str, float], now: Moment) -> tuple[Decision, ...]:
    """What is to be done now. `sights` are of the candidates, `reads` when each agent last read its file, on the
    monotonic clock."""
    found: list[Decision] = [Note(agent) for agent, at in reads.items() if _counts(view, agent, at, now)]
    settled = {one.agent for one in found}
    busy = set()
    for agent in view.agents:
        reading = view.reading_of(agent)
        if reading is None or agent in settled or view.agents[agent].is_given_up:
            continue
        if reading.held is not None and now.since(reading.held) >= view.limits_of(agent).refresh_s:
            found.append(Lapse(agent))
        elif reading.held is not None or _is_on_its_way(view, reading, now):
            busy.add(agent)
    for agent in candidates(view):
        sight = sights.get(agent)
        if sight is None or agent in settled or sight.process != "alive" or _is_queued(view, agent):
            continue
        if _was_just_asked(view, agent, now):
            continue
        if not sight.hooks:
            found.append(Ask(agent, holds=False))  # nothing would ever show that it has read it
        elif sight.turn.state == "idle" and len(busy - {agent}) < view.plan.limits.refresh_wave:
            busy.add(agent)
            found.append(Ask(agent, holds=True))
    return tuple(found)


def _counts(view: RunView, agent: str, at: float, now: Moment) -> bool:
    """Whether the reading is one of the newest version: it began after that was there."""
    if not at or not is_unread(view, agent):
        return False
    since = view.instructions[view.agents[agent].role].since
    return since.boot != now.boot or at >= since.mono


def _is_on_its_way(view: RunView, reading: ReadingRecord, now: Moment) -> bool:
    """Whether a refresh will soon be delivered. One that lies there for long does not hold up the next wave."""
    return reading.state == "asked" and now.since(reading.since) < view.limits_of(reading.agent).refresh_s


def _was_just_asked(view: RunView, agent: str, now: Moment) -> bool:
    """Whether it is too early to ask again: instructions may change faster than anybody can read them."""
    reading = view.readings[agent]
    return reading.asked is not None and now.since(reading.asked) < view.limits_of(agent).refresh_s / ASKS_IN_TIME


def _is_queued(view: RunView, agent: str) -> bool:
    """Whether an earlier refresh is just being typed: it must be brought to its end first."""
    return any(message.kind == "refresh" and message.step for message in view.waiting_messages(agent))


def told_by_brief(view: RunView, agent: str, now: Moment) -> ReadingRecord | None:
    """What is known of an incarnation whose brief names the newest version; None where it was told of one before:
    then only its own reading counts."""
    record = view.agents[agent]
    newest, known = view.instructions.get(record.role), view.readings.get(agent)
    if newest is None or view.reading_of(agent) is not None:
        return None
    told = ReadingRecord(
        run=record.run,
        agent=agent,
        role=record.role,
        incarnation=record.incarnation,
        digest=newest.digest,
        version=newest.version,
        since=now,
    )
    return replace(told, lapses=known.lapses, asked=known.asked) if known is not None else told
