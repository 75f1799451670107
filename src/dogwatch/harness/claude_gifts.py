"""What dogwatch has put into Claude Code's own files on the operator's word, so that it can take back exactly that."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from dogwatch.errors import DogwatchError, RefusedError
from dogwatch.values import dataclass
from dogwatch.world.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class Gift:
    """One thing that was put into a file. `before` is the value that was there, `made` names what had to be made for
    it; both count when it is taken back."""

    kind: str
    file: str
    folder: str = ""
    before: Any = None
    made: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.kind, self.file, self.folder


def gifts(home: Home) -> list[Gift]:
    """Everything that was given from this home."""
    path = _path(home)
    try:
        with open(path, encoding="utf-8") as file:
            return [Gift(**{**item, "made": tuple(item["made"])}) for item in json.load(file)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}", hint="check its owner and mode") from None
    except (ValueError, TypeError, LookupError, RecursionError):
        raise RefusedError(
            f"{path} is damaged", hint="move it away; what it names must then be taken back by hand"
        ) from None


def gift(home: Home, kind: str, file: str, folder: str = "") -> Gift | None:
    """That one, where it was given."""
    return next((one for one in gifts(home) if one.identity == (kind, file, folder)), None)


def keep(home: Home, new: Gift) -> None:
    """Remembers the gift. Of one that was given before, what was made for it still counts as made."""
    with _held(home):
        others = [one for one in gifts(home) if one.identity != new.identity]
        before = gift(home, *new.identity)
        made = dict.fromkeys((*(before.made if before else ()), *new.made))
        _write(home, [*others, Gift(**{**asdict(new), "made": tuple(made)})])


@contextlib.contextmanager
def only_if_given(home: Home, kind: str, file: str, folder: str = "") -> Iterator[None]:
    """Forgets what was remembered within, where the giving was refused."""
    before = gift(home, kind, file, folder)
    try:
        yield
    except DogwatchError:
        after = gift(home, kind, file, folder)
        if before is None and after is not None:
            drop(home, after)
        raise


def drop(home: Home, old: Gift) -> None:
    """Forgets the gift."""
    with _held(home):
        _write(home, [one for one in gifts(home) if one.identity != old.identity])


def _path(home: Home) -> str:
    return f"{home.path}/claude-files.json"


@contextlib.contextmanager
def _held(home: Home) -> Iterator[None]:
    """One at a time."""
    try:
        os.makedirs(home.path, mode=0o700, exist_ok=True)
        with open(f"{_path(home)}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise RefusedError(
            f"{home.path} cannot be written: {error.strerror}", hint="nothing was changed; set DOGWATCH_HOME"
        ) from None


def _write(home: Home, all_of_them: list[Gift]) -> None:
    temporary = f"{_path(home)}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        json.dump([asdict(one) for one in all_of_them], file, ensure_ascii=False, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, _path(home))
