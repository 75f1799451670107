"""The one way to type to an agent: a bracketed paste, then, after the client has drawn it, Enter.

Both are conditional inside the tmux server: the pane must still hold this very process, alive. So text never reaches
a shell that a dead client has left behind. Whether it arrived, only the client's own hook can say.
"""

from __future__ import annotations

from collections.abc import Sequence

from dogwatch.model.process import ProcessId
from dogwatch.world import tmux


def paste(socket: str, pane: str, process: ProcessId, message_id: str, text: str) -> bool:
    """Puts the text into the composer; False where the pane no longer holds the process."""
    loaded = tmux.run(socket, "load-buffer", "-b", message_id, "-", stdin=text.encode())
    if loaded.returncode != 0:
        return False
    return _if_living(socket, pane, process, f"paste-buffer -p -d -b {message_id} -t {pane}")


def press(socket: str, pane: str, process: ProcessId, keys: Sequence[str]) -> bool:
    """Presses keys, by tmux's names; False where the pane no longer holds the process."""
    return _if_living(socket, pane, process, f"send-keys -t {pane} {' '.join(keys)}")


def _if_living(socket: str, pane: str, process: ProcessId, command: str) -> bool:
    condition = f"#{{&&:#{{==:#{{pane_pid}},{process.pid}}},#{{==:#{{pane_dead}},0}}}}"
    done = tmux.run(socket, "if-shell", "-F", "-t", pane, condition, command, "display-message -p refused")
    return done.returncode == 0 and b"refused" not in done.stdout
