"""The scripted agent: a real terminal program that behaves like an agent CLI, well or badly, as its scenario says.

Run it with `python -m dogwatch.testing.agent --scenario FILE`. It is one process, waits on one selector, and is
described for users in `docs/reference/scenario.md`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress

from dogwatch.errors import DogwatchError, UsageError
from dogwatch.testing import scenario
from dogwatch.testing.behaviours import Message, pause
from dogwatch.testing.body import Body, end, hook_command
from dogwatch.testing.keys import Decoder, Key
from dogwatch.testing.loop import Answer, Job, Loop, Steps, Wait
from dogwatch.testing.screen import Terminal, TerminalGoneError
from dogwatch.testing.truth import Truth
from dogwatch.testing.turns import NOTIFICATION, Turns

ESCAPE_S = 0.05
CTRL_C_S = 2.0
LOOK_S = 0.05
FOOTER = "  ⏵⏵ scripted agent · /exit to leave"


class Agent:
    """The program: keys become prompts, and the screen shows what comes of them."""

    def __init__(self, script: scenario.Scenario, truth: Truth) -> None:
        self.loop = Loop()
        self.body = Body(script, truth, self.loop)
        self.turns = Turns(self)
        self._terminal = Terminal()
        self._decoder = Decoder()
        self._answer: Answer | None = None
        self._answer_keys: tuple[str, ...] = ()
        self._ctrl_c_at = float("-inf")
        self._escape: Job | None = None
        self._exit_code: int | None = None

    def run(self) -> int:
        """Until the end; the answer is the exit code."""
        self._listen_for_signals()
        self._terminal.open()
        try:
            self.body.view.transcript.append(f"  Scripted agent · {self.body.truth.agent} · {os.getcwd()}")
            self.loop.watch(0, self._read)
            self.turns.begin()
            while self._exit_code is None:
                self.draw()
                self.loop.once(None if self.body.busy_since is None else 1.0)
            self.draw()
        except TerminalGoneError:
            self.leave(1, "other")
        finally:
            with suppress(TerminalGoneError, termios.error):
                self._terminal.close()
        return self._exit_code or 0

    def draw(self) -> None:
        """Brings the screen up to date."""
        body, view = self.body, self.body.view
        view.status = body.status_line()
        view.composer = body.composer.shown
        if self._answer is None:
            view.dialog = ()
        hint = "  Press Ctrl-C again to exit" if time.monotonic() - self._ctrl_c_at < CTRL_C_S else FOOTER
        queued = (f"  {len(self.turns.queue)} queued",) if self.turns.queue else ()
        view.footer = (hint, *queued, *(f"  ◯ {agent['agent_type']}" for agent in body.subagents.values()))
        self._terminal.draw(view)

    # What the steps of a scenario ask for

    def default(self, message: Message) -> Steps[None]:
        """What the agent does without a rule."""
        return self.turns.default(message)

    def ask(self, lines: tuple[str, ...], keys: tuple[str, ...]) -> Answer:
        """Opens a dialog that only these keys answer."""
        self.body.view.dialog = lines
        self._answer, self._answer_keys = Answer(), keys
        return self._answer

    def notify(self, agent_type: str) -> None:
        """A sub-agent has ended: the client tells the model so with a prompt of its own."""
        text = f"{NOTIFICATION}The agent {agent_type} has ended.</task-notification>"
        self.turns.submit(text, text)

    def leave(self, code: int, reason: str) -> None:
        """Ends the program in good order: children first, then the last hook."""
        if self._exit_code is not None:
            return
        self._exit_code = code
        for child in list(self.body.children):
            end(child, group=os.getpgid(child.pid) == child.pid)
        self.body.truth.did("exiting", code=code, reason=reason)
        if "DOGWATCH_SPOOL" in os.environ and not self.body.view.starting:
            payload = self.body.payload("SessionEnd", reason=reason)
            subprocess.run(hook_command("SessionEnd"), input=payload, capture_output=True, check=False, timeout=10)

    # Keys

    def _read(self) -> None:
        data = self._terminal.read()
        if self._escape is not None:
            self.loop.cancel(self._escape)
            self._escape = None
        self._press(self._decoder.feed(data))
        if self._decoder.waiting():
            self._escape = self.loop.start(self._lone_escape())

    def _lone_escape(self) -> Steps[None]:
        yield Wait(ESCAPE_S)
        self._escape = None
        self._press(self._decoder.flush())

    def _press(self, keys: list[Key]) -> None:
        for key in keys:
            if self._exit_code is not None:
                return
            if self._answer is not None:
                self._press_in_dialog(self._answer, key)
            else:
                self._press_in_composer(key)

    def _press_in_dialog(self, answer: Answer, key: Key) -> None:
        if key.name == "ctrl-c":
            self.leave(0, "prompt_input_exit")
        for name in key.text if key.name == "text" else (key.name,):
            if name in self._answer_keys:
                self._answer = None
                answer.give(name)
                return

    def _press_in_composer(self, key: Key) -> None:
        composer = self.body.composer
        if key.name == "text":
            composer.type(key.text)
        elif key.name == "newline":
            composer.type("\n")
        elif key.name == "paste":
            composer.paste(key.text)
        elif key.name == "backspace":
            composer.backspace()
        elif key.name == "ctrl-u":
            composer.clear()
        elif key.name == "enter":
            self._enter()
        elif key.name == "escape":
            self.turns.interrupt()
        elif key.name == "ctrl-c":
            self._ctrl_c()

    def _enter(self) -> None:
        if self.body.enters_to_swallow:
            self.body.enters_to_swallow -= 1
            self.body.truth.did("enter_swallowed")
            self._terminal.resized()
            return
        text, shown = self.body.composer.text, self.body.composer.shown
        if not text.strip():
            return
        self.body.composer.clear()
        if text.strip() == "/exit":
            self.leave(0, "prompt_input_exit")
        else:
            self.turns.submit(text, shown)

    def _ctrl_c(self) -> None:
        if self.body.composer.text:
            self.body.composer.clear()
        elif self.turns.running:
            self.turns.interrupt()
        elif time.monotonic() - self._ctrl_c_at < CTRL_C_S:
            self.leave(0, "prompt_input_exit")
        else:
            self._ctrl_c_at = time.monotonic()
            self.loop.start(pause(CTRL_C_S))  # so that the hint goes away in time

    # Signals

    def _listen_for_signals(self) -> None:
        """Signals wake the selector through a pipe, so that they are handled between two deeds, never within one."""
        receiver, sender = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(sender)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGWINCH):
            signal.signal(number, lambda *_: None)

        def ready() -> None:
            for number in os.read(receiver, 64):
                if number == signal.SIGWINCH:
                    self._terminal.resized()
                else:
                    self.body.truth.did("signal", signal=number)
                    self.leave(128 + number, "other")

        self.loop.watch(receiver, ready)


def shell_afterwards() -> None:
    """Forks: the child goes on as the agent, this process becomes a shell on the same terminal when it has ended."""
    settings = termios.tcgetattr(0)
    child = os.fork()
    if child == 0:
        return
    _, status = os.waitpid(child, 0)
    termios.tcsetattr(0, termios.TCSANOW, settings)
    if os.WIFSIGNALED(status):
        name = signal.strsignal(os.WTERMSIG(status)) or ""
        os.write(1, f"\x1b[?2004l\x1b[?7h{name}\r\n".encode())
    os.execvp("sh", ["sh"])  # noqa: S606 (becoming a shell is what this function is for)


def check_in(script: scenario.Scenario, truth: Truth, question: str) -> int:
    """A copy of the agent that is asked one thing, without a terminal."""
    truth.did("check_in", question=question)
    while script.check_in.until and not os.path.exists(script.check_in.until):
        time.sleep(LOOK_S)
    os.write(1, script.check_in.text.replace("{question}", question).encode())
    return script.check_in.exit


def main(arguments: list[str]) -> int:
    """The program's entry; bad arguments and bad scenarios are explained, not traced."""
    parser = argparse.ArgumentParser(prog="python -m dogwatch.testing.agent", description="The scripted agent.")
    parser.add_argument("--scenario", required=True, metavar="FILE", help="YAML, or JSON with a name in .json")
    parser.add_argument("--truth", default=os.environ.get("SCRIPTED_TRUTH", ""), metavar="FILE", help="appended to")
    parser.add_argument("--check-in", metavar="QUESTION", help="print the scenario's answer and end")
    options = parser.parse_args(arguments)
    try:
        script = scenario.load(options.scenario)
        if options.check_in is not None:
            return check_in(script, Truth(options.truth, dict(os.environ)), options.check_in)
        if not (os.isatty(0) and os.isatty(1)):
            raise UsageError("the scripted agent needs a terminal", hint="start it in a tmux pane")
        if script.shell:
            shell_afterwards()
        return Agent(script, Truth(options.truth, dict(os.environ))).run()
    except DogwatchError as error:
        os.write(2, f"error: {error}\n".encode())
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
