"""What the watchdog and the captain found and did: alerts, actions, calls for a person, failed self-checks."""

from __future__ import annotations

from typing import ClassVar

from dogwatch.model.events.base import Event


class AlertRaised(Event):
    """The watchdog saw something that asks for an action, or that a person should know."""

    repeats_agent: ClassVar[bool] = True
    incarnation: int
    diagnosis: str
    confidence: float
    tier: int
    quiet_s: float
    threshold_s: float
    pane: str
    pane_s: float
    output: tuple[str, ...]
    evidence: tuple[str, ...]
    waits: tuple[str, ...]
    action: str
    advice: str
    stall: str
    alert: str = ""


class AlertWithdrawn(Event):
    """At the moment of acting the evidence was gone: nothing was done."""

    alert: str
    action: str
    why: str


class ActionTaken(Event):
    """The captain decided on an action; `evidence` and `alternatives` say why this one."""

    decision: str
    action: str
    diagnosis: str
    evidence: tuple[str, ...]
    alternatives: tuple[str, ...]
    alert: str


class ActionVerified(Event):
    """The effect of an action was checked: recovered, not_recovered or unverified."""

    decision: str
    action: str
    outcome: str
    seen: str


class PersonCalled(Event):
    """Something needs a person: a dialog, a loop, a disagreement, an agent or a run that does not move."""

    diagnosis: str
    checkpoint: str = ""
    evidence: tuple[str, ...]
    advice: str
    alert: str = ""


class ProviderHeld(Event):
    """The provider refuses work: for a while nobody is started or nudged on this account."""

    account: str
    evidence: tuple[str, ...]


class FleetHeld(Event):
    """What was seen cannot be trusted (most agents dead at once, a clock that jumped): nothing is done."""

    why: str


class SelfCheckFailed(Event):
    """One of the captain's self-checks failed that had not failed before."""

    check: str
    detail: str
