"""The scripted agent's turns: prompts one after another, each message by the first rule that is for it."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from dataclasses import replace

from dogwatch.model import brief
from dogwatch.testing import behaviours, steps
from dogwatch.testing.behaviours import Message, Program, TurnOver
from dogwatch.testing.body import Order
from dogwatch.testing.loop import Job, Steps, Wait
from dogwatch.testing.scenario import Step

STOP_TRIES_MAX = 8
NOTIFICATION = "<task-notification>"


class Turns:
    """What runs now and what waits behind it. A prompt typed while a turn runs is submitted after it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._body = program.body
        self._turn: Job | None = None
        self._seen: set[str] = set()
        self._used: dict[int, int] = {}
        self.queue: list[tuple[str, str]] = []

    @property
    def running(self) -> bool:
        return self._turn is not None

    def begin(self) -> None:
        """The start of the program counts as a turn: prompts wait behind it."""
        self._turn = self._body.loop.start(self._start(), self._done)

    def submit(self, text: str, shown: str) -> None:
        """Begins a turn, or queues the prompt behind the one that runs."""
        if self._turn is not None:
            self._body.truth.did("queued", bytes=len(_bytes(text)))
            self.queue.append((text, shown))
        else:
            self._turn = self._body.loop.start(self._prompt(text, shown), self._done)

    def interrupt(self) -> None:
        """Ends the turn where it is, without a Stop hook."""
        if self._turn is None or self._body.view.starting:
            return
        if self._body.deaf:
            self._body.truth.did("interrupt_ignored")
            return
        self._body.loop.cancel(self._turn)
        self._body.truth.did("interrupted")
        self._body.show("Interrupted · What should be done instead?")
        self._done()

    def _done(self) -> None:
        self._turn = None
        self._body.busy_since = None
        if self.queue:
            self.submit(*self.queue.pop(0))

    def _start(self) -> Steps[None]:
        body, message = self._body, Message("start")
        body.truth.did("started", argv=sys.argv[1:])
        yield Wait(body.scenario.start_delay_s)
        todo = list(self._rule(message) or ())
        while todo and todo[0].name == "startup_dialog":
            yield from steps.perform(self._program, todo.pop(0), message)
        yield from body.hook("SessionStart", source="startup")
        body.view.starting = False
        self._program.draw()
        body.truth.did("ready")
        body.busy_since = time.monotonic() if todo else None
        try:
            for step in todo:
                yield from steps.perform(self._program, step, message)
        except TurnOver:
            return

    def _prompt(self, text: str, shown: str) -> Steps[None]:
        body = self._body
        found = brief.headers(text)
        ids = [header.id for header in found]
        body.prompt_id = os.urandom(8).hex()
        body.view.transcript.append(f"❯ {shown}")
        data = _bytes(text)
        digest = hashlib.sha256(data).hexdigest()
        body.truth.did("prompt", ids=ids, bytes=len(data), sha256=digest, text=text[:2000])
        body.busy_since, body.finished, body.stop_held = time.monotonic(), "", False
        refused = yield from body.hook("UserPromptSubmit", prompt=text)
        if refused is not None:
            body.truth.did("prompt_refused", ids=ids, reason=refused[:500])
            body.show(f"Refused: {refused}")
            return
        body.truth.did("turn_start", ids=ids)
        if body.context_full:
            yield from body.context_failure()
            body.truth.did("turn_end", stop=False)
            return
        other = Message("notification" if text.startswith(NOTIFICATION) else "prompt", text=text)
        try:
            for message in [Message(header.kind, header.id, header.subject, text) for header in found] or [other]:
                yield from self._handle(message)
        except TurnOver as over:
            if not over.stop:
                body.truth.did("turn_end", stop=False)
                return
        yield from self._stop()

    def _stop(self) -> Steps[None]:
        """The Stop hook; where it refuses, the agent tries again, as a model does that has nothing more to say."""
        body = self._body
        for _ in range(STOP_TRIES_MAX):
            refused = yield from body.hook(
                "Stop",
                stop_hook_active=body.stop_held,
                last_assistant_message=body.said,
                background_tasks=list(body.subagents.values()),
            )
            if refused is None:
                break
            body.stop_held = True
            body.truth.did("stop_refused", reason=refused[:500])
            body.show(f"Stop refused: {refused}")
        body.truth.did("turn_end", stop=True)
        body.finished = f"✻ Worked for {int(time.monotonic() - (body.busy_since or time.monotonic()))}s"

    def _handle(self, message: Message) -> Steps[None]:
        """One message: by the first rule that is for it, or by default; the same id only once."""
        if message.id and message.id in self._seen:
            self._body.truth.did("duplicate", id=message.id)
            return
        self._seen.add(message.id)
        if message.kind == "dispatch":
            self._body.orders[message.subject] = Order(message.subject, brief.written_files(message.text))
        rule = self._rule(message)
        if rule is None:
            yield from self.default(message)
            return
        for step in rule:
            yield from steps.perform(self._program, step, message)

    def _rule(self, message: Message) -> tuple[Step, ...] | None:
        for number, rule in enumerate(self._body.scenario.rules):
            used = self._used.get(number, 0)
            if rule.applies(message.kind, message.subject, self._body.truth.incarnation, used):
                self._used[number] = used + 1
                return rule.do
        return None

    def default(self, message: Message) -> Steps[None]:
        """What the agent does without a rule."""
        if message.kind == "dispatch":
            yield from behaviours.dispatch(self._body, self._body.order(message.subject))
        elif message.kind == "offer":
            yield from self._claim(message)
        elif message.kind == "checkpoint":
            yield from behaviours.checkpoint(self._body, message)
        elif message.kind == "mail":
            yield from behaviours.mail(self._body, message)
        elif message.kind == "nudge" and f"dogwatch checkpoint approve {message.subject}" in message.text:
            yield from behaviours.checkpoint(self._body, message)
        elif message.kind == "nudge" and f"dogwatch claim {message.subject}" in message.text:
            yield from self._claim(message)
        elif message.kind == "nudge" and f"dogwatch mail ack {message.subject}" in message.text:
            yield from behaviours.mail(self._body, replace(message, id=message.subject))
        elif message.kind == "refresh":
            yield from behaviours.refresh(self._body, message)
        elif message.kind == "health_check":
            yield from self._body.dogwatch("heartbeat")
        elif message.kind in ("nudge", "notification"):
            yield from behaviours.resume(self._body, message.subject)
        elif message.kind == "prompt":
            self._body.say(f"I have read {len(message.text)} characters.")

    def _claim(self, message: Message) -> Steps[None]:
        """Takes an offered task; what the claim prints is a dispatch, so the rules for dispatches hold for it."""
        body = self._body
        body.truth.did("claim_called", task=message.subject)
        result = yield from body.dogwatch("claim", message.subject)
        body.truth.did("claim_exit", task=message.subject, code=result.code if result else None)
        if result is None or result.code:
            return
        header = next((found for found in brief.headers(result.out) if found.kind == "dispatch"), None)
        subject = header.subject if header else message.subject
        yield from self._handle(Message("dispatch", header.id if header else "", subject, result.out))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
