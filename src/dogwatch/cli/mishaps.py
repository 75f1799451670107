"""The demo's four faults: two that the scripted agents commit themselves, and two kills."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from functools import partial

from dogwatch.actions.kill import send_signal
from dogwatch.ledger.api import Store, StoredEvent
from dogwatch.ledger.records import load, load_run
from dogwatch.model import keys
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CrewRecord
from dogwatch.model.view import RunView
from dogwatch.policy.diagnoses import traits_of
from dogwatch.values import dataclass
from dogwatch.world.clock import SystemClock

Fact = Callable[[StoredEvent], bool]
Victim = Callable[[Store, RunView], ProcessId | None]


@dataclass
class Mishap:
    """One fault: how it comes about, and by which events it is noticed and mended. Times are on the monotonic clock."""

    title: str
    run: str
    noticing: Fact
    mending: Fact
    deed: str = ""
    victim: Victim | None = None
    injected: float = 0.0
    noticed: float = 0.0
    mended: float = 0.0

    def noticed_after(self) -> str:
        return f"{self.noticed - self.injected:.2f} s" if self.noticed else "–"

    def mended_after(self) -> str:
        return f"{self.mended - self.injected:.2f} s" if self.mended else "–"

    def line(self) -> str:
        """How it stands, for the live table."""
        if not self.injected:
            return f"  · {self.title}"
        if not self.noticed:
            return f"  ✗ {self.title}: happened"
        if not self.mended:
            return f"  ! {self.title}: noticed after {self.noticed_after()}"
        return f"  ✓ {self.title}: noticed after {self.noticed_after()}, mended after {self.mended_after()}"


def mishaps(first: str, second: str) -> list[Mishap]:
    """Two faults in each run."""
    return [
        Mishap(
            title=f"{first}/planner is killed with -9 in its pane",
            run=first,
            victim=_busy_planner,
            noticing=lambda e: e.kind == "alert_raised" and traits_of(e.body["diagnosis"]).is_death,
            mending=lambda e: e.kind == "task_dispatched" and e.agent == "planner" and e.body["incarnation"] == 2,
        ),
        Mishap(
            title=f"{first}/researcher falls silent at its prompt",
            run=first,
            deed="fell_silent",
            noticing=lambda e: e.kind == "alert_raised" and e.body["diagnosis"] == "silent_turn",
            mending=lambda e: e.kind == "message_delivered" and e.body["kind"] == "nudge",
        ),
        Mishap(
            title=f"{second}/captain is killed with -9",
            run=second,
            victim=_captain_at_work,
            noticing=lambda e: e.kind == "crew_lost" and e.body["member"] == "captain",
            mending=lambda e: e.kind == "crew_revived" and e.body["member"] == "captain",
        ),
        Mishap(
            title=f"{second}/writer's report is lost",
            run=second,
            deed="report_lost",
            noticing=lambda e: e.kind == "alert_raised" and e.body["diagnosis"] == "done_unreported",
            mending=lambda e: e.kind == "task_accepted" and bool(e.body["rescued"]),
        ),
    ]


def inject_and_follow(ledger: Store, broken: Sequence[Mishap], truth: str) -> None:
    """Kills what is to be killed, reads what the agents did by themselves, and looks for what came of each."""
    deeds = _deeds(truth)
    for mishap in broken:
        if not mishap.injected and mishap.victim is not None:
            view = ledger.read(partial(load_run, run=mishap.run))
            process = mishap.victim(ledger, view)
            before = SystemClock().now()
            if process is not None and send_signal(process, signal.SIGKILL, before.boot):
                mishap.injected = before.mono
        elif not mishap.injected:
            mishap.injected = deeds.get((mishap.run, mishap.deed), 0.0)
        if mishap.injected and not mishap.mended:
            events = _recent(ledger, mishap.run)
            since = [event for event in events if event.at.mono >= mishap.injected]
            mishap.noticed = next((e.at.mono for e in since if mishap.noticing(e)), 0.0)
            mishap.mended = next((e.at.mono for e in since if mishap.mending(e)), 0.0)


def _recent(ledger: Store, run: str) -> Sequence[StoredEvent]:
    return ledger.read(lambda reader: reader.recent(500, run))


def _busy_planner(ledger: Store, view: RunView) -> ProcessId | None:
    """The planner, once it has had its task for two seconds."""
    task = view.task_of("planner")
    if task is None or task.delivered is None or SystemClock().now().since(task.delivered) < 2:
        return None
    return view.agents["planner"].process


def _captain_at_work(ledger: Store, view: RunView) -> ProcessId | None:
    """The captain, in the middle of the second phase."""
    if view.run.phase != 1 or view.task_of("researcher") is None:
        return None
    captain = ledger.read(lambda reader: load(reader, CrewRecord, keys.crew(view.run.run, "captain")))
    return captain.process if captain is not None else None


def _deeds(truth: str) -> dict[tuple[str, str], float]:
    """When an agent of a run did something for the first time, by its own account."""
    found: dict[tuple[str, str], float] = {}
    try:
        with open(truth, encoding="utf-8") as file:
            for line in file:
                deed = json.loads(line)
                found.setdefault((deed["agent"].partition("/")[0], deed["did"]), deed["mono"])
    except (FileNotFoundError, ValueError):
        pass
    return found
