"""Leases and claims of a host that is gone."""

from __future__ import annotations

from dogwatch.ledger.api import Tx
from dogwatch.ledger.facts import sql


def void_grants(tx: Tx) -> None:
    """Nobody holds a lease or an item any more, and whoever did cannot write."""
    sql(tx).change("UPDATE fences SET fence = fence + 1")
    sql(tx).change("DELETE FROM leases")
    sql(tx).change("UPDATE items SET claim_boot = NULL, holder = '' WHERE state = 'open' AND claim_boot IS NOT NULL")
