"""How much memory an agent may take, and how it is told that the kernel has acted."""

from __future__ import annotations

import pytest

from dogwatch.model.memory import GB, HostSettings
from dogwatch.policy.agent_memory import agent_limit_bytes, memory_words

OFF = HostSettings(agent_memory_bytes=-1)


@pytest.mark.parametrize(
    ("settings", "size_gb", "wanted_gb", "limit_gb"),
    [
        (HostSettings(), 223, 0, 16),
        (HostSettings(), 24, 0, 12),
        (HostSettings(), 4, 0, 4),
        (HostSettings(), None, 0, 16),
        (HostSettings(memory_bytes=18 * GB), 223, 0, 9),
        (HostSettings(), 223, 2, 2),
        (HostSettings(), 223, 64, 16),
        (HostSettings(agent_memory_bytes=32 * GB), 223, 0, 32),
        (HostSettings(agent_memory_bytes=32 * GB), 223, 24, 24),
        (HostSettings(agent_memory_bytes=32 * GB), 223, 64, 32),
        (OFF, 223, 0, 0),
        (OFF, 223, 8, 8),
    ],
)
def test_a_role_may_want_less_and_never_gets_more_than_the_host_allows(
    settings: HostSettings, size_gb: int | None, wanted_gb: float, limit_gb: int
) -> None:
    size = size_gb * GB if size_gb is not None else None
    assert agent_limit_bytes(settings, size, wanted_gb) == limit_gb * GB


def test_the_words_name_the_limit_or_the_machine() -> None:
    assert memory_words(0, 0) == ()
    own = "kernel: it ended a process of the agent: its limit of 512 MB was reached"
    assert memory_words(1, 512 * 1024**2) == (own,)
    assert memory_words(3, 3 * GB // 2)[0].endswith("3 processes of the agent: its limit of 1.5 GB was reached")
    assert memory_words(1, 0) == ("kernel: it ended a process of the agent: the machine had no memory left",)
