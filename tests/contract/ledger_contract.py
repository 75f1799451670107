"""The contract of the ledger: what `dogwatch.ledger.api` means, for every engine.

An engine is put under it by a subclass with one fixture `opener`, as `test_sqlite_ledger.py` does.
"""

from __future__ import annotations

from contract.parts.archive import ArchiveContract
from contract.parts.documents import DocumentContract
from contract.parts.events import EventContract
from contract.parts.leases import LeaseContract
from contract.parts.model import ModelContract
from contract.parts.overlaps import OverlapContract
from contract.parts.processes import ProcessContract
from contract.parts.queues import QueueContract
from contract.parts.records import RecordContract
from contract.parts.transactions import TransactionContract


class LedgerContract(
    TransactionContract,
    EventContract,
    DocumentContract,
    RecordContract,
    LeaseContract,
    QueueContract,
    ModelContract,
    ProcessContract,
    OverlapContract,
    ArchiveContract,
):
    """All of it."""
