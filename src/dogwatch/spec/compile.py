"""From a checked file to the Plan that the captain executes: addresses taken apart, paths absolute, names resolved."""

from __future__ import annotations

from typing import cast

from dogwatch.model import plan
from dogwatch.spec import schema
from dogwatch.spec.paths import Files, script_path
from dogwatch.spec.rules import agents_of
from dogwatch.spec.survey import Survey


def compile_plan(pipeline: schema.Pipeline, found: Survey, folder: str) -> plan.Plan:
    """The Plan of a file in which no problem was found; `folder` is the file's own."""
    files = Files(found)
    return plan.Plan(
        name=pipeline.name,
        roles=tuple(_role(name, role, folder) for name, role in pipeline.roles.items()),
        phases=tuple(_phase(index, phase, files, folder) for index, phase in enumerate(pipeline.phases)),
        deliverable=_byte_check(pipeline.deliverable),
        milestones=tuple(
            plan.Milestone(name=name, after=tuple(milestone.after)) for name, milestone in pipeline.milestones.items()
        ),
        on_task_failure=pipeline.on_task_failure,
        sensitive=pipeline.sensitive,
        limits=plan.Limits(**pipeline.limits.model_dump()),
        notify=_notify(pipeline.notify, folder),
        time_limits=dict(pipeline.time_limits),
    )


def _notify(notify: schema.Notify, folder: str) -> plan.Notify:
    return plan.Notify(
        targets=tuple(notify.targets),
        targets_file=script_path(folder, notify.targets_file) if notify.targets_file else "",
        command=tuple(notify.command),
        on=tuple(notify.on),
    )


def _role(name: str, role: schema.Role, folder: str) -> plan.Role:
    return plan.Role(
        name=name,
        harness=role.harness,
        command=tuple(role.command),
        script=script_path(folder, role.script) if role.script else "",
        prompt=role.prompt,
        instructions=script_path(folder, role.instructions) if role.instructions else "",
        capabilities=tuple(role.capabilities),
        permissions=tuple(role.permissions),
        credential=role.credential or "",
        sandbox=role.sandbox or "",
        environment=dict(role.environment),
        inherit=tuple(role.inherit),
        limits=dict(role.limits),
        memory_max_gb=role.memory_max_gb,
        count=role.count,
    )


def _phase(index: int, phase: schema.Phase, files: Files, folder: str) -> plan.Phase:
    entries = {entry.name: entry for entry in files.found.dispatches}
    return plan.Phase(
        name=phase.name,
        dispatches=tuple(
            plan.Dispatch(
                name=item.name,
                to=entries[item.name].target,
                address=cast(plan.Address, entries[item.name].address),
                task=item.task,
                outputs=tuple(plan.Output(**output.model_dump()) for output in item.outputs),
                risk=item.risk,
                expect_s=item.expect_s,
                after=tuple(item.after),
                attempts=item.attempts,
                limits=dict(item.limits),
            )
            for item in phase.dispatches
        ),
        checkpoints=tuple(_checkpoint(index, item, files) for item in phase.checkpoints),
        gates=tuple(
            plan.Gate(
                name=item.name,
                command=tuple(item.command),
                checks=tuple(_byte_check(check) for check in item.checks),
                partitions=tuple(_partition(one, folder) for one in item.partitions),
                timeout_s=item.timeout_s,
            )
            for item in phase.gates
        ),
    )


def _checkpoint(index: int, item: schema.Checkpoint, files: Files) -> plan.Checkpoint:
    author = files.author(item.artifact, index)
    return plan.Checkpoint(
        name=item.name,
        artifact=item.artifact,
        author=author.name if author else "",
        reviewers=tuple(dict.fromkeys(a for name in item.reviewers for a in agents_of(files.found, name))),
        question=item.question,
        rounds_max=item.rounds_max,
        validators=tuple(item.validators),
    )


def _partition(one: schema.Partition, folder: str) -> plan.Partition:
    database = one.database
    if database.startswith(plan.SQLITE):
        database = plan.SQLITE + script_path(folder, database.removeprefix(plan.SQLITE))
    return plan.Partition(**{**one.model_dump(), "database": database})


def _byte_check(check: schema.ByteCheck) -> plan.ByteCheck:
    return plan.ByteCheck(
        path=check.path,
        min_bytes=check.min_bytes,
        max_bytes=check.max_bytes,
        contains=tuple(check.contains),
        lacks=tuple(check.lacks),
        matches=check.matches,
        json=check.json_,
        sha256=check.sha256 or "",
    )
