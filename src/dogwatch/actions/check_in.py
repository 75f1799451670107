"""The one way to ask an agent's copy: a client of its own beside the agent, whose answer outlives the captain.

It is marked as a part of the run, and as nobody's process: it has no spool, no post box and no door.
"""

from __future__ import annotations

import os
import shutil

from dogwatch.actions import keeper, sandbox
from dogwatch.actions.kill import end_marked
from dogwatch.actions.spawn import agent_environment, is_sandboxed, launch_of
from dogwatch.errors import RefusedError
from dogwatch.harness import Start, harness
from dogwatch.harness.environment import agent_variables
from dogwatch.model.plan import Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.world.home import Home

LIMIT_S = 300.0
BYTES_MAX = 256 * 1024
_OWN = ("DOGWATCH_SPOOL", "DOGWATCH_POST", "DOGWATCH_DOOR")
"""What only the agent itself is told."""
_SHELL = ("sh", "-c", 'exec "$@" >"$0"')
"""Keeps what is printed apart from what is complained of."""


def start_of(home: Home, plan: Plan, agent: AgentRecord, question: str) -> tuple[Role, Start]:
    """The agent's role and how its copy is started; RefusedError where there is nothing that could be asked."""
    role = plan.role(agent.role)
    begin = harness(role.harness).check_in(launch_of(home, role, agent), question) if role is not None else None
    if role is None or begin is None:
        kind = f", a {role.harness}" if role is not None else ""
        raise RefusedError(
            f"{agent.agent}{kind}, has no conversation that could be asked",
            hint=f"dogwatch explain {agent.run}/{agent.agent} says what it is doing",
        )
    return role, begin


def start(
    home: Home, boot: str, run: RunRecord, plan: Plan, agent: AgentRecord, item: str, question: str, attempt: int
) -> ProcessId:
    """Starts the client that is asked; one of an earlier attempt, or of a captain that was killed, is ended."""
    role, begin = start_of(home, plan, agent, question)
    mark = f"check-in:{item}"
    end_marked(home, boot, run.run, mark)
    given = agent_variables(os.environ, harness(role.harness), role, rehearsal=run.stage is not None)
    told = {name: value for name, value in agent_environment(home, run, agent).items() if name not in _OWN}
    environment = {**given, **begin.environment, **role.environment, **told}
    environment |= {"DOGWATCH_ROLE": mark, "DOGWATCH_INCARNATION": str(attempt)}
    command = begin.command
    if is_sandboxed(role) and shutil.which(command[0], path=environment["PATH"]):
        command = sandbox.wrapped(home, run.run, "", command, begin.hidden, (run.project,))
    folder = home.check_in(run.run, item, attempt)
    command = (*_SHELL, f"{folder}/answer", *command)
    log = f"{folder}/log"
    return keeper.start(boot, folder, LIMIT_S, command, environment=environment, cwd=run.project, log=log)


def result(home: Home, run: str, item: str, attempt: int) -> tuple[int, str, str] | None:
    """The exit code, what was printed and what was complained of, or None where it has not finished."""
    folder = home.check_in(run, item, attempt)
    code = keeper.result(folder)
    return None if code is None else (code, _read(f"{folder}/answer"), _read(f"{folder}/log"))


def forget(home: Home, run: str, item: str, attempts: int) -> None:
    """The answer was sent: what was printed need not be kept."""
    for attempt in range(1, attempts + 1):
        shutil.rmtree(home.check_in(run, item, attempt), ignore_errors=True)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(BYTES_MAX).decode(errors="replace").replace("\0", "").strip()
    except FileNotFoundError:
        return ""
