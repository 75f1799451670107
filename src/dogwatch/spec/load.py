"""Reading a pipeline file: all of its problems with their positions, or the Plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

from dogwatch.errors import SpecError
from dogwatch.model.plan import Plan
from dogwatch.spec import order, paths, rules, settings, source, structure, variables
from dogwatch.spec.compile import compile_plan
from dogwatch.spec.problem import Problem, UnreadableError
from dogwatch.spec.survey import survey

PROBLEMS_SHOWN_MAX = 50

_NONE: Mapping[str, str] = MappingProxyType({})

File = str | os.PathLike[str]


def load(path: File, overrides: Mapping[str, str] = _NONE) -> Plan:
    """The Plan of the file at `path`; SpecError with every problem where it has any.

    `overrides` are those of `--set`: a dotted key is a path into the file, a key without a dot sets a variable.
    """
    plan, problems = _load(os.fspath(path), overrides)
    if plan is None or problems:
        raise _error(os.fspath(path), problems)
    return plan


def check(path: File, overrides: Mapping[str, str] = _NONE) -> list[Problem]:
    """Everything that is wrong with the file at `path`, in the order of its lines; empty where `load` succeeds."""
    return _load(os.fspath(path), overrides)[1]


def _load(file: str, overrides: Mapping[str, str]) -> tuple[Plan | None, list[Problem]]:
    try:
        read = source.read(file)
    except UnreadableError as error:
        return None, [error.problem]
    folder = os.path.dirname(os.path.abspath(file))
    settings.apply(read, overrides)
    variables.substitute(read, folder, frozenset(key for key in overrides if "." not in key))
    pipeline = structure.parse(read)
    found = survey(read.data)
    rules.apply(read, found)
    order.apply(read, found)
    paths.apply(read, found, folder)
    problems = sorted(set(read.problems))
    if pipeline is None or problems:
        return None, problems
    return compile_plan(pipeline, found, folder), []


def _error(file: str, problems: list[Problem]) -> SpecError:
    lines = [problem.render(file) for problem in problems[:PROBLEMS_SHOWN_MAX]]
    if len(problems) > PROBLEMS_SHOWN_MAX:
        lines.append(f"... and {len(problems) - PROBLEMS_SHOWN_MAX} more")
    return SpecError("\n".join(lines))
