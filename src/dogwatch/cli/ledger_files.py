"""A ledger in a file of JSON lines: a header, one record a line, and an end that proves that nothing is missing."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, cast

from dogwatch.errors import LedgerError, UsageError
from dogwatch.ledger.api import Reader
from dogwatch.ledger.bodies import checked, dump, required
from dogwatch.ledger.copying import KINDS, Record, line, records
from dogwatch.ledger.facts import facts
from dogwatch.ledger.migrations import VERSION

FORMAT = 1
LINE_BYTES_MAX = 16 * 1024 * 1024
NUMBERS_END = 2**63 - 1


def write_lines(reader: Reader, file: IO[bytes], tell: Callable[[int], None]) -> dict[str, int]:
    """Writes everything; how many records of each kind there were."""
    known = facts(reader)
    digest = hashlib.sha256()
    counts = dict.fromkeys(KINDS, 0)

    def write(kind: str, body: Mapping[str, Any]) -> None:
        text = line(kind, body)
        digest.update(text)
        file.write(text)

    write("ledger", {"format": FORMAT, "version": VERSION, "id": known["id"], "exported": time.time()})
    for number, (kind, body) in enumerate(records(reader), 1):
        write(kind, body)
        counts[kind] += 1
        tell(number)
    write("end", {"counts": counts, "sha256": digest.hexdigest()})
    return counts


@contextlib.contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    making = f"{path}.{os.getpid()}.new"
    try:
        with open(making, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as plain:
            if path.endswith(".gz"):
                with gzip.GzipFile(filename="", fileobj=plain, mode="wb") as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield plain
            plain.flush()
            os.fsync(plain.fileno())
        os.rename(making, path)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror or error}", hint="name a file that may be made"
        ) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(making)


@contextlib.contextmanager
def unpacked(path: str) -> Iterator[IO[bytes]]:
    """The file from its beginning, unpacked; standard input is kept in a temporary file."""
    try:
        with contextlib.ExitStack() as stack:
            if path == "-":
                plain: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(sys.stdin.buffer, plain)
                plain.seek(0)
            else:
                plain = stack.enter_context(open(path, "rb"))
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            yield cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=plain))) if packed else plain
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}",
            hint="name a file that dogwatch ledger export wrote",
        ) from error


def checked_file(file: IO[bytes], path: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The header and the counts of an export that is whole and sound."""
    digest = hashlib.sha256()
    counts = dict.fromkeys(KINDS, 0)
    header: dict[str, Any] | None = None
    order = _Order()
    number = 0
    while text := file.readline(LINE_BYTES_MAX):
        number += 1
        try:
            kind, body = _parsed(text)
            if header is None:
                header = _checked_header(kind, body)
            elif kind == "end":
                if body != {"counts": counts, "sha256": digest.hexdigest()} or file.read(1):
                    raise ValueError("what stands before its end is not what was written")
                return header, counts
            else:
                _check_record(kind, body)
                order.check(kind, body)
                counts[kind] += 1
        except (ValueError, TypeError, KeyError, RecursionError, UsageError) as error:
            raise UsageError(
                f"{path}, line {number}: {error.message if isinstance(error, UsageError) else error}",
                hint="it must be a file that dogwatch ledger export wrote, unchanged; nothing was written",
            ) from error
        digest.update(text)
    raise UsageError(f"{path} ends after line {number}: it is not whole", hint="export again; nothing was written")


def _parsed(text: bytes) -> Record:
    if not text.endswith(b"\n"):
        raise ValueError("the line is not whole")
    try:
        value = json.loads(text)
    except ValueError:
        raise ValueError("it is no JSON") from None
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError("it is no record")
    ((kind, body),) = value.items()
    if not isinstance(body, dict) or kind not in (*KINDS, "ledger", "end"):
        raise ValueError("it is no record")
    return kind, body


def _checked_header(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    if kind != "ledger" or not isinstance(body.get("id"), str):
        raise ValueError("it is no export of a ledger")
    required(body["id"], "the ledger's id")
    if body.get("format") != FORMAT or not isinstance(body.get("version"), int) or body["version"] > VERSION:
        raise ValueError("a newer dogwatch wrote it: upgrade this one")
    return dict(body)


_SHAPES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "document": {"key": str, "revision": int, "body": dict},
    "fence": {"name": str, "fence": int},
    "item": {
        "queue": str,
        "id": str,
        "state": str,
        "fence": int,
        "pushed": list,
        "ttl": (list, type(None)),
        "body": dict,
    },
    "event": {"kind": str, "body": dict, "at": list, "run": str, "agent": str, "op_id": str},
}


def _check_record(kind: str, body: Mapping[str, Any]) -> None:
    shape = _SHAPES.get(kind)
    if shape is None or set(body) != set(shape):
        raise ValueError(f"it is no {kind}")
    for name, wanted in shape.items():
        if not isinstance(body[name], wanted) or isinstance(body[name], bool):
            raise ValueError(f"{name} of the {kind} is of the wrong type")
        if wanted is int and not 0 <= body[name] < NUMBERS_END:
            raise ValueError(f"{name} of the {kind} is no number that there can be")
    for name in ("pushed", "ttl", "at"):
        moment = body.get(name)
        if moment is not None:
            if [type(part) for part in moment] != [str, float, float] or not all(map(math.isfinite, moment[1:])):
                raise ValueError(f"{name} of the {kind} is no moment")
            checked(moment[0], "a boot")
    for name in ("key", "name", "queue", "id", "kind"):
        if name in body:
            required(body[name], name)
    for name in ("run", "agent", "op_id"):
        checked(body.get(name, ""), name)
    if "body" in body:
        dump(body["body"])
    if kind == "item" and body["state"] not in ("open", "acked", "expired"):
        raise ValueError("the item is in no state that there is")


class _Order:
    """Records stand in the order in which they are written, and none of them twice."""

    def __init__(self) -> None:
        self._last: tuple[int, str] = (0, "")
        self._seen: set[tuple[str, ...]] = set()

    def check(self, kind: str, body: Mapping[str, Any]) -> None:
        """ValueError for a record that cannot stand here."""
        name: str = body["key"] if kind == "document" else body["name"] if kind == "fence" else ""
        place = (KINDS.index(kind), name)
        if place < self._last or (name and place == self._last):
            raise ValueError(f"the {kind} is not in its place")
        self._last = place
        identity = (body["queue"], body["id"]) if kind == "item" else (body.get("op_id", ""),)
        if identity in self._seen:
            raise ValueError(f"the {kind} is there twice")
        if any(identity):
            self._seen.add(identity)


def file_records(file: IO[bytes]) -> Iterator[Record]:
    """The records of a file that was checked, from its beginning."""
    file.readline()
    for text in file:
        kind, body = _parsed(text)
        if kind == "end":
            return
        yield kind, body
