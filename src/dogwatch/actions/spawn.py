"""The one way to start an agent: a session of its own on the run's own tmux server, its command exec'ed directly.

The captain records the intent before and the result after. Between the two it may be killed: a session that is
there already with this incarnation's mark is then adopted, so that no agent is started twice.
"""

from __future__ import annotations

import compileall
import contextlib
import errno
import os
import secrets
import shutil
import stat
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dogwatch.actions import confine, postbox, sandbox
from dogwatch.actions.kill import end_marked, end_session, exact
from dogwatch.actions.registry import register
from dogwatch.errors import DogwatchError, RefusedError
from dogwatch.guard.wrapper import NAMES
from dogwatch.harness import Launch, harness
from dogwatch.harness.environment import agent_variables, starting
from dogwatch.model.plan import Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.world import tmux
from dogwatch.world.home import Home
from dogwatch.world.processes import identify

COLUMNS, ROWS = 160, 48
_SERVER_OPTIONS = (
    ("-s", "exit-empty", "off"),
    ("-g", "remain-on-exit", "on"),
    ("-g", "default-size", f"{COLUMNS}x{ROWS}"),
    ("-g", "status", "off"),
    ("-g", "history-limit", "10000"),
    ("-s", "escape-time", "10"),
)


HOOK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guard", "hook.py")
_CONFINED = '[ -z "$0" ] || echo 0 2>/dev/null >"$0/cgroup.procs"; '
_EXPENDABLE = ("sh", "-c", f'{_CONFINED}echo {confine.EXPENDABLE} 2>/dev/null >/proc/self/oom_score_adj; exec "$@"')
"""The agent enters its own group before it is anything else. When memory runs out, the kernel shall take the agent that
has it, and neither the tmux server nor the crew."""
PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What the machine lacks for a while; nothing that is wrong with the agent."""
_CONVERSATIONS = uuid.UUID("6f1f7a52-4f5e-4a66-9d0c-5f0f3a0f5b1e")


class SpawnFailedError(DogwatchError):
    """An agent could not be started."""

    code = "spawn_failed"


@dataclass(frozen=True, slots=True)
class Spawned:
    """A started agent; `adopted` where an earlier attempt had started it already."""

    process: ProcessId
    pane: str
    server: ProcessId | None
    adopted: bool
    sandboxed: bool = False
    limit_bytes: int = 0
    """The kernel's limit for the memory of all its processes; 0 where there is none."""


def spawn(home: Home, boot: str, run: RunRecord, plan: Plan, agent: AgentRecord, limit_bytes: int = 0) -> Spawned:
    """Starts this incarnation of the agent, or finds it started. `limit_bytes` is for its memory; 0 for no limit."""
    try:
        return _spawn(home, boot, run, plan, agent, limit_bytes)
    except OSError as error:
        if error.errno in PASSING:
            raise
        # What is wrong with one agent's folders is no fault of the others.
        raise SpawnFailedError(
            f"{agent.session}: {error}", hint="dogwatch doctor checks the folders that agents need"
        ) from error


def _spawn(home: Home, boot: str, run: RunRecord, plan: Plan, agent: AgentRecord, limit_bytes: int) -> Spawned:
    role = plan.role(agent.role)
    if role is None:
        raise RefusedError(
            f"{agent.agent!r} is no agent of {plan.name}: it has no role {agent.role!r}",
            hint="only agents with a role of the pipeline file are started",
        )
    socket = home.tmux(run.run)
    present = tmux.session_incarnation(socket, agent.session)
    if present is not None and present > agent.incarnation:
        raise RefusedError(f"{agent.session} is held by incarnation {present} already, {agent.incarnation} is refused")
    if present == agent.incarnation:
        return _found(home, socket, boot, agent)
    if present is not None:
        end_session(socket, agent.session)
    # Tools outlive their client: whatever an earlier incarnation left behind would work against this one.
    end_marked(home, boot, run.run, agent.agent, before=agent.incarnation)
    confine.release(home, boot, run.run, agent.agent, before=agent.incarnation)
    marks = {name: value for name, value in agent_environment(home, run, agent).items() if name.startswith("DOGWATCH_")}
    launch = launch_of(home, role, agent, marks)
    postbox.empty(home.post(run.run, agent.agent))
    start = harness(role.harness).start(launch)
    for path, text in start.files.items():
        write_whole(path, text)
    for path, target in start.links.items():
        _link(path, target)
    given = agent_variables(os.environ, harness(role.harness), role, rehearsal=run.stage is not None)
    environment = {**given, **start.environment, **role.environment, **agent_environment(home, run, agent)}
    command = start.command
    # A program that is not there says so by itself, and not in the words of a sandbox.
    sandboxed = is_sandboxed(role) and shutil.which(command[0], path=environment["PATH"]) is not None
    if sandboxed:
        work = (run.project, run.output)
        command = sandbox.wrapped(
            home, run.run, agent.agent, command, start.hidden, work, start.kept, tuple(start.files)
        )
    words, hidden = starting(environment, f"{launch.folder}/variables")
    if hidden:
        write_whole(f"{launch.folder}/variables", hidden)
    group = confine.confine(home, run.run, agent.agent, agent.incarnation, limit_bytes)
    _start(socket, run, agent, [*words, *_EXPENDABLE, group, *command])
    return replace(_found(home, socket, boot, agent), adopted=False, sandboxed=sandboxed)


def launch_of(home: Home, role: Role, agent: AgentRecord, marks: Mapping[str, str] = {}) -> Launch:
    """What the agent's client is started with; `marks` tell its hooks whose they are."""
    folder = home.agent(agent.run, agent.agent)
    conversation = str(uuid.uuid5(_CONVERSATIONS, f"{home.path}\n{agent.run}\n{agent.agent}\n{agent.conversation}"))
    return Launch(
        role=role,
        python=sys.executable,
        hook=HOOK,
        folder=folder,
        conversation=conversation,
        marks=dict(marks),
        spool=home.spool(agent.run, agent.agent),
        sandboxed=is_sandboxed(role),
    )


def is_sandboxed(role: Role) -> bool:
    """Whether agents of this role live in a namespace of their own; RefusedError where they must and cannot."""
    wanted = role.sandbox or harness(role.harness).sandbox
    if wanted == "strict" and (obstacle := sandbox.obstacle()):
        raise RefusedError(
            f"the role {role.name} asks for a sandbox, and there is none: {obstacle}",
            hint="apt-get install bubblewrap; or sandbox: auto",
        )
    return wanted != "off" and not sandbox.obstacle()


def dismiss(home: Home, boot: str, agent: AgentRecord) -> None:
    """Ends an agent that is not started again, with whatever it has started."""
    end_session(home.tmux(agent.run), agent.session)
    end_marked(home, boot, agent.run, agent.agent)
    confine.release(home, boot, agent.run, agent.agent)


def agent_environment(home: Home, run: RunRecord, agent: AgentRecord) -> dict[str, str]:
    """What every agent is told about itself."""
    return {
        "DOGWATCH_HOME": home.path,
        "DOGWATCH_RUN": run.run,
        "DOGWATCH_ROLE": agent.agent,
        "DOGWATCH_INCARNATION": str(agent.incarnation),
        "DOGWATCH_SLUG": agent.name,
        "DOGWATCH_PROJECT": run.project,
        "DOGWATCH_OUTPUT": run.output,
        "DOGWATCH_DOOR": home.door(run.run),
        "DOGWATCH_SPOOL": home.spool(run.run, agent.agent),
        "DOGWATCH_POST": home.post(run.run, agent.agent),
        "PATH": f"{home.bin}:{os.environ.get('PATH', os.defpath)}",
    }


def write_programs(home: Home) -> None:
    """Puts a `dogwatch` first on every agent's PATH, whichever way this one was installed, and before the programs that
    end others a look at what they are asked to do."""
    write_whole(f"{home.bin}/dogwatch", f'#!/bin/sh\nexec "{sys.executable}" -m dogwatch "$@"\n', mode=0o700)
    # A sandbox cannot write there: without this each hook would compile the guard anew.
    compileall.compile_dir(os.path.dirname(HOOK), maxlevels=0, quiet=2)
    wrapper = os.path.join(os.path.dirname(HOOK), "wrapper.py")
    for name in NAMES:
        text = f'#!/bin/sh\nexec "{sys.executable}" -I -S "{wrapper}" "{home.bin}" {name} "$@"\n'
        write_whole(f"{home.bin}/{name}", text, mode=0o700)


def write_whole(path: str, text: str, mode: int = 0o600) -> None:
    """The file with this text, whole or not at all; one that has it already is left alone. Its agent may write in the
    same folder: a link or a pipe that it has laid there is neither followed nor waited for."""
    data = text.encode("utf-8")
    if _has(path, data):
        return
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{secrets.token_hex(8)}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            os.fchmod(fd, mode)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _has(path: str, data: bytes) -> bool:
    """Whether this is a plain file with just these bytes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # where it cannot be written either, that is said then
    with open(fd, "rb") as file:
        about = os.fstat(fd)
        return stat.S_ISREG(about.st_mode) and about.st_size == len(data) and file.read() == data


def _link(path: str, target: str) -> None:
    """A link to the target; whatever the client has put there in its place stays."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if os.path.islink(path) and os.readlink(path) != target:
        os.unlink(path)
    with contextlib.suppress(FileExistsError):
        os.symlink(target, path)


def _start(socket: str, run: RunRecord, agent: AgentRecord, command: Sequence[str]) -> None:
    # The server is started by a call of its own: what its first call says stays visible in the list of processes.
    settings = ["start-server"]
    for option in _SERVER_OPTIONS:
        settings += [";", "set-option", *option]
    tmux.run(socket, *settings)
    arguments = ["new-session", "-d", "-s", agent.session, "-x", str(COLUMNS), "-y", str(ROWS), "-c", run.project]
    arguments += ["-e", f"{tmux.SESSION_MARK}={agent.incarnation}"]
    # The command sets its variables itself, without tmux's own, and becomes the agent. Set for the session, they would
    # mark a person's shell in it too, and tmux would put in a PATH of its own.
    arguments += ["--", *command]
    # Set for the window, after it is made: as a global option it crashes a tmux 3.3a server.
    arguments += [";", "set-option", "-w", "-t", exact(agent.session), "window-size", "manual"]
    done = tmux.run(socket, *arguments)
    if done.returncode != 0 and b"duplicate session" not in done.stderr:
        raise SpawnFailedError(
            f"{agent.session}: tmux could not start it: {done.stderr.decode(errors='replace').strip()}",
            hint="dogwatch doctor checks tmux and its socket folder",
        )


def _found(home: Home, socket: str, boot: str, agent: AgentRecord) -> Spawned:
    """The agent that runs in the session, now in the registry too."""
    pane = next((pane for pane in tmux.panes(socket) if pane.session == agent.session), None)
    if pane is None:
        raise SpawnFailedError(
            f"{agent.session}: its session ended at once", hint="dogwatch logs shows the captain's log"
        )
    # A process that is dead already has no start time any more; zero matches no process, so it counts as dead.
    process = identify(pane.pid, boot) or ProcessId(boot, pane.pid, 0)
    register(home, agent, process)
    limit = confine.limit_of(home, agent, process)
    return Spawned(process, pane.id, identify(pane.server, boot), True, sandbox.holds(process.pid), limit)
