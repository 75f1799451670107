"""Sets the stage for a rehearsal: a copy of the project, homes for the clients, a scenario, a port for the model."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from dogwatch.actions.stage import scenario_of
from dogwatch.errors import RefusedError, UsageError
from dogwatch.harness import harness
from dogwatch.harness.environment import rehearsed
from dogwatch.model.plan import Plan, Role
from dogwatch.model.records import Stage
from dogwatch.values import dataclass
from dogwatch.world.files import failed_check
from dogwatch.world.home import Home

BYTES_MAX = 1024 * 1024 * 1024
ENTRIES_MAX = 100_000
PORTS = range(20_000, 30_000)
"""Below those that the kernel gives to whoever asks for any: nobody gets it while the model is started again."""
NEIGHBOUR = ".rehearsal.yaml"
"""How the scenario of a pipeline file is called that lies beside it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a rehearsal is run with, and what should be said of it before."""

    plan: Plan
    project: str
    stage: Stage
    notes: tuple[str, ...] = ()


def scenario_for(spec: str, wanted: str) -> str:
    """The scenario's file: the one that is wanted, or that of the pipeline file; empty where there is none."""
    if wanted:
        return os.path.abspath(wanted)
    beside = os.path.splitext(os.path.abspath(spec))[0] + NEIGHBOUR
    return beside if os.path.exists(beside) else ""


def set_stage(home: Home, plan: Plan, project: str, scenario: str = "", in_place: bool = False) -> Scene:
    """Makes all that a rehearsal needs; what was made is gone again where something cannot be."""
    notes = list(_doubts(plan))
    if not in_place:
        _measure(project, home)
    os.makedirs(home.rehearsals, mode=0o700, exist_ok=True)
    stage = Stage(folder=tempfile.mkdtemp(prefix=f"{plan.name}-", dir=home.rehearsals), port=_free_port())
    try:
        if not in_place:
            project = _copy(project, f"{stage.folder}/project", home)
        notes += _write_scenario(plan, scenario, stage)
        roles = tuple(_playing(role, stage, project) for role in plan.roles)
    except BaseException:
        shutil.rmtree(stage.folder, ignore_errors=True)
        raise
    # Nobody is to be called out of bed by a rehearsal.
    quiet = replace(plan.notify, on=())
    return Scene(replace(plan, roles=roles, notify=quiet), project, stage, tuple(notes))


def _playing(role: Role, stage: Stage, project: str) -> Role:
    """The role as it plays; one that talks to no model plays as it is. By its URL the model knows who it is."""
    client = harness(role.harness)
    home = f"{stage.folder}/homes/{role.name}"
    found = client.rehearsal(home, project, f"http://127.0.0.1:{stage.port}/{role.name}")
    if not found.environment:
        if client.package:
            raise RefusedError(f"{client.name} cannot be rehearsed", hint=f"give {role.name} another harness")
        return role
    os.makedirs(home, mode=0o700)
    for path, text in found.files.items():
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return rehearsed(role, client, found.environment)


def _doubts(plan: Plan) -> Iterator[str]:
    """What may not be as the user thinks it is."""
    for role in plan.roles:
        if role.harness == "command":
            yield f"{role.name} is a plain command: it runs as it is, with whatever it calls"
        elif harness(role.harness).package and not role.permissions:
            yield f"{role.name} has no permissions of its own: its client, in a new home, may ask before each command"


def _write_scenario(plan: Plan, given: str, stage: Stage) -> list[str]:
    """Puts the scenario onto the stage, so that a change of the file changes no rehearsal that goes on."""
    from dogwatch.testing.model import load
    from dogwatch.testing.model.rehearsal import as_yaml, built_in, checks_of, content

    if given:
        load(given)
        if given.endswith(".json"):
            with open(given, encoding="utf-8") as source, open(scenario_of(stage), "w", encoding="utf-8") as target:
                target.write(source.read())  # JSON is YAML
        else:
            shutil.copyfile(given, scenario_of(stage))
        return []
    with open(scenario_of(stage), "w", encoding="utf-8") as file:
        file.write(as_yaml(built_in(plan)))
    notes = []
    checks = list(checks_of(plan))
    with tempfile.TemporaryDirectory(dir=stage.folder) as folder:
        for check in checks:
            path = os.path.join(folder, check.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                same = [one for one in checks if one.path == check.path]
                file.write(content(check.path, 1, same, f"This is {check.path}."))
            if reason := failed_check(folder, check)[0]:
                notes.append(f"the built-in scenario cannot write what is checked: {reason}; give one with --scenario")
    return notes


def _free_port() -> int:
    for port in random.sample(PORTS, 50):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise UsageError("no port is free for the scripted model", hint=f"it takes one from {PORTS[0]} to {PORTS[-1]}")


def _measure(project: str, home: Home) -> None:
    """RefusedError where the project is too large to be copied."""
    size = entries = 0
    for here, folders, files in os.walk(project):
        folders[:] = [name for name in folders if not _is_ours(os.path.join(here, name), home)]
        entries += len(folders) + len(files)
        for name in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(here, name)).st_size
        if size > BYTES_MAX or entries > ENTRIES_MAX:
            raise RefusedError(
                f"{project} is too large to be copied for a rehearsal: more than"
                f" {BYTES_MAX // 1024**3} GB or {ENTRIES_MAX:,} files",
                hint="--project names a smaller folder; --in-place lets the agents work on the real one",
            )


def _copy(project: str, target: str, home: Home) -> str:
    """The project as it lies there, links as links; sockets and pipes are left out, and dogwatch's own folders."""

    def ignored(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if _is_left_out(os.path.join(folder, name), home)}

    try:
        shutil.copytree(project, target, symlinks=True, ignore=ignored, ignore_dangling_symlinks=True)
    except (OSError, shutil.Error) as error:
        message = f"{project} cannot be copied for a rehearsal: {_first(error)}"
        raise RefusedError(message, hint="--in-place lets the agents work on the real one") from error
    return target


def _is_left_out(path: str, home: Home) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return True
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)) or _is_ours(path, home)


def _is_ours(path: str, home: Home) -> bool:
    return os.path.realpath(path) in (home.path, home.rehearsals)


def _first(error: Exception) -> str:
    """The first of what may be many reasons."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        return str(error.args[0][0][-1])
    return str(error)
