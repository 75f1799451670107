"""Make a scenario for rehearsals from what the agents of a run have done.

It is read from what the clients' own hooks have told: for each message that dogwatch has sent, the tool calls that
followed it, and the last words. `dogwatch run SPEC --rehearse --scenario FILE` plays it again, and really makes these
calls: look through it before, for what should not be done twice. Tokens are redacted.
"""

from __future__ import annotations

import argparse
import os
import sys

from dogwatch.cli.framework import open_ledger, the_home
from dogwatch.cli.table import note, number
from dogwatch.errors import DogwatchError, NotFoundError, UsageError
from dogwatch.harness import harness
from dogwatch.ledger.records import load_run
from dogwatch.model import keys
from dogwatch.model.redact import Redactor, known_secrets
from dogwatch.model.spool import SpoolLine, parse
from dogwatch.model.view import RunView

EXAMPLE = "dogwatch record overnight-1 -o pipeline.rehearsal.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="an exact name; it may still go on")
    parser.add_argument("-o", "--output", default="", metavar="FILE", help="a new file (default: standard output)")
    parser.add_argument("--pace", action="store_true", help="keep the pauses that the models made before each call")


def execute(arguments: argparse.Namespace) -> int:
    from dogwatch.testing.model import parse as parse_scenario
    from dogwatch.testing.model.recording import Played, record
    from dogwatch.testing.model.rehearsal import as_yaml

    home = the_home()
    ledger = open_ledger(home)
    if ledger.read(lambda reader: reader.get(keys.run(arguments.run))) is None:
        raise NotFoundError(f"there is no run {arguments.run!r}", hint="dogwatch status lists all runs")
    view = ledger.read(lambda reader: load_run(reader, arguments.run))
    spools = {agent: _lines(home.spool(arguments.run, agent)) for agent in view.agents}
    played = [Played(agent, role, spools[agent]) for agent, role in _clients(view).items()]
    paths = {
        path: name
        for name, folder in (("DOGWATCH_OUTPUT", view.run.output), ("DOGWATCH_PROJECT", view.run.project))
        for path in (folder, os.path.realpath(folder))
    }
    redactor = Redactor(known_secrets(os.environ, *(role.environment for role in view.plan.roles)))
    recording = record(played, paths, redactor, pace=arguments.pace)
    for line in recording.notes:
        note(f"note: {line}")
    if not recording.scenario:
        raise DogwatchError(
            f"nothing of {arguments.run} could be recorded",
            hint="only clients with hooks tell what they do, and only of messages that they got",
        )
    parse_scenario(recording.scenario)
    comments = [f"Recorded from {arguments.run}: {number(recording.calls, 'tool call')}.", *recording.notes]
    text = "".join(f"# {line}\n" for line in comments)
    text += as_yaml(recording.scenario)
    _write(arguments.output, text)
    return 0


def _clients(view: RunView) -> dict[str, str]:
    """The agents whose clients talk to a model, with their roles."""
    roles = {role.name for role in view.plan.roles if harness(role.harness).package}
    return {agent.agent: agent.role for agent in view.agents.values() if agent.role in roles}


def _lines(path: str) -> list[SpoolLine]:
    try:
        with open(path, "rb") as file:
            return [line for raw in file if (line := parse(raw)) is not None]
    except OSError:
        return []


def _write(path: str, text: str) -> None:
    if not path:
        sys.stdout.write(text)
        return
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is there already", hint="-o names a new file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="-o names a new file") from error
