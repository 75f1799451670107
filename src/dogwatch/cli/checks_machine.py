"""The doctor's checks of the machine: Python, tmux, memory, namespaces, pidfds and the agents' own programs."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator

from dogwatch.actions import sandbox
from dogwatch.actions.spawn import HOOK
from dogwatch.cli.checks import ANSWER_S, Finding, answer, read_text, size
from dogwatch.harness import harness

PYTHON_MIN = (3, 11)
TMUX_MIN = (3, 2)
AVAILABLE_WARNING = 0.2
AGENT_PROGRAMS = ("claude", "codex", "opencode", "gemini")
_UNLIMITED = 1 << 60
_USER_NAMESPACES = "sysctl -w user.max_user_namespaces=15000 (and kernel.apparmor_restrict_unprivileged_userns=0)"


def machine_findings() -> Iterator[Finding]:
    """Everything that dogwatch needs or uses of the machine."""
    yield _python()
    yield _tmux()
    yield _memory()
    yield _swap()
    yield _pressure()
    yield _cgroup()
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


def _memory() -> Finding:
    known = _meminfo()
    total, available = known.get("MemTotal", 0), known.get("MemAvailable", 0)
    if not total or not available:
        return Finding("memory", "problem", "/proc/meminfo tells nothing", "mount /proc: memory zones are read from it")
    text = f"{size(available)} of {size(total)} available"
    if available / total < AVAILABLE_WARNING:
        return Finding("memory", "warning", text, "end what is not needed before starting agents")
    return Finding("memory", "ok", text)


def _swap() -> Finding:
    known = _meminfo()
    total = known.get("SwapTotal", 0)
    return Finding("swap", "ok", f"{size(known.get('SwapFree', 0))} of {size(total)} free" if total else "none")


def _meminfo() -> dict[str, int]:
    """The kernel's numbers, in bytes."""
    pairs = (line.partition(":") for line in read_text("/proc/meminfo").splitlines())
    return {name: int(value.split()[0]) * 1024 for name, _, value in pairs if value.split()[:1]}


def _pressure() -> Finding:
    line = read_text("/proc/pressure/memory").partition("\n")[0]
    if not line:
        return Finding("memory pressure", "warning", "the kernel has no PSI", "boot with psi=1 for the finest sensor")
    return Finding("memory pressure", "ok", line)


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
