"""Events of any kind, for tests of ledgers: the product's own are classes of `dogwatch.model.events`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PlainEvent:
    """An event of any kind with any body."""

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""
    agent: str = ""
