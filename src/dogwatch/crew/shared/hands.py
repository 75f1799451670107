"""A captain's and a dispatcher's hands: what may be done to agents and gates, and starting crew members."""

from __future__ import annotations

from dogwatch.actions.hands import MachineHands
from dogwatch.crew.shared.starting import CrewStarter
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.memory import HostRecord, HostSettings
from dogwatch.world.home import Home


class CrewHands(MachineHands):
    """The machine's hands, with the one way to start a crew member."""

    def __init__(self, home: Home, boot: str, ledger: Store | None = None) -> None:
        super().__init__(home, boot, lambda: _settings(ledger))
        self._starter = CrewStarter(home)

    def start_crew(self, member: str, run: str = "") -> None:
        self._starter.start_crew(member, run)


def _settings(ledger: Store | None) -> HostSettings:
    host = ledger.read(lambda reader: load(reader, HostRecord, keys.host(reader.host))) if ledger is not None else None
    return host.settings if host is not None else HostSettings()
