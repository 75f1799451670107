"""What agents have used and what went wrong for them: counted once, and told once, however often it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dogwatch.coordination.notices import push_notice
from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load, save
from dogwatch.model.events.clients import AgentError, GuardDenied, TokenCounts, UsageRecorded
from dogwatch.model.events.subagents import SubagentEnded, SubagentStarted
from dogwatch.model.keys import verdicts_queue
from dogwatch.model.records import AgentRecord
from dogwatch.model.tally import Denial, Lives, Tally, TallyRecord, figures, total
from dogwatch.model.view import RunView
from dogwatch.policy.troubles import REPEATS, Trouble
from dogwatch.policy.verdicts import is_validator


@dataclass(frozen=True, slots=True)
class Told:
    """An error or denial that is to be put on the ledger, once: `key` is the same whoever reads it."""

    incarnation: int
    key: str
    trouble: Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentTold:
    """That a sub-agent began or came to its end, to be put on the ledger once. `since` is its start on the monotonic
    clock; `how` is empty for a start, else ended or lost; `objection` is what it said where it disagrees."""

    incarnation: int
    key: str
    id: str
    type: str
    since: float
    how: str = ""
    seconds: float = 0.0
    objection: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTally:
    """What was counted of an agent by incarnation, and all that is to be told of it, oldest first. `behind` is whether
    there is more to read, `running` which sub-agents have not come to their end, as told of when they began."""

    incarnations: Mapping[str, Tally] = field(default_factory=dict)
    told: Sequence[Told | SubagentTold] = ()
    running: Sequence[SubagentTold] = ()
    behind: bool = False

    def at_its_end(self, mono: float) -> AgentTally:
        """The same when nothing more will come: whatever still ran was lost."""
        told, incarnations = list(self.told), dict(self.incarnations)
        for one in self.running:
            seconds = round(max(0.0, mono - one.since), 3)
            told.append(replace(one, how="lost", seconds=seconds))
            number = str(one.incarnation)
            lost = Tally(lives={one.type: Lives(lost=1, seconds=seconds)})
            incarnations[number] = incarnations.get(number, Tally()).plus(lost)
        return replace(self, incarnations=incarnations, told=tuple(told), running=())


def record_tallies(
    tx: Tx,
    view: RunView,
    found: Mapping[str, AgentTally],
    told_before: Mapping[str, int],
    rss_bytes: Mapping[str, int],
) -> None:
    """What was counted of each agent; `told_before` is how much of it was told, `rss_bytes` the memory it uses now."""
    for name, one in found.items():
        record_tally(tx, view, view.agents[name], one, told_before[name], rss_bytes[name])


def record_tally(
    tx: Tx, view: RunView, agent: AgentRecord, found: AgentTally, told_before: int = 0, rss_bytes: int = 0
) -> TallyRecord:
    """Tells what was not told before, keeps the counts, and closes those of earlier incarnations."""
    for told in found.told[told_before:]:
        if isinstance(told, SubagentTold):
            _tell_subagent(tx, view, agent.agent, told, rss_bytes)
        else:
            _tell(tx, view, agent.agent, told)
    record = TallyRecord(run=agent.run, agent=agent.agent)
    known = load(tx, TallyRecord, record.key) or record
    numbers = {**known.incarnations, **found.incarnations}
    merged = {n: known.incarnations.get(n, Tally()).larger(found.incarnations.get(n, Tally())) for n in numbers}
    record = TallyRecord(run=agent.run, agent=agent.agent, incarnations=merged)
    if record != known:
        save(tx, record)
    for number in merged:
        if int(number) < agent.incarnation:
            _close(tx, record, number)
    return record


def close_tallies(tx: Tx, view: RunView, found: Mapping[str, AgentTally]) -> None:
    """At the end of the run: all incarnations, and the run as a whole."""
    whole = Tally()
    for agent in view.agents.values():
        record = record_tally(tx, view, agent, found.get(agent.agent, AgentTally()).at_its_end(tx.now.mono))
        whole = whole.plus(record.sum)
        if str(agent.incarnation) in record.incarnations:
            _close(tx, record, str(agent.incarnation))
    if whole.models:
        tx.append(_usage(whole, run=view.run.run), f"usage:{view.run.run}")


def _close(tx: Tx, record: TallyRecord, number: str) -> None:
    tally = record.incarnations[number]
    if tally.models:
        event = _usage(tally, run=record.run, agent=record.agent, incarnation=int(number))
        tx.append(event, f"usage:{record.key}:{number}")


def _usage(tally: Tally, *, run: str, agent: str = "", incarnation: int = 0) -> UsageRecorded:
    """What was used: of all calls, of those of sub-agents alone, and by model."""
    return UsageRecorded(
        incarnation=incarnation,
        **figures(total(tally.models)),
        subagents=TokenCounts(**figures(total(tally.subagents))),
        models={name: TokenCounts(**figures(one)) for name, one in sorted(tally.models.items())},
        run=run,
        agent=agent,
    )


def _tell(tx: Tx, view: RunView, agent: str, told: Told) -> None:
    found, run = told.trouble.found, view.run.run
    op_id = f"trouble:{run}:{agent}:{told.key}"
    # What was typed and said must not be kept where the pipeline is sensitive.
    is_open = not view.run.sensitive
    if isinstance(found, Denial):
        denied = GuardDenied(
            incarnation=told.incarnation,
            severity=found.severity,
            count=told.trouble.count,
            rule=found.rule,
            tool=found.tool,
            reason=found.reason if is_open else "",
            command=found.command if is_open else "",
            run=run,
            agent=agent,
        )
        tx.append(denied, op_id)
        if told.trouble.alarm:
            _alarm(tx, run, agent, told, denied)
    else:
        error = AgentError(
            incarnation=told.incarnation,
            severity=found.severity,
            count=told.trouble.count,
            type=found.type,
            tool=found.tool,
            message=found.message if is_open else "",
            run=run,
            agent=agent,
        )
        tx.append(error, op_id)


def _tell_subagent(tx: Tx, view: RunView, agent: str, told: SubagentTold, rss_bytes: int = 0) -> None:
    """Its start or its end, with how much memory its agent uses then. What it says against work that was reviewed, or
    is being reviewed, is handed to the captain."""
    run = view.run.run
    if not told.how:
        started = SubagentStarted(
            id=told.id, type=told.type, incarnation=told.incarnation, rss_bytes=rss_bytes, run=run, agent=agent
        )
        tx.append(started, f"subagent:{run}:{agent}:{told.key}")
        return
    ended = SubagentEnded(
        id=told.id,
        type=told.type,
        incarnation=told.incarnation,
        rss_bytes=rss_bytes,
        how=told.how,
        seconds=told.seconds,
        verdict="disagree" if told.objection else "",
        run=run,
        agent=agent,
    )
    is_new = tx.append(ended, f"subagent:{run}:{agent}:{told.key}:end")
    plans = [checkpoint for phase in view.plan.phases for checkpoint in phase.checkpoints]
    if is_new and told.objection and any(is_validator((told.type,), plan) for plan in plans):
        verdict = {"run": run, "agent": agent, "type": told.type, "since": told.since, "text": told.objection}
        tx.push(verdicts_queue(run), verdict, f"{agent}:{told.key}")


def _alarm(tx: Tx, run: str, agent: str, told: Told, denied: GuardDenied) -> None:
    """One critical denial is on the record; several within an hour are for a person to see."""
    title = f"{agent}: the guard has denied {REPEATS} critical commands within an hour"
    latest = f"the latest, by {denied.rule}: {denied.reason}"
    lines = [latest, denied.command, f"see: dogwatch explain {run}/{agent}"]
    push_notice(tx, run, "escalation", f"denied:{agent}:{told.key}", title, "\n".join(filter(None, lines)), agent)
