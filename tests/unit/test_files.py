"""Files on a real disk: what counts as written, and every byte check."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from dogwatch.model.plan import ByteCheck, Output
from dogwatch.model.sight import OutputSight
from dogwatch.world.files import elsewhere, failed_check, marker, seen, signature, unwritten

OUTPUTS = (Output(path="a.md"), Output(path="sub/b.csv", min_bytes=3))


def write(folder: Path, path: str, data: bytes) -> None:
    (folder / path).parent.mkdir(exist_ok=True, parents=True)
    (folder / path).write_bytes(data)


def test_nothing_counts_as_written_before_it_is_there(tmp_path: Path) -> None:
    before = marker(str(tmp_path), OUTPUTS)
    assert before == {"a.md": "", "sub/b.csv": ""}
    assert unwritten(str(tmp_path), OUTPUTS, before) == "a.md does not exist"
    write(tmp_path, "a.md", b"x")
    assert unwritten(str(tmp_path), OUTPUTS, before) == "sub/b.csv does not exist"
    write(tmp_path, "sub/b.csv", b"12")
    assert unwritten(str(tmp_path), OUTPUTS, before) == "sub/b.csv has 2 bytes, 3 are required"
    write(tmp_path, "sub/b.csv", b"123")
    assert unwritten(str(tmp_path), OUTPUTS, before) == ""


def test_a_file_of_before_the_dispatch_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"old")
    before = marker(str(tmp_path), OUTPUTS[:1])
    assert unwritten(str(tmp_path), OUTPUTS[:1], before) == "a.md has not changed since the dispatch"
    write(tmp_path, "a.md", b"new!")
    assert unwritten(str(tmp_path), OUTPUTS[:1], before) == ""


def test_the_same_bytes_written_anew_count_also_with_an_old_time(tmp_path: Path) -> None:
    """A copy that keeps times, or a clock that was set back, must not look unchanged."""
    write(tmp_path, "a.md", b"same")
    before = marker(str(tmp_path), OUTPUTS[:1])
    facts = os.stat(tmp_path / "a.md")
    write(tmp_path, "new", b"same")
    os.utime(tmp_path / "new", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    os.replace(tmp_path / "new", tmp_path / "a.md")
    assert unwritten(str(tmp_path), OUTPUTS[:1], before) == ""


def test_an_empty_file_a_folder_a_pipe_and_a_dangling_link_are_no_output(tmp_path: Path) -> None:
    out = OUTPUTS[:1]
    write(tmp_path, "a.md", b"")
    assert unwritten(str(tmp_path), out, {}) == "a.md has 0 bytes, 1 are required"
    (tmp_path / "a.md").unlink()
    (tmp_path / "a.md").mkdir()
    assert unwritten(str(tmp_path), out, {}) == "a.md does not exist"
    (tmp_path / "a.md").rmdir()
    os.mkfifo(tmp_path / "a.md")
    assert unwritten(str(tmp_path), out, {}) == "a.md does not exist"
    assert failed_check(str(tmp_path), ByteCheck(path="a.md"))[0]
    (tmp_path / "a.md").unlink()
    (tmp_path / "a.md").symlink_to("nowhere")
    assert unwritten(str(tmp_path), out, {}) == "a.md does not exist"


def test_a_task_without_outputs_is_written_by_its_report(tmp_path: Path) -> None:
    assert unwritten(str(tmp_path), (), {}) == ""


def test_an_empty_output_is_allowed_where_the_plan_says_so(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"")
    assert unwritten(str(tmp_path), (Output(path="a.md", min_bytes=0),), {}) == ""


def test_a_path_that_no_file_can_have_is_not_there() -> None:
    assert signature("a\0b") == ""
    assert signature("/" + "x" * 5000) == ""


def test_outputs_are_seen_with_their_age_and_whether_they_are_new(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"old")
    os.utime(tmp_path / "a.md", (5, 5))
    before = marker(str(tmp_path), OUTPUTS)
    assert seen(str(tmp_path), OUTPUTS, before) == (
        OutputSight("a.md", 3, 5.0, is_new=False),
        OutputSight("sub/b.csv", 0, 0.0, is_new=False),
    )
    write(tmp_path, "a.md", b"newer")
    assert [(one.size, one.is_new) for one in seen(str(tmp_path), OUTPUTS, before)] == [(5, True), (0, False)]


def test_an_output_in_another_place_is_found_by_its_name_if_it_is_new(tmp_path: Path) -> None:
    out = tmp_path / "out"
    roots = (str(out), str(tmp_path))
    write(out, "a.md", b"in its place")
    write(tmp_path, "elsewhere/b.csv", b"misplaced")
    write(tmp_path, "old/b.csv", b"of last week")
    os.utime(tmp_path / "old/b.csv", (5, 5))
    write(tmp_path, ".cache/b.csv", b"hidden")
    write(tmp_path, "elsewhere/a.md", b"the right one is there")
    known = {output.path for output in OUTPUTS}
    assert elsewhere(roots, str(out), OUTPUTS, known, (), 1000.0) == (str(tmp_path / "elsewhere/b.csv"),)
    write(out, "sub/b.csv", b"in its place")
    assert elsewhere(roots, str(out), OUTPUTS, known, (), 1000.0) == ()


def test_the_outputs_of_another_run_of_the_same_project_are_not_taken_for_misplaced_ones(tmp_path: Path) -> None:
    out = tmp_path / "out" / "t-1"
    write(out, "a.md", b"in its place")
    write(tmp_path, "out/t-2/sub/b.csv", b"of the run beside it")
    known = {output.path for output in OUTPUTS}
    assert elsewhere((str(out), str(tmp_path)), str(out), OUTPUTS, known, (), 1000.0) == ()
    write(out, "wrong/b.csv", b"misplaced")
    assert elsewhere((str(out), str(tmp_path)), str(out), OUTPUTS, known, (), 1000.0) == (str(out / "wrong/b.csv"),)


def test_an_output_under_another_name_in_the_right_place_is_found_unless_it_is_anothers(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"in its place")
    write(tmp_path, "sub/B-final.csv", b"misnamed")
    write(tmp_path, "sub/notes.txt", b"something else")
    write(tmp_path, "sub/c.csv", b"of another task")
    known = {"a.md", "sub/b.csv", "sub/c.csv"}
    wrote = ("sub/B-final.csv", "sub/notes.txt", "sub/c.csv")
    found = elsewhere((str(tmp_path),), str(tmp_path), OUTPUTS, known, wrote, 1000.0)
    assert found == (str(tmp_path / "sub/B-final.csv"),)
    assert elsewhere((str(tmp_path),), str(tmp_path), OUTPUTS, known, (), 1000.0) == (), "somebody else's, perhaps"


TEXT = "# Report\nwarm and cold: 21 °C\n"


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ({}, ""),
        ({"min_bytes": len(TEXT.encode())}, ""),
        ({"min_bytes": 1000}, "f has 31 bytes, 1000 are required"),
        ({"max_bytes": 31}, ""),
        ({"max_bytes": 30}, "f has 31 bytes, 30 are allowed"),
        ({"max_bytes": 0}, "f has 31 bytes, 0 are allowed"),
        ({"contains": ("Report", "°C")}, ""),
        ({"contains": ("Report", "hot")}, "f does not contain 'hot'"),
        ({"lacks": ("hot",)}, ""),
        ({"lacks": ("hot", "cold")}, "f contains 'cold'"),
        ({"matches": r"^warm.*\d+"}, ""),
        ({"matches": r"^cold"}, "f does not match '^cold'"),
        ({"json": True}, "f is not JSON"),
        ({"sha256": hashlib.sha256(TEXT.encode()).hexdigest()}, ""),
        ({"sha256": "0" * 64}, "f has SHA-256"),
    ],
)
def test_every_byte_check(tmp_path: Path, check: dict[str, Any], reason: str) -> None:
    write(tmp_path, "f", TEXT.encode())
    found, digest = failed_check(str(tmp_path), ByteCheck(path="f", **check))
    assert found.startswith(reason)
    assert bool(found) == bool(reason)
    assert digest == hashlib.sha256(TEXT.encode()).hexdigest()


def test_a_missing_file_fails_and_has_no_digest(tmp_path: Path) -> None:
    assert failed_check(str(tmp_path), ByteCheck(path="f")) == ("f does not exist or is no regular file", "")


@pytest.mark.parametrize("pattern", [r"\d+ °C", r"[°] C|[°]C", r"\u00b0", r"\N{DEGREE SIGN}", r"21 .C$"])
def test_a_pattern_means_characters_as_everywhere_in_python(tmp_path: Path, pattern: str) -> None:
    """The pipeline file was checked with such a pattern; the file's bytes must not be where it fails."""
    write(tmp_path, "f", TEXT.encode())
    assert failed_check(str(tmp_path), ByteCheck(path="f", matches=pattern))[0] == ""


def test_a_pattern_on_bytes_that_are_no_text_is_answered(tmp_path: Path) -> None:
    write(tmp_path, "f", b"\xff\x00\xfe warm")
    assert failed_check(str(tmp_path), ByteCheck(path="f", matches="warm"))[0] == ""
    assert failed_check(str(tmp_path), ByteCheck(path="f", matches="cold"))[0] != ""


@pytest.mark.parametrize(
    ("data", "good"),
    [
        (b'{"a": [1, null]}', True),
        (b"[]", True),
        ("\ufeff{}".encode(), True),
        (b'{"a": NaN}', False),
        (b'{"a": 1', False),
        (b"\xff\xfe\xfa", False),
        (b"[" * 100_000, False),
        (b"[" * 100_000 + b"]" * 100_000, False),
        (b"1" * 5000, False),
    ],
)
def test_json_is_checked_whatever_the_bytes_are(tmp_path: Path, data: bytes, good: bool) -> None:
    write(tmp_path, "f", data)
    reason, _ = failed_check(str(tmp_path), ByteCheck(path="f", json=True))
    assert (reason == "") == good
