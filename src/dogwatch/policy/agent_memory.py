"""How much memory an agent may take before the kernel ends what has taken it."""

from __future__ import annotations

from dogwatch.model.memory import GB, HostSettings

DEFAULT_MAX_BYTES = 16 * GB
"""Above the RED line for one process: before the kernel acts, dogwatch has had its say."""
DEFAULT_MIN_BYTES = 4 * GB
"""No healthy client needs more; half of a small machine may be less than one does need."""


def agent_limit_bytes(settings: HostSettings, size_bytes: int | None, wanted_gb: float = 0.0) -> int:
    """The limit for one agent, 0 for none. What its role wants never exceeds what the operator allows: by default half
    of the machine, within bounds. A negative setting means that the operator wants no limit."""
    allowed, wanted = settings.agent_memory_bytes, int(wanted_gb * GB)
    if allowed < 0:
        return wanted
    if not allowed:
        sizes = [size for size in (size_bytes, settings.memory_bytes) if size]
        half = min(sizes) // 2 if sizes else DEFAULT_MAX_BYTES
        allowed = min(max(half, DEFAULT_MIN_BYTES), DEFAULT_MAX_BYTES)
    return min(wanted, allowed) if wanted else allowed


def memory_words(kills: int, limit_bytes: int) -> tuple[str, ...]:
    """That the kernel has ended processes of an agent for memory, as evidence; nothing where it has not. The limit is
    the agent's own where that was reached, else 0."""
    if not kills:
        return ()
    what = "a process" if kills == 1 else f"{kills} processes"
    why = f"its limit of {size(limit_bytes)} was reached" if limit_bytes else "the machine had no memory left"
    return (f"kernel: it ended {what} of the agent: {why}",)


def size(count: int) -> str:
    """A number of bytes as people say it."""
    return f"{count / GB:.3g} GB" if count >= GB else f"{count / 1024**2:.0f} MB"
