"""The ground truth: what a scripted agent really did and when, one JSON line each, apart from all that dogwatch sees.

The words are listed in `docs/reference/scenario.md`.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any


class Truth:
    """An append-only file, shared by all incarnations of an agent; without a path nothing is written."""

    def __init__(self, path: str, environment: dict[str, str]) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600) if path else -1
        self.agent = f"{environment.get('DOGWATCH_RUN', '')}/{environment.get('DOGWATCH_ROLE', '')}"
        number = environment.get("DOGWATCH_INCARNATION", "")
        self.incarnation = int(number) if number.isdecimal() else 0

    def did(self, word: str, **more: Any) -> None:
        """Records one deed, at once and in one write."""
        if self._file < 0:
            return
        line = {
            "mono": time.monotonic(),
            "wall": time.time(),
            "agent": self.agent,
            "incarnation": self.incarnation,
            "pid": os.getpid(),
            "did": word,
            **more,
        }
        os.write(self._file, json.dumps(line).encode() + b"\n")
