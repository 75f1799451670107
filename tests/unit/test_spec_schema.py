"""The JSON Schema and the reference page say the same as the models, and the models the same as the Plan."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dogwatch.model import plan
from dogwatch.spec import json_schema, reference, schema
from dogwatch.spec.source import read

EXAMPLES = Path(__file__).parents[2] / "examples"

PAIRS: list[tuple[type[schema.Part], Any]] = [
    (schema.Limits, plan.Limits),
    (schema.Output, plan.Output),
    (schema.ByteCheck, plan.ByteCheck),
    (schema.Gate, plan.Gate),
    (schema.Dispatch, plan.Dispatch),
    (schema.Checkpoint, plan.Checkpoint),
    (schema.Role, plan.Role),
    (schema.Phase, plan.Phase),
    (schema.Pipeline, plan.Plan),
]


def test_the_schema_is_a_valid_schema_of_its_draft() -> None:
    made = json_schema()
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert made["title"] == "dogwatch pipeline"
    assert "$id" not in made
    jsonschema.Draft202012Validator.check_schema(made)
    assert json.loads(json.dumps(made)) == made


def test_every_key_is_described() -> None:
    made = json_schema()
    for part in (made, *made["$defs"].values()):
        for form in part.get("anyOf", [part]):
            for key, value in form.get("properties", {}).items():
                assert value.get("description"), key


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/pipeline.yaml")), ids=lambda file: str(file.parent.name))
def test_the_schema_accepts_each_example(file: Path) -> None:
    jsonschema.Draft202012Validator(json_schema()).validate(read(str(file)).data)


@pytest.mark.parametrize(("model", "value"), PAIRS, ids=lambda item: str(item.__name__))
def test_each_field_of_the_plan_can_be_said_in_the_file_with_the_same_default(
    model: type[schema.Part], value: Any
) -> None:
    keys = {field.alias or name: field for name, field in model.model_fields.items()}
    fields = {field.name: field for field in dataclasses.fields(value)}
    # The file's `to` says both `to` and `address`, the author follows from the artifact, a role's name is its key.
    assert set(fields) - set(keys) <= {"address", "author", "name"}
    assert set(keys) - set(fields) <= {"vars"}
    for name in set(keys) & set(fields):
        default = fields[name].default
        if isinstance(default, str | int | float | bool) and default != "" and not keys[name].is_required():
            assert keys[name].default == default, name


def test_the_reference_has_a_row_for_every_key() -> None:
    page = reference()
    for model, _ in PAIRS:
        for name, field in model.model_fields.items():
            assert f"| `{field.alias or name}` |" in page
            assert field.description
            assert field.description in page
    assert "| `count` | whole number, at least 1, at most 64 | `1` |" in page
    assert "| `harness` | `scripted` or `command` or `claude` or `codex` or " in page
    assert "`captain`, `watchdog`, `dispatcher`, `operator` are reserved" in page
