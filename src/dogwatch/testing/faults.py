"""The steps of a scenario in which an agent fails, each in its own way: it hangs, dies, loops, asks or forgets."""

from __future__ import annotations

import os
import select
import signal
import time
from itertools import count

from dogwatch.testing.behaviours import Message, Program, TurnOver, pause
from dogwatch.testing.loop import Steps, Wait
from dogwatch.testing.scenario import Step

ERRORS = {
    429: ("rate_limit", "Rate limited"),
    500: ("server_error", "Internal server error"),
    529: ("overloaded", "Overloaded"),
}
PERMISSION_CHOICES = ("❯ 1. Yes", "  2. Yes, and don't ask again for this command", "  3. No")


def hang(program: Program, step: Step, message: Message) -> Steps[None]:
    program.draw()
    program.body.truth.did("hung", task=message.subject)
    # Blocked for good, deaf to SIGTERM as a client is whose event loop stands still. Only the terminal's end is
    # noticed, so that a test that kills its tmux server leaves nothing behind.
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(1)
    yield


def spin(program: Program, step: Step, message: Message) -> Steps[None]:
    body = program.body
    body.truth.did("spinning", task=message.subject)
    until = None if step["seconds"] is None else time.monotonic() + step["seconds"]
    while until is None or time.monotonic() < until:
        yield from body.tool("Bash", {"command": "make check"}, _burn(0.4))


def _burn(seconds: float) -> Steps[None]:
    """Real cpu time, in slices so that keys and signals are still seen."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pause_at = time.monotonic() + 0.05
        while time.monotonic() < pause_at:
            pass
        yield Wait(0)


def exit_(program: Program, step: Step, message: Message) -> Steps[None]:
    program.leave(step["code"], "other")
    yield Wait()


def crash(program: Program, step: Step, message: Message) -> Steps[None]:
    program.draw()
    program.body.truth.did("crashed", signal=step["signal"])
    if step["signal"] != signal.SIGKILL:
        signal.signal(step["signal"], signal.SIG_DFL)
    os.kill(os.getpid(), step["signal"])
    yield Wait()


def shell(program: Program, step: Step, message: Message) -> Steps[None]:
    program.leave(0, "prompt_input_exit")
    yield Wait()


def startup_dialog(program: Program, step: Step, message: Message) -> Steps[None]:
    lines = ("Do you trust the files in this folder?", "", os.getcwd(), "", "❯ 1. No, exit", "  2. Yes, proceed")
    program.body.truth.did("dialog_open", dialog="startup")
    answer = program.ask((*lines, "", "Enter to confirm · Esc to cancel"), ("1", "2", "enter", "escape"))
    key = yield Wait(answer=answer)
    program.body.truth.did("dialog_answer", dialog="startup", key=key)
    if key != "2":
        program.leave(1, "other")
        yield Wait()


def permission(program: Program, step: Step, message: Message) -> Steps[None]:
    body = program.body
    tool_input = {"command": step["text"]}
    about = {"tool_name": "Bash", "tool_input": tool_input}
    denied = yield from body.hook("PermissionRequest", **about)
    if denied is None:
        yield from body.hook(
            "Notification", message="The agent needs your permission", notification_type="permission_prompt"
        )
        body.truth.did("dialog_open", dialog="permission", text=step["text"])
        lines = ("Bash command", "", f"  {step['text']}", "", "Do you want to proceed?", *PERMISSION_CHOICES)
        key = yield Wait(answer=program.ask((*lines, "", "Esc to cancel"), ("1", "2", "3", "enter", "escape")))
        body.truth.did("dialog_answer", dialog="permission", key=key)
        if key in ("1", "2", "enter"):
            yield from body.tool("Bash", tool_input, pause(0))
            return
    body.show("Not permitted")
    raise TurnOver(stop=False)


def provider_error(program: Program, step: Step, message: Message) -> Steps[None]:
    body = program.body
    word, text = ERRORS[step["code"]]
    body.truth.did("provider_error", code=step["code"])
    try:
        for attempt in range(1, step["retries"] + 1):
            until = time.monotonic() + step["seconds"]
            while (left := until - time.monotonic()) > 0:
                seconds = int(left + 0.999)
                body.status = f"✻ {step['code']} {text} · Retrying in {seconds}s · attempt {attempt}/10"
                yield Wait(min(left, 1.0))
            body.truth.did("provider_retry", code=step["code"], attempt=attempt)
    finally:
        body.status = ""
    if not step["final"]:
        body.truth.did("provider_ok")
        return
    said = f"API Error: {step['code']} {text}. This is usually temporary: try again in a moment."
    body.say(said)
    body.finished = f"✘ API Error: {step['code']} {text} · the turn has ended"
    body.truth.did("stop_failure", code=step["code"])
    yield from body.hook("StopFailure", error=word, last_assistant_message=said)
    raise TurnOver(stop=False)


def swallow_enter(program: Program, step: Step, message: Message) -> Steps[None]:
    program.body.enters_to_swallow += step["times"]
    yield from ()


def draft(program: Program, step: Step, message: Message) -> Steps[None]:
    program.body.composer.type(step["text"])
    program.body.truth.did("draft", text=step["text"])
    yield from ()


def grow(program: Program, step: Step, message: Message) -> Steps[None]:
    portions = max(1, min(step["mb"], 20))
    for number in range(portions):
        size = (step["mb"] << 20) * (number + 1) // portions - (step["mb"] << 20) * number // portions
        program.body.memory.append(bytearray(b"\x01") * size)  # every page is touched, so that it is resident
        yield Wait(step["seconds"] / portions)
    program.body.truth.did("grew", mb=step["mb"])


def release(program: Program, step: Step, message: Message) -> Steps[None]:
    taken = sum(map(len, program.body.memory)) >> 20
    program.body.memory.clear()
    program.body.truth.did("released", mb=taken)
    yield from ()


def stop_loop(program: Program, step: Step, message: Message) -> Steps[None]:
    """As under a hook that holds every stop. The client says so from the second stop of the turn on."""
    body = program.body
    body.deaf = step["deaf"]
    try:
        for number in count(1) if step["times"] is None else range(1, step["times"] + 1):
            body.truth.did("stop_again", number=number)
            yield from body.hook(
                "Stop",
                stop_hook_active=body.stop_held,
                last_assistant_message="I am done.",
                background_tasks=list(body.subagents.values()),
            )
            body.stop_held = True
            yield Wait(step["seconds"])
    finally:
        body.deaf = False


def context(program: Program, step: Step, message: Message) -> Steps[None]:
    program.body.use_context(step["used"])
    if step["full"]:
        program.body.context_full = True
        yield from program.body.context_failure()
        raise TurnOver(stop=False)


def compact(program: Program, step: Step, message: Message) -> Steps[None]:
    body = program.body
    yield from body.hook("PreCompact", trigger="auto", custom_instructions=None)
    body.truth.did("compact_start")
    body.status = "✻ Compacting… (esc to interrupt)"
    try:
        yield Wait(step["seconds"])
    finally:
        body.status = ""
    body.truth.did("compact_end")
    body.context_full = False
    yield from body.hook("PostCompact", trigger="auto", compact_summary="What was said before.")
    yield from body.hook("SessionStart", source="compact")
    body.show("Compacted")


def old_error(program: Program, step: Step, message: Message) -> Steps[None]:
    program.body.say("API Error: 529 Overloaded. This is usually temporary: try again in a moment.")
    program.body.show("Do you want to proceed? It was answered long ago.")
    program.body.say("All is well again.")
    yield from ()


def flash_prompt(program: Program, step: Step, message: Message) -> Steps[None]:
    body = program.body
    yield from body.tool("Read", {"file_path": "one.md"}, pause(0.2))
    since, body.busy_since = body.busy_since, None
    body.truth.did("flash_start")
    try:
        yield Wait(step["seconds"])
    finally:
        body.truth.did("flash_end")
        body.busy_since = since
    yield from body.tool("Read", {"file_path": "two.md"}, pause(0.2))
