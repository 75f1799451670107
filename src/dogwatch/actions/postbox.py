"""The agent's post box: messages that its client's next hook hands out, one file for each (`guard/post.py`).

Whoever removes a file has the message. The name carries the incarnation, so that none gets what was meant for another.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat

from dogwatch.model.records import MessageRecord


def put(box: str, message: MessageRecord, text: str) -> None:
    """Lays the message into the box; the same one again is the same file."""
    os.makedirs(box, mode=0o700, exist_ok=True)
    path = _path(box, message)
    temporary = f"{path}.{secrets.token_hex(8)}.new"  # no hook takes it under this name
    # The agent can write in there too: a link that it has laid would lead out of its sandbox.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        file.write(text)
    os.replace(temporary, path)


def take_back(box: str, message: MessageRecord) -> bool:
    """Whether the message was still in the box, and now is not."""
    try:
        os.unlink(_path(box, message))
    except OSError:
        return False
    return True


def empty(box: str) -> None:
    """Before an incarnation begins: what is in there was for another, or is no message at all."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.lstat(box).st_mode):
            os.unlink(box)
            return
        os.chmod(box, 0o700)
        for entry in os.scandir(box):
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)


def _path(box: str, message: MessageRecord) -> str:
    return f"{box}/{message.queued.wall:020.6f}-{message.id}.{message.incarnation}"
