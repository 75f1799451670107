"""The outermost ring around an agent: a namespace in which foreign processes and tmux servers do not exist.

Everything else stays as it is outside: network, home, project. DOGWATCH_HOME is read-only in it, but for the spool and
the post box of the agent itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess

from dogwatch.world.home import Home

TRY_S = 10.0
_NAMESPACE = ("--dev-bind", "/", "/", "--ro-bind", "/sys", "/sys", "--proc", "/proc", "--unshare-pid")
_NO_MOUNTS = ("--cap-drop", "CAP_SYS_ADMIN")
"""Root could take the mounts away again. Others have no capabilities in there anyway."""
CODE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""Where dogwatch itself lies: its guard must not be changed."""
_MADE = re.compile(r"pts|ptmx|tty\d*|vcs.*|null|zero|full|u?random|console|core|fd|std(?:in|out|err)")
"""What bubblewrap makes itself, and consoles."""
SSH_INCLUDES = "/etc/ssh/ssh_config.d"
"""In a user's namespace root's files seem to be nobody's, and ssh refuses to run where one of these is."""


@functools.cache
def obstacle() -> str:
    """Why no sandbox can be made on this machine; empty where it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed"
    try:
        done = subprocess.run(
            [program, *_NAMESPACE, *_devices(), "--die-with-parent", "--", "/bin/sh", "-c", "test $$ -lt 10"],
            capture_output=True,
            timeout=TRY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be run: {error}"
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (words or ["bubblewrap makes no namespace of its own"])[0]


def wrapped(
    home: Home,
    run: str,
    agent: str,
    command: tuple[str, ...],
    hidden: tuple[str, ...] = (),
    work: tuple[str, ...] = (),
    kept: tuple[str, ...] = (),
    fixed: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The command inside the sandbox. What is bound must exist before. Without an agent there is neither spool nor
    post box. `work` is where the agent writes: it may lie in DOGWATCH_HOME, or hold dogwatch's own code. In the folders
    `kept`, in DOGWATCH_HOME, its client may write, but for the files that are `fixed`."""
    arguments = ["bwrap", *_NAMESPACE, *_devices(), "--die-with-parent", "--ro-bind", home.path, home.path]
    if not any(_is_in(CODE, folder) for folder in work):
        arguments += ["--ro-bind", CODE, CODE]
    own = (f"{home.path}/runs", home.bin, home.sockets)
    for folder in map(os.path.realpath, work):
        if _is_in(folder, home.path) and not any(_is_in(one, folder) or _is_in(folder, one) for one in own):
            arguments += ["--bind", folder, folder]
    if os.getuid() == 0:
        arguments += _NO_MOUNTS
    elif os.path.isdir(SSH_INCLUDES):
        arguments += ["--tmpfs", SSH_INCLUDES]
    if agent:
        spool, post = home.spool(run, agent), home.post(run, agent)
        os.makedirs(post, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(spool, 0o600)  # an earlier incarnation may have locked us out
        os.close(os.open(spool, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
        arguments += ["--bind", spool, spool, "--bind", post, post]
    for folder in kept:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        arguments += ["--bind", folder, folder]
    for path in fixed:
        if any(_is_in(path, folder) for folder in kept):
            arguments += ["--ro-bind", path, path]
    # A server that is started later would be seen through a folder that does not exist yet.
    places = dict.fromkeys(("/tmp", os.environ.get("TMUX_TMPDIR") or "/tmp"))  # noqa: S108
    for folder in (home.sockets, *(f"{place}/tmux-{os.getuid()}" for place in places), *hidden):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # bubblewrap cannot follow links: `.claude` may be one.
        arguments += ["--perms", "0700", "--tmpfs", os.path.realpath(folder)]
    return (*arguments, "--", *command)


def _devices() -> list[str]:
    """All devices but the terminals of others: whoever can open one reads what is typed there, and draws its screen."""
    arguments = ["--dev", "/dev"]
    for name in sorted(os.listdir("/dev")):
        if not _MADE.fullmatch(name):
            arguments += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    return arguments


def _is_in(path: str, folder: str) -> bool:
    return os.path.commonpath((os.path.realpath(path), os.path.realpath(folder))) == os.path.realpath(folder)


def holds(pid: int) -> bool:
    """Whether this process of ours is a sandbox."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() == "bwrap"
    except OSError:
        return False
