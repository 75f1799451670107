"""Holds: while a provider refuses work, nobody who shares the account is started."""

from __future__ import annotations

from dogwatch.ledger.api import Reader, Tx
from dogwatch.model import keys
from dogwatch.model.codec import decode, encode
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView


def account_of(view: RunView, agent: AgentRecord) -> str:
    """What agents share whose provider refuses one of them."""
    role = view.role_of(agent.agent)
    return role.account if role is not None else agent.role


def hold(tx: Tx, run: str, account: str, seconds: float, why: str) -> None:
    """From now on for so long."""
    tx.put(_key(run, account), {"until": encode(tx.now.plus(seconds)), "why": why})


def held(reader: Reader, run: str, account: str, now: Moment) -> str | None:
    """Why nobody on this account may be started now, or None."""
    document = reader.get(_key(run, account))
    if document is None or not now.is_before(decode(Moment, document.body["until"])):
        return None
    return str(document.body["why"])


def _key(run: str, account: str) -> str:
    return keys.hold(run, account)
