"""The command line: one file a command, imported only when it is called.

A command's file has `configure(parser)` and `execute(arguments) -> exit code`; its line in `commands.COMMANDS` is
what the overview shows. The commands for agents have no file here: `agent.py` makes them from the verbs of the door.
Errors that dogwatch can name end here as `error: …` and `hint: …`.
"""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["version"], ["--version"], ["-V"]):
        # The fastest answer there is: scripts ask for it often.
        from dogwatch import __version__

        print(f"dogwatch {__version__}")
        return 0
    from dogwatch.cli.framework import run_command

    return run_command(words)
