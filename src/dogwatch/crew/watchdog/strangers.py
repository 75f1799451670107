"""Screens that no pattern of the client's harness knows: kept for people, once each. Nothing is done for them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import partial

from dogwatch.coordination.watching import tell_unknown_screen
from dogwatch.crew.shared.fenced import fenced
from dogwatch.harness import harness
from dogwatch.ledger.api import Lease, Store
from dogwatch.model.moment import Moment
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView

STOOD_S = 10.0
"""Clients draw their screens in pieces, and change them: what does not last so long is no state."""
SHAPES_MAX = 5
"""So many screens of one incarnation are kept."""


class Strangers:
    """Since when each agent shows what is not known, and what was told already. All of it is cache: the ledger takes
    each screen once."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}
        self._told: dict[tuple[str, int], set[str]] = {}

    def look(self, ledger: Store, lease: Lease, view: RunView, sights: Mapping[str, Sight], now: Moment) -> None:
        """Tells of those screens that have been unknown for long enough."""
        for name, sight in sights.items():
            agent, role = view.agents[name], view.role_of(name)
            if not sight.strange or sight.process != "alive" or role is None or not harness(role.harness).hooks:
                self._since.pop(name, None)
                continue
            incarnation, since = self._since.setdefault(name, (agent.incarnation, now.mono))
            if incarnation != agent.incarnation:
                self._since[name] = (agent.incarnation, now.mono)
                continue
            told = self._told.setdefault((name, incarnation), set())
            shape = shape_of(sight.lines)
            if now.mono - since >= STOOD_S and shape not in told and len(told) < SHAPES_MAX:
                told.add(shape)
                client = harness(role.harness)
                tell = partial(tell_unknown_screen, harness=client.name, tested=client.version, shape=shape)
                fenced(ledger, lease, partial(tell, agent=agent, sight=sight))


def shape_of(lines: Sequence[str]) -> str:
    """The same for screens that differ in nothing but numbers."""
    return hashlib.sha256(re.sub(r"\d+", "0", "\n".join(lines)).encode(errors="replace")).hexdigest()[:12]
