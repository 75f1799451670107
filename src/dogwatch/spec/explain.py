"""A Plan in plain words: who takes part, and what will happen, phase by phase."""

from __future__ import annotations

import shlex
import textwrap

from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Gate, Notify, Partition, Plan, Role
from dogwatch.spec.targets import shown

_WIDTH = 120


def explain(plan: Plan) -> str:
    """What a run of `plan` does, as text for a terminal."""
    count = len(plan.agents())
    lines = [f"{plan.name}: {_number(count, 'agent')}, {_number(len(plan.phases), 'phase')}", "", "Agents"]
    lines += [_role(role) for role in plan.roles]
    for number, phase in enumerate(plan.phases, 1):
        lines += ["", f"Phase {number} of {len(plan.phases)}: {phase.name}"]
        for dispatch in phase.dispatches:
            lines += _dispatch(dispatch, plan)
        for checkpoint in phase.checkpoints:
            lines += _checkpoint(checkpoint)
        for gate in phase.gates:
            lines += _gate(gate)
    if plan.milestones:
        lines += ["", "Milestones"]
        lines += [f"  {item.name}: when {_and(item.after)} {_is(item.after)} accepted" for item in plan.milestones]
    lines += ["", "In the end", *_wrapped(f"The deliverable is {_check(plan.deliverable)}.")]
    if plan.on_task_failure == "fail":
        lines += _wrapped("A task that has used up its attempts ends the run as FAILED.")
    else:
        lines += _wrapped("A task that has used up its attempts makes the run PARTIAL; what does not need it goes on.")
    if plan.sensitive:
        lines += _wrapped("The pipeline is sensitive: texts of tasks and messages are kept out of logs and reports.")
    if plan.notify.has_ways:
        lines += _wrapped(_notify(plan.notify))
    lines += _wrapped(f"Whatever happens, the run ends within {_time(plan.limits.deadline_s)}.")
    return "\n".join(lines) + "\n"


def _role(role: Role) -> str:
    how = f"plays {role.script}" if role.harness == "scripted" else f"runs {shlex.join(role.command)}"
    trusted = f", may {_and(role.capabilities)}" if role.capabilities else ""
    return f"  {', '.join(role.agents())}: {how}{trusted}"


def _dispatch(dispatch: Dispatch, plan: Plan) -> list[str]:
    holders = plan.holders(dispatch)
    who = _and(holders)
    if dispatch.address == "any" and len(holders) > 1:
        who = f"whoever of {_and(holders)} claims it first"
    when = f", after {_and(dispatch.after)} {_is(dispatch.after)} accepted" if dispatch.after else ""
    risk = f", {dispatch.risk} risk" if dispatch.risk != "normal" else ""
    lines = [f"  {dispatch.name}: {who}{when}"]
    lines += _wrapped(dispatch.task, "      ")
    time = f"should take {_time(dispatch.expect_s)}, " if dispatch.expect_s is not None else ""
    facts = f"{time}{_number(dispatch.attempts, 'attempt')}{risk}"
    lines += _wrapped(facts, "    ")
    if dispatch.outputs:
        outputs = _and(tuple(f"{output.path} ({output.kind})" for output in dispatch.outputs))
        lines += _wrapped(f"must write {outputs}", "    ")
    return lines


def _checkpoint(checkpoint: Checkpoint) -> list[str]:
    verb = "reviews" if len(checkpoint.reviewers) == 1 else "review"
    what = f"{checkpoint.artifact} of {checkpoint.author}, at most {_number(checkpoint.rounds_max, 'round')}"
    lines = _wrapped(f"checkpoint {checkpoint.name}: {_and(checkpoint.reviewers)} {verb} {what}")
    return lines + (_wrapped(checkpoint.question, "      ") if checkpoint.question else [])


def _gate(gate: Gate) -> list[str]:
    if gate.command:
        return _wrapped(f"gate {gate.name}: {shlex.join(gate.command)} exits with 0 within {_time(gate.timeout_s)}")
    if gate.partitions:
        data = _and(tuple(_partition(one) for one in gate.partitions))
        return _wrapped(f"gate {gate.name}, before all else: waits at most {_time(gate.timeout_s)} for {data}")
    return _wrapped(f"gate {gate.name}: {_and(tuple(_check(check) for check in gate.checks))}")


def _partition(one: Partition) -> str:
    facts = [f"at least {_number(one.min_rows, 'row')}"]
    if one.dated_by:
        facts.append(f"the newest by {one.dated_by} at most {_time(one.max_age_s)} old")
    return f"{one.shown} ({', '.join(facts)})"


def _check(check: ByteCheck) -> str:
    facts = [f"at least {_number(check.min_bytes, 'byte')}"]
    if check.max_bytes is not None:
        facts.append(f"at most {_number(check.max_bytes, 'byte')}")
    facts += [f"with {text!r}" for text in check.contains]
    facts += [f"without {text!r}" for text in check.lacks]
    if check.matches:
        facts.append(f"matching {check.matches!r}")
    if check.json:
        facts.append("valid JSON")
    if check.sha256:
        facts.append(f"with SHA-256 {check.sha256}")
    return f"{check.path} ({', '.join(facts)})"


def _notify(notify: Notify) -> str:
    ways = [shown(target) for target in notify.targets]
    ways += [f"the targets in {notify.targets_file}"] if notify.targets_file else []
    ways += [f"the command {notify.command[0]}"] if notify.command else []
    if not notify.on:
        return "Nobody is told of anything: `on` is empty."
    return f"A person is told through {_and(tuple(ways))} of: {', '.join(notify.on)}."


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    lines = [line for part in text.strip().splitlines() for line in textwrap.wrap(part, _WIDTH - len(indent)) or [""]]
    return [f"{indent}{line}".rstrip() for line in lines]


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _and(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _is(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"


def _time(seconds: float) -> str:
    for unit, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit and seconds % unit == 0:
            return _number(int(seconds // unit), word)
    return f"{seconds:g} seconds"
