"""The outermost ring around an agent: a namespace in which foreign processes and tmux servers do not exist.

Everything else stays as it is outside: network, home, project. DOGWATCH_HOME is read-only in it, but for the spool and
the post box of the agent itself.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

from dogwatch.world.home import Home

TRY_S = 10.0
_NAMESPACE = ("--dev-bind", "/", "/", "--ro-bind", "/sys", "/sys", "--proc", "/proc", "--unshare-pid")
_NO_MOUNTS = ("--cap-drop", "CAP_SYS_ADMIN")
"""Root could take the mounts away again. Others have no capabilities in there anyway."""


@functools.cache
def obstacle() -> str:
    """Why no sandbox can be made on this machine; empty where it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed"
    try:
        done = subprocess.run(
            [program, *_NAMESPACE, "--die-with-parent", "--", "/bin/sh", "-c", "test $$ -lt 10"],
            capture_output=True,
            timeout=TRY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be run: {error}"
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (words or ["bubblewrap makes no namespace of its own"])[0]


def wrapped(
    home: Home, run: str, agent: str, command: tuple[str, ...], hidden: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The command inside the sandbox. What is bound must exist before. Without an agent there is neither spool nor
    post box."""
    arguments = ["bwrap", *_NAMESPACE, "--die-with-parent", "--ro-bind", home.path, home.path]
    if os.getuid() == 0:
        arguments += _NO_MOUNTS
    if agent:
        spool, post = home.spool(run, agent), home.post(run, agent)
        os.makedirs(post, mode=0o700, exist_ok=True)
        os.close(os.open(spool, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
        arguments += ["--bind", spool, spool, "--bind", post, post]
    # A server that is started later would be seen through a folder that does not exist yet.
    servers = (home.sockets, f"{os.environ.get('TMUX_TMPDIR') or '/tmp'}/tmux-{os.getuid()}")  # noqa: S108
    for folder in (*servers, *hidden):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        arguments += ["--perms", "0700", "--tmpfs", folder]
    return (*arguments, "--", *command)


def holds(pid: int) -> bool:
    """Whether this process of ours is a sandbox."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() == "bwrap"
    except OSError:
        return False
