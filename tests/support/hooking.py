"""The guard's hook as a client runs it: a process of its own, for an agent that a registry knows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dogwatch.actions.registry import register
from dogwatch.guard import hook
from dogwatch.model import spool
from dogwatch.model.life import Starting
from dogwatch.model.moment import Moment
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, identify
from support.records import agent_record

HOOK = hook.__file__
RUN, AGENT, INCARNATION = "tide-1", "writer", 2
LONG_AGO_S = 3600.0
SAMPLES = Path(__file__).parent.parent / "data" / "hooks"
Done = subprocess.CompletedProcess[bytes]


def call(tool: str, tool_input: object, cwd: Path | str = "") -> bytes:
    """The payload of a tool call, as the client writes it."""
    sample: dict[str, Any] = json.loads((SAMPLES / "PreToolUse.json").read_text(encoding="utf-8"))
    sample |= {"cwd": str(cwd), "tool_name": tool, "tool_input": tool_input}
    return json.dumps(sample, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def command_line(event: str, *words: str, script: str = HOOK) -> list[str]:
    return [sys.executable, "-I", "-S", script, event, *words]


@dataclass(frozen=True)
class HookedAgent:
    """An agent whose client is the test's own process."""

    home: Home
    project: Path
    environment: dict[str, str]

    def register(self, started: float = -LONG_AGO_S, incarnation: int = INCARNATION) -> None:
        """Adds the agent to the registry, as started so many seconds from now."""
        intended = Moment(boot_id(), time.monotonic() + started, time.time() + started)
        agent = agent_record(AGENT, run=RUN, incarnation=incarnation, life=Starting(since=intended))
        process = identify(os.getpid(), boot_id())
        assert process is not None
        register(self.home, agent, process)

    def registry(self) -> Path:
        return Path(self.home.registry(RUN))

    def box(self) -> str:
        return self.home.post(RUN, AGENT)

    def hook(self, event: str, payload: bytes, *words: str, script: str = HOOK, **changed: str) -> Done:
        return subprocess.run(
            command_line(event, *words, script=script),
            input=payload,
            env=self.environment | changed,
            cwd=self.project,
            capture_output=True,
            timeout=120,
            check=False,
        )

    def bash(self, command: str, **changed: str) -> Done:
        """The hook's answer to a shell command."""
        return self.hook("PreToolUse", call("Bash", {"command": command}, self.project), **changed)

    def lines(self, event: str = "") -> list[spool.SpoolLine]:
        """The lines of the spool, of this event where one is named."""
        path = Path(self.home.spool(RUN, AGENT))
        lines = [spool.parse(line) for line in path.read_bytes().splitlines()] if path.exists() else []
        return [line for line in lines if line is not None and event in ("", line.event)]


@contextmanager
def hooked_agent() -> Iterator[HookedAgent]:
    """An agent in a home of its own, which is not registered yet; the paths leave room for sockets."""
    with TemporaryDirectory(prefix="dw") as folder:
        home = Home(os.path.realpath(f"{folder}/home"))
        project = Path(os.path.realpath(folder)) / "project"
        for path in (project, home.bin, home.sockets, f"{home.run(RUN)}/spool", home.post(RUN, AGENT)):
            os.makedirs(path)
        environment = {
            "HOME": str(project.parent),
            "PATH": os.environ["PATH"],
            "DOGWATCH_HOME": home.path,
            "DOGWATCH_RUN": RUN,
            "DOGWATCH_ROLE": AGENT,
            "DOGWATCH_INCARNATION": str(INCARNATION),
            "DOGWATCH_PROJECT": str(project),
            "DOGWATCH_SPOOL": home.spool(RUN, AGENT),
            "DOGWATCH_POST": home.post(RUN, AGENT),
        }
        yield HookedAgent(home, project, environment)


@contextmanager
def sleeper(environment: dict[str, str]) -> Iterator[int]:
    """The pid of a process that does nothing, and can be seen with its environment."""
    process = subprocess.Popen(["sleep", "600"], env=environment)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def is_denied_with_words(done: Done) -> bool:
    """Whether a tool call was denied, and what was said helps."""
    words = done.stderr.decode()
    return done.returncode == 2 and words.startswith("dogwatch: ") and "\nhint: " in words and "Traceback" not in words
