"""What a program inside an agent sees and can do there, tried for real and printed as JSON. It was there before the
agent, so no hook has read it.

`inside.py look PID SOCKET FOLDER URL`: PID is a foreign process, SOCKET a tmux server's, FOLDER the project, URL the
model's.
`inside.py call WORD …`: starts that program.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

TOUCHED = b"touched"


def outcome(fn: Callable[[], object]) -> str:
    """`done`, or the name of the error."""
    try:
        fn()
    except OSError as error:
        return type(error).__name__
    return "done"


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)


def call(url: str) -> None:
    address = urlsplit(url)
    socket.create_connection((address.hostname or "", address.port or 0), 10).close()


def look(pid: int, path: str, project: Path, url: str) -> dict[str, object]:
    home, person = Path(os.environ["DOGWATCH_HOME"]), Path(os.environ["HOME"])
    agent = home / "runs" / os.environ["DOGWATCH_RUN"] / "agents" / os.environ["DOGWATCH_ROLE"]
    tried: dict[str, Callable[[], object]] = {
        "kill": lambda: os.kill(pid, 0),
        "socket": lambda: connect(path),
        "home": lambda: (home / "mine").write_bytes(TOUCHED),
        "program": lambda: (home / "bin/tmux").write_bytes(TOUCHED),
        "registry": lambda: (home / "runs" / os.environ["DOGWATCH_RUN"] / "registry.jsonl").unlink(),
        "settings": lambda: (agent / "settings.json").write_bytes(TOUCHED),
        "project": lambda: (project / "mine").write_bytes(TOUCHED),
        "person": lambda: (person / "mine").write_bytes(TOUCHED),
        "network": lambda: call(url),
    }
    seen = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    commands = " ".join(Path(f"/proc/{one}/comm").read_text().strip() for one in seen if one != os.getpid())
    return {"pids": len(seen), "commands": commands, **{name: outcome(fn) for name, fn in tried.items()}}


def start(words: list[str]) -> dict[str, object]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return {"code": done.returncode, "errors": done.stderr}


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    print(json.dumps(start(rest) if verb == "call" else look(int(rest[0]), rest[1], Path(rest[2]), rest[3])))
