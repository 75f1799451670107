"""Failing assertions of the contract are explained like those of test files."""

from __future__ import annotations

import pytest

for part in ("archive", "documents", "events", "leases", "model", "overlaps", "processes", "queues", "transactions"):
    pytest.register_assert_rewrite(f"contract.parts.{part}")
