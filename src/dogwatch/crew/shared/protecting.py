"""What a crew member does for itself at its start, so that the kernel does not take it for an agent that it watches."""

from __future__ import annotations

from dogwatch.world import groups
from dogwatch.world.home import Home

PROTECTED = -500
"""Below everything that has no such wish; not -1000, which would be for ever, leak or not."""


def protect(home: Home) -> None:
    """Makes this process the last to be taken when memory runs out, where we may, and leaves an agent's group: whoever
    has started it may have been in one. The tmux servers that a captain starts inherit both."""
    _leave(home)
    now = groups.oom_score_adj("self")
    for wanted in (PROTECTED, 0):
        if now is None or now <= wanted or _write("/proc/self/oom_score_adj", str(wanted)):
            return


def _leave(home: Home) -> None:
    if groups.is_in_group_of(home):
        around = groups.place(groups.group_name(home)).folder
        # In version 2 a group that passes its memory on takes no processes of its own.
        if not _write(f"{around}/cgroup.procs", "0"):
            _write(f"{around}/{groups.CREW}/cgroup.procs", "0")


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return False
    return True
