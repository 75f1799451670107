"""The clients that the contract is tested on: all of them, or the one that CLIENT names."""

from __future__ import annotations

import os

import pytest

from realcli.clients import CLIENTS
from realcli.lab import Lab
from support.fleet import Fleet


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `client` is run for each."""
    if "client" in metafunc.fixturenames:
        metafunc.parametrize("client", CLIENTS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """CLIENT=codex leaves what is about that client."""
    wanted = os.environ.get("CLIENT", "")
    if not wanted:
        return
    if wanted not in CLIENTS:
        raise pytest.UsageError(f"there is no client {wanted!r}; known are {', '.join(CLIENTS)}")
    left = [item for item in items if _client(item) not in ("", wanted)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def _client(item: pytest.Item) -> str:
    """The client that a test is about, by its parameter or its file's name; empty where it is about several."""
    call = getattr(item, "callspec", None)
    if call is not None and "client" in call.params:
        return str(call.params["client"])
    words = item.path.stem.split("_")
    return next((name for name in CLIENTS if name in words), "")


@pytest.fixture
def lab(fleet: Fleet, request: pytest.FixtureRequest) -> Lab:
    """A fleet with a real client in it: the test's `client`, or the one that its file is about."""
    client = request.getfixturevalue("client") if "client" in request.fixturenames else _client(request.node)
    return Lab(fleet, client)
