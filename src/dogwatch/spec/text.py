"""A pipeline file's bytes as text: whether it can be read at all, is small enough, and is plain UTF-8."""

from __future__ import annotations

import os
import re
import stat

from dogwatch.spec.problem import Problem, UnreadableError

BYTES_MAX = 1024 * 1024

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


def read_text(path: str) -> str:
    """The file's text; UnreadableError where there is none."""
    return _decode(_bytes(path))


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Where the character at `offset` stands, both counted from 1."""
    before = re.split("\r\n|\r|\n", text[:offset])
    return len(before), len(before[-1]) + 1


def _bytes(path: str) -> bytes:
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe would keep us waiting for its writer
            raise UnreadableError(Problem(1, 1, "", "this is not a regular file", "save the pipeline as a file"))
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise UnreadableError(Problem(1, 1, "", "there is no such file", "check the path")) from None
    except IsADirectoryError:
        hint = "name the file in it, such as pipeline.yaml"
        raise UnreadableError(Problem(1, 1, "", "this is a folder, not a file", hint)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableError(Problem(1, 1, "", f"the file cannot be read: {reason}")) from None
    if len(data) > BYTES_MAX:
        hint = "keep long texts in files of their own, and let the tasks name them"
        raise UnreadableError(Problem(1, 1, "", f"the file has more than {BYTES_MAX} bytes", hint))
    return data


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig")
        line, column = line_and_column(before, len(before))
        message = f"the file is not UTF-8: byte 0x{data[error.start]:02x} does not fit here"
        raise UnreadableError(Problem(line, column, "", message, "save it as UTF-8")) from None
    if bad := _CONTROL.search(text):
        line, column = line_and_column(text, bad.start())
        message = f"the file holds the control character {bad[0]!a}"
        raise UnreadableError(Problem(line, column, "", message, "remove it"))
    return text
