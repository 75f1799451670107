"""The trust of a folder, as Claude Code keeps it: given and taken back in the text of its file.

Seen with 2.1.325: the folder's real path is the key, also within a repository or a worktree of one, and what lies below
a trusted folder is trusted too, up to the next repository.
"""

from __future__ import annotations

import os
from typing import Any

from dogwatch.errors import NotFoundError, RefusedError
from dogwatch.harness.claude_files import an_object, content
from dogwatch.harness.claude_gifts import Gift
from dogwatch.harness.json_text import put, remove

KIND = "trust"
PROJECTS = "projects"
KEY = "hasTrustDialogAccepted"


def trustable(folder: str, home: str) -> str:
    """The folder's real path; refuses what is no folder and what holds the whole home folder."""
    path = real(folder)
    if not os.path.isdir(path):
        raise NotFoundError(f"{folder} is no folder that is there", hint="trust is given to a project's folder")
    holder = path.rstrip("/") + "/"
    if (os.path.realpath(home) + "/").startswith(holder):
        raise RefusedError(
            f"{path} holds your whole home folder: trust goes for everything below a folder",
            hint="trust the project's own folder",
        )
    return path


def real(folder: str) -> str:
    """The path under which the client knows the folder, which need not be there any more."""
    path = os.path.realpath(folder)
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise RefusedError(
            f"{path!r} is no UTF-8 text", hint="the client cannot name such a folder; rename it"
        ) from None
    return path


def value_of(path: str, text: str | None, folder: str) -> Any:
    """What the file says of the folder; None where it says nothing."""
    return _entry(path, content(path, text), folder).get(KEY)


def given(path: str, text: str | None, folder: str) -> tuple[str, Gift]:
    """The text in which the folder is trusted, and what is to be remembered."""
    said = content(path, text)
    entry = _entry(path, said, folder)
    made = []
    if text is None:
        made.append("file")
    new = text if text and text.strip() else "{}\n"
    if PROJECTS not in said:
        made.append("projects")
        new = put(new, [PROJECTS], {folder: {KEY: True}})
    elif folder not in said[PROJECTS]:
        new = put(new, [PROJECTS, folder], {KEY: True})
    else:
        new = put(new, [PROJECTS, folder, KEY], True)
    if folder not in said.get(PROJECTS, {}):
        made.append("entry")
    if KEY not in entry:
        made.append("key")
    return new, Gift(kind=KIND, file=path, folder=folder, before=entry.get(KEY), made=tuple(made))


def taken_back(path: str, text: str | None, gift: Gift) -> str | None:
    """The text without what was given; as it is, where the folder is not trusted any more."""
    said = content(path, text)
    if text is None or _entry(path, said, gift.folder).get(KEY) is not True:
        return text
    if "key" not in gift.made:
        return put(text, [PROJECTS, gift.folder, KEY], gift.before)
    text = remove(text, [PROJECTS, gift.folder, KEY])
    if "entry" in gift.made and not content(path, text)[PROJECTS][gift.folder]:
        text = remove(text, [PROJECTS, gift.folder])
    if "projects" in gift.made and not content(path, text)[PROJECTS]:
        text = remove(text, [PROJECTS])
    return None if "file" in gift.made and not content(path, text) else text


def _entry(path: str, said: dict[str, Any], folder: str) -> dict[str, Any]:
    projects = an_object(path, PROJECTS, said.get(PROJECTS, {}))
    return an_object(path, f"{PROJECTS}[{folder}]", projects.get(folder, {}))
