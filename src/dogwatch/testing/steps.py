"""The steps of a scenario, one function each: what they do really happens, and the ground truth says so."""

from __future__ import annotations

import sys
from collections.abc import Callable

from dogwatch.testing import behaviours, faults
from dogwatch.testing.behaviours import Message, Program, TurnOver, pause
from dogwatch.testing.loop import Answer, Steps, Wait
from dogwatch.testing.scenario import Step

SUBAGENT_NEVER_S = 3600.0


def perform(program: Program, step: Step, message: Message) -> Steps[None]:
    """Does one step of a rule."""
    return STEPS[step.name](program, step, message)


def _work(program: Program, step: Step, message: Message) -> Steps[None]:
    yield from behaviours.work(program.body, step["seconds"])


def _wait(program: Program, step: Step, message: Message) -> Steps[None]:
    yield from pause(step["seconds"])


def _say(program: Program, step: Step, message: Message) -> Steps[None]:
    program.body.say(step["text"])
    yield from ()


def _tool(program: Program, step: Step, message: Message) -> Steps[None]:
    seconds = 60.0 if step["seconds"] is None else step["seconds"]
    argv = step["command"] or (sys.executable, "-I", "-S", "-c", f"import time; time.sleep({seconds})")
    yield from program.body.shell(*argv)


def _continue(program: Program, step: Step, message: Message) -> Steps[None]:
    yield from program.default(message)


def _write(program: Program, step: Step, message: Message) -> Steps[None]:
    content = step["content"].encode()
    if size := step["bytes"]:
        filler = content or program.body.default_content(message.subject, step["path"])
        content = (filler * (size // len(filler) + 1))[:size]
    for number in range(1, step["copies"] + 1):
        yield from program.body.write(step["path"].replace("{n}", str(number)), content)


def _write_outputs(program: Program, step: Step, message: Message) -> Steps[None]:
    yield from behaviours.write_outputs(program.body, program.body.order(message.subject), step["wrong_path"])


def _report(program: Program, step: Step, message: Message) -> Steps[None]:
    yield from program.body.report(message.subject, step["outcome"], step["note"])


def _lose_report(program: Program, step: Step, message: Message) -> Steps[None]:
    yield from behaviours.work(program.body, program.body.scenario.work_s)
    yield from behaviours.write_outputs(program.body, program.body.order(message.subject))
    program.body.truth.did("report_lost", task=message.subject)
    raise TurnOver(stop=True)


def _assert_edit(program: Program, step: Step, message: Message) -> Steps[None]:
    note = f"{step['path']}: added {step['text']!r}"
    program.body.truth.did("asserted_edit", path=step["path"], text=step["text"])
    program.body.say(f"Done, {note}")
    yield from program.body.report(message.subject, "done", note)


def _approve(program: Program, step: Step, message: Message) -> Steps[None]:
    yield from behaviours.checkpoint(program.body, message)


def _revise(program: Program, step: Step, message: Message) -> Steps[None]:
    yield from behaviours.checkpoint(program.body, message, step["note"])


def _mail_send(program: Program, step: Step, message: Message) -> Steps[None]:
    result = yield from program.body.dogwatch("mail", "send", step["to"], step["text"])
    program.body.truth.did("mail_send", to=step["to"], code=result.code if result else None)


def _heartbeat(program: Program, step: Step, message: Message) -> Steps[None]:
    result = yield from program.body.dogwatch("heartbeat")
    program.body.truth.did("heartbeat", code=result.code if result else None)


def _silent(program: Program, step: Step, message: Message) -> Steps[None]:
    program.body.truth.did("fell_silent", task=message.subject)
    yield from ()
    raise TurnOver(stop=True)


def _subagent(program: Program, step: Step, message: Message) -> Steps[None]:
    kind = step["type"]
    program.body.say(f"Agent({kind})")
    yield from program.body.tool("Agent", {"subagent_type": kind}, _start_subagent(program, step), "started")


def _start_subagent(program: Program, step: Step) -> Steps[None]:
    seconds = SUBAGENT_NEVER_S if step["never"] else step["seconds"]
    started = Answer()
    sub_agent = program.body.subagent(step["type"], seconds, step["output"], step["says"], started)
    program.body.loop.start(sub_agent, lambda: program.notify(step["type"]))
    yield Wait(answer=started)


STEPS: dict[str, Callable[[Program, Step, Message], Steps[None]]] = {
    "work": _work,
    "wait": _wait,
    "say": _say,
    "tool": _tool,
    "continue": _continue,
    "write": _write,
    "write_outputs": _write_outputs,
    "report": _report,
    "lose_report": _lose_report,
    "assert_edit": _assert_edit,
    "approve": _approve,
    "revise": _revise,
    "mail_send": _mail_send,
    "heartbeat": _heartbeat,
    "subagent": _subagent,
    "silent": _silent,
    "hang": faults.hang,
    "spin": faults.spin,
    "exit": faults.exit_,
    "crash": faults.crash,
    "shell": faults.shell,
    "startup_dialog": faults.startup_dialog,
    "permission": faults.permission,
    "provider_error": faults.provider_error,
    "swallow_enter": faults.swallow_enter,
    "draft": faults.draft,
    "grow": faults.grow,
    "release": faults.release,
    "stop_loop": faults.stop_loop,
    "context": faults.context,
    "compact": faults.compact,
    "old_error": faults.old_error,
    "flash_prompt": faults.flash_prompt,
}
