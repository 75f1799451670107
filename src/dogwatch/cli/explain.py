"""Say in sentences what an agent is doing, and why dogwatch did what it did.

RUN/AGENT tells what is seen of the agent now and each decision about it. RUN tells the same of all its agents. ALERT,
as `dogwatch events` and notifications show it, tells of that alert alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.cli.sentences import sentence
from dogwatch.cli.table import clean, duration, number, paint, wants_colour
from dogwatch.errors import NotFoundError
from dogwatch.guard.severity import severity
from dogwatch.ledger.api import Reader, StoredEvent
from dogwatch.ledger.records import load, load_all
from dogwatch.model import keys
from dogwatch.model.codec import encode
from dogwatch.model.life import Resting
from dogwatch.model.moment import Moment
from dogwatch.model.records import (
    AgentRecord,
    AgentWatch,
    DecisionRecord,
    OverdueSubagent,
    WatchRecord,
)
from dogwatch.model.tally import Tally, TallyRecord, total, usage
from dogwatch.model.versions import ReadingRecord
from dogwatch.policy.alerts import words
from dogwatch.policy.diagnoses import traits_of
from dogwatch.world.clock import SystemClock

EXAMPLE = "dogwatch explain overnight-1/writer"
ALERTS_MAX = 1000
TROUBLES_MAX = 200


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="RUN[/AGENT]|ALERT", help="a run, an agent of it, or an alert's name")
    parser.add_argument("--last", type=int, default=5, metavar="N", help="how many decisions of each agent (default 5)")
    parser.add_argument("--json", action="store_true", help="print the records (docs/reference/json.md)")


def execute(arguments: argparse.Namespace) -> int:
    ledger = open_ledger(the_home())
    now = SystemClock().now()
    run, _, agent = arguments.what.partition("/")
    found = ledger.read(lambda reader: _agents(reader, run, agent))
    if found:
        told = ledger.read(lambda reader: [_story(reader, one, arguments.last) for one in found])
        if arguments.json:
            print_json([_plain(*story) for story in told])
        else:
            print("\n\n".join("\n".join(_sentences(*story, now)) for story in told))
        return 0
    alerts = ledger.read(lambda reader: _alerts(reader, arguments.what))
    if not alerts:
        raise NotFoundError(
            f"there is no run, agent or alert {arguments.what!r}", hint="dogwatch status and dogwatch events name them"
        )
    if arguments.json:
        print_json([dict(alert.body) for alert in alerts])
    else:
        stories = ledger.read(lambda reader: [_alert(_decisions_of(reader, event), event) for event in alerts])
        print("\n\n".join("\n".join(lines) for lines in stories))
    return 0


Story = tuple[
    AgentRecord,
    AgentWatch | None,
    Sequence[DecisionRecord],
    Tally,
    Sequence[StoredEvent],
    ReadingRecord | None,
    Sequence[OverdueSubagent],
]


def _agents(reader: Reader, run: str, agent: str) -> list[AgentRecord]:
    if not run or reader.get(keys.run(run)) is None:
        return []
    if agent:
        one = load(reader, AgentRecord, keys.agent(run, agent))
        return [one] if one is not None else []
    return load_all(reader, AgentRecord, keys.agents(run))


def _story(reader: Reader, agent: AgentRecord, last: int) -> Story:
    seen = load(reader, WatchRecord, keys.watch(agent.run))
    decisions = [one for one in _decisions(reader, agent.run) if one.agent == agent.agent]
    tally = load(reader, TallyRecord, keys.tally(agent.run, agent.agent))
    troubles = reader.recent(TROUBLES_MAX, agent.run, ["agent_error", "guard_denied", "screen_unknown"])
    return (
        agent,
        seen.agents.get(agent.agent) if seen is not None else None,
        decisions[max(0, len(decisions) - last) :],
        tally.sum if tally is not None else Tally(),
        [event for event in troubles if event.agent == agent.agent][-last:] if last > 0 else [],
        load(reader, ReadingRecord, keys.reading(agent.run, agent.agent)),
        load_all(reader, OverdueSubagent, keys.overdue_subagents(agent.run, agent.agent)),
    )


def _decisions(reader: Reader, run: str) -> list[DecisionRecord]:
    places = (keys.decisions(run), keys.open_decisions(run))
    found = [one for place in places for one in load_all(reader, DecisionRecord, place)]
    return sorted(found, key=lambda one: one.at.wall)


def _alerts(reader: Reader, name: str) -> list[StoredEvent]:
    found = reader.recent(ALERTS_MAX, kinds=["alert_raised"])
    return [event for event in found if name in (event.body.get("alert"), f"{event.run}/{event.body.get('alert')}")]


def _decisions_of(reader: Reader, event: StoredEvent) -> list[DecisionRecord]:
    return [one for one in _decisions(reader, event.run) if one.alert == event.body.get("alert")]


def _sentences(
    agent: AgentRecord,
    seen: AgentWatch | None,
    decisions: Sequence[DecisionRecord],
    tally: Tally,
    troubles: Sequence[StoredEvent],
    reading: ReadingRecord | None,
    overdue: Sequence[OverdueSubagent],
    now: Moment,
) -> list[str]:
    title = paint(f"{agent.run}/{agent.agent}", "bold", colour=wants_colour(sys.stdout))
    lines = [f"{title} is {agent.state} as incarnation {agent.incarnation}; its health is {agent.health}."]
    if agent.cause:
        lines.append(f"It was given up: {clean(agent.cause)}.")
    elif agent.gate_reason:
        lines.append(f"It is not started yet: {clean(agent.gate_reason)}.")
    elif isinstance(agent.life, Resting):
        lines.append(f"It rests until there is work for it: {clean(agent.life.reason)}.")
    elif seen is not None:
        lines.append(
            f"For {duration(now.since(seen.since))} it has been {seen.kind.replace('_', ' ')}"
            f" (confidence {seen.confidence:.2f}), because:"
        )
        lines += [f"  - {clean(line)}" for line in seen.evidence]
        lines.append(f"{seen.kind} means: {traits_of(seen.kind).meaning.replace('`', '')}.")
        lines.append(f"What should be done: {seen.action + ': ' if seen.action else ''}{clean(seen.advice)}.")
    lines += _counted(tally)
    lines += _late(overdue, now)
    if reading is not None:
        lines.append(_read(reading, now))
    if troubles:
        lines.append("Its latest errors, denials and unknown screens:")
        for event in troubles:
            lines.append(f"  - {duration(now.since(event.at))} ago: {sentence(event)}")
            lines += _strange(event)
    if not decisions:
        lines.append("Nothing was ever decided about it.")
    for decision in decisions:
        lines += _told(decision)
    return lines


def _counted(tally: Tally) -> Iterator[str]:
    used = total(tally.models)
    if used.calls:
        cached = f"{used.cache_creation} written to the cache, {used.cache_read} read from it"
        sub = f", {total(tally.subagents).calls} of them by sub-agents" if tally.subagents else ""
        tokens = f"{used.input} tokens in, {used.output} out, {cached}"
        yield f"It has called {', '.join(sorted(tally.models))} {number(used.calls, 'time')}{sub}: {tokens}."
    if tally.lives:
        kinds = (
            f"{clean(kind)} ({one.started} started, {one.ended} ended, {one.lost} lost, {duration(one.seconds)})"
            for kind, one in tally.lives.items()
        )
        yield f"Its sub-agents: {', '.join(kinds)}."
    if tally.errors:
        errors = (f"{count} {kind.replace('_', ' ')}" for kind, count in tally.errors.items())
        yield f"Its errors: {', '.join(errors)}."
    if tally.unread:
        events = (f"{clean(event)} {number(count, 'time')}" for event, count in tally.unread.items())
        yield f"Its hooks have told what is not understood, and stands raw in its spool: {', '.join(events)}."
    if tally.denied:
        rules = (f"{count} by {rule} ({severity(rule)})" for rule, count in tally.denied.items())
        yield f"The guard has denied it {number(sum(tally.denied.values()), 'command')}: {', '.join(rules)}."


def _strange(event: StoredEvent) -> Iterator[str]:
    """What stood on a screen that nobody knows, and what to do with it."""
    if event.kind == "screen_unknown":
        yield from (f"      │ {clean(line)}" for line in event.body.get("lines", ()))
        yield f"      dogwatch harness check {event.body.get('harness', '')} says what still holds of this client"


def _late(overdue: Sequence[OverdueSubagent], now: Moment) -> Iterator[str]:
    """The sub-agents that ran past their time."""
    for one in overdue:
        ran = f"Its sub-agent {clean(one.type)} had run for {duration(one.ran_s)} without output"
        told = f"{ran}, with {duration(one.limit_s)} allowed; it was told {duration(now.since(one.opened))} ago"
        how = f"settled: {one.settled.replace('_', ' ')}" if one.settled else "open: neither started again nor skipped"
        yield f"{told} ({how}{f', {clean(one.note)}' if one.note else ''})."


def _read(reading: ReadingRecord, now: Moment) -> str:
    """Which version of its instructions it has; what it has not read in time is held against it."""
    was = {
        "told": "was named in its brief",
        "asked": "is about to be told to it",
        "owes": "was told to it and is not read yet",
        "read": "was read by its client",
        "expired": "was told to it and not read in time",
    }
    held = "; its mail is held" if reading.held is not None else ""
    lapses = f" {number(reading.lapses, 'time')} it has not read them in time." if reading.lapses else ""
    at = duration(now.since(reading.since))
    return f"Version {clean(reading.version)} of its instructions {was[reading.state]}, {at} ago{held}.{lapses}"


def _told(decision: DecisionRecord) -> Iterator[str]:
    at = time.strftime("%H:%M:%S", time.localtime(decision.at.wall))
    what = f"{decision.action} for incarnation {decision.incarnation}"
    yield f"At {at}: {what}, because it was {decision.diagnosis.replace('_', ' ')}:"
    yield from (f"  - {clean(line)}" for line in decision.evidence)
    if decision.alternatives:
        yield "  Not chosen:"
        yield from (f"  - {clean(line)}" for line in decision.alternatives)
    outcome = f"{decision.outcome.replace('_', ' ')} ({clean(decision.seen)})" if decision.outcome else "not known yet"
    yield f"  Outcome: {outcome}."


def _alert(decisions: Sequence[DecisionRecord], event: StoredEvent) -> Iterator[str]:
    yield paint(f"{event.run}: alert {event.body['alert']}", "bold", colour=wants_colour(sys.stdout))
    yield from (f"  {clean(line)}" for line in words(event.body))
    if not decisions:
        yield "  Nothing was done about it."
    for decision in decisions:
        yield from (f"  {line}" for line in _told(decision))


def _plain(
    agent: AgentRecord,
    seen: AgentWatch | None,
    decisions: Sequence[DecisionRecord],
    tally: Tally,
    troubles: Sequence[StoredEvent],
    reading: ReadingRecord | None,
    overdue: Sequence[OverdueSubagent],
) -> dict[str, Any]:
    return {
        "agent": encode(agent),
        "watch": encode(seen) if seen is not None else None,
        "decisions": [encode(one) for one in decisions],
        "usage": usage(tally),
        "errors": dict(tally.errors),
        "denied": dict(tally.denied),
        "unread": dict(tally.unread),
        "subagents": {kind: encode(lives) for kind, lives in tally.lives.items()},
        "overdue": [encode(one) for one in overdue],
        "instructions": encode(reading) if reading is not None else None,
        "troubles": [{"kind": event.kind, **event.body} for event in troubles],
    }
