"""A shell that a reader would have open: what one command changes, the next one finds."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

COMMAND_S = 120.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a command has printed, and its exit code."""

    output: str
    errors: str
    code: int


class Shell:
    """One bash for several commands."""

    def __init__(self, folder: Path, environment: Mapping[str, str], notes: Path) -> None:
        """It begins in `folder`. What is printed is kept in the folder `notes` until it is read."""
        self.notes = notes
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.code = 0

    def run(self, command: str) -> Said:
        """Runs the command to its end; AssertionError where that does not come."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        output, errors = self.notes / "output", self.notes / "errors"
        # Processes that stay behind keep files open, and not a pipe whose end would be waited for.
        self.process.stdin.write(f"(exit {self.code}); {{ {command}\n}} >'{output}' 2>'{errors}' </dev/null; echo $?\n")
        ready, _, _ = select.select([self.process.stdout], [], [], COMMAND_S)
        assert ready, f"`{command}` has not ended within {COMMAND_S:.0f} s"
        self.code = int(self.process.stdout.readline())
        return Said(output.read_text(), errors.read_text(), self.code)

    @property
    def folder(self) -> Path:
        """Where the shell is now."""
        return Path(f"/proc/{self.process.pid}/cwd").readlink()

    def close(self) -> None:
        """The end of its input is the end of the shell."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(COMMAND_S)
        self.process.stdout.close()
