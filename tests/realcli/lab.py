"""What the tests of real agent CLIs share: a fleet with a real client in it, and what its model was told."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dogwatch.harness import harness
from dogwatch.model.process import ProcessId
from dogwatch.model.spool import SpoolLine, parse
from dogwatch.testing.model import Request, ScriptedModel
from dogwatch.world import tmux
from dogwatch.world.processes import life
from faults.pipelines import one_task
from realcli.clients import program, rehearsal
from support.fleet import Fleet
from support.helpers import wait_for

WRITE = {"shell": 'mkdir -p "$DOGWATCH_OUTPUT" && echo "# Draft" > "$DOGWATCH_OUTPUT/draft.md"'}
REPORT = {"shell": "dogwatch report done --task draft"}
DONE = {"text": "The draft is written."}
FOREVER = {"shell": "python3 -c 'import time; time.sleep(300)'"}
WAIT = {"text": "I wait for a letter."}
PERMISSIONS = {
    "claude": ["Bash"],
    "codex": ["danger-full-access", "never"],
    "opencode": ["bash"],
    "gemini": ["run_shell_command"],
}
"""What lets each client run commands without asking, in its own notation."""
CONVERSATION = ("system", "messages", "instructions", "input", "systemInstruction", "contents")
"""Where a request has what was said, in each of the protocols."""
READERS = {"claude": ("Read", "file_path"), "opencode": ("read", "filePath"), "gemini": ("read_file", "file_path")}
"""Each client's own tool for reading, and what it calls the path; Codex has only its shell."""
INSIDE = Path(__file__).with_name("inside.py")
LIMITS = {"nudge_s": 4, "peek_s": 4, "receipt_s": 20}
PATIENT = {"nudge_s": 150, "peek_s": 150}


@dataclass(frozen=True)
class Asking:
    """How a client is made to ask before it makes a file: the model's step, what the role has for it, the keys with
    which a person says yes, and files of the user's in the client's home."""

    step: Mapping[str, Any]
    role: Mapping[str, Any]
    yes: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


class Lab:
    """A fleet whose writer is a real client. The clerk, where there is one, is a scripted agent with nothing to do."""

    def __init__(self, fleet: Fleet, client: str) -> None:
        self.fleet = fleet
        self.client = client
        self.home = fleet.base / "home"
        self.home.mkdir()
        self.trusted = fleet.project
        """The folder that the client is told to trust."""

    def role(self, model: ScriptedModel, **changes: Any) -> dict[str, Any]:
        """The writer's role, which may run commands without asking."""
        return {
            "harness": self.client,
            "command": [program(self.client)],
            "permissions": PERMISSIONS[self.client],
            "environment": rehearsal(self.client, self.home, self.trusted, model.url),
            **changes,
        }

    def launch(
        self,
        model: ScriptedModel,
        task: str = "Write the draft.",
        *,
        role: Mapping[str, Any] | None = None,
        clerk: bool = False,
        patient: bool = False,
        **limits: float,
    ) -> str:
        """Starts a run in which the writer has one task; `role` changes its role. Where the run is patient, nobody is
        nudged while the test makes up its mind."""
        spec = one_task(limits={**LIMITS, **(PATIENT if patient else {}), **limits})
        spec["phases"][0]["dispatches"][0]["task"] = task
        spec["roles"]["writer"] = self.role(model, **(role or {}))
        if clerk:
            spec["roles"]["clerk"] = {}
        return self.fleet.launch(self.fleet.spec(spec, {"clerk": {}} if clerk else {}))

    def settled(self, model: ScriptedModel, **role: Any) -> str:
        """A run whose writer has its task and sits at its prompt, beside an idle clerk."""
        run = self.launch(model, clerk=True, patient=True, role=role)
        wait_for(lambda: self.spool(run, "Stop"), 90, self.fleet.tail)
        self.process(run, "clerk")
        return run

    def deliver(self, run: str) -> None:
        """Waits for the end, which must be good."""
        view = self.fleet.wait_over(run, 200)
        assert view.run.state == "COMPLETED", f"{view.run.cause}\n{self.fleet.tail()}"

    def user_settings(self, **settings: Any) -> None:
        """The user's own settings, in the client's home."""
        (self.home / ".claude").mkdir(exist_ok=True)
        (self.home / ".claude/settings.json").write_text(json.dumps(settings))

    def spool(self, run: str, event: str = "") -> list[SpoolLine]:
        """The writer's lines; of `event` only where that is given."""
        path = Path(self.fleet.home.spool(run, "writer"))
        raw = path.read_bytes().splitlines() if path.exists() else []
        lines = [line for one in raw if (line := parse(one)) is not None]
        return [line for line in lines if not event or line.event == event]

    def denials(self, run: str) -> list[dict[str, Any]]:
        """What the guard has denied the writer."""
        return [line.payload() for line in self.spool(run, "Denied")]

    def process(self, run: str, agent: str = "writer") -> ProcessId:
        """The agent's living process."""

        def find() -> ProcessId | None:
            found = self.fleet.view(run).agents.get(agent)
            return found.running.process if found is not None and found.running else None

        process = wait_for(find, 60, lambda: f"{agent} to start\n{self.fleet.tail()}")
        assert process is not None
        assert life(process, self.fleet.boot) == "alive"
        return process

    def captain(self, run: str) -> ProcessId:
        """The living captain of the run."""
        process = wait_for(lambda: self.fleet.crew("captain", run), 60, "the captain")
        assert process is not None
        return process

    def mail(self, run: str, text: str, to: str = "writer", sender: str = "clerk") -> str:
        """A letter from a sibling; returns its id."""
        done = self.fleet.as_agent(run, sender, "mail", "send", to, "-", stdin=text.encode())
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def screen(self, run: str, agent: str = "writer") -> tuple[str, ...]:
        """What stands on the agent's pane."""
        pane = self.fleet.view(run).agents[agent].pane
        return tuple(tmux.captures(self.fleet.home.tmux(run), [pane]).get(pane, ()))

    def title(self, run: str) -> str:
        """The title of the writer's pane."""
        pane = self.fleet.view(run).agents["writer"].pane
        return next(one.title for one in tmux.panes(self.fleet.home.tmux(run)) if one.id == pane)

    def reading(self, path: Path) -> dict[str, Any]:
        """The step with which the client reads the file, by its own tool where it has one."""
        name, key = READERS.get(self.client, ("", ""))
        return {"tool": {"name": name, "input": {key: str(path)}}} if name else {"shell": f"cat {path}"}

    def asking(self, path: Path) -> Asking:
        """What makes the client ask before it makes the file, while the commands of its work need no question."""
        found = _ASKING[self.client](path)
        for name, text in found.files.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)
        return found

    def composer(self, run: str) -> str | None:
        """What stands in the writer's composer."""
        return harness(self.client).read(self.screen(run)).composer

    def keys(self, run: str, *keys: str) -> None:
        """A person presses these keys in the writer's pane, or types them as they are after `-l`."""
        target = self.fleet.view(run).agents["writer"].pane
        subprocess.run(["tmux", "-S", self.fleet.home.tmux(run), "send-keys", "-t", target, *keys], check=True)

    def steps(self, run: str) -> Iterator[int]:
        """Goes on with each of the captain's next twenty signs of life: it has looked at its agents meanwhile."""
        beat = Path(self.fleet.home.beat("captain", run))
        for number in range(20):
            before = beat.read_bytes()
            wait_for(lambda known=before: beat.read_bytes() != known, 60, "the captain")  # type: ignore[misc]
            yield number

    def delivered(self, kind: str = "") -> list[str]:
        """The ids of the messages that the writer has got, in order; of that kind."""
        events = self.fleet.events("message_delivered", "writer")
        return [event.body["message"] for event in events if kind in ("", event.body["kind"])]


def _claude_asking(path: Path) -> Asking:
    write = {"name": "Write", "input": {"file_path": str(path), "content": "A mark."}}
    return Asking({"tool": write}, {}, ("1",))


def _opencode_asking(path: Path) -> Asking:
    write = {"name": "write", "input": {"filePath": str(path), "content": "A mark."}}
    return Asking({"tool": write}, {}, ("Enter",))


def _codex_asking(path: Path) -> Asking:
    rules = 'prefix_rule(pattern=["touch"], decision="prompt")\n'
    role = {"permissions": ["danger-full-access", "on-request"]}
    return Asking({"shell": f"touch {path}"}, role, ("y",), {".codex/rules/default.rules": rules})


def _gemini_asking(path: Path) -> Asking:
    write = {"name": "write_file", "input": {"file_path": str(path), "content": "A mark."}}
    return Asking({"tool": write}, {}, ("1",))


_ASKING: dict[str, Callable[[Path], Asking]] = {
    "claude": _claude_asking,
    "codex": _codex_asking,
    "opencode": _opencode_asking,
    "gemini": _gemini_asking,
}


def model(*rules: dict[str, Any], **scenario: Any) -> ScriptedModel:
    return ScriptedModel({"rules": list(rules), **scenario})


def on(prompt: str, *do: Any, **match: Any) -> dict[str, Any]:
    return {"prompt": prompt, "do": list(do), **match}


def until(path: Path) -> dict[str, str]:
    """A step that lasts until there is such a file."""
    return {"shell": f"until [ -e {path} ]; do python3 -c 'import time; time.sleep(0.1)'; done"}


def directives(*steps: Mapping[str, Any]) -> str:
    """The steps as a text that the model follows wherever it reads it as a prompt."""
    return " ".join(f"scripted-model: {json.dumps(step)}" for step in steps)


def asked(scripted: ScriptedModel) -> list[Request]:
    """The requests of the work itself."""
    return [request for request in scripted.requests if not request.side]


def texts(value: Any) -> Iterator[str]:
    """All texts in the messages of a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, Sequence):
        for one in value:
            yield from texts(one)


def results(scripted: ScriptedModel) -> list[str]:
    """What the model was told of its calls, in order."""
    answers = [request.tool_result for request in asked(scripted)]
    return [answer for answer in answers if answer]


def told(request: Request) -> str:
    """All that the model was told in the conversation so far, without the tools' descriptions."""
    return "\n".join(texts([request.body.get(key) for key in CONVERSATION]))


def command_lines(pid: int) -> list[str]:
    """What all processes below that one run."""
    found = []
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace").split("\0")
            found.append(" ".join(words))
    return found


def descendants(pid: int) -> set[int]:
    """All processes below that one; they come and go while one looks."""
    below: set[int] = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            below |= {int(word) for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()}
    return below.union(*(descendants(child) for child in below))
