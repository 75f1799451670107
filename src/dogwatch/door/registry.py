"""Which verbs there are: the files of `door/verbs/`. A new file is a new verb, and nothing else needs to know of it.

A file's name is the verb's name at the door. Its place in the command line follows from it: `mail_read` is
`dogwatch mail read`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from dogwatch.door import verbs
from dogwatch.door.verb import Verb

_FIRST = (
    *("report", "claim", "task_send", "mail_read", "mail_ack", "mail_send"),
    *("checkpoint", "subagent_skip", "heartbeat"),
)
"""The order in which people read about them; any others follow by name."""


class Folder:
    """The verbs in the folders of a package."""

    def __init__(self, package: str, path: Sequence[str]) -> None:
        self._package = package
        self._path = path
        self._found: dict[str, Verb[Any, Any, Any]] = {}

    def names(self) -> list[str]:
        files = {name.removesuffix(".py") for folder in self._path for name in os.listdir(folder) if _is_verb(name)}
        return sorted(files, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))

    def find(self, name: str) -> Verb[Any, Any, Any] | None:
        # The name may come from anybody: only what is listed is ever loaded.
        return self.load(name) if name in self._found or name in self.names() else None

    def load(self, name: str) -> Verb[Any, Any, Any]:
        if name not in self._found:
            self._found[name] = importlib.import_module(f"{self._package}.{name}").VERB
        return self._found[name]


def place(name: str) -> tuple[str, ...]:
    """Where the verb stands in the command line: `mail_read` is the verb `read` of the command `mail`."""
    command, _, verb = name.partition("_")
    return (command, verb.replace("_", "-")) if verb else (command,)


def _is_verb(file: str) -> bool:
    # Editors and archives leave others beside them, such as `.#claim.py`: none of those can be imported.
    return file.endswith(".py") and not file.startswith("_") and file.removesuffix(".py").isidentifier()


VERBS = Folder(verbs.__name__, verbs.__path__)
