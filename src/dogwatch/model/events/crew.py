"""The dispatcher, the captains and the watchdogs themselves."""

from __future__ import annotations

from dogwatch.model.events.base import Event


class CrewStarted(Event):
    """A dispatcher, captain or watchdog started for the first time."""

    member: str
    pid: int
    starts: int


class CrewRevived(Event):
    """A successor took the place of a dispatcher, captain or watchdog that had died."""

    member: str
    pid: int
    starts: int


class CrewLost(Event):
    """A dispatcher, captain or watchdog was found dead; a successor is being started."""

    member: str
    pid: int
    quiet_s: float | None = None


class CrewSilent(Event):
    """A dispatcher, captain or watchdog was alive but made no progress for `quiet_s`; it was ended."""

    member: str
    pid: int
    quiet_s: float | None = None
