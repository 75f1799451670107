"""What the fast hook hands to the parts that it loads, so that none of them needs to import it.

Only the type checker reads this file; nothing loads it when the guard runs.
"""

from typing import Protocol


class Spool(Protocol):
    """Where the agent's events go, and where its messages wait (`fast.Spool`)."""

    @property
    def path(self) -> bytes: ...

    @property
    def box(self) -> bytes: ...

    @property
    def incarnation(self) -> str: ...

    def append(self, event: str, payload: bytes, size: int) -> None: ...

    def tell(self, event: str, payload: bytes) -> None: ...

    def is_held(self) -> bool: ...
