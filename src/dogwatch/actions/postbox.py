"""The agent's post box: messages that its client's next hook hands out, one file for each (`guard/post.py`).

Whoever removes a file has the message. The name carries the incarnation, so that none gets what was meant for another.
"""

from __future__ import annotations

import contextlib
import os

from dogwatch.model.records import MessageRecord


def put(box: str, message: MessageRecord, text: str) -> None:
    """Lays the message into the box; the same one again is the same file."""
    os.makedirs(box, mode=0o700, exist_ok=True)
    path = _path(box, message)
    temporary = f"{path}.{os.getpid()}.new"  # no hook takes it under this name
    with open(temporary, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    os.replace(temporary, path)


def take_back(box: str, message: MessageRecord) -> bool:
    """Whether the message was still in the box, and now is not."""
    try:
        os.unlink(_path(box, message))
    except FileNotFoundError:
        return False
    return True


def empty(box: str) -> None:
    """Before an incarnation begins: what is in there was for another."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(box):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{box}/{name}")


def _path(box: str, message: MessageRecord) -> str:
    return f"{box}/{message.queued.wall:020.6f}-{message.id}.{message.incarnation}"
