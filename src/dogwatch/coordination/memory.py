"""What each role's memory was: the profiles that forecasts are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dogwatch.ledger.api import Tx
from dogwatch.ledger.records import load, save
from dogwatch.model.admission import MemoryProfile
from dogwatch.policy.forecast import ALL
from dogwatch.policy.learning import SAMPLES_MAX

PHASES_MAX = 50
"""Of one role. A pipeline whose phases get new names again and again does not fill the ledger."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that one agent of a role has used in a phase, or in its life."""

    harness: str
    pipeline: str
    role: str
    phase: str
    count: int
    peak_bytes: int = 0
    processes: int = 1


def learn(tx: Tx, peaks: Sequence[Peak], shown: Sequence[tuple[Peak, int]]) -> int:
    """Adds the peaks to the profiles of the roles and of the harnesses, and how many processes the living have shown;
    returns how many peaks that were."""
    changed: dict[str, MemoryProfile] = {}
    for peak in peaks:
        own = _profile(peak)
        kinds = [own, MemoryProfile(harness=peak.harness)] if peak.phase == ALL else [own]
        for kind in kinds:
            known = changed.get(kind.key) or load(tx, MemoryProfile, kind.key) or kind
            changed[kind.key] = _with(known, peak)
    for owner, processes in shown:
        if owner.phase:
            own = _profile(owner)
            known = changed.get(own.key) or load(tx, MemoryProfile, own.key) or own
            most = max(processes, known.seen.get(owner.phase, 0))
            others = {phase: number for phase, number in known.seen.items() if phase != owner.phase}
            newest = dict([*others.items(), (owner.phase, most)][-PHASES_MAX:])
            changed[own.key] = replace(known, seen=newest, count=owner.count)
    for profile in changed.values():
        save(tx, profile)
    return len(peaks)


def _profile(peak: Peak) -> MemoryProfile:
    return MemoryProfile(harness=peak.harness, pipeline=peak.pipeline, role=peak.role, count=peak.count)


def _with(profile: MemoryProfile, peak: Peak) -> MemoryProfile:
    """The profile with one more peak; the newest count, and the phases that were last heard of."""
    peaks, processes = dict(profile.peaks), dict(profile.processes)
    known = peaks.pop(peak.phase, ())
    # Where peaks were kept before their processes were counted, each is taken for one.
    counted = processes.pop(peak.phase, (1,) * len(known))
    peaks[peak.phase] = (*known, peak.peak_bytes)[-SAMPLES_MAX:]
    processes[peak.phase] = (*counted, peak.processes)[-SAMPLES_MAX:]
    phases = [phase for phase in peaks if phase != ALL]
    for phase in phases[:-PHASES_MAX]:
        del peaks[phase]
        processes.pop(phase, None)
    return replace(profile, peaks=peaks, processes=processes, count=peak.count if profile.role else 1)
