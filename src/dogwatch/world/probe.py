"""What every look at the machine may end in."""

from __future__ import annotations


class ProbeFailedError(Exception):
    """The machine could not be asked; nothing is known, which is no evidence of anything."""
