"""What the doctor's checks share: a finding, and asking a program without trusting it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Literal

from dogwatch.values import dataclass

ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and where it is not ok, what to do."""

    subject: str
    level: Literal["ok", "warning", "problem"]
    text: str
    fix: str = ""


def answer(
    argv: Sequence[str], environment: Mapping[str, str] | None = None, limit_s: float = 0.0
) -> tuple[int | None, str]:
    """A program's exit code and first line, of its errors where it says nothing else; no code where it cannot be
    started or takes too long.

    It runs in a session of its own, so that a program that hangs is ended together with its children.
    """
    limit_s = limit_s or ANSWER_S
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return None, str(error.strerror)
    with child:
        try:
            output, errors = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return None, f"no answer within {limit_s:g} s"
    lines = (output.strip() or errors.strip()).decode(errors="replace").splitlines()
    return child.returncode, lines[0].strip() if lines else ""


def read_text(path: str) -> str:
    """A small file of the kernel's, empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def size(count: float) -> str:
    """A number of bytes in its largest unit."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"
