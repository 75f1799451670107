"""One line of an agent's spool: what its client's hooks said, as the fast hook wrote it.

A line is eight fields with tabs between them and a newline at the end:

    1 · wall seconds · monotonic seconds · incarnation · pid of the client · event · payload bytes · payload

The payload is the hook's stdin with line breaks turned to spaces, cut at 65,536 bytes: it is shorter than
`payload bytes` where it was cut. The header stays readable whatever a client puts into the payload.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from dogwatch.values import dataclass

VERSION = b"1"
PAYLOAD_BYTES_MAX = 65536
NUMBER_MAX = 10**9
TURN_ENDED = "TurnEnded"
"""The captain's own event: an interrupt has ended a turn, and no hook tells of that."""
OWN_EVENTS = frozenset({"Denied", "Canary", "Delivered", "StopHeld", TURN_ENDED})
"""What dogwatch itself writes; all others are the client's."""


@dataclass(frozen=True, slots=True)
class SpoolLine:
    """A hook event with its time and its sender."""

    wall: float
    mono: float
    incarnation: int
    pid: int
    event: str
    payload_bytes: int
    raw: bytes

    def payload(self) -> dict[str, Any]:
        """The payload as an object; empty where it is cut, not JSON or not an object."""
        try:
            value = json.loads(self.raw)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


def render(wall: float, mono: float, incarnation: int, pid: int, event: str, payload: Mapping[str, Any]) -> bytes:
    """The same line as a hook's, for what dogwatch itself has to say."""
    raw = json.dumps(payload).encode()
    return b"%s\t%.6f\t%.6f\t%d\t%d\t%s\t%d\t%s\n" % (
        VERSION, wall, mono, incarnation, pid, event.encode("ascii"), len(raw), raw,
    )  # fmt: skip


def parse(line: bytes) -> SpoolLine | None:
    """The line's fields, or None for anything that is not a whole line of this version."""
    fields = line.rstrip(b"\n").split(b"\t", 7)
    if len(fields) != 8 or fields[0] != VERSION:
        return None
    try:
        found = SpoolLine(
            wall=float(fields[1]),
            mono=float(fields[2]),
            incarnation=int(fields[3]),
            pid=int(fields[4]),
            event=fields[5].decode("ascii"),
            payload_bytes=int(fields[6]),
            raw=fields[7],
        )
    except ValueError:
        return None
    # Times that are none, and numbers that no ledger takes, are nobody's.
    is_sound = math.isfinite(found.wall) and math.isfinite(found.mono) and 0 <= found.incarnation <= NUMBER_MAX
    return found if is_sound and 0 <= found.pid <= NUMBER_MAX else None
