"""The order of the tests for several workers: those that wait stand between those that compute.

In the order of the folders, all workers would first compute, more of them than there are cores, and then all would wait
for agents. Mixed, the cores have something to do at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

T = TypeVar("T")

WAITING = ("acceptance", "contract", "faults", "integration", "torture")
"""The folders whose tests start processes and wait for them."""
BLOCK = 40
"""So many tests that compute stand together at most. Those that wait stay together with all of their file: they share
what is slow to start."""


def mixed(items: Sequence[T], path_of: Callable[[T], tuple[str, ...]]) -> list[T]:
    """The same items, each kind in its own order and spread evenly over the whole; `path_of` is a test's file, as its
    parts below the folder of all tests."""
    files = [(path, list(group)) for path, group in groupby(items, key=path_of)]
    waiting = [group for path, group in files if path[0] in WAITING]
    computing = [
        group[first : first + BLOCK]
        for path, group in files
        if path[0] not in WAITING
        for first in range(0, len(group), BLOCK)
    ]
    placed = [*_places(waiting), *_places(computing)]
    return [item for _, block in sorted(placed, key=lambda placed: placed[0]) for item in block]


def _places(blocks: Sequence[list[T]]) -> list[tuple[float, list[T]]]:
    """Each block with where it begins, as a share of all that are of its kind."""
    total, before, placed = sum(map(len, blocks)), 0, []
    for block in blocks:
        placed.append((before / total, block))
        before += len(block)
    return placed
