"""Claude Code's own files: where they lie, and how one is changed so that nothing in it is ever lost.

Seen with 2.1.325: with CLAUDE_CONFIG_DIR set, `.claude.json` lies in that folder and the one in the home folder is not
read. An old `.config.json` beside the settings goes before it. The client writes `.claude.json` under a lock, a folder
of the same name with `.lock` behind it, which counts for nothing once it is ten seconds old.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dogwatch.errors import AwayError, RefusedError
from dogwatch.harness.json_text import parse

BACKUP = ".dogwatch-backup"
TRIES_MAX = 20
LOCK_STALE_S = 10.0
LOCK_WAIT_S = 15.0
LOCK_POLL_S = 0.05
UNCHANGED = "nothing was changed"

Edit = Callable[[str | None], str | None]
"""From the text of a file to the text that it is to have; None is no file."""


def config_folder(environment: Mapping[str, str]) -> str:
    """The folder for the user's settings."""
    return os.path.abspath(environment.get("CLAUDE_CONFIG_DIR") or os.path.join(_home(environment), ".claude"))


def config_file(environment: Mapping[str, str]) -> str:
    """The file in which the client keeps what it was told once, the trust of folders among it."""
    usual = os.path.join(os.path.abspath(environment.get("CLAUDE_CONFIG_DIR") or _home(environment)), ".claude.json")
    old = os.path.join(config_folder(environment), ".config.json")
    return old if os.path.isfile(old) and os.path.getsize(old) > 0 else usual


def user_settings(environment: Mapping[str, str]) -> str:
    """The settings for all of the user's projects."""
    return os.path.join(config_folder(environment), "settings.json")


def project_settings(folder: str) -> str:
    """The user's own settings for one project, which are not shared with others."""
    return os.path.join(folder, ".claude", "settings.local.json")


def _home(environment: Mapping[str, str]) -> str:
    return environment.get("HOME") or os.path.expanduser("~")


def read(path: str) -> str | None:
    """The file's text; None where there is no file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise RefusedError(f"{path} is no regular file", hint=f"{UNCHANGED}; move it away")
        with open(path, "rb") as file:
            return file.read().decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}", hint="check its owner and mode") from None
    except UnicodeDecodeError:
        raise RefusedError(f"{path} is no UTF-8 text", hint=f"{UNCHANGED}; mend the file first") from None


def content(path: str, text: str | None) -> dict[str, Any]:
    """What the file says; empty where there is none, or nothing in it."""
    if text is None or not text.strip():
        return {}
    try:
        value = parse(text)
    except ValueError as error:
        raise RefusedError(
            f"{path} is no JSON: {error}", hint=f"{UNCHANGED}; mend the file, or move it away and start the client once"
        ) from None
    return an_object(path, "", value)


def an_object(path: str, name: str, value: Any) -> dict[str, Any]:
    """The value, which must be an object."""
    if not isinstance(value, dict):
        what = f"{name} in {path}" if name else path
        raise RefusedError(f"{what} is no JSON object", hint=f"{UNCHANGED}; mend the file first")
    return value


def change(path: str, edit: Edit, *, mode: int = 0o600, locked: bool = False) -> bool:
    """Gives the file the text that `edit` makes of it, whole or not at all; whether anything was to be changed. What
    somebody else writes meanwhile is seen, and edited anew. `mode` is for a new file, `locked` for one that the client
    writes under its lock. What was there before is kept beside it."""
    try:
        with _client_lock(path) if locked else contextlib.nullcontext():
            for _ in range(TRIES_MAX):
                before = read(path)
                after = edit(before)
                if after == before:
                    return False
                if _replaced(path, before, after, mode):
                    return True
    except OSError as error:
        raise RefusedError(
            f"{path} cannot be written: {error.strerror}", hint=f"{UNCHANGED}; check the owner and mode of its folder"
        ) from None
    raise AwayError(f"{path} is changed by somebody else all the time", hint=f"{UNCHANGED}; end the client, try again")


def backup_of(path: str) -> str:
    """Where the file as it was before the last change is kept: where a link leads, that is, where the file is."""
    return os.path.realpath(path) + BACKUP


def _replaced(path: str, before: str | None, after: str | None, mode: int) -> bool:
    """Puts the text there, unless the file is no longer what it was."""
    target = os.path.realpath(path)  # so that a link stays one
    if before is not None:
        facts = os.stat(target)
        if not facts.st_mode & 0o222 or not os.access(target, os.W_OK):
            raise RefusedError(
                f"{path} is read-only", hint=f"{UNCHANGED}; chmod u+w {target}, if it is yours to change"
            )
        mode = stat.S_IMODE(facts.st_mode)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    backup = backup_of(path)
    if after is None:
        if read(target) != before:
            return False
        os.unlink(target)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(backup)
        return True
    temporary = _written_beside(target, after, mode)
    try:
        if before is not None and os.geteuid() == 0:
            os.chown(temporary, facts.st_uid, facts.st_gid)
        as_before = read(backup) == after
        if before is not None and not as_before:
            os.replace(_written_beside(backup, before, 0o600), backup)
        if read(target) != before:
            return False
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    if as_before:
        os.unlink(backup)  # it says nothing that the file does not
    _sync(os.path.dirname(target))
    return True


def _written_beside(path: str, text: str, mode: int) -> str:
    """A temporary file in the same folder, on the disk."""
    descriptor, temporary = tempfile.mkstemp(prefix=f"{os.path.basename(path)}.", dir=os.path.dirname(path))
    try:
        with open(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _client_lock(path: str) -> Iterator[None]:
    """The lock under which the client itself writes the file."""
    lock = f"{path}.lock"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            os.mkdir(lock)
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise AwayError(f"{lock} is held by somebody else", hint=f"{UNCHANGED}; remove it if none is") from None
            with contextlib.suppress(FileNotFoundError):
                if time.time() - os.stat(lock).st_mtime > LOCK_STALE_S:
                    os.rmdir(lock)
                    continue
            time.sleep(LOCK_POLL_S)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(lock)
