"""Names that people can say: an adjective and a noun for each incarnation, and the form of ids."""

from __future__ import annotations

import hashlib
import re

_ADJECTIVES = (
    "amber brave brisk calm clear cosy deft eager early fair firm fleet fond glad green hardy keen kind "
    "late light lively loyal lucid mellow merry mild neat noble plain proud quick quiet ready rosy sharp "
    "shy silver sober spry steady still stout sunny swift tidy true vivid warm wise witty"
).split()
_NOUNS = (
    "anchor badger beacon bosun bow breeze buoy cutter deck dolphin ferry finch gale gull harbour heron "
    "jetty keel kite lantern ledger mast mooring oar osprey otter petrel pier pilot plover quay reef "
    "rudder sail seal sextant skiff sloop spar squall stern swell tern tide tiller topsail whaler wharf "
    "winch yawl"
).split()

NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""Pipelines, roles, dispatches and the like."""
RESERVED_ROLES = ("captain", "watchdog", "dispatcher", "operator")
"""Names that no role and no agent may have: they speak for dogwatch itself or for a person."""


def incarnation_name(run: str, agent: str, incarnation: int) -> str:
    """A name that looks random and is the same whenever it is asked for, so that a kill cannot change it."""
    digest = hashlib.sha256(f"{run}/{agent}#{incarnation}".encode()).digest()
    return f"{_ADJECTIVES[digest[0] % len(_ADJECTIVES)]}-{_NOUNS[digest[1] % len(_NOUNS)]}"
