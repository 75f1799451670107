"""A file that others append to: only what is new is read, and a file that was written anew from its beginning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dogwatch.world.growing import CHUNK_BYTES, GrowingFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def rest(file: GrowingFile, bytes_max: int = CHUNK_BYTES) -> list[bytes]:
    """Everything that there is."""
    found: list[bytes] = []
    more = True
    while more:
        lines, more = file.lines(bytes_max)
        found += lines
    return found


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_only_what_is_new_comes(path: Path) -> None:
    file = GrowingFile(str(path))
    assert file.lines() == ((), False)
    append(path, b"one\ntwo\n")
    assert rest(file) == [b"one", b"two"]
    append(path, b"three\n")
    assert rest(file) == [b"three"]
    assert rest(file) == []


def test_half_a_line_waits_for_its_rest(path: Path) -> None:
    file = GrowingFile(str(path))
    append(path, b"one\ntw")
    assert rest(file) == [b"one"]
    append(path, b"o\n")
    assert rest(file) == [b"two"]


@pytest.mark.parametrize("size", [1, 3, 5, 100])
def test_it_comes_in_pieces_of_any_size(path: Path, size: int) -> None:
    lines = [b"%d" % n * (n % 7) for n in range(200)]
    append(path, b"\n".join(lines) + b"\n")
    assert rest(GrowingFile(str(path)), size) == lines


def test_a_file_that_was_cut_is_read_from_its_beginning(path: Path) -> None:
    append(path, b"one\ntwo\n")
    file = GrowingFile(str(path))
    rest(file)
    path.write_bytes(b"new\n")
    assert rest(file) == [b"new"]
    assert file.restarts == 1


def test_a_file_that_was_replaced_is_read_from_its_beginning(path: Path) -> None:
    append(path, b"one\ntwo\n")
    file = GrowingFile(str(path))
    rest(file)
    path.with_suffix(".new").write_bytes(b"one\ntwo\nthree\n")
    os.replace(path.with_suffix(".new"), path)
    assert rest(file) == [b"one", b"two", b"three"]


def test_a_file_that_was_written_over_with_more_is_read_from_its_beginning(path: Path) -> None:
    append(path, b"one\ntwo\n")
    file = GrowingFile(str(path))
    rest(file)
    path.write_bytes(b"other\nwords\nhere\n")
    assert rest(file) == [b"other", b"words", b"here"]


def test_a_line_without_an_end_does_not_hold_up_what_follows(path: Path) -> None:
    append(path, b"x" * (CHUNK_BYTES + 10) + b"\nafter\n")
    assert rest(GrowingFile(str(path)))[-1] == b"after"


def test_what_is_no_file_has_no_lines(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "", "no\0name"):
        assert GrowingFile(str(tmp_path / name)).lines() == ((), False)
