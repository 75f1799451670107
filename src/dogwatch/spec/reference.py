"""The reference page of the pipeline file, made from the models: every key with its type, default and meaning."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dogwatch.model.names import RESERVED_ROLES
from dogwatch.spec import schema

_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", schema.Pipeline),
    ("`limits`", schema.Limits),
    ("`notify`", schema.Notify),
    ("`roles.<name>`", schema.Role),
    ("`phases[]`", schema.Phase),
    ("`phases[].dispatches[]`", schema.Dispatch),
    ("`phases[].dispatches[].outputs[]`", schema.Output),
    ("`phases[].checkpoints[]`", schema.Checkpoint),
    ("`phases[].gates[]`", schema.Gate),
    ("`phases[].gates[].checks[]` and `deliverable`", schema.ByteCheck),
    ("`phases[].gates[].partitions[]`", schema.Partition),
    ("`milestones.<name>`", schema.Milestone),
)

_INTRODUCTION = f"""# The pipeline file

A pipeline file is YAML in UTF-8, at most 1 MiB. `dogwatch spec check FILE` names everything that is wrong with one,
with line and column; `dogwatch spec explain FILE` says in plain words what it will do. Unknown and repeated keys are
errors, and no value is converted: `count: "3"` is text and not a number. Scalars are those of YAML 1.2: `on`, `no` and
`12:30` are text. Aliases are allowed, tags and merge keys are not.

Names begin with a lower-case letter and have at most 32 lower-case letters, digits, `-` and `_`. The role names
{", ".join(f"`{name}`" for name in RESERVED_ROLES)} are reserved, and no two agents may have the same name.

**Variables.** `${{name}}` in any text stands for a variable of `vars`, `$${{` for the characters `${{`. `${{here}}` is
always there: the folder of the pipeline file. `--set name=value` sets a variable for one run; a key with dots is a path
into the file, where items of lists go by their name or number: `--set limits.nudge_s=5`,
`--set roles.writer.count=3`, `--set phases.draft.dispatches.outline.expect_s=60`.

**Placeholders.** `{{agent}}`, `{{role}}` and `{{run}}` in tasks, output paths and checkpoint questions are filled in
for each agent. What goes to `all` holders of a role needs `{{agent}}` in its output paths.

**Order.** Phases come one after another. Within one, dispatches run side by side unless `after` orders them; then come
the checkpoints, then the gates; gates for data come before all else. Two dispatches may write the same file only if one
comes after the other.
"""


def reference() -> str:
    """The page in Markdown."""
    parts = [_INTRODUCTION]
    for title, model in _SECTIONS:
        parts.append(f"## {title}\n\n{' '.join((model.__doc__ or '').split())}\n")
        rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
        rows += [_row(field.alias or name, field) for name, field in model.model_fields.items()]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(name: str, field: FieldInfo) -> str:
    cells = (f"`{name}`", _type(field.annotation, field.metadata), _default(field), field.description or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "**required**"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if field.default in (None, "", [], {}) or isinstance(field.default, BaseModel):
        return "none"
    if isinstance(field.default, list):
        return ", ".join(f"`{value}`" for value in field.default)
    return f"`{field.default:g}`" if isinstance(field.default, float) else f"`{field.default}`"


def _type(hint: Any, metadata: list[Any]) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(arguments[0], [*_constraints(arguments[1:]), *metadata])
    if origin in (types.UnionType, typing.Union):
        return _type(arguments[0], metadata)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is list:
        return f"list of {_plural(arguments[0])}"
    if origin is dict:
        return f"mapping of names to {_plural(arguments[1])}"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return "mapping"
    names = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
    return names[hint] + _bounds(metadata)


def _plural(hint: Any) -> str:
    name = _type(hint, [])
    return {"text": "texts", "mapping": "mappings"}.get(name, name)


def _constraints(metadata: tuple[Any, ...]) -> list[Any]:
    return [part for item in metadata for part in (item.metadata if isinstance(item, FieldInfo) else [item])]


def _bounds(metadata: list[Any]) -> str:
    words = []
    for item in metadata:
        if isinstance(item, annotated_types.Gt):
            words.append(f"more than {item.gt:g}")
        if isinstance(item, annotated_types.Ge):
            words.append(f"at least {item.ge}")
        if isinstance(item, annotated_types.Le) and isinstance(item.le, int | float):
            words.append(f"at most {item.le:,.0f}")
    return f", {', '.join(words)}" if words else ""
