"""How serious it is that a rule had to deny a command: whether others, dogwatch or the machine would have been hit."""

CRITICAL = "critical"
WARNING = "warning"

_RULES = frozenset("kill.everything kill.foreign kill.parent dogwatch.operator fork-bomb screen.command".split())
_GROUPS = ("machine.", "path.", "process.", "zellij.")
_TMUX_VERBS = frozenset(
    "kill-server kill-session kill-window kill-pane unlink-window respawn-pane respawn-window"
    " send-keys send-prefix paste-buffer pipe-pane".split()
)
"""Those that end what runs in a session, or type into it."""


def severity(rule: str) -> str:
    """`critical` where the command would have ended others or typed for them, or hit dogwatch or the machine;
    `warning` where it could not be read or followed, or would have hit the agent itself at most."""
    if rule.startswith("tmux."):
        return CRITICAL if rule.removeprefix("tmux.") in _TMUX_VERBS else WARNING
    return CRITICAL if rule in _RULES or rule.startswith(_GROUPS) else WARNING
