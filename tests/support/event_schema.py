"""Events against the JSON Schema that the reference offers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from dogwatch.ledger.api import StoredEvent
from dogwatch.model.codec import encode

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "reference" / "events.schema.json"


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return found


def wrong_events(events: Iterable[StoredEvent]) -> list[str]:
    """What is not as the schema has it. More than the schema allows, too: kinds and fields that it does not know are
    meant for those of newer versions, not for ours."""
    known = schema()
    validator, bodies = Draft202012Validator(known), known["$defs"]
    found = []
    for event in events:
        found += [f"{event.kind}: {error.message}" for error in validator.iter_errors(encode(event))]
        more = event.body.keys() - bodies.get(event.kind, {"properties": {}})["properties"].keys()
        if event.kind not in bodies or more:
            found.append(f"{event.kind}: unknown, or has unknown fields {sorted(more)}")
    return found
