"""The one way to run a gate's command: a process of its own whose result outlives the captain that started it.

The result is a file that appears whole or not at all. No result and no process means that the gate did not finish:
it is run again, never passed over.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from dogwatch.actions import keeper
from dogwatch.actions.kill import end_marked
from dogwatch.model.plan import Gate
from dogwatch.model.process import ProcessId
from dogwatch.model.records import RunRecord
from dogwatch.model.redact import Redactor, known_secrets
from dogwatch.world.home import Home

LOOK_S = 60.0
"""How long a last look at a database may take."""
LOG_BYTES = 64 * 1024
REASON_CHARACTERS = 2000


def start(home: Home, boot: str, run: RunRecord, phase: int, gate: Gate, attempt: int) -> ProcessId:
    """Starts the gate's command in the run's output folder; what it prints goes to a log beside the result."""
    mark = f"gate:{gate.name}"
    # Also one of the same number, which a captain that was killed had started and not yet recorded.
    end_marked(home, boot, run.run, mark, before=attempt + 1)
    folder = home.gate(run.run, phase, gate.name, attempt)
    os.makedirs(run.output, exist_ok=True)
    environment = keeper.open_environment(
        {
            "DOGWATCH_HOME": home.path,
            "DOGWATCH_RUN": run.run,
            "DOGWATCH_ROLE": mark,
            "DOGWATCH_INCARNATION": str(attempt),
            "DOGWATCH_PROJECT": run.project,
            "DOGWATCH_OUTPUT": run.output,
        }
    )
    log = f"{folder}/log"
    command, limit_s = gate.command, gate.timeout_s
    if gate.partitions:
        order = {"partitions": [asdict(one) for one in gate.partitions], "timeout_s": gate.timeout_s}
        command = (sys.executable, "-m", "dogwatch.actions.partitions", json.dumps(order))
        limit_s += LOOK_S
    return keeper.start(boot, folder, limit_s, command, environment=environment, cwd=run.output, log=log)


def result(home: Home, run: str, phase: int, gate: Gate, attempt: int) -> int | None:
    """The command's exit code, or None where it has not finished."""
    return keeper.result(home.gate(run, phase, gate.name, attempt))


def last_lines(home: Home, run: str, phase: int, gate: Gate, attempt: int) -> str:
    """The end of the gate's log, for the reason; what is wrong with data stands in the last line alone."""
    n = 1 if gate.partitions else 3
    try:
        with open(f"{home.gate(run, phase, gate.name, attempt)}/log", "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LOG_BYTES))
            # Tokens are taken out before anything is cut off; a gate has the operator's whole environment.
            text = Redactor(known_secrets(os.environ)).text(file.read().decode(errors="replace"))
            lines = text[-REASON_CHARACTERS:].strip().splitlines()
    except FileNotFoundError:
        return ""
    return " · ".join(lines[-n:])


def explain(code: int, gate: Gate, log: str) -> str:
    """Why the gate failed, in words."""
    if gate.partitions and log:
        return f"{log}, for {gate.timeout_s:g} s"
    if code == keeper.TIMED_OUT:
        return f"not finished within {gate.timeout_s:g} s"
    if code in (keeper.MISSING, 126):
        return f"its tool cannot be run: {log or gate.command[0]}"
    return f"exit code {code}" + (f": {log}" if log else "")
