"""A run's folders are kept as a root and a path, and read as the very folder that they were made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.model.codec import decode, encode
from dogwatch.model.folders import Folder, folder_at

PATHS = st.text(alphabet="/ab.\udce4", max_size=12)


@pytest.mark.parametrize(
    ("path", "roots", "root", "below"),
    [
        ("/home/u/code/app", ("/home/u",), "/home/u", "code/app"),
        ("/home/u", ("/home/u",), "/home/u", ""),
        ("/home/u2/app", ("/home/u",), "/", "home/u2/app"),
        ("/srv/app", ("/home/u",), "/", "srv/app"),
        ("/srv/app", ("/",), "/", "srv/app"),
        ("/home/u/app/out/r-1", ("/home/u/app", "/home/u"), "/home/u/app", "out/r-1"),
        ("/", ("/home/u",), "/", ""),
        ("app", ("/home/u",), "", "app"),
        ("", ("/home/u",), "", ""),
    ],
)
def test_a_folder_is_below_the_first_root_that_holds_it(
    path: str, roots: tuple[str, ...], root: str, below: str
) -> None:
    found = folder_at(path, *roots)
    assert found == Folder(root=root, path=below)
    assert found.absolute == path


@given(path=PATHS, roots=st.lists(PATHS, max_size=3))
def test_a_folder_is_always_the_one_that_it_was_made_of(path: str, roots: list[str]) -> None:
    assert folder_at(path, *roots).absolute == path
    assert decode(Folder, encode(folder_at(path, *roots))).absolute == path


def test_a_host_with_another_root_finds_it_there() -> None:
    here = folder_at("/home/u/code/app", "/home/u")
    assert Folder(root="/Users/v", path=here.path).absolute == "/Users/v/code/app"
