"""A command whose result outlives whoever has started it: a session of its own, a time limit, its exit code in a file.

The result appears whole or not at all. No result and no process means that the command did not finish.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from dogwatch.actions.confine import EXPENDABLE
from dogwatch.model.plan import NOTIFY_VARIABLE, TARGETS_VARIABLE
from dogwatch.model.process import ProcessId
from dogwatch.world.home import LEDGER_VARIABLE
from dogwatch.world.processes import identify

TIMED_OUT = 124
MISSING = 127
_SECRET = (LEDGER_VARIABLE, NOTIFY_VARIABLE, TARGETS_VARIABLE)
_children: list[subprocess.Popen[bytes]] = []
# The shell only keeps the result: the command itself is exec'ed by `timeout`, with its words as they are.
# A gate's tests may take more memory than an agent: the kernel shall not take the crew in their place.
_KEEPER = f"""
echo {EXPENDABLE} 2>/dev/null >/proc/self/oom_score_adj
folder=$1; limit=$2; shift 2
timeout -k 5 "$limit" "$@"
echo $? >"$folder/result.new" && mv "$folder/result.new" "$folder/result"
"""


def open_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Our own environment without what may hold a secret of ours, and with `more`."""
    return {**{name: value for name, value in os.environ.items() if name not in _SECRET}, **more}


def start(
    boot: str,
    folder: str,
    limit_s: float,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str,
    log: str,
    stdin: int = subprocess.DEVNULL,
) -> ProcessId:
    """Starts the command; what it prints is appended to `log`, and its result will stand in `folder`."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        child = subprocess.Popen(
            ["sh", "-c", _KEEPER, "keeper", folder, f"{limit_s:g}", *command],
            env=environment,
            cwd=cwd,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[:] = [*(known for known in _children if known.poll() is None), child]
    # It may be over already; then zero as its start time makes it count as dead.
    return identify(child.pid, boot) or ProcessId(boot, child.pid, 0)


def result(folder: str) -> int | None:
    """The command's exit code, or None where it has not finished."""
    try:
        with open(f"{folder}/result", encoding="ascii") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return None
