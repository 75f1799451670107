"""The smallest value that fits a JSON schema: clients that ask for a title, say, get one that they can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def fitting(schema: Mapping[str, Any], text: str) -> str:
    """A JSON document that fits the plain parts of the schema, with the text wherever one is wanted."""
    return json.dumps(_value(schema, text))


def _value(schema: Any, text: str) -> Any:
    if not isinstance(schema, Mapping):
        return text
    if isinstance(choices := schema.get("enum"), list) and choices:
        return choices[0]
    match schema.get("type"):
        case "object":
            of = schema.get("properties")
            wanted = schema.get("required")
            names = wanted if isinstance(wanted, list) else []
            return {str(name): _value(of.get(name) if isinstance(of, Mapping) else None, text) for name in names}
        case "array":
            return []
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case "null":
            return None
    return text
