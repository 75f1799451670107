"""A scenario for a pipeline that has none: every task writes what it must, and every review approves."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dogwatch.model.plan import ByteCheck, Dispatch, Output, Phase, Plan, Role, fill

Steps = list[dict[str, Any]]

WRITE_TOOL = "Write"
_HOLDER = "${DOGWATCH_ROLE}"


def built_in(plan: Plan) -> dict[str, Any]:
    """The scenario, in plain values."""
    rules = [_rule(plan, *one) for phase in plan.phases for one in _each(plan, phase)]
    return {"rules": [*rules, *common_rules()]}


def as_yaml(scenario: Mapping[str, Any]) -> str:
    """The scenario as people read it: texts of several lines as they are."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return str(yaml.dump(dict(scenario), Dumper=Dumper, allow_unicode=True, sort_keys=False, width=110))


def common_rules() -> list[dict[str, Any]]:
    """What dogwatch asks of any agent, whatever the pipeline is; for where no rule before says otherwise."""
    return [
        _asked("checkpoint", "dogwatch checkpoint approve ${dogwatch:subject}"),
        _asked("offer", "dogwatch claim ${dogwatch:subject}"),
        _asked("mail", "dogwatch mail read && dogwatch mail ack ${dogwatch:message}"),
        _asked("nudge", "dogwatch mail read && dogwatch mail ack ${dogwatch:subject}", subject=r"m[0-9a-f]{10}"),
        _asked("health_check", "dogwatch heartbeat"),
    ]


def header(kinds: str, subject: str) -> str:
    """The pattern of the header of a message: its id is another one in each run."""
    return rf"\[dogwatch:\S+ {kinds} {subject}\]"


def content(path: str, min_bytes: int, checks: Sequence[ByteCheck], said: str) -> str:
    """A text that holds for the checks as far as it can be derived from them: texts that must be in it, a size, and
    whether it must be JSON."""
    wanted = [text for check in checks for text in check.contains]
    size = max([min_bytes, *(check.min_bytes for check in checks)])
    if any(check.json for check in checks) or path.endswith(".json"):
        document: dict[str, Any] = {"rehearsal": said, "holds": wanted}
        text = f"{json.dumps(document, ensure_ascii=False)}\n"
        return text if len(text.encode()) >= size else f"{text[:-1]}{' ' * (size - len(text.encode()))}\n"
    text = "\n".join([said, *wanted, ""])
    filler = "This line is only here for the size.\n"
    return text + filler * -(-max(0, size - len(text.encode())) // len(filler))


def _each(plan: Plan, phase: Phase) -> Iterator[tuple[Dispatch, str, str]]:
    """The dispatches of a phase with the names of their tasks, each with an agent that has it; none where any may."""
    for dispatch in phase.dispatches:
        holders = plan.holders(dispatch)
        if dispatch.address != "all" or len(holders) == 1:
            yield dispatch, dispatch.name, holders[0]
        else:
            yield from ((dispatch, f"{dispatch.name}.{holder}", holder) for holder in holders)


def _rule(plan: Plan, dispatch: Dispatch, task: str, agent: str) -> dict[str, Any]:
    role = plan.role_of(agent)
    steps = [step for output in dispatch.outputs for step in _write(plan, dispatch, output, task, agent, role)]
    claim: Steps = [{"shell": f"dogwatch claim {task}"}] if dispatch.address == "any" else []
    return {
        "name": task,
        "prompt": header("(dispatch|offer|nudge)", re.escape(task)),
        "do": [*claim, *steps, {"shell": f"dogwatch report done --task {task}"}, {"text": f"{task} is rehearsed."}],
    }


def _write(plan: Plan, dispatch: Dispatch, output: Output, task: str, agent: str, role: Role | None) -> Steps:
    """The step that writes one output, by the client's own tool for files where the role may not run commands."""
    # Who claims an offered task is known to its shell alone.
    holder = _HOLDER if dispatch.address == "any" else agent
    path = fill(output.path, agent=holder, role=role.name if role is not None else "", run="${DOGWATCH_RUN}")
    checks = [check for check in checks_of(plan) if check.path == path]
    text = content(path, output.min_bytes, checks, f"This is {path}, as {task} of a rehearsal has written it.")
    rules = [rule.partition("(")[0] for rule in role.permissions] if role is not None else []
    if WRITE_TOOL in rules and "Bash" not in rules:
        return [{"tool": {"name": WRITE_TOOL, "input": {"file_path": f"${{DOGWATCH_OUTPUT}}/{path}", "content": text}}}]
    where, folder = _quoted(path), _quoted(posixpath.dirname(path))
    return [{"shell": f"mkdir -p {folder} && printf %s {shlex.quote(text)} > {where}"}]


def _quoted(path: str) -> str:
    """The path below the output folder, as a shell takes it."""
    parts = [shlex.quote(part) if part else "" for part in path.split(_HOLDER)]
    return '"$DOGWATCH_OUTPUT"' + ("/" if path else "") + '"$DOGWATCH_ROLE"'.join(parts)


def checks_of(plan: Plan) -> Iterator[ByteCheck]:
    """All that is checked of bytes, at the ends of phases and of the run."""
    for phase in plan.phases:
        for gate in phase.gates:
            yield from gate.checks
    yield plan.deliverable


def _asked(kind: str, command: str, subject: str = r"\S+") -> dict[str, Any]:
    rule: Mapping[str, Any] = {"name": kind, "prompt": header(kind, subject)}
    return {**rule, "do": [{"shell": command}, {"text": "Done, as this is a rehearsal."}]}
