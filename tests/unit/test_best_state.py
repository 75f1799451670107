"""Which source tells what a client is doing, where its state file and its screen do not say the same."""

from __future__ import annotations

import pytest

from dogwatch.crew.shared.eyes import best_state
from dogwatch.harness import State


@pytest.mark.parametrize(
    ("screen", "told", "expected", "source"),
    [
        ("idle", "unknown", "idle", "screen"),
        ("unknown", "unknown", "unknown", "screen"),
        ("unknown", "idle", "idle", "state file"),
        ("unknown", "busy", "busy", "state file"),
        ("busy", "busy", "busy", "state file"),
        ("idle", "busy", "busy", "state file"),
        ("permission", "busy", "busy", "state file"),
        ("retry", "busy", "retry", "screen"),
        ("busy", "idle", "idle", "state file"),
        ("error", "idle", "error", "screen"),
        ("idle", "permission", "permission", "state file"),
        ("permission", "dialog", "permission", "screen"),
        ("idle", "shell", "idle", "screen"),
        ("busy", "shell", "busy", "screen"),
        ("unknown", "shell", "idle", "state file"),
    ],
)
def test_the_clients_own_file_goes_before_its_screen(screen: State, told: State, expected: State, source: str) -> None:
    assert best_state(screen, told) == (expected, source)
