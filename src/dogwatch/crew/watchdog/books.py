"""Puts on the ledger what was counted of agents: errors and denials as events, once each, and what they have used."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial

from dogwatch.coordination.usage import AgentTally, record_tallies
from dogwatch.crew.shared.fenced import fenced
from dogwatch.errors import UsageError
from dogwatch.ledger.api import Lease, Store
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord
from dogwatch.model.sight import Sight
from dogwatch.model.tally import Tally
from dogwatch.model.view import RunView

WRITE_S = 20.0
"""How old the record of what was used may become while a turn goes on; at the turn's end it is written at once."""


class Books:
    """What the watchdog has put on the ledger already; one that starts anew puts it there again, to no effect."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        self._written: dict[str, tuple[Moment, Mapping[str, Tally], int]] = {}

    def keep(
        self,
        ledger: Store,
        lease: Lease,
        view: RunView,
        found: Mapping[str, AgentTally],
        sights: Mapping[str, Sight],
        now: Moment,
    ) -> None:
        """Writes what is new, of all agents in one transaction."""
        due = {name: one for name, one in found.items() if self._is_due(view.agents[name], one, sights[name], now)}
        if not due:
            return

        trees = {name: sights[name].tree for name in due}
        rss_bytes = {name: tree.rss_bytes if tree is not None else 0 for name, tree in trees.items()}
        told_before = {name: self._told.get(name, 0) for name in due}
        record = partial(record_tallies, view=view, told_before=told_before, rss_bytes=rss_bytes)
        try:
            fenced(ledger, lease, partial(record, found=due))
        except UsageError:
            # An agent can write anything into its spool and its transcripts. What the ledger does not take is left out.
            for name, one in due.items():
                with contextlib.suppress(UsageError):
                    fenced(ledger, lease, partial(record, found={name: one}))
        for name, one in due.items():
            self._told[name] = len(one.told)
            self._written[name] = (now, one.incarnations, view.agents[name].incarnation)

    def _is_due(self, agent: AgentRecord, found: AgentTally, sight: Sight, now: Moment) -> bool:
        if len(found.told) < self._told.get(agent.agent, 0):
            self._told[agent.agent] = 0  # its spool was written anew
        if len(found.told) > self._told.get(agent.agent, 0):
            return True
        at, written, incarnation = self._written.get(agent.agent, (None, {}, 0))
        if found.incarnations == written and (incarnation == agent.incarnation or not written):
            return False
        return at is None or sight.turn.state != "working" or now.since(at) >= WRITE_S
