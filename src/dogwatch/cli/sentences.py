"""Every event as one short plain sentence with its key facts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dogwatch.cli.table import clean, duration, number
from dogwatch.ledger.api import StoredEvent

LENGTH_MAX = 300
QUIET_KINDS = frozenset(
    "agent_spawn_intended message_sent message_delivered message_read message_acknowledged heartbeat_received".split()
)
"""What happens all the time and tells little: kept out of the live table."""


class Facts:
    """An event's body as text: a fact that is not there is empty, so that events of any version have a sentence."""

    def __init__(self, event: StoredEvent) -> None:
        self.body = event.body
        self.agent = event.agent or "?"

    def __getitem__(self, name: str) -> str:
        value: Any = self.body.get(name)
        if isinstance(value, list | tuple):
            return ", ".join(str(item) for item in value)
        return "" if value is None else str(value)

    def count(self, name: str) -> int:
        value = self.body.get(name)
        return len(value) if isinstance(value, list) else 0

    def time(self, name: str) -> str:
        value = self.body.get(name)
        return duration(value) if isinstance(value, int | float) else "-"

    def share(self, name: str) -> str:
        value = self.body.get(name)
        return f"{value:.0%}" if isinstance(value, float) else "most"

    def tail(self, name: str, before: str = ": ") -> str:
        """The fact behind `before`, or nothing."""
        return f"{before}{self[name]}" if self[name] else ""


def sentence(event: StoredEvent) -> str:
    """What happened. A kind that this version does not know is shown by its name."""
    tell = SENTENCES.get(event.kind)
    plain = tell(Facts(event)) if tell else f"{event.agent} {event.kind.replace('_', ' ')}"
    text = clean(plain).strip()
    return text if len(text) <= LENGTH_MAX else text[: LENGTH_MAX - 1] + "…"


SENTENCES: dict[str, Callable[[Facts], str]] = {
    "run_created": lambda f: (
        f"the {'rehearsal' if f.body.get('rehearsal') else 'run'} was made from {os.path.basename(f['spec'])}: "
        f"{number(f.count('agents'), 'agent')}, {number(f.count('phases'), 'phase')}"
    ),
    "run_admitted": lambda f: f"the run was let in after {f.time('waited_s')}",
    "launch_held": lambda f: f"{f['holder'].partition(':')[2] or f.agent} waits{f.tail('reason')}",
    "zone_changed": lambda f: f"memory is {f['zone']} (it was {f['before']}){f.tail('why')}{f.tail('leaker', '; ')}",
    "memory_low": lambda f: f"memory is low, nothing new is started{f.tail('why')}",
    "memory_critical": lambda f: f"memory is critical{f.tail('why')}{f.tail('leaker', '; ')}",
    "agent_reclaimed": lambda f: f"{f.agent} rests until it is needed{f.tail('reason')}",
    "reclaim_refused": lambda f: f"{f.agent} was not sent to rest{f.tail('why')}",
    "run_started": lambda f: "the agents that the first phase needs are there, it begins",
    "phase_opened": lambda f: f"phase {f['number']} of {f['of']}, {f['phase']}, began",
    "phase_ended": lambda f: f"phase {f['phase']} ended",
    "phase_reopened": lambda f: f"phase {f['phase']} is open again: {f['because']} asked for a revision",
    "milestone_reached": lambda f: f"milestone {f['milestone']} was reached",
    "run_ended": lambda f: f"the run ended: {f['state']}{f.tail('cause')}",
    "run_cleared": lambda f: f"nothing of the run is left (processes ended: {f['processes']})",
    "run_not_cleared": lambda f: f"what is left of the run could not be ended{f.tail('reason')}",
    "agent_staffed": lambda f: f"{f.agent} joins the run as {f['role']}{f.tail('reason')}",
    "agent_spawn_intended": lambda f: f"{f.agent} is about to start (#{f['incarnation']})",
    "agent_spawned": lambda f: (
        f"{f.agent} {'was found running' if f.body.get('adopted') else 'started'} as {f['name']} #{f['incarnation']}"
    ),
    "agent_spawn_failed": lambda f: f"{f.agent} #{f['incarnation']} could not be started{f.tail('reason')}",
    "guard_proven": lambda f: f"the guard of {f.agent} fires",
    "agent_restarted": lambda f: f"{f.agent} is started again as #{f['incarnation']}{f.tail('reason')}",
    "agent_quarantined": lambda f: f"{f.agent} is not started again{f.tail('reason')}",
    "agent_probed": lambda f: f"{f.agent} was asked for a sign of life ({_words(f['diagnosis'])})",
    "agent_stalled": lambda f: f"{f.agent} #{f['incarnation']} gave no sign of life and has stalled",
    "stall_alert": lambda f: f"the first stall of {f.agent}: {f['told'] or 'nobody'} had to be told",
    "agent_replaced": lambda f: f"{f.agent} was replaced by {f['successor']}{f.tail('reason')}",
    "agent_unresponsive": lambda f: f"{f.agent} #{f['incarnation']} is unresponsive",
    "agent_recovered": lambda f: f"{f.agent} #{f['incarnation']} is healthy again",
    "agent_interrupted": lambda f: f"{f.agent} was interrupted ({_words(f['diagnosis'])})",
    "turn_ended": lambda f: f"the turn of {f.agent} was ended ({_words(f['diagnosis'])}): it was {f['how']}",
    "agent_error": lambda f: (
        f"{f.agent}: {_words(f['type']) or 'an error'}{f.tail('tool', ' in ')}{_times(f)}{f.tail('message')}"
    ),
    "screen_unknown": lambda f: (
        f"the screen of {f.agent} is not understood ({f['harness']}, tested with {f['tested'] or 'no version'})"
    ),
    "guard_denied": lambda f: (
        f"{f.agent} was denied ({f['severity']}) by {f['rule']}{_times(f)}: {f['command'] or f['tool'] or 'a call'}"
    ),
    "usage_recorded": lambda f: (
        f"{f'{f.agent} #' + f['incarnation'] if f['incarnation'] else 'the run'} has used {f['calls']} model calls:"
        f" {f['input_tokens']} tokens in, {f['output_tokens']} out, {f['cache_read_tokens']} from the cache"
    ),
    "person_called": lambda f: f"a person is needed for {f.agent}: {_words(f['diagnosis'])}{f.tail('advice', '; ')}",
    "provider_held": lambda f: f"the provider of {f['account']} refuses work: nobody is started for a while",
    "action_taken": lambda f: f"{f['action']} for {f.agent}: it was {_words(f['diagnosis'])}",
    "action_verified": lambda f: f"{f['action']} for {f.agent}: {_words(f['outcome'])}{f.tail('seen', ', ')}",
    "fleet_held": lambda f: f"nothing is done for now{f.tail('why')}",
    "phase_blocked": lambda f: f"phase {f['phase']} waits for its data{f.tail('reason')}",
    "self_check_failed": lambda f: f"self-check {f['check']} failed{f.tail('detail')}",
    "run_quiet": lambda f: f"the run has made no progress for {f.time('quiet_s')}",
    "context_low": lambda f: f"{f.agent} has used {f.share('used')} of its context",
    "context_compacted": lambda f: f"{f.agent} made its context shorter",
    "agent_nudged": lambda f: f"{f.agent} sat at its prompt with {f['subject'] or 'work'} open: nudged ({f['nudges']})",
    "dispatch_dropped": lambda f: f"{f['found']} of {f['expected']} dispatches were there; dropped: {f['tasks']}",
    "dispatch_miscounted": lambda f: f"the dispatches do not add up: {f['figures']}",
    "task_sent": lambda f: f"{f.agent} gave {f['task']} to {f['to']}: {f['outputs']} in {f.time('expect_s')}",
    "task_refused": lambda f: f"a task of {f.agent} for another was refused{f.tail('message')}",
    "task_dispatched": lambda f: f"{f['task']} was given to {f.agent} (attempt {f['attempt']})",
    "task_offered": lambda f: f"{f['task']} was offered to {f.agent}",
    "task_claimed": lambda f: f"{f.agent} took {f['task']}",
    "task_reported": lambda f: f"{f.agent} reported {f['task']} as {f['result']}{f.tail('note')}",
    "task_rescued": lambda f: f"{f.agent} wrote the outputs of {f['task']} without a report: rescued",
    "task_accepted": lambda f: f"{f['task']} of {f.agent} was accepted after {f.time('took_s')}",
    "task_returned": lambda f: f"{f['task']} goes back{f.tail('note')}",
    "task_released": lambda f: f"{f['task']} is open again{f.tail('note')}",
    "task_failed": lambda f: f"{f['task']} is given up{f.tail('note')}",
    "checkpoint_asked": lambda f: f"{f['reviewers']} asked to review {f['artifact']} ({f['checkpoint']} {f['round']})",
    "checkpoint_answered": lambda f: f"{f['by'] or f.agent} answered {f['checkpoint']}: {f['verdict']}{f.tail('note')}",
    "checkpoint_closed": lambda f: f"{f['checkpoint']} is {f['state']} in round {f['round']}{f.tail('notes')}",
    "checkpoint_reopened": lambda f: f"{f['checkpoint']} is open again: {f['by']} disagrees{f.tail('note')}",
    "subagent_started": lambda f: f"{f.agent} started a sub-agent, {f['type']}",
    "subagent_ended": lambda f: f"sub-agent {f['type']} of {f.agent} {_outlived(f)} after {f.time('seconds')}",
    "subagent_overdue": lambda f: (
        f"sub-agent {f['type']} of {f.agent} runs for {f.time('ran_s')} without output: {f.time('limit_s')} are allowed"
    ),
    "subagent_settled": lambda f: f"sub-agent {f['type']} of {f.agent}: {_words(f['how'])}{f.tail('note')}",
    "gate_started": lambda f: f"gate {f['gate']} was started",
    "gate_passed": lambda f: f"gate {f['gate']} passed",
    "gate_failed": lambda f: f"gate {f['gate']} failed{f.tail('reason')}",
    "message_sent": lambda f: f"{f['kind']} {f['subject']} for {f.agent} was queued by {f['sender']}",
    "message_held": lambda f: f"{f['message']} of {f.agent} for {f['to']} is held: version {f['version']} is not read",
    "message_delivered": lambda f: f"{f.agent} has the {f['kind']} {f['subject']}",
    "message_retried": lambda f: f"the {f['kind']} for {f.agent} did not arrive: typed again ({f['tries']})",
    "message_read": lambda f: f"{f.agent} read {f['message']}",
    "message_acknowledged": lambda f: f"{f.agent} acknowledged {f['message']}",
    "message_expired": lambda f: f"a {f['kind']} for {f.agent} #{f['incarnation']} expired",
    "instructions_changed": lambda f: f"the instructions of {f['role']} have changed from {f['from']} to {f['to']}",
    "instructions_read": lambda f: (
        f"{f.agent} has read version {f['version']} of its instructions, {f.time('seconds')} after it was told"
    ),
    "refresh_expired": lambda f: (
        f"{f.agent} has not read version {f['version']} of its instructions in time"
        f" (held: {f['held']}, so often: {f['count']})"
    ),
    "heartbeat_received": lambda f: f"{f.agent} is alive{_percent(f['progress_percent'])}{f.tail('task', ' on ')}",
    "request_refused": lambda f: f"{f.agent} was refused {f['op']}{f.tail('message')}",
    "alert_raised": lambda f: (
        f"{f.agent}: {_words(f['diagnosis'])}, quiet for {f.time('quiet_s')}: {f['action'] or 'waiting'} advised"
    ),
    "alert_withdrawn": lambda f: f"{f.agent} needs no {f['action']} any more{f.tail('why')}",
    "order_given": lambda f: f"the {f['by'] or 'operator'} asked to end {f['agent'] or 'the run'}{f.tail('cause')}",
    "check_in_asked": lambda f: f"{f.agent} was asked{f.tail('question')}",
    "check_in_answered": lambda f: f"the check-in of {f.agent} was answered: {f['message']} for {f['to']}",
    "check_in_failed": lambda f: f"the check-in of {f.agent} has no answer{f.tail('reason')}",
    "notice_sent": lambda f: f"a person was told{f.tail('title')}{f.tail('ways', ' (')}{')' * bool(f['ways'])}",
    "notice_failed": lambda f: f"nobody could be told{f.tail('title')}{f.tail('reason', '; ')}",
    "crew_started": lambda f: f"the {f['member']} started (pid {f['pid']})",
    "crew_revived": lambda f: f"the {f['member']} was revived (pid {f['pid']}, start {f['starts']})",
    "crew_lost": lambda f: f"the {f['member']} was found dead (pid {f['pid']}): it is started again",
    "crew_silent": lambda f: (
        f"the {f['member']} made no progress for {f.time('quiet_s')} and was ended (pid {f['pid']})"
    ),
}


def _outlived(facts: Facts) -> str:
    said = ", and disagrees," if facts["verdict"] == "disagree" else ""
    return f"{'was lost' if facts['how'] == 'lost' else 'ended'}{said}"


def _times(facts: Facts) -> str:
    """How often in a row, where it was more than once."""
    return f" ({facts['count']} times)" if facts["count"] not in ("", "1") else ""


def _words(text: str) -> str:
    return text.replace("_", " ")


def _percent(text: str) -> str:
    return f" ({text} % done)" if text else ""
