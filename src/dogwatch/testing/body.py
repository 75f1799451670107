"""What a scripted agent is able to do: run its hooks, use tools, start sub-agents, speak, and log what was true.

Every deed is real: hooks, commands and sub-agents are child processes, files are written, memory is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from dogwatch.testing.loop import Answer, Loop, Steps, Wait
from dogwatch.testing.scenario import Scenario
from dogwatch.testing.screen import Composer, View
from dogwatch.testing.truth import Truth

HOOK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guard", "hook.py")
OUTPUT_BYTES_MAX = 1 << 20
EXIT_AWAY = 75
AWAY_TRIES = 5
AWAY_PAUSE_S = 2.0
CONTEXT_WINDOW = 200_000
"""How many tokens fit in."""
SUBAGENT_PROGRAM = """
import sys, time
seconds, path, content = sys.argv[1:]
time.sleep(float(seconds))
if path:
    open(path, "w").write(content)
"""


@dataclass
class Order:
    """A dispatch that the agent has received."""

    subject: str
    files: tuple[str, ...] = ()
    reported: bool = False
    written: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str


class Body:
    """The agent's state and its abilities. Methods that take time are generators for the loop."""

    def __init__(self, scenario: Scenario, truth: Truth, loop: Loop) -> None:
        self.scenario = scenario
        self.truth = truth
        self.loop = loop
        self.view = View()
        self.composer = Composer()
        self.session_id = _new_id()
        self.prompt_id = ""
        self.said = ""
        self.status = ""
        self.busy_since: float | None = None
        self.finished = ""
        self.enters_to_swallow = 0
        self.stop_held = False
        self.deaf = False
        self.orders: dict[str, Order] = {}
        self.subagents: dict[str, dict[str, Any]] = {}
        self.children: set[subprocess.Popen[bytes]] = set()
        self.memory: list[bytearray] = []
        self.context_full = False
        self.transcript = os.path.expanduser(f"~/.scripted/{self.session_id}.jsonl")

    # The screen

    def say(self, text: str) -> None:
        """A line of the agent's own in the transcript."""
        self.said = text
        self.view.transcript.append(f"● {text}")

    def show(self, text: str) -> None:
        """An indented line in the transcript, for what tools and hooks say."""
        self.view.transcript.append(f"  ⎿  {text}")

    def status_line(self) -> str:
        """The line above the composer."""
        if self.busy_since is not None:
            return self.status or f"✻ Working… ({int(time.monotonic() - self.busy_since)}s · esc to interrupt)"
        if self.subagents:
            count = len(self.subagents)
            return f"✻ Waiting for {count} background agent{'s' * (count > 1)} to finish"
        return self.finished

    # The context

    def use_context(self, share: float) -> None:
        """Notes in the client's own file how many tokens of its window are used, as real clients do."""
        tokens = int(share * CONTEXT_WINDOW)
        usage = {"input_tokens": tokens // 10, "cache_read_input_tokens": tokens - tokens // 10, "output_tokens": 100}
        line = {"type": "assistant", "message": {"model": "scripted", "usage": usage}, "window": CONTEXT_WINDOW}
        os.makedirs(os.path.dirname(self.transcript), exist_ok=True)
        with open(self.transcript, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.truth.did("context", used=share)

    def context_failure(self) -> Steps[None]:
        """A turn that ends because nothing more fits into the context."""
        said = "The prompt is too long: the context is full."
        self.say(said)
        self.finished = "✘ API Error: the context is full · the turn has ended"
        self.truth.did("stop_failure", code="context_full")
        yield from self.hook("StopFailure", error="context_full", last_assistant_message=said)

    # Hooks

    def payload(self, event: str, **more: Any) -> bytes:
        """A hook's stdin, in the form that real clients use."""
        data: dict[str, Any] = {
            "session_id": self.session_id,
            "transcript_path": self.transcript,
            "cwd": os.getcwd(),
            "hook_event_name": event,
        }
        if self.prompt_id:
            data["prompt_id"] = self.prompt_id
        return json.dumps(data | {"permission_mode": "default"} | more).encode()

    def hook(self, event: str, **more: Any) -> Steps[str | None]:
        """Runs the hook; the answer is the reason where it denies, otherwise None. Without a spool there is no hook."""
        if "DOGWATCH_SPOOL" not in os.environ:
            return None
        stdin = _memory_file("stdin", self.payload(event, **more))
        try:
            result = yield from self._run(hook_command(event), stdin=stdin, new_session=False)
        finally:
            os.close(stdin)
        if result.code:
            self.truth.did("hook_failed", event=event, code=result.code, stderr=result.err[:500])
        return (result.err.strip() or "denied by a hook") if result.code == 2 else None

    # Tools and commands

    def tool(self, name: str, tool_input: dict[str, Any], deed: Steps[Any], response: str = "") -> Steps[Any]:
        """Does `deed` between the two tool hooks; None where the first one denies it."""
        use = f"toolu_{os.urandom(10).hex()}"
        about = {"tool_name": name, "tool_input": tool_input, "tool_use_id": use}
        denied = yield from self.hook("PreToolUse", **about)
        if denied is not None:
            deed.close()
            self.truth.did("tool_denied", tool=name, input=_brief(tool_input), use=use, reason=denied[:500])
            self.show(f"Denied: {denied}")
            return None
        self.truth.did("tool_start", tool=name, input=_brief(tool_input), use=use)
        began = time.monotonic()
        value = yield from deed
        duration_ms = int((time.monotonic() - began) * 1000)
        self.truth.did("tool_end", tool=name, use=use, duration_ms=duration_ms)
        if isinstance(value, Result) and value.code:
            yield from self.hook(
                "PostToolUseFailure", **about, error=f"Exit code {value.code}", duration_ms=duration_ms
            )
        else:
            out = value.out if isinstance(value, Result) else response
            yield from self.hook(
                "PostToolUse", **about, tool_response={"stdout": out[:2000], "stderr": ""}, duration_ms=duration_ms
            )
        return value

    def shell(self, *argv: str) -> Steps[Result | None]:
        """A command through the agent's shell tool; None where it was denied."""
        command = shlex.join(argv)
        self.show(f"$ {command[:200]}")
        result: Result | None = yield from self.tool("Bash", {"command": command}, self._run(list(argv)))
        if result is not None and result.code:
            self.show(f"Exit code {result.code}: {(result.err or result.out).strip()[:200]}")
        return result

    def dogwatch(self, *arguments: str) -> Steps[Result | None]:
        """A `dogwatch` command, again a few times where nobody is at the door."""
        for _ in range(AWAY_TRIES):
            result = yield from self.shell("dogwatch", *arguments)
            if result is None or result.code != EXIT_AWAY:
                break
            yield Wait(AWAY_PAUSE_S)
        return result

    def report(self, subject: str, outcome: str, note: str = "") -> Steps[None]:
        """Reports a task, and remembers whether the report was taken."""
        self.truth.did("report_called", task=subject, outcome=outcome, note=note)
        result = yield from self.dogwatch("report", outcome, "--task", subject, *(("--note", note) if note else ()))
        self.truth.did("report_exit", task=subject, outcome=outcome, code=result.code if result else None)
        if result is not None and result.code == 0:
            self.order(subject).reported = True

    def _run(self, argv: list[str], *, stdin: int = subprocess.DEVNULL, new_session: bool = True) -> Steps[Result]:
        """A child process to its end. Tools get a session of their own, as with real clients."""
        out, err = _memory_file("out"), _memory_file("err")
        process = None
        try:
            process = subprocess.Popen(argv, stdin=stdin, stdout=out, stderr=err, start_new_session=new_session)
            self.children.add(process)
            code = yield Wait(process=process)
            return Result(code, _content(out), _content(err))
        except OSError as error:
            return Result(127, "", str(error))
        finally:
            if process is not None:
                end(process, group=new_session)
                self.children.discard(process)
            os.close(out)
            os.close(err)

    # Orders and files

    def order(self, subject: str) -> Order:
        """What is known of a dispatch; nothing is, where it was another incarnation that got it."""
        return self.orders.setdefault(subject, Order(subject))

    def output_path(self, path: str) -> str:
        """Where `path` lies: below the run's output folder, unless it is absolute."""
        return os.path.join(os.environ.get("DOGWATCH_OUTPUT", "."), path)

    def write(self, path: str, content: bytes) -> Steps[bool]:
        """Writes a file through the agent's write tool; False where it was denied or could not be done."""

        def deed() -> Steps[bool]:
            target = self.output_path(path)
            try:
                os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
                with open(target, "wb") as file:
                    file.write(content)
            except OSError as error:
                self.truth.did("write_failed", path=path, error=str(error))
                self.show(f"Error: {error}")
                return False
            self.truth.did("wrote", path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
            return True
            yield

        shown = content[:1000].decode("utf-8", "replace")
        done = yield from self.tool("Write", {"file_path": self.output_path(path), "content": shown}, deed())
        self.show(f"Wrote {path} ({len(content)} bytes)" if done else f"Did not write {path}")
        return bool(done)

    def default_content(self, subject: str, path: str) -> bytes:
        """What an output holds unless the scenario says otherwise: the same for the same seed, task and path."""
        values = {"task": subject, "path": path, "agent": self.truth.agent}
        if self.scenario.content:
            text = self.scenario.content
            for name, value in values.items():
                text = text.replace("{" + name + "}", value)
            return text.encode()
        figures = hashlib.sha256(f"{self.scenario.seed}/{subject}/{path}".encode()).digest()
        if path.endswith(".json"):
            return json.dumps({"task": subject, "path": path, "figures": list(figures[:8])}, indent=1).encode() + b"\n"
        lines = [f"# {path}", "", f"Result of task {subject}.", ""]
        return "\n".join([*lines, *(f"Finding {n}: {byte}" for n, byte in enumerate(figures[:8], 1)), ""]).encode()

    # Sub-agents

    def subagent(self, kind: str, seconds: float, output: str, says: str, started: Answer) -> Steps[None]:
        """A sub-agent from its start to its end, beside the agent's own turns; answers `started` when it runs. `says`
        is its last message, where that is not about its output."""
        agent_id = f"a{os.urandom(8).hex()}"
        about = {"agent_id": agent_id, "agent_type": kind}
        self.subagents[agent_id] = {"id": agent_id, "type": "subagent", "status": "running", "agent_type": kind}
        yield from self.hook("SubagentStart", **about)
        target = self.output_path(output) if output else ""
        content = f"Output of sub-agent {kind}.\n"
        if target:
            os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        argv = [sys.executable, "-I", "-S", "-c", SUBAGENT_PROGRAM, str(seconds), target, content]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        self.children.add(process)
        self.truth.did("subagent_start", id=agent_id, type=kind, child=process.pid)
        started.give(True)
        try:
            code = yield Wait(process=process)
        finally:
            end(process, group=True)
            self.children.discard(process)
            del self.subagents[agent_id]
        self.truth.did("subagent_end", id=agent_id, type=kind, code=code, output=output)
        said = says or content.strip()
        yield from self.hook("SubagentStop", **about, stop_hook_active=False, last_assistant_message=said)


def hook_command(event: str) -> list[str]:
    """How a hook is run: the fast hook's file, by an interpreter that loads nothing else."""
    return [sys.executable, "-I", "-S", HOOK, event]


def end(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """Ends a child that still runs, with all of its group where it has one of its own, and reaps it."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        if group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        try:
            process.wait(2)
            return
        except subprocess.TimeoutExpired:
            continue


def _new_id() -> str:
    digits = os.urandom(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _memory_file(name: str, content: bytes = b"") -> int:
    """A file in memory for a child's input or output: no pipe that could fill up and block either side."""
    file = os.memfd_create(name)
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _content(file: int) -> str:
    return os.pread(file, OUTPUT_BYTES_MAX, 0).decode("utf-8", "replace")


def _brief(tool_input: dict[str, Any]) -> dict[str, Any]:
    return {key: value[:300] if isinstance(value, str) else value for key, value in tool_input.items()}
