"""What is typed to an agent: one header with the message's id, kind and subject, then plain sentences.

The id makes delivery provable: the client's own prompt-submitted event carries it back. The same header is
read by the scripted agent, so there is one place for its form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dogwatch.values import dataclass

KINDS = ("dispatch", "offer", "checkpoint", "nudge", "mail", "health_check", "refresh", "canary")

_HEADER = re.compile(r"\[dogwatch:(?P<id>m[0-9a-f-]+) (?P<kind>[a-z_]+) (?P<subject>[^\]\s]+)\]")
_TO_ACKNOWLEDGE = "When you have dealt with a letter, say so:"
_ACKNOWLEDGE = "dogwatch mail ack "


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of every message."""

    id: str
    kind: str
    subject: str

    def __str__(self) -> str:
        return f"[dogwatch:{self.id} {self.kind} {self.subject}]"


def headers(text: str) -> tuple[Header, ...]:
    """All headers in `text`, in order: a prompt may carry more than one message."""
    return tuple(Header(m["id"], m["kind"], m["subject"]) for m in _HEADER.finditer(text))


def written_files(text: str) -> tuple[str, ...]:
    """The paths that a dispatch's text asks for."""
    return tuple(m["path"] for m in re.finditer(r"^- (?P<path>\S+) \([a-z_-]+\)$", text, re.MULTILINE))


def dispatch(task: str, text: str, outputs: tuple[tuple[str, str], ...], note: str = "") -> str:
    """The body of a dispatch: the task, the files to write, and how to report."""
    lines = [text]
    if note:
        lines += ["This is a new attempt. What was said of the last one:", note]
    if outputs:
        lines += ["Write these files, relative to $DOGWATCH_OUTPUT:"]
        lines += [f"- {path} ({kind})" for path, kind in outputs]
    lines += [
        f"When it is done, run: dogwatch report done --task {task}",
        f'If it cannot be done, run: dogwatch report failed --task {task} --note "why"',
    ]
    return "\n".join(lines)


def offer(task: str, text: str) -> str:
    """The body of an offer: a task for whichever agent claims it first."""
    return "\n".join([text, f"This task is open to several agents. To take it, run: dogwatch claim {task}"])


def checkpoint(name: str, artifact: str, question: str) -> str:
    """The body of a request for a review."""
    lines = [f"Please review {artifact} (relative to $DOGWATCH_OUTPUT)."]
    if question:
        lines.append(question)
    lines += [
        f"If it is good, run: dogwatch checkpoint approve {name}",
        f'If it must be changed, run: dogwatch checkpoint revise {name} --note "what"',
    ]
    return "\n".join(lines)


def nudge(duty: str, subject: str, why: str = "") -> str:
    """The body of a nudge: the agent sits at its prompt with open work. `why` is what else must be said."""
    finished = {
        "task": f"If it is finished, run: dogwatch report done --task {subject}",
        "checkpoint": f"When you have judged it, run: dogwatch checkpoint approve {subject} (or revise)",
        "offer": f"To take it, run: dogwatch claim {subject}",
        "mail": f"Run: dogwatch mail read, and then: dogwatch mail ack {subject}",
    }
    lines = [f"You stopped, but {duty} {subject} is not finished: please go on.", why, finished[duty]]
    return "\n".join(line for line in lines if line)


def inbox(letters: Sequence[tuple[str, str, str]]) -> str:
    """All open letters (id, sender, text). An agent may see some here before it was told of them: what it has to do
    with each stands below."""
    if not letters:
        return "no mail"
    shown = [f"{letter} from {sender}:\n{text}\n" for letter, sender, text in letters]
    return "\n".join([*shown, _TO_ACKNOWLEDGE, *(f"{_ACKNOWLEDGE}{letter}" for letter, _, _ in letters)])


def read_letters(text: str) -> tuple[str, ...]:
    """The ids of the letters that an inbox shows."""
    commands = text.rpartition(_TO_ACKNOWLEDGE)[2].split("\n")
    return tuple(line.removeprefix(_ACKNOWLEDGE) for line in commands if line.startswith(_ACKNOWLEDGE))


def subagent_overdue(kind: str, ran_s: float, limit_s: float, quoted: str) -> str:
    """What the parent of a sub-agent is told that has run past its time."""
    lines = [
        f"Your sub-agent {kind} has run for {ran_s:.0f} s without output; {limit_s:g} s are allowed.",
        "Start it again, or go on without it and write down why:",
        f'dogwatch subagent skip {quoted} --note "why"',
        "It stays open until you have done one of the two, or it ends.",
    ]
    return "\n".join(lines)


def health_check() -> str:
    """The body of a question for a sign of life."""
    return "Nothing was heard of you for a while. Please run: dogwatch heartbeat"


def instructions(path: str, version: str) -> str:
    """The line of a brief that names the role's instructions."""
    named = f", version {version}," if version else ""
    return f"Your instructions{named} are in {path}: read that file first, unless you know this version."


REFRESH = "VERSION_REFRESH_REQUIRED"


def refresh(path: str, before: str, version: str, hold_s: float) -> str:
    """The body of a request to read instructions that have changed; without `hold_s`, nothing follows from it."""
    lines = [
        REFRESH,
        f"Your instructions have changed: version {before} is now {version}.",
        f"Read this file now: {path}",
    ]
    if hold_s:
        lines += [
            f"Until you have read it, what you send to other agents is held, for {hold_s:g} s at most.",
            "It is noticed when your reading tool, or a plain cat of the whole file, has shown it to you.",
            "Reports and reviews are taken all the same.",
        ]
    return "\n".join([*lines, "Then go on with what you were doing."])


def refreshed_file(text: str) -> str:
    """The path that a refresh asks to read."""
    found = re.search(r"^Read this file now: (?P<path>.+)$", text, re.MULTILINE)
    return found["path"] if found else ""


def result(task: str, agent: str, outputs: str, failed: str) -> str:
    """What the sender of a task is told of it: the files that were read and are as expected, or why there are none."""
    came = (
        f"has failed: {failed}" if failed else f"is accepted. It has written {outputs}, relative to $DOGWATCH_OUTPUT."
    )
    return f"The task {task} that you gave to {agent} {came}"


def check_in(question: str) -> str:
    """What the copy of an agent is asked that only has its conversation."""
    lines = [
        "This is a check-in: you are asked how far you are. Meanwhile your work goes on elsewhere.",
        "Do not go on with it here: you can read files, and change nothing.",
        "Answer in a few sentences. Your last message is delivered as mail.",
        question,
    ]
    return "\n".join(lines)


def stall_alert(agent: str, diagnosis: str) -> str:
    """What an agent is told when one that it waits for has stalled."""
    return f"{agent} has stalled ({diagnosis}) and is being started again. Do not wait for it without need."
