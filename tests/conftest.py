"""Fixtures that several folders of tests share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dogwatch.ledger import open_store
from dogwatch.ledger.api import Store
from dogwatch.testing.clock import ManualClock
from support import bytecode, order
from support.cli_ledgers import ledger_at
from support.fleet import Fleet, fleets

# How quickly examples are made says something of the machine, not of the test.
settings.register_profile("dogwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dogwatch")


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """A dogwatch of its own; everything it started is gone afterwards."""
    yield from fleets()


@pytest.fixture
def clock() -> ManualClock:
    """A clock that the test moves by hand."""
    return ManualClock()


@pytest.fixture
def ledger(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A ledger in a file, on that clock."""
    opened = open_store(str(tmp_path / "ledger.db"), clock)
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A ledger in a file, on the machine's own clock."""
    with ledger_at(tmp_path) as opened:
        yield opened


def pytest_sessionstart(session: pytest.Session) -> None:
    """A missing tool fails the run at once, with how to install it; no test is skipped for it."""
    # A test run in the background has SIGINT ignored, and so would all that it starts; several tests press Ctrl-C.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    missing = [tool for tool in ("tmux", "pgbouncer") if shutil.which(tool, path=path) is None]
    if missing:
        pytest.exit(f"missing: {', '.join(missing)}; hint: apt-get install {' '.join(missing)}", returncode=1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Called before the first worker starts."""
    bytecode.make(Path(__file__).parent, config.rootpath / "pyproject.toml")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker gets some of all kinds; without workers the order stays as it is."""
    if hasattr(config, "workerinput"):
        root = Path(__file__).parent
        items[:] = order.mixed(items, lambda item: item.path.relative_to(root).parts)


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end; no garbage collection need look at them again and again."""
    gc.collect()
    gc.freeze()
