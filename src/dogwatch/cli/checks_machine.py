"""The doctor's checks of the machine: Python, tmux, memory, namespaces, pidfds and the agents' own programs."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator

from dogwatch.actions import sandbox
from dogwatch.actions.spawn import HOOK
from dogwatch.cli.checks import ANSWER_S, Finding, answer, read_text, size
from dogwatch.harness import harness
from dogwatch.world import groups
from dogwatch.world.memory import Memory, memory

PYTHON_MIN = (3, 11)
TMUX_MIN = (3, 2)
AVAILABLE_WARNING = 0.2
AGENT_PROGRAMS = ("claude", "codex", "opencode", "gemini")
_UNLIMITED = 1 << 60
_SYS_RESOURCE = 24
_USER_NAMESPACES = "sysctl -w user.max_user_namespaces=15000 (and kernel.apparmor_restrict_unprivileged_userns=0)"


def machine_findings() -> Iterator[Finding]:
    """Everything that dogwatch needs or uses of the machine."""
    yield _python()
    yield _tmux()
    yield from memory_findings(memory())
    yield _cgroup()
    yield _agent_memory()
    yield _expendable()
    yield _user_namespaces()
    yield _bubblewrap()
    yield _guard()
    yield _pidfd()
    yield from _agent_programs()


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info[:2] < PYTHON_MIN:
        return Finding("python", "problem", version, "install Python 3.11 or newer")
    return Finding("python", "ok", version)


def _tmux() -> Finding:
    fix = "apt-get install tmux (3.2 or newer)"
    if not shutil.which("tmux"):
        return Finding("tmux", "problem", "not installed", fix)
    code, line = answer(["tmux", "-V"])
    version = tmux_version(line)
    if code != 0 or version is None:
        return Finding("tmux", "problem", f"tmux -V: {line or f'exit code {code}'}", fix)
    return Finding("tmux", "ok" if version >= TMUX_MIN else "problem", line, "" if version >= TMUX_MIN else fix)


def tmux_version(line: str) -> tuple[int, int] | None:
    """From `tmux 3.3a` or `tmux next-3.5`; None for what is no version."""
    major, dot, minor = line.rpartition(" ")[2].rpartition("-")[2].partition(".")
    digits = minor[: len(minor) - len(minor.lstrip("0123456789"))]
    return (int(major), int(digits)) if dot and major.isdigit() and digits else None


def memory_findings(seen: Memory) -> Iterator[Finding]:
    """What the sensors of memory say, which of them are missing, and what the machine counts as."""
    yield _memory(seen)
    if seen.swap_total_bytes is None or seen.swap_free_bytes is None:
        yield Finding(
            "swap", "warning", "no sensor: /proc/meminfo does not tell", "mount /proc: zones are read from it"
        )
    else:
        free = f"{size(seen.swap_free_bytes)} of {size(seen.swap_total_bytes)} free"
        yield Finding("swap", "ok", free if seen.swap_total_bytes else "none")
    if seen.pressure_some_percent is None:
        yield Finding("memory pressure", "warning", "no sensor: the kernel has no PSI", "boot with psi=1 for it")
    else:
        full = f", all of them {seen.pressure_full_percent:g} %" if seen.pressure_full_percent is not None else ""
        yield Finding("memory pressure", "ok", f"some waited {seen.pressure_some_percent:g} % of the time{full}")


def _memory(seen: Memory) -> Finding:
    if not seen.size_bytes or seen.left_bytes is None:
        return Finding("memory", "problem", "/proc/meminfo tells nothing", "mount /proc: memory zones are read from it")
    text = f"{size(seen.left_bytes)} of {size(seen.size_bytes)} available"
    if seen.limit_bytes is not None and seen.total_bytes is not None:
        text += f": a control group's limit counts as the machine, which has {size(seen.total_bytes)}"
    if seen.left_bytes / seen.size_bytes < AVAILABLE_WARNING:
        return Finding("memory", "warning", text, "end what is not needed before starting agents")
    return Finding("memory", "ok", text)


def _cgroup() -> Finding:
    """Which kind of control group limits this process's memory, if any."""
    for line in read_text("/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            return Finding("cgroup", "ok", f"v2, {_limit(f'/sys/fs/cgroup{path}/memory.max')}")
        if "memory" in controllers.split(","):
            return Finding("cgroup", "ok", f"v1, {_limit(f'/sys/fs/cgroup/memory{path}/memory.limit_in_bytes')}")
    fix = "mount a cgroup file system to keep one agent's memory from taking others along"
    return Finding("cgroup", "warning", "none", fix)


def _limit(path: str) -> str:
    text = read_text(path).strip()
    if not text.isdigit():
        return "no memory limit"
    return f"memory limit {size(int(text))}" if int(text) < _UNLIMITED else "no memory limit"


def _agent_memory() -> Finding:
    """Whether each agent can have a limit of its own."""
    place = groups.place()
    if place.obstacle:
        return Finding("agent memory", "warning", f"no limit for agents: {place.obstacle}", place.fix)
    return Finding("agent memory", "ok", f"each agent can have a limit (v{place.version}, in {place.folder})")


def _expendable() -> Finding:
    """Whom the kernel takes when memory runs out. It is no fault that only root may put itself last."""
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", read_text("/proc/self/status"), re.MULTILINE)
    may = capabilities is not None and bool(int(capabilities[1], 16) >> _SYS_RESOURCE & 1)
    last = "the crew last" if may else "the crew like others (it lacks CAP_SYS_RESOURCE)"
    return Finding("out of memory", "ok", f"the kernel takes agents and gates first, {last}")


def _user_namespaces() -> Finding:
    code, line = answer(["unshare", "--user", "true"])
    if code == 0:
        return Finding("user namespaces", "ok", "work")
    return Finding("user namespaces", "warning", line or "do not work", _USER_NAMESPACES)


def _bubblewrap() -> Finding:
    if not shutil.which("bwrap"):
        return Finding("bubblewrap", "warning", "not installed: agents run without a sandbox", "install bubblewrap")
    obstacle = sandbox.obstacle()
    if not obstacle:
        return Finding("bubblewrap", "ok", "works: agents can live in a namespace of their own")
    return Finding("bubblewrap", "warning", f"does not work: {obstacle}", _USER_NAMESPACES)


def _guard() -> Finding:
    """Whether the hook denies what it must and passes what it may, as a client runs it."""
    with tempfile.TemporaryDirectory(prefix="dogwatch-doctor-") as folder:
        for command, wanted in (("tmux kill-server", 2), ("ls", 0)):
            path = f"{folder}/call"
            call = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": folder}
            with open(path, "w", encoding="utf-8") as file:
                json.dump(call, file, separators=(",", ":"))
            words = [sys.executable, "-I", "-S", HOOK, "PreToolUse", "alone"]
            code, line = answer(["sh", "-c", f"exec {shlex.join(words)} < {shlex.quote(path)}"])
            if code != wanted:
                fault = f"`{command}` gets exit code {code} instead of {wanted}: {line}"
                return Finding("guard", "problem", fault, "install dogwatch again")
    return Finding("guard", "ok", "fires: its hook denies tmux kill-server and passes ls")


def _pidfd() -> Finding:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        fix = "Linux 5.3 or newer is needed, and no seccomp filter that forbids pidfd_open"
        return Finding("pidfd", "problem", f"does not work: {error.strerror}", fix)
    return Finding("pidfd", "ok", "works")


def _agent_programs() -> Iterator[Finding]:
    """Each program is asked for its version with a home of its own, lest it writes into the user's."""
    found = {name: path for name in AGENT_PROGRAMS if (path := shutil.which(name))}
    with tempfile.TemporaryDirectory(prefix="dogwatch-doctor-", ignore_cleanup_errors=True) as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        for name, path in found.items():
            code, line = answer([path, "--version"], {**kept, "HOME": folder})
            if code == 0:
                yield Finding(name, "ok", f"{line} ({path}), tested with {harness(name).version}")
            else:
                fix = f"run {name} --version by hand; it must answer within {ANSWER_S:g} s"
                yield Finding(name, "warning", f"{path}: {line or f'exit code {code}'}", fix)
    if not found:
        text = f"none of {', '.join(AGENT_PROGRAMS)} is on PATH"
        yield Finding("agent programs", "warning", text, "install one; pipelines of commands and scripts work without")
