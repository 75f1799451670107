"""The archive's packing: old events, compressed, in parts of some hundred."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

PART_EVENTS_MAX = 1000
COLUMNS = 10
"""Of an event: the two numbers of its position, and the eight columns of its own."""
PART_BYTES_MAX = 16 * 1024 * 1024
"""How much of bodies goes into one part at most, so that reading one never takes much memory."""


def pack(rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows of events as they were read, one JSON line each, compressed; all of them may be told."""
    return zlib.compress("\n".join(json.dumps(row[:-1], separators=(",", ":")) for row in rows).encode())


def unpack(data: bytes) -> Iterator[tuple[Any, ...]]:
    """The rows again; ValueError where the part is damaged."""
    try:
        text = zlib.decompress(bytes(data)).decode()
    except zlib.error as error:
        raise ValueError(f"a part of the archive is damaged: {error}") from error
    for line in text.split("\n"):
        row = json.loads(line)
        if not isinstance(row, list) or len(row) != COLUMNS or not all(isinstance(part, int) for part in row[:2]):
            raise ValueError("a part of the archive holds what is no event")
        yield (*row, True)
