"""Look at an agent's terminal, or a crew member's live log.

RUN/AGENT shows the agent's own screen, read-only unless --write is given; Ctrl-b d leaves it and the agent goes on.
RUN/captain, RUN/watchdog and dispatcher show the live log, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys

from dogwatch.cli.following import is_terminal
from dogwatch.cli.framework import open_ledger, the_home
from dogwatch.cli.logs import log_files, show
from dogwatch.errors import AwayError, MissingToolError, NotFoundError, UsageError
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.world import tmux
from dogwatch.world.home import Home

EXAMPLE = "dogwatch attach overnight-1/writer"
CREW = ("captain", "watchdog")
LOG_LINES = 40


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="RUN/AGENT", help="an agent, RUN/captain, RUN/watchdog or dispatcher")
    parser.add_argument("--write", action="store_true", help="also type; the agent takes it for its own input")


def execute(arguments: argparse.Namespace) -> int:
    home = the_home()
    run, _, agent = arguments.target.partition("/")
    if arguments.target == "dispatcher":
        show(log_files(home, "", ""), LOG_LINES, follow=True, raw=False)
        return 0
    if not run or not agent:
        raise UsageError(f"{arguments.target!r} names no agent", hint="for example overnight-1/writer, or dispatcher")
    session = _session(home, run, agent)
    if not session:
        show(log_files(home, run, agent), LOG_LINES, follow=True, raw=False)
        return 0
    return _attach(home.tmux(run), session, arguments.target, write=arguments.write)


def _session(home: Home, run: str, agent: str) -> str:
    """The agent's session, or empty where a crew member is meant."""
    ledger = open_ledger(home)
    record = ledger.read(lambda r: load(r, AgentRecord, keys.agent(run, agent)))
    if record is not None:
        return record.session
    if ledger.read(lambda r: load(r, RunRecord, keys.run(run))) is None:
        raise NotFoundError(f"there is no run {run!r}", hint="dogwatch status lists all runs")
    if agent not in CREW:
        raise NotFoundError(f"{run} has no agent {agent!r}", hint=f"dogwatch status {run} lists them")
    return ""


def _attach(socket: str, session: str, target: str, *, write: bool) -> int:
    """Becomes the tmux client. TMUX is unset, so that it also works from within the user's own tmux."""
    try:
        found = tmux.run(socket, "has-session", "-t", f"={session}:").returncode == 0
    except tmux.ProbeFailedError as error:
        raise AwayError(f"the run's tmux server does not answer: {error}", hint="try again in a few seconds") from None
    if not found:
        run = target.partition("/")[0]
        raise NotFoundError(f"{target} has no session now", hint=f"dogwatch status {run} shows what became of it")
    if not is_terminal():
        raise UsageError("attach needs a terminal", hint="dogwatch events and dogwatch logs work without one")
    environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    mode = [] if write else ["-r"]
    argv = ["tmux", "-S", socket, "-f", "/dev/null", "attach-session", *mode, "-t", f"={session}:"]
    sys.stdout.flush()
    try:
        os.execvpe("tmux", argv, environment)  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        raise MissingToolError("tmux is not installed", hint="apt-get install tmux") from None
