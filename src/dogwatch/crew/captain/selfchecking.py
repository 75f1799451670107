"""The captain checks itself and its run every few seconds, and keeps the results where `dogwatch status` finds them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dogwatch.coordination.runs import note_checks
from dogwatch.coordination.tasks import counted
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.shared.membership import is_silent
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.memory import HostRecord
from dogwatch.model.records import ChecksRecord
from dogwatch.model.view import RunView
from dogwatch.policy.markers import miscounts
from dogwatch.policy.selfchecks import Facts, run_checks

CHECK_S = 10.0
REWRITE_S = 30.0


def check(helm: Helm, view: RunView, before: ChecksRecord | None) -> ChecksRecord:
    """One round; what has just failed is an event. Returns the round that is on the ledger, which the next call is
    given as `before`: nobody else makes one. It is written anew when something has changed, or after a while."""
    if before is None:
        before = helm.ledger.read(lambda reader: load(reader, ChecksRecord, keys.checks(helm.run)))
    results = run_checks(_facts(helm, view))
    known = {one.name: one for one in before.results} if before is not None else {}
    is_fresh = before is not None and before.at.boot == helm.now.boot and helm.now.since(before.at) < REWRITE_S
    # One that an earlier version did not make has no result yet.
    is_same = all(one.name in known and known[one.name].result == one.result for one in results)
    if before is not None and is_fresh and is_same:
        return before
    dated = []
    failed = []
    for one in results:
        old = known.get(one.name)
        same = old is not None and old.result == one.result
        dated.append(replace(one, since=old.since if old is not None and same else helm.now))
        if one.result == "failed" and not same:
            failed.append(one)
    record = ChecksRecord(run=helm.run, at=helm.now, results=tuple(dated))
    helm.record(partial(note_checks, record=record, failed=failed))
    return record


def _facts(helm: Helm, view: RunView) -> Facts:
    eyes = helm.world.eyes
    names = [agent.agent for agent in view.agents.values() if agent.running]
    accepted = [task for task in view.tasks.values() if task.state == "accepted" and not task.sender]
    missing = {task.task: eyes.unwritten(view.run.output, task.outputs, {}) for task in accepted}
    watchdog = view.crew.get("watchdog")
    trouble = ""
    if watchdog is None or eyes.life(watchdog.process) != "alive":
        trouble = "it is not running"
    elif is_silent(eyes, watchdog, helm.now):
        trouble = "it gives no sign of life"
    return Facts(
        view=view,
        sights=eyes.look(view, names, screens=False) if names else {},
        now=helm.now,
        missing={task: why for task, why in missing.items() if why},
        host=helm.ledger.read(lambda reader: load(reader, HostRecord, keys.host(reader.host))),
        watchdog=trouble,
        miscounts=helm.ledger.read(lambda reader: miscounts(*counted(reader, helm.run))),
    )
