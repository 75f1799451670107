"""The one way to keep a rehearsal's scripted model: a process of its own that ends with the run.

It carries the run's mark, so that whatever clears the run ends it too. The successor of a captain that was killed finds
it by what was noted of its start, and one that died is started again on the same port: the clients know no other.
"""

from __future__ import annotations

import sys
import time

from dogwatch.actions import keeper
from dogwatch.actions.kill import end_marked
from dogwatch.errors import DogwatchError
from dogwatch.model.process import ProcessId
from dogwatch.model.records import RunRecord, Stage
from dogwatch.world.home import Home
from dogwatch.world.processes import life

MARK = "model"
STARTS_MAX = 5
STARTS_S = 60.0
"""A model that ends so often within so many seconds is not started again."""
OVERTIME_S = 600.0
"""How long it may outlive the run's deadline, should nobody be left to end it."""


def scenario_of(stage: Stage) -> str:
    """The file that says what the model answers."""
    return f"{stage.folder}/scenario.yaml"


def keep_model(home: Home, boot: str, run: RunRecord) -> None:
    """Starts the model where it does not live; DogwatchError where it does not stay alive."""
    stage, folder = run.stage, home.model(run.run)
    if stage is None:
        return
    starts = _starts(folder, boot)
    if starts and life(starts[-1][0], boot) == "alive":
        return
    if sum(time.monotonic() - mono < STARTS_S for _, mono in starts) >= STARTS_MAX:
        raise DogwatchError(f"the scripted model does not stay alive: {_last_line(folder)}", hint=f"see {folder}/log")
    # One that a captain had started that was killed before it could note it.
    end_marked(home, boot, run.run, MARK)
    marks = {
        "DOGWATCH_HOME": home.path,
        "DOGWATCH_RUN": run.run,
        "DOGWATCH_ROLE": MARK,
        "DOGWATCH_INCARNATION": str(len(starts) + 1),
        "DOGWATCH_PROJECT": run.project,
        "DOGWATCH_OUTPUT": run.output,
    }
    command = [sys.executable, "-m", "dogwatch", "model", "--scenario", scenario_of(stage), "--port", str(stage.port)]
    if not run.sensitive:
        command += ["--log", f"{stage.folder}/requests.jsonl"]
    process = keeper.start(
        boot,
        folder,
        run.deadline_s + OVERTIME_S,
        command,
        environment=keeper.open_environment(marks),
        cwd=stage.folder,
        log=f"{folder}/log",
    )
    with open(f"{folder}/starts", "a", encoding="ascii") as file:
        file.write(f"{process.boot} {process.pid} {process.start_ticks} {time.monotonic():.3f}\n")


def _starts(folder: str, boot: str) -> list[tuple[ProcessId, float]]:
    """The processes that were started since this boot, oldest first, and when."""
    try:
        with open(f"{folder}/starts", encoding="ascii") as file:
            rows = [line.split() for line in file]
    except FileNotFoundError:
        return []
    return [(ProcessId(boot, int(row[1]), int(row[2])), float(row[3])) for row in rows if row[:1] == [boot]]


def _last_line(folder: str) -> str:
    try:
        with open(f"{folder}/log", encoding="utf-8", errors="replace") as file:
            said = [line.strip() for line in file if line.startswith("error:")]
    except FileNotFoundError:
        said = []
    return said[-1].removeprefix("error: ") if said else "it says nothing"
