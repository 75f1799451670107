"""End a run, or one incarnation of an agent.

RUN ends the run as FAILED with you as the cause. RUN/AGENT ends that agent's current incarnation; the captain starts
the next one and gives it the open work. A queued run is taken out of the queue. The crew does it, so it must be alive:
`dogwatch up`.
"""

from __future__ import annotations

import argparse

from dogwatch.cli.fleet import keep_up, order, refuse_when_down, runs_of, wait_until
from dogwatch.cli.framework import open_ledger, print_json, the_home
from dogwatch.errors import AwayError, NotFoundError, RefusedError, UsageError
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.records import AgentRecord

EXAMPLE = "dogwatch kill overnight-1/writer"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="RUN[/AGENT]", help="an exact name, as dogwatch status shows it")
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="how long to wait for it (default 60)"
    )
    parser.add_argument("--json", action="store_true", help="print {run, agent, ended}")


def execute(arguments: argparse.Namespace) -> int:
    run, slash, agent = arguments.target.partition("/")
    if not run or (slash and not agent):
        raise UsageError(f"{arguments.target!r} names nothing exactly", hint="RUN, or RUN/AGENT; nothing was ended")
    home = the_home()
    ledger = open_ledger(home, reading=False)
    found = runs_of(ledger, [run])
    if not found:
        raise NotFoundError(f"there is no run {run!r}", hint="dogwatch status lists them; a name is never a prefix")
    if found[0].over:
        raise RefusedError(f"{run} is over already ({found[0].state})", hint="there is nothing left to end")
    before = _agent(ledger, run, agent) if agent else None
    if agent and before is None:
        raise NotFoundError(f"{run} has no agent {agent!r}", hint=f"dogwatch status {run} lists them")
    if agent and ledger.read(lambda r: r.get(keys.queued(run))) is not None:
        hint = f"dogwatch kill {run} takes it out of the queue"
        raise RefusedError(f"{run} is queued and has no living agents yet", hint=hint)
    if before is not None and before.is_given_up:
        raise RefusedError(f"{arguments.target} was given up already: {before.cause}", hint="it is not started again")
    refuse_when_down(ledger)
    keep_up(home, ledger)
    order(ledger, run, agent, "" if agent else "killed by the operator")

    def ended() -> bool:
        if before is not None:
            now = _agent(ledger, run, agent)
            return now is None or now.incarnation != before.incarnation
        return all(record.cleared for record in runs_of(ledger, [run]))

    if not wait_until(ledger, ended, arguments.wait):
        raise AwayError(
            f"{arguments.target} was not ended within {arguments.wait:g} s",
            hint="the order stands; see dogwatch events",
        )
    if arguments.json:
        print_json({"run": run, "agent": agent, "ended": True})
    else:
        print(f"{arguments.target}: ended" + (", its next incarnation is being started" if agent else ""))
    return 0


def _agent(ledger: Store, run: str, agent: str) -> AgentRecord | None:
    return ledger.read(lambda r: load(r, AgentRecord, keys.agent(run, agent)))
