"""Files as the disk has them: signatures for freshness, and the byte checks of gates and deliverables."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import stat
from collections.abc import Iterator, Mapping, Sequence, Set

from dogwatch.model.plan import ByteCheck, Output
from dogwatch.model.sight import OutputSight

CHECK_BYTES_MAX = 64 * 1024 * 1024
CHECK_S_MAX = 5.0
SEARCH_ENTRIES_MAX = 20000
TAIL_BYTES = 64 * 1024
SKIPPED = frozenset({"node_modules", "__pycache__"})


def signature(path: str) -> str:
    """A short text that changes whenever the file does; empty where there is no regular file."""
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}" if stat.S_ISREG(facts.st_mode) else ""


def changed_tail(path: str, before: tuple[int, int] | None) -> tuple[tuple[int, int], bytes] | None:
    """The end of a file and what it looks like now, where that is another than before; None where it is the same, or no
    regular file. A pipe is not waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        facts = os.fstat(fd)
        now = (facts.st_size, facts.st_mtime_ns)
        if now == before or not stat.S_ISREG(facts.st_mode):
            return None
        return now, os.pread(fd, TAIL_BYTES, max(0, facts.st_size - TAIL_BYTES))
    except OSError:
        return None
    finally:
        os.close(fd)


def marker(folder: str, outputs: Sequence[Output]) -> dict[str, str]:
    """What the outputs look like now."""
    return {output.path: signature(os.path.join(folder, output.path)) for output in outputs}


def unwritten(folder: str, outputs: Sequence[Output], before: Mapping[str, str]) -> str:
    """Why the outputs do not count as written since `before`, or an empty text where they all do."""
    for output in outputs:
        now = signature(os.path.join(folder, output.path))
        if not now:
            return f"{output.path} does not exist"
        if now == before.get(output.path, ""):
            return f"{output.path} has not changed since the dispatch"
        size = int(now.split(":")[1])
        if size < output.min_bytes:
            return f"{output.path} has {size} bytes, {output.min_bytes} are required"
    return ""


def seen(folder: str, outputs: Sequence[Output], before: Mapping[str, str]) -> tuple[OutputSight, ...]:
    """Each output as it lies there."""
    found = []
    for output in outputs:
        path = os.path.join(folder, output.path)
        try:
            facts = os.stat(path)
        except OSError:
            found.append(OutputSight(output.path, 0, 0.0, is_new=False))
            continue
        is_new = signature(path) != before.get(output.path, "")
        found.append(OutputSight(output.path, facts.st_size, facts.st_mtime, is_new))
    return tuple(found)


def elsewhere(
    roots: Sequence[str],
    folder: str,
    outputs: Sequence[Output],
    known: Set[str],
    wrote: Sequence[str],
    since: float,
) -> tuple[str, ...]:
    """Files written since then that seem to be missing outputs: of the same name in other places below the roots, or
    of a similar name in the right place, if the agent `wrote` them. `known` are all paths that somebody is to write."""
    expected = {os.path.realpath(os.path.join(folder, path)) for path in known}
    missing = [os.path.realpath(os.path.join(folder, output.path)) for output in outputs]
    missing = [path for path in missing if not os.path.exists(path)]
    names = {os.path.basename(path) for path in missing}
    own = {os.path.realpath(os.path.join(folder, path)) for path in wrote}
    found: dict[str, None] = {}
    left = SEARCH_ENTRIES_MAX
    mine = os.path.realpath(folder)
    for root in roots if missing else ():
        for here, folders, files_ in os.walk(root):
            place = os.path.realpath(here)
            folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
            if place == os.path.dirname(mine) and place != os.path.realpath(root):
                # Beside this run's folder lie those of others, with files of the very same names.
                folders[:] = [name for name in folders if name == os.path.basename(mine)]
            left -= len(folders) + len(files_)
            if left < 0:
                return tuple(found)
            for name in files_:
                path = os.path.join(here, name)
                real = os.path.realpath(path)
                if name not in names and not (real in own and any(is_misnamed(real, one) for one in missing)):
                    continue
                with contextlib.suppress(OSError):
                    if os.stat(path).st_mtime >= since and real not in expected:
                        found[path] = None
    return tuple(found)


def is_misnamed(path: str, expected: str) -> bool:
    """Whether the file lies where the expected one should, under a name that is much like it: in other letters, longer,
    or with another ending."""
    names = [
        "".join(char for char in os.path.splitext(os.path.basename(one))[0].casefold() if char.isalnum())
        for one in (path, expected)
    ]
    shorter, longer = sorted(names, key=len)
    return os.path.dirname(path) == os.path.dirname(expected) and bool(shorter) and shorter in longer


def failed_check(folder: str, check: ByteCheck) -> tuple[str, str]:
    """Reads the file and says why it fails the check (empty: it passes), and its SHA-256."""
    path = os.path.join(folder, check.path)
    if not signature(path):
        return f"{check.path} does not exist or is no regular file", ""
    with open(path, "rb") as file:
        data = file.read(CHECK_BYTES_MAX + 1)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) > CHECK_BYTES_MAX:
        return f"{check.path} is larger than {CHECK_BYTES_MAX} bytes, too large to check", digest
    try:
        with _time_limit(CHECK_S_MAX):
            return _reason(check, data, digest), digest
    except TimeoutError:
        return f"{check.path} could not be checked within {CHECK_S_MAX:g} s", digest


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Breaks off what takes too long: a pattern can take years on a text that was made for it."""

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _reason(check: ByteCheck, data: bytes, digest: str) -> str:
    if len(data) < check.min_bytes:
        return f"{check.path} has {len(data)} bytes, {check.min_bytes} are required"
    if check.max_bytes is not None and len(data) > check.max_bytes:
        return f"{check.path} has {len(data)} bytes, {check.max_bytes} are allowed"
    for text in check.contains:
        if text.encode() not in data:
            return f"{check.path} does not contain {text!r}"
    for text in check.lacks:
        if text.encode() in data:
            return f"{check.path} contains {text!r}"
    if check.matches and not re.search(check.matches, data.decode(errors="replace"), re.MULTILINE):
        return f"{check.path} does not match {check.matches!r}"
    if check.json:
        try:
            json.loads(data, parse_constant=_no_json)
        except (ValueError, RecursionError) as error:
            return f"{check.path} is not JSON: {error}"
    if check.sha256 and digest != check.sha256.lower():
        return f"{check.path} has SHA-256 {digest}, not {check.sha256}"
    return ""
