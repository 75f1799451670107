"""A run whose captain's door is knocked at: by forged callers, with garbage, and while the captain is away."""

from __future__ import annotations

import copy
import json
import socket
import subprocess
import threading
from typing import Any

from dogwatch.model.process import ProcessId
from support.fleet import Fleet
from support.helpers import wait_for

BUSY: dict[str, Any] = {"work_s": 0.2, "rules": [{"on": "dispatch", "do": [{"wait": 200}]}]}
PIPELINE: dict[str, Any] = {
    "roles": {"writer": {}, "reader": {}},
    "phases": [
        {
            "name": "draft",
            "dispatches": [{"name": "draft", "to": "writer", "task": "Write it.", "outputs": ["draft.md"]}],
        }
    ],
    "deliverable": {"path": "draft.md"},
}


def launch(fleet: Fleet) -> str:
    """A run whose writer holds a task and does nothing, and whose reader is idle."""
    name = fleet.launch(fleet.spec(copy.deepcopy(PIPELINE), {"writer": BUSY, "reader": {"work_s": 0.2}}))
    fleet.wait_event("message_delivered", "writer")
    return name


def captain(fleet: Fleet, run: str) -> ProcessId:
    found = wait_for(lambda: fleet.crew("captain", run), 60, "a captain")
    assert found is not None
    return found


def raw(fleet: Fleet, run: str, data: bytes) -> bytes:
    """Sends the bytes as they are and reads the answer."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(30)
        one.connect(fleet.home.door(run))
        received = b""
        try:
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            while part := one.recv(65536):
                received += part
        except (ConnectionResetError, BrokenPipeError):
            pass
        return received


def ask(fleet: Fleet, run: str, **body: Any) -> dict[str, Any]:
    request = {"op_id": "x1", "run": run, "agent": "writer", "incarnation": 1, **body}
    answer: dict[str, Any] = json.loads(raw(fleet, run, json.dumps(request).encode() + b"\n") or b'{"closed": true}')
    return answer


def beat(fleet: Fleet, run: str) -> int:
    return fleet.as_agent(run, "writer", "heartbeat", variables={"DOGWATCH_DOOR_WAIT_S": "30"}).returncode


def in_background(
    fleet: Fleet, run: str, *words: str
) -> tuple[threading.Thread, list[subprocess.CompletedProcess[bytes]]]:
    done: list[subprocess.CompletedProcess[bytes]] = []
    thread = threading.Thread(target=lambda: done.append(fleet.as_agent(run, "writer", *words)))
    thread.start()
    return thread, done
