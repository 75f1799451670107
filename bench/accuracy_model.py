"""A model of the scripted agent on a virtual clock, written from `docs/reference/scenario.md`.

It has the agent's hooks, screen, processes, files and ground truth, and nothing of dogwatch's opinion of them. Times
that a scenario cannot set (a hook, the start of a command) are those of a quick machine.
"""

from __future__ import annotations

import heapq
import itertools
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from inspect import GEN_SUSPENDED, getgeneratorstate
from typing import Any, Protocol

from bench.accuracy_verdict import Deed
from dogwatch.model.sight import Turn
from dogwatch.model.spool import SpoolLine
from dogwatch.policy.turns import fold
from dogwatch.testing.scenario import Scenario, Step
from dogwatch.testing.screen import View, frame

WALL = 1_700_000_000.0
"""The wall clock at the virtual instant 0."""
HOOK_S, HOOK_CPU_S = 0.03, 0.02
COMMAND_S, COMMAND_CPU_S = 0.3, 0.2
QUICK_S = 0.02
START_S = 0.4
TOOL_INTERVAL_S = 5.0
SPIN_S = 0.4
NEVER_S = 1e6
COLUMNS, ROWS = 120, 36
FOOTER = "  ⏵⏵ scripted agent · /exit to leave"
ERRORS = {
    429: ("rate_limit", "Rate limited"),
    500: ("server_error", "Internal server error"),
    529: ("overloaded", "Overloaded"),
}

Steps = Generator["float | Happening", Any, Any]


class Time:
    """What will happen when."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, mono: float, deed: Callable[[], None]) -> None:
        heapq.heappush(self._due, (max(mono, self.now), next(self._order), deed))

    def after(self, seconds: float, deed: Callable[[], None]) -> None:
        self.at(self.now + seconds, deed)

    def run(self, done: Callable[[], bool], until: float) -> None:
        """Goes on until it is done, or until that moment."""
        while not done() and self._due and self._due[0][0] <= until:
            self.now, _, deed = heapq.heappop(self._due)
            deed()
        if not done():
            self.now = until


class Happening:
    """Something that one part waits for and another brings about."""

    def __init__(self) -> None:
        self._then: Callable[[Any], None] | None = None
        self._has_come = False
        self._value: Any = None

    def come(self, value: Any = None) -> None:
        if self._has_come:
            return
        self._has_come, self._value = True, value
        if self._then is not None:
            self._then(value)

    def then(self, deed: Callable[[Any], None]) -> None:
        self._then = deed
        if self._has_come:
            deed(self._value)


@dataclass
class Child:
    """A process below the agent's own, with the share of a core that it burns."""

    pid: int
    name: str
    since: float
    until: float = NEVER_S * 10
    cores: float = 0.0
    ended: Happening = field(default_factory=Happening)

    def end(self, now: float) -> None:
        self.until = min(self.until, now)
        self.ended.come()

    def cpu_s(self, now: float) -> float:
        return self.cores * max(0.0, min(now, self.until) - self.since)


@dataclass(frozen=True)
class Message:
    """What a turn is about."""

    kind: str
    id: str = ""
    subject: str = ""
    files: tuple[str, ...] = ()


class Surroundings(Protocol):
    """What the agent finds around it: the time, the files, the door."""

    time: Time
    files: dict[str, tuple[int, float]]

    def new_pid(self) -> int: ...
    def call(self, agent: str, words: Sequence[str]) -> None:
        """A `dogwatch` command of the agent has come to the door."""

    def has_mail(self, agent: str, text: str) -> bool:
        """Whether a letter with that text lies in the agent's inbox. It is read by that."""

    def has_died(self, agent: str) -> None: ...


class TurnOver(Exception):  # noqa: N818 (it is the way out of a turn, not an error)
    """The turn ends here, with the Stop hook or without."""

    def __init__(self, *, stop: bool) -> None:
        super().__init__()
        self.stop = stop


class Agent:
    """One incarnation."""

    def __init__(
        self, world: Surroundings, name: str, incarnation: int, script: Scenario, did: Callable[[Deed], None]
    ) -> None:
        self.world, self.time = world, world.time
        self.name, self.incarnation, self.script = name, incarnation, script
        self.root = world.new_pid()
        self.pid = world.new_pid() if script.shell else self.root
        """The client's own process; with `shell: true` below a launcher that becomes a shell when it has ended."""
        self.born = self.time.now
        self.alive, self.session = True, "alive"
        self.stopped = self.hung = False
        self.turn = Turn()
        self.composer = ""
        self.dialog: tuple[str, ...] = ()
        self.starting = True
        self.children: list[Child] = []
        self.subagents: dict[str, str] = {}
        self._did = did
        self._own_cpu_s = 0.0
        self._busy_since: float | None = None
        self._frozen_at: float | None = None
        self._status, self._finished, self._stop_held = "", "", False
        self._transcript: list[str] = [f"  Scripted agent · {name}"]
        self._swallow = 0
        self._context_full = False
        self._current: Steps | None = None
        self._asleep: list[tuple[Steps, Any]] = []
        self._queue: list[Message] = []
        self._pasted: Message | None = None
        self._seen: set[str] = set()
        self._used: dict[int, int] = {}
        self._orders: dict[str, Message] = {}
        self._written: dict[str, set[str]] = {}
        self._uses = itertools.count()
        self._begin(self._start())

    # What can be seen of it

    @property
    def root_lives(self) -> bool:
        return self.alive or (self.script.shell and self.session == "alive")

    def cpu_s(self) -> float:
        return round(self._own_cpu_s + sum(child.cpu_s(self.time.now) for child in self.children), 2)

    def living(self) -> list[Child]:
        now = self.time.now
        return [child for child in self.children if child.since <= now < child.until]

    def lines(self) -> tuple[str, ...]:
        """The screen."""
        if self.session == "gone":
            return ()
        footer = (FOOTER, *(f"  ◯ {kind}" for kind in self.subagents.values()))
        shown = tuple(self._transcript[-ROWS:])
        drawn = _drawn(shown, self.composer, self.dialog, footer, self.starting)
        lines = tuple(self._status_line() if line == _STATUS else line for line in drawn)
        if self.alive:
            return lines
        return (*lines[-ROWS + 2 :], "Killed", "$ ") if self.session == "alive" else (*lines[1:], "Pane is dead")

    def _status_line(self) -> str:
        now = self.time.now if self._frozen_at is None else self._frozen_at
        if self._busy_since is not None:
            return self._status or f"✻ Working… ({int(now - self._busy_since)}s · esc to interrupt)"
        if self.subagents:
            count = len(self.subagents)
            return f"✻ Waiting for {count} background agent{'s' * (count > 1)} to finish"
        return self._finished

    # What is done to it

    def paste(self, message: Message) -> None:
        self.composer, self._pasted = f"[dogwatch:{message.id} {message.kind} {message.subject}]", message

    def enter(self) -> None:
        """The key, in a composer that holds a message."""
        if not self.alive or self.stopped or self.hung or self._pasted is None:
            return
        if self._swallow:
            self._swallow -= 1
            self.did("enter_swallowed")
            return
        message, self._pasted, self.composer = self._pasted, None, ""
        self._submit(message)

    def escape(self) -> None:
        """Esc: the turn ends where it is, without a Stop hook."""
        if self._current is None or not self.alive or self.stopped or self.hung or self.starting:
            return
        self._current.close()
        self._current = None
        self.did("interrupted")
        self._turn_done()

    def stop(self) -> None:
        """SIGSTOP."""
        self.stopped, self._frozen_at = True, self.time.now

    def go_on(self) -> None:
        """SIGCONT."""
        self.stopped, self._frozen_at = False, None
        asleep, self._asleep = self._asleep, []
        for steps, value in asleep:
            self._step(steps, value)

    def kill_tool(self) -> None:
        """SIGKILL to the running tool."""
        for child in self.living():
            child.end(self.time.now)

    def kill(self, *, session: bool = False) -> None:
        """The process is gone; its session too, or its pane shows that it is dead, or a shell."""
        if not self.alive:
            return
        self.alive = False
        self._frozen_at = self.time.now
        self.session = "gone" if session else "alive" if self.script.shell else "dead"
        self.world.has_died(self.name)

    def hang_up(self) -> None:
        """Its terminal is gone: it leaves in good order, if it can do anything at all."""
        if self.alive and not self.hung and not self.stopped:
            self.did("exiting", code=129)
            self._spool("SessionEnd", reason="other")
        self.kill(session=True)

    # Jobs

    def _begin(self, steps: Steps) -> None:
        self._current = steps
        self._step(steps, None)

    def _step(self, steps: Steps, value: Any) -> None:
        if not self.alive:
            return
        if self.stopped or self.hung:
            self._asleep.append((steps, value))
            return
        try:
            wait = steps.send(value)
        except StopIteration:
            if steps is self._current:
                self._current = None
                self._turn_done()
            return
        if isinstance(wait, Happening):
            wait.then(lambda answer: self._later(steps, answer))
        else:
            self.time.after(wait, lambda: self._later(steps, None))

    def _later(self, steps: Steps, value: Any) -> None:
        if getgeneratorstate(steps) == GEN_SUSPENDED:  # an interrupted one is closed
            self._step(steps, value)

    def _turn_done(self) -> None:
        self._busy_since = None
        if self._queue:
            self._begin(self._prompt(self._queue.pop(0)))

    def _submit(self, message: Message) -> None:
        if self._current is not None:
            self._queue.append(message)
        else:
            self._begin(self._prompt(message))

    # What it does

    def did(self, word: str, **more: Any) -> None:
        self._did(Deed(self.time.now, word, json.dumps(more)))

    def _hook(self, event: str, **more: Any) -> Steps:
        self._spool(event, **more)
        yield HOOK_S

    def _spool(self, event: str, **more: Any) -> None:
        now = self.time.now
        self._own_cpu_s += HOOK_CPU_S
        raw = json.dumps({"hook_event_name": event, **more}).encode()
        line = SpoolLine(WALL + now, now, self.incarnation, self.pid, event, len(raw), raw)
        self.turn = fold(self.turn, line)

    def _tool(self, name: str, tool_input: Mapping[str, Any], deed: Steps) -> Steps:
        about = {"tool_name": name, "tool_input": tool_input, "tool_use_id": f"toolu_{next(self._uses)}"}
        yield from self._hook("PreToolUse", **about)
        self.did("tool_start", tool=name, input=tool_input)
        code = yield from deed
        self.did("tool_end", tool=name)
        yield from self._hook("PostToolUseFailure" if code else "PostToolUse", **about)

    def _child(self, name: str, seconds: float, cores: float = 0.0) -> Child:
        now = self.time.now
        child = Child(self.world.new_pid(), name, now, now + seconds, cores)
        self.children.append(child)
        self.time.at(child.until, child.ended.come)
        return child

    def _run(self, name: str, seconds: float, cores: float = 0.0, code: int = 0) -> Steps:
        """A child to its end; with the turn it ends too."""
        child = self._child(name, seconds, cores)
        try:
            yield child.ended
        finally:
            child.end(self.time.now)
            self._own_cpu_s += child.cpu_s(self.time.now)
            self.children.remove(child)
        return code

    def _shell(self, *argv: str) -> Steps:
        command = " ".join(argv)
        self._transcript.append(f"  ⎿  $ {command[:200]}")
        yield from self._tool("Bash", {"command": command}, self._command(argv, command))

    def _command(self, argv: Sequence[str], command: str) -> Steps:
        """How long a command takes and what comes of it."""
        if argv[0] == "dogwatch":
            yield from self._run("dogwatch", COMMAND_S, COMMAND_CPU_S / COMMAND_S)
            self.world.call(self.name, argv[1:])
            return 0
        if polls := re.search(r"seq (\d+)\); do (.*?); sleep ([\d.]+)", command):
            return (yield from self._poll(int(polls[1]), polls[2], float(polls[3])))
        if command.rstrip().endswith("&"):
            return (yield from self._run("sh", QUICK_S))
        slept = re.search(r"(?:sleep|timeout|time\.sleep\()\s*([\d.]+)", command)
        burns = "while :" in command
        fails = int("exit 1" in command or "exit 2" in command or "missing" in command or "make " in command)
        name = "sh" if burns else "sleep" if slept else argv[0]
        return (yield from self._run(name, float(slept[1]) if slept else QUICK_S, float(burns), fails))

    def _poll(self, count: int, question: str, gap_s: float) -> Steps:
        shell = self._child("sh", NEVER_S)
        try:
            for _ in range(count):
                asks_door = "dogwatch mail read" in question
                if asks_door:
                    yield from self._run("dogwatch", COMMAND_S, COMMAND_CPU_S / COMMAND_S)
                text = question.split("grep -q ")[-1].split()[0] if asks_door else question.split()[1]
                if self.world.has_mail(self.name, text) if asks_door else text in self.world.files:
                    return 0
                yield from self._run("sleep", gap_s)
            return 1
        finally:
            shell.end(self.time.now)
            self.children.remove(shell)

    def _write(self, path: str, size: int, content: str = "") -> Steps:
        def deed() -> Steps:
            self.world.files[path] = (size, WALL + self.time.now)
            self.did("wrote", path=path)
            yield from ()

        yield from self._tool("Write", {"file_path": path, "content": content}, deed())
        self._transcript.append(f"  ⎿  Wrote {path} ({size} bytes)")

    def _write_outputs(self, subject: str, prefix: str = "") -> Steps:
        for path in self._files(subject):
            yield from self._write(prefix + path, 150)
            if not prefix:
                self._written.setdefault(subject, set()).add(path)

    def _files(self, subject: str) -> tuple[str, ...]:
        return self._orders[subject].files if subject in self._orders else ()

    def _report(self, subject: str, outcome: str = "done") -> Steps:
        yield from self._shell("dogwatch", "report", outcome, "--task", subject)

    def _work(self, seconds: float) -> Steps:
        left = seconds
        while left > 1e-9:
            portion = min(left, max(0.2, min(TOOL_INTERVAL_S, seconds / 4)))
            left -= portion
            yield from self._tool("Read", {"file_path": f"notes-{round(left, 3)}.md"}, _pause(portion))

    # Turns

    def _start(self) -> Steps:
        yield START_S
        self.did("started")
        yield self.script.start_delay_s
        todo = list(self._rule(Message("start")) or ())
        while todo and todo[0].name == "startup_dialog":
            yield from self._perform(todo.pop(0), Message("start"))
        yield from self._hook("SessionStart", source="startup")
        self.starting = False
        self.did("ready")
        self._busy_since = self.time.now if todo else None
        try:
            for step in todo:
                yield from self._perform(step, Message("start"))
        except TurnOver:
            return

    def _prompt(self, message: Message) -> Steps:
        header = f"[dogwatch:{message.id} {message.kind} {message.subject}]" if message.id else "A sub-agent has ended."
        self._transcript.append(f"❯ {header}")
        self._busy_since, self._finished, self._stop_held = self.time.now, "", False
        self.did("prompt", ids=[message.id])
        yield from self._hook("UserPromptSubmit", prompt=header)
        self.did("turn_start", ids=[message.id])
        if self._context_full:
            yield from self._fail_for_context()
            self.did("turn_end", stop=False)
            return
        try:
            yield from self._handle(message)
        except TurnOver as over:
            if not over.stop:
                self.did("turn_end", stop=False)
                return
        yield from self._hook("Stop", stop_hook_active=self._stop_held)
        self.did("turn_end", stop=True)
        self._finished = f"✻ Worked for {int(self.time.now - (self._busy_since or self.time.now))}s"

    def _handle(self, message: Message) -> Steps:
        if message.id and message.id in self._seen:
            return
        self._seen.add(message.id)
        if message.kind == "dispatch":
            self._orders[message.subject] = message
        rule = self._rule(message)
        if rule is None:
            yield from self._default(message)
            return
        for step in rule:
            yield from self._perform(step, message)

    def _rule(self, message: Message) -> tuple[Step, ...] | None:
        for number, rule in enumerate(self.script.rules):
            used = self._used.get(number, 0)
            if rule.applies(message.kind, message.subject, self.incarnation, used):
                self._used[number] = used + 1
                return rule.do
        return None

    def _default(self, message: Message) -> Steps:
        if message.kind == "dispatch":
            yield from self._do_task(message.subject)
        elif message.kind == "checkpoint":
            yield from self._shell("dogwatch", "checkpoint", "approve", message.subject)
        elif message.kind == "mail":
            yield from self._shell("dogwatch", "mail", "read")
            yield from self._shell("dogwatch", "mail", "ack", message.id)
        elif message.kind == "health_check":
            yield from self._shell("dogwatch", "heartbeat")
        elif message.kind == "nudge":
            yield from self._resume(message.subject)
        elif message.kind == "notification":
            yield from self._resume(next(iter(self._orders), ""))

    def _do_task(self, subject: str) -> Steps:
        yield from self._work(self.script.work_s)
        yield from self._write_outputs(subject)
        yield from self._report(subject)

    def _resume(self, subject: str) -> Steps:
        if subject in self._orders:
            if not set(self._files(subject)) <= self._written.get(subject, set()):
                yield from self._do_task(subject)
            else:
                yield from self._report(subject)

    def _perform(self, step: Step, message: Message) -> Steps:
        yield from getattr(self, f"_do_{step.name}")(step, message)

    # Steps

    def _do_work(self, step: Step, message: Message) -> Steps:
        yield from self._work(step["seconds"])

    def _do_wait(self, step: Step, message: Message) -> Steps:
        yield step["seconds"]

    def _do_say(self, step: Step, message: Message) -> Steps:
        self._transcript.append(f"● {step['text']}")
        yield from ()

    def _do_tool(self, step: Step, message: Message) -> Steps:
        seconds = 60.0 if step["seconds"] is None else step["seconds"]
        yield from self._shell(*(step["command"] or ("python", "-c", f"import time; time.sleep({seconds})")))

    def _do_continue(self, step: Step, message: Message) -> Steps:
        yield from self._default(message)

    def _do_write(self, step: Step, message: Message) -> Steps:
        yield from self._write(step["path"], step["bytes"] or len(step["content"]), step["content"])

    def _do_write_outputs(self, step: Step, message: Message) -> Steps:
        yield from self._write_outputs(message.subject, step["wrong_path"])

    def _do_report(self, step: Step, message: Message) -> Steps:
        yield from self._report(message.subject, step["outcome"])

    def _do_lose_report(self, step: Step, message: Message) -> Steps:
        yield from self._work(self.script.work_s)
        yield from self._write_outputs(message.subject)
        raise TurnOver(stop=True)

    def _do_approve(self, step: Step, message: Message) -> Steps:
        yield from self._shell("dogwatch", "checkpoint", "approve", message.subject)

    def _do_mail_send(self, step: Step, message: Message) -> Steps:
        yield from self._shell("dogwatch", "mail", "send", step["to"], step["text"])
        self.did("mail_send", to=step["to"])

    def _do_heartbeat(self, step: Step, message: Message) -> Steps:
        yield from self._shell("dogwatch", "heartbeat")

    def _do_subagent(self, step: Step, message: Message) -> Steps:
        identity = f"a{next(self._uses)}"
        about = {"agent_id": identity, "agent_type": step["type"]}
        self.subagents[identity] = step["type"]
        yield from self._hook("SubagentStart", **about)
        child = self._child("python", NEVER_S if step["never"] else step["seconds"])
        self.did("subagent_start", type=step["type"])
        self._step(self._subagent(child, step, about), None)

    def _subagent(self, child: Child, step: Step, about: Mapping[str, Any]) -> Steps:
        yield child.ended
        self.children.remove(child)
        del self.subagents[about["agent_id"]]
        if step["output"]:
            self.world.files[step["output"]] = (40, WALL + self.time.now)
        self.did("subagent_end", type=step["type"])
        yield from self._hook("SubagentStop", **about)
        self._submit(Message("notification"))

    def _do_silent(self, step: Step, message: Message) -> Steps:
        self.did("fell_silent", task=message.subject)
        yield from ()
        raise TurnOver(stop=True)

    def _do_hang(self, step: Step, message: Message) -> Steps:
        self.did("hung", task=message.subject)
        self.hung, self._frozen_at = True, self.time.now
        yield Happening()

    def _do_spin(self, step: Step, message: Message) -> Steps:
        self.did("spinning", task=message.subject)
        while True:
            self._own_cpu_s += SPIN_S
            yield from self._tool("Bash", {"command": "make check"}, _pause(SPIN_S))

    def _do_exit(self, step: Step, message: Message) -> Steps:
        self.did("exiting", code=step["code"])
        for child in self.living():
            child.end(self.time.now)
        yield from self._hook("SessionEnd", reason="other")
        self.kill()
        yield Happening()

    def _do_crash(self, step: Step, message: Message) -> Steps:
        self.did("crashed", signal=int(step["signal"]))
        yield 0.001
        self.kill()
        yield Happening()

    def _do_shell(self, step: Step, message: Message) -> Steps:
        self.did("exiting", code=0)
        yield from self._hook("SessionEnd", reason="prompt_input_exit")
        self.kill()
        yield Happening()

    def _do_startup_dialog(self, step: Step, message: Message) -> Steps:
        self.did("dialog_open", dialog="startup")
        self.dialog = ("Do you trust the files in this folder?", "", "❯ 1. No, exit", "  2. Yes, proceed")
        yield Happening()

    def _do_permission(self, step: Step, message: Message) -> Steps:
        yield from self._hook("PermissionRequest", tool_name="Bash", tool_input={"command": step["text"]})
        yield from self._hook("Notification", notification_type="permission_prompt", message="It needs you")
        self.did("dialog_open", dialog="permission", text=step["text"])
        choices = ("❯ 1. Yes", "  2. Yes, and don't ask again for this command", "  3. No")
        self.dialog = ("Bash command", "", f"  {step['text']}", "", "Do you want to proceed?", *choices)
        yield Happening()

    def _do_provider_error(self, step: Step, message: Message) -> Steps:
        word, text = ERRORS[step["code"]]
        self.did("provider_error", code=step["code"])
        for attempt in range(1, step["retries"] + 1):
            left = step["seconds"]
            while left > 1e-9:
                left_s = int(left + 0.999)
                self._status = f"✻ {step['code']} {text} · Retrying in {left_s}s · attempt {attempt}/10"
                yield min(left, 1.0)
                left -= 1.0
            self.did("provider_retry", attempt=attempt)
        self._status = ""
        if not step["final"]:
            self.did("provider_ok")
            return
        self._transcript.append(f"● API Error: {step['code']} {text}.")
        self._finished = f"✘ API Error: {step['code']} {text} · the turn has ended"
        self.did("stop_failure", code=step["code"])
        yield from self._hook("StopFailure", error=word)
        raise TurnOver(stop=False)

    def _do_context(self, step: Step, message: Message) -> Steps:
        self.did("context", used=step["used"])
        if step["full"]:
            self._context_full = True
            yield from self._fail_for_context()
            raise TurnOver(stop=False)

    def _fail_for_context(self) -> Steps:
        self._transcript.append("● The prompt is too long: the context is full.")
        self._finished = "✘ API Error: the context is full · the turn has ended"
        self.did("stop_failure", code="context_full")
        yield from self._hook("StopFailure", error="context_full")

    def _do_swallow_enter(self, step: Step, message: Message) -> Steps:
        self._swallow += step["times"]
        yield from ()

    def _do_draft(self, step: Step, message: Message) -> Steps:
        self.composer += step["text"]
        self.did("draft", text=step["text"])
        yield from ()

    def _do_grow(self, step: Step, message: Message) -> Steps:
        for _ in range(20):
            self._own_cpu_s += 0.01
            yield step["seconds"] / 20
        self.did("grew", mb=step["mb"])

    def _do_stop_loop(self, step: Step, message: Message) -> Steps:
        for number in itertools.count(1) if step["times"] is None else range(1, step["times"] + 1):
            self.did("stop_again", number=number)
            yield from self._hook("Stop", stop_hook_active=self._stop_held)
            self._stop_held = True
            yield step["seconds"]

    def _do_compact(self, step: Step, message: Message) -> Steps:
        yield from self._hook("PreCompact", trigger="auto")
        self.did("compact_start")
        self._status = "✻ Compacting… (esc to interrupt)"
        yield step["seconds"]
        self._status = ""
        self.did("compact_end")
        self._context_full = False
        yield from self._hook("PostCompact", trigger="auto")
        yield from self._hook("SessionStart", source="compact")

    def _do_old_error(self, step: Step, message: Message) -> Steps:
        self._transcript.append("● API Error: 529 Overloaded. This is usually temporary: try again in a moment.")
        self._transcript.append("  ⎿  Do you want to proceed? It was answered long ago.")
        self._transcript.append("● All is well again.")
        yield from ()

    def _do_flash_prompt(self, step: Step, message: Message) -> Steps:
        yield from self._tool("Read", {"file_path": "one.md"}, _pause(0.2))
        since, self._busy_since = self._busy_since, None
        yield step["seconds"]
        self._busy_since = since
        yield from self._tool("Read", {"file_path": "two.md"}, _pause(0.2))


def _pause(seconds: float) -> Steps:
    yield seconds


_STATUS = "<the status line>"


@lru_cache(maxsize=256)
def _drawn(
    transcript: tuple[str, ...], composer: str, dialog: tuple[str, ...], footer: tuple[str, ...], starting: bool
) -> tuple[str, ...]:
    view = replace(View(), status=_STATUS, composer=composer, dialog=dialog, footer=footer, starting=starting)
    view.transcript.extend(transcript)
    return tuple(frame(view, COLUMNS, ROWS)[0])
