"""The spool as it is read while it grows: whatever else stands in it, the current incarnation's lines count."""

from __future__ import annotations

from pathlib import Path

import pytest

from dogwatch.harness.claude import Claude
from dogwatch.model.brief import Header
from dogwatch.model.sight import Turn
from dogwatch.world.spool import CHUNK_BYTES, SpoolReader

MIB = 1024 * 1024


def line(event: str, mono: float, incarnation: int = 2, payload: bytes = b"{}") -> bytes:
    size = str(len(payload)).encode()
    return b"1\t%.6f\t%.6f\t%d\t77\t%s\t%s\t%s\n" % (1.7e9 + mono, mono, incarnation, event.encode(), size, payload)


def append(path: Path, *pieces: bytes) -> None:
    with path.open("ab") as file:
        for piece in pieces:
            file.write(piece)


def anew(path: Path) -> Turn:
    """What a reader says that has just been started."""
    return SpoolReader(str(path), 2).turn()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "writer.spool"


def test_a_spool_that_is_not_there_says_nothing(path: Path) -> None:
    reader = SpoolReader(str(path), 2)
    assert reader.turn() == Turn()
    append(path, line("SessionStart", 1.0))
    assert reader.turn().state == "idle"


def test_nine_mebibytes_of_an_earlier_incarnation_do_not_hide_the_current_one(path: Path) -> None:
    old = line("PreToolUse", 1.0, incarnation=1, payload=b"x" * 65000)
    append(path, old * (9 * MIB // len(old) + 1))
    assert path.stat().st_size > 9 * MIB
    reader = SpoolReader(str(path), 2)
    assert reader.turn() == Turn(), "the earlier incarnation's turn is not this one's"
    append(path, line("SessionStart", 5.0), line("UserPromptSubmit", 6.0))
    for turn in (reader.turn(), anew(path)):
        assert (turn.state, turn.newest) == ("working", 6.0)


def test_lines_that_begin_in_one_chunk_and_end_in_the_next_are_read(path: Path) -> None:
    event = line("PostToolUse", 3.0, payload=b"y" * 9973)
    append(path, line("SessionStart", 1.0), event * (2 * CHUNK_BYTES // len(event) + 7), line("Stop", 9.0))
    turn = anew(path)
    assert (turn.state, turn.newest) == ("idle", 9.0)


@pytest.mark.parametrize("size", [CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 9 * MIB])
def test_a_line_that_is_longer_than_any_of_ours_is_passed_over(path: Path, size: int) -> None:
    append(path, line("SessionStart", 1.0), line("UserPromptSubmit", 2.0))
    reader = SpoolReader(str(path), 2)
    assert reader.turn().state == "working"
    append(path, b"z" * size)
    assert reader.turn().state == "working"
    append(path, b"\n", line("Stop", 8.0))
    for turn in (reader.turn(), anew(path)):
        assert (turn.state, turn.newest) == ("idle", 8.0)


def test_a_spool_that_was_truncated_is_read_from_its_beginning(path: Path) -> None:
    append(path, line("SessionStart", 1.0), line("UserPromptSubmit", 2.0), line("PreToolUse", 3.0))
    reader = SpoolReader(str(path), 2)
    assert reader.turn().state == "working"
    path.write_bytes(line("SessionStart", 4.0))
    assert (reader.turn().state, reader.turn().newest) == ("idle", 4.0)
    path.write_bytes(b"")
    assert reader.turn() == Turn()
    append(path, line("UserPromptSubmit", 5.0))
    assert reader.turn().state == "working"


def test_a_spool_that_is_taken_away_changes_nothing_until_it_is_back(path: Path) -> None:
    append(path, line("SessionStart", 1.0), line("UserPromptSubmit", 2.0))
    reader = SpoolReader(str(path), 2)
    assert reader.turn().state == "working"
    path.rename(path.with_suffix(".away"))
    assert reader.turn().state == "working"
    path.with_suffix(".away").rename(path)
    append(path, line("Stop", 3.0))
    assert reader.turn().state == "idle"


def test_half_a_line_counts_once_it_is_whole(path: Path) -> None:
    whole = line("UserPromptSubmit", 2.0, payload=b'{"prompt": "hello"}')
    append(path, line("SessionStart", 1.0))
    reader = SpoolReader(str(path), 2)
    for byte in range(len(whole) - 1):
        append(path, whole[byte : byte + 1])
        assert reader.turn().state == "idle"
    append(path, whole[-1:])
    assert reader.turn().state == "working"


def test_the_rest_of_a_torn_line_takes_no_later_line_along(path: Path) -> None:
    """A client that was killed in the middle of a write, or a full disk: the next line stands behind half a one."""
    append(path, line("SessionStart", 1.0), line("PreToolUse", 2.0)[:20], line("UserPromptSubmit", 3.0))
    append(path, line("Stop", 4.0))
    turn = anew(path)
    assert (turn.state, turn.newest) == ("idle", 4.0)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n\n\n\n",
        b"\x00" * 5000 + b"\n",
        bytes(range(256)) * 40 + b"\n",
        b"2\t1.0\t9.0\t2\t7\tUserPromptSubmit\t2\t{}\n",
        b"1\tnan?\t9.0\t2\t7\tUserPromptSubmit\t2\t{}\n",
        b"1\t1.0\t9.0\t%s\t7\tUserPromptSubmit\t2\t{}\n" % (b"2" * 5000),
        b"1\t1.0\t9.0\t2\t7\tUser\xffPrompt\t2\t{}\n",
        b"1\t1.0\t9.0\t2\t7\n",
    ],
)
def test_garbage_between_two_lines_is_passed_over(path: Path, garbage: bytes) -> None:
    append(path, line("SessionStart", 1.0), garbage, line("Notification", 2.0))
    turn = anew(path)
    assert (turn.state, turn.newest) == ("idle", 2.0)


def test_an_event_of_any_payload_is_still_an_event(path: Path) -> None:
    append(path, line("SessionStart", 1.0), line("UserPromptSubmit", 2.0, payload=b"[" * 65536))
    assert anew(path).state == "working"
    append(path, line("Stop", 3.0, payload=b"\xff\x00\xfe"))
    assert anew(path).state == "idle"


def test_receipts_survive_garbage_and_chunks(path: Path) -> None:
    header = str(Header("m0123456789", "dispatch", "draft"))
    prompt = b'{"prompt": "' + header.encode() + b'"}'
    append(path, line("SessionStart", 1.0), line("UserPromptSubmit", 2.0, payload=prompt), b"w" * (9 * MIB), b"\n")
    append(path, line("Stop", 3.0))
    assert dict(anew(path).receipts) == {"m0123456789": 2.0}


def test_a_full_context_is_known_by_whatever_name_a_client_has_for_it(path: Path) -> None:
    said = b'{"error":"invalid_request","last_assistant_message":"Prompt is too long"}'
    append(path, line("SessionStart", 1.0), line("StopFailure", 2.0, payload=said))
    assert SpoolReader(str(path), 2, names=Claude().failure).turn().failure == "context_full"
    append(path, line("StopFailure", 3.0, payload=b'{"error":"rate_limit"}'))
    assert SpoolReader(str(path), 2, names=Claude().failure).turn().failure == "rate_limit"
