"""Puts on the ledger what was counted of agents: errors and denials as events, once each, and what they have used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import partial

from dogwatch.crew.notices import push_notice
from dogwatch.crew.queues import verdicts_queue
from dogwatch.crew.tallies import AgentTally, SubagentTold, Told
from dogwatch.errors import UsageError
from dogwatch.ledger.api import Lease, Store, Tx
from dogwatch.ledger.records import load, save
from dogwatch.model.events.clients import AgentError, GuardDenied, TokenCounts, UsageRecorded
from dogwatch.model.events.subagents import SubagentEnded, SubagentStarted
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import Sight
from dogwatch.model.tally import Denial, Tally, TallyRecord, figures, total
from dogwatch.model.view import RunView
from dogwatch.policy.troubles import REPEATS
from dogwatch.policy.verdicts import is_validator

WRITE_S = 20.0
"""How old the record of what was used may become while a turn goes on; at the turn's end it is written at once."""


class Books:
    """What the watchdog has put on the ledger already; one that starts anew puts it there again, to no effect."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        self._written: dict[str, tuple[Moment, Mapping[str, Tally], int]] = {}

    def keep(
        self,
        ledger: Store,
        lease: Lease,
        view: RunView,
        found: Mapping[str, AgentTally],
        sights: Mapping[str, Sight],
        now: Moment,
    ) -> None:
        """Writes what is new, of all agents in one transaction."""
        due = {name: one for name, one in found.items() if self._is_due(view.agents[name], one, sights[name], now)}
        if not due:
            return

        def fn(tx: Tx, names: Iterable[str]) -> None:
            tx.check(lease)
            for name in names:
                tree = sights[name].tree
                rss_bytes = tree.rss_bytes if tree is not None else 0
                record_tally(tx, view, view.agents[name], due[name], self._told.get(name, 0), rss_bytes)

        try:
            ledger.run(partial(fn, names=due))
        except UsageError:
            # An agent can write anything into its spool and its transcripts. What the ledger does not take is left out.
            for name in due:
                with contextlib.suppress(UsageError):
                    ledger.run(partial(fn, names=[name]))
        for name, one in due.items():
            self._told[name] = len(one.told)
            self._written[name] = (now, one.incarnations, view.agents[name].incarnation)

    def _is_due(self, agent: AgentRecord, found: AgentTally, sight: Sight, now: Moment) -> bool:
        if len(found.told) < self._told.get(agent.agent, 0):
            self._told[agent.agent] = 0  # its spool was written anew
        if len(found.told) > self._told.get(agent.agent, 0):
            return True
        at, written, incarnation = self._written.get(agent.agent, (None, {}, 0))
        if found.incarnations == written and (incarnation == agent.incarnation or not written):
            return False
        return at is None or sight.turn.state != "working" or now.since(at) >= WRITE_S


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
