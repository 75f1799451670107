"""Ask an agent how far it is, without disturbing it.

A second client without a terminal gets the agent's conversation so far, may only read, answers the one question and
ends; the agent works on meanwhile. Its last message is printed here, and becomes mail: in the agent's own inbox, or
in that of another agent of the run. It is asked by the captain, which must be alive: `dogwatch up`.
"""

from __future__ import annotations

import argparse
from functools import partial

from dogwatch.actions.check_in import LIMIT_S, start_of
from dogwatch.cli.fleet import keep_up, refuse_when_down, runs_of, wait_until
from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.cli.table import clean
from dogwatch.coordination.orders import ask_agent
from dogwatch.errors import AwayError, DogwatchError, NotFoundError, RefusedError, UsageError
from dogwatch.ledger.api import Store, StoredEvent
from dogwatch.ledger.records import load, load_run
from dogwatch.model import keys
from dogwatch.model.keys import checkins_queue
from dogwatch.model.records import MessageRecord

EXAMPLE = 'dogwatch check-in overnight-1/writer "How far are you, and what is missing?"'
QUESTION_CHARACTERS_MAX = 4000
WAIT_S = LIMIT_S + 30.0
RECENT = 100


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="RUN/AGENT", help="an exact name, as dogwatch status shows it")
    parser.add_argument("question", metavar="QUESTION", help="what is asked, as one argument")
    parser.add_argument("--to", default="", metavar="AGENT", help="whose inbox gets the answer (default: its own)")
    parser.add_argument(
        "--wait", type=float, default=WAIT_S, metavar="SECONDS", help=f"how long to wait for it (default {WAIT_S:g})"
    )
    parser.add_argument("--json", action="store_true", help="print {run, agent, to, message, answered, text}")


def execute(arguments: argparse.Namespace) -> int:
    run, _, agent = arguments.target.partition("/")
    question = arguments.question.strip()
    if not run or not agent:
        raise UsageError(f"{arguments.target!r} names no agent", hint="RUN/AGENT, as dogwatch status shows them")
    if not question or len(question) > QUESTION_CHARACTERS_MAX or "\0" in question:
        raise UsageError(f"a question has 1 to {QUESTION_CHARACTERS_MAX} characters", hint="put it into quotes")
    home = the_home()
    ledger = open_ledger(home, reading=False)
    found = runs_of(ledger, [run])
    if not found:
        raise NotFoundError(f"there is no run {run!r}", hint="dogwatch status lists them; a name is never a prefix")
    if found[0].over:
        raise RefusedError(f"{run} is over ({found[0].state})", hint=f"dogwatch events {run} tells what happened")
    view = ledger.read(lambda r: load_run(r, run))
    to = arguments.to or agent
    for name in (agent, to):
        if name not in view.agents:
            raise NotFoundError(f"{run} has no agent {name!r}", hint=f"dogwatch status {run} lists them")
    if view.agents[view.current(to)].is_given_up:
        raise RefusedError(f"{to} was given up and reads no mail", hint="--to AGENT names another one")
    start_of(home, view.plan, view.agents[agent], question)
    refuse_when_down(ledger)
    keep_up(home, ledger)
    item = ledger.run(partial(ask_agent, run=run, agent=agent, to=to, question=question))

    def is_settled() -> bool:
        waiting = [one.id for one in ledger.read(lambda r: r.items(checkins_queue(run)))]
        return item not in waiting or all(record.over for record in runs_of(ledger, [run]))

    if not wait_until(ledger, is_settled, arguments.wait):
        late = f"{arguments.target} has not answered within {arguments.wait:g} s"
        raise AwayError(late, hint="the question stands, and its answer becomes mail")
    event = _outcome(ledger, run, item)
    if event is None:
        raise RefusedError(f"{run} ended before it was answered", hint=f"dogwatch events {run} tells what happened")
    return _show(ledger, event, run, agent, as_json=arguments.json)


def _outcome(ledger: Store, run: str, item: str) -> StoredEvent | None:
    kinds = ("check_in_answered", "check_in_failed")
    recent = ledger.read(lambda r: r.recent(RECENT, run, kinds))
    return next((event for event in recent if event.body["check_in"] == item), None)


def _show(ledger: Store, event: StoredEvent, run: str, agent: str, *, as_json: bool) -> int:
    places = [of(run, str(event.body["message"])) for of in (keys.message, keys.past_message)]
    letter = ledger.read(lambda r: next((one for key in places if (one := load(r, MessageRecord, key))), None))
    text = letter.body if letter is not None else ""
    answered = event.kind == "check_in_answered"
    if as_json:
        told = {"run": run, "agent": agent, "to": event.body["to"], "message": event.body["message"]}
        print_json({**told, "answered": answered, "text": text})
        return 0 if answered else DogwatchError.exit_code
    # Of a failure the first line says what the error says, and below it stand the client's last words.
    for line in text.splitlines()[0 if answered else 1 :]:
        print(clean(line))
    if not answered:
        reason = f"{run}/{agent} has no answer: {event.body['reason']}"
        raise DogwatchError(reason, hint=f"dogwatch explain {run}/{agent} says what it is doing")
    return 0
