"""Where everything lies: the home by the environment, the XDG rules, and room for sockets."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dogwatch.errors import UsageError
from dogwatch.world.home import SOCKET_BYTES_MAX, Home, find_home


def test_the_environment_names_the_home() -> None:
    assert find_home({"DOGWATCH_HOME": "/srv/dw", "XDG_STATE_HOME": "/state"}).path == "/srv/dw"


def test_a_relative_home_is_made_absolute_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(prefix="dw") as folder:
        monkeypatch.chdir(folder)
        assert find_home({"DOGWATCH_HOME": "h/../k"}).path == os.path.join(os.getcwd(), "k")


def test_without_it_the_state_folder_of_xdg_is_used() -> None:
    assert find_home({"XDG_STATE_HOME": "/state"}).path == "/state/dogwatch"


@pytest.mark.parametrize("state", ["", "state", "./state", "~/state"])
def test_a_relative_state_folder_is_ignored_as_xdg_demands(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    assert find_home({"XDG_STATE_HOME": state, "HOME": "/home/u"}).path == "/home/u/.local/state/dogwatch"


def test_an_empty_home_counts_as_not_set() -> None:
    assert find_home({"DOGWATCH_HOME": "", "XDG_STATE_HOME": "/state"}).path == "/state/dogwatch"


def accepts(path: str) -> bool:
    try:
        find_home({"DOGWATCH_HOME": path})
    except UsageError:
        return False
    return True


def test_the_longest_home_that_is_accepted_has_room_for_every_socket_and_one_more_byte_has_not() -> None:
    longest = next(n for n in range(107, 0, -1) if accepts("/" + "h" * n))
    accepted = "/" + "h" * longest
    with pytest.raises(UsageError) as caught:
        find_home({"DOGWATCH_HOME": accepted + "h"})
    assert str(len(accepted)) in caught.value.hint
    longest_run = "n" * 32 + "-" + "9" * 7
    for path in (Home(accepted).door(longest_run), Home(accepted).tmux(longest_run)):
        assert len(path.encode()) <= SOCKET_BYTES_MAX


def test_bytes_count_not_characters() -> None:
    with pytest.raises(UsageError, match="too long"):
        find_home({"DOGWATCH_HOME": "/" + "ü" * 40})


def test_the_limit_is_the_kernels_own() -> None:
    with TemporaryDirectory(prefix="dw") as folder, socket.socket(socket.AF_UNIX) as one:
        one.bind(folder + "/" + "x" * (SOCKET_BYTES_MAX - len(folder) - 1))
        with socket.socket(socket.AF_UNIX) as two, pytest.raises(OSError, match="too long"):
            two.bind(folder + "/" + "y" * (SOCKET_BYTES_MAX - len(folder)))


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    with TemporaryDirectory(prefix="dw") as folder:
        home = find_home({"DOGWATCH_HOME": f"{folder}/h"})
        paths = (home.ledger, home.bin, home.run("t-1"), home.door("t-1"), home.spool("t-1", "a"), home.log("captain"))
        assert all(path.startswith(f"{folder}/h/") for path in paths)
        assert not os.path.exists(home.path)
