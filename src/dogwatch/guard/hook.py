"""The fast hook: appends what a client's hook says to the agent's spool, one line for each event.

It is run as a plain script for every hook event (`python -I -S hook.py EVENT`, the payload on stdin), so it imports
only what the interpreter has loaded anyway: `json` alone would double its time. The line's form is documented in
`docs/reference/spool.md` and read by `dogwatch.model.spool`.
"""

import os
import sys
import time

PAYLOAD_BYTES_MAX = 65536
GATING = ("PreToolUse", "PermissionRequest")
"""Events whose hook may deny a tool. Only these fail closed: exit 2 on Stop would keep the client from stopping."""

EXIT_OK = 0
EXIT_DENY = 2
EXIT_USAGE = 64

_SPACES = bytes.maketrans(b"\t\n\r", b"   ")


def main(arguments: list[str]) -> int:
    """Records the event named by the one argument and returns the exit code."""
    event = arguments[0] if len(arguments) == 1 else ""
    if not (event.isascii() and event.isalpha() and len(event) <= 64):
        return _say(EXIT_USAGE, f"{event[:80]!r} is not the name of an event", "run: hook.py EVENT < payload")
    payload, payload_bytes = _read(0)
    spool = os.environ.get("DOGWATCH_SPOOL", "")
    try:
        if not spool:
            raise OSError("DOGWATCH_SPOOL is not set")
        _append(spool, _line(event, payload, payload_bytes))
    except OSError as error:
        code = EXIT_DENY if event in GATING else EXIT_OK
        return _say(code, f"{event} could not be recorded: {error}", "is DOGWATCH_SPOOL a file that can be written?")
    return EXIT_OK


def _read(file: int) -> tuple[bytes, int]:
    """The first bytes of `file`, and how many there were in all; a client may send any amount."""
    kept = bytearray()
    total = 0
    try:
        while chunk := os.read(file, PAYLOAD_BYTES_MAX):
            kept += chunk[: PAYLOAD_BYTES_MAX - len(kept)]
            total += len(chunk)
    except OSError:
        pass  # a closed stdin is an empty payload; the event itself still counts
    return bytes(kept), total


def _line(event: str, payload: bytes, payload_bytes: int) -> bytes:
    incarnation = os.environ.get("DOGWATCH_INCARNATION", "")
    if not (incarnation.isascii() and incarnation.isdigit()):
        incarnation = "0"
    # Between a client and its hook there may be a shell.
    client = os.environ.get("CLAUDE_PID", "")
    pid = client if client.isascii() and client.isdigit() else str(os.getppid())
    header = f"1\t{time.time():.6f}\t{time.monotonic():.6f}\t{incarnation}\t{pid}\t{event}\t{payload_bytes}\t"
    return header.encode("ascii") + payload.translate(_SPACES) + b"\n"


def _append(path: str, line: bytes) -> None:
    """One write in append mode: the kernel keeps concurrent writers' lines whole."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.write(file, line) != len(line):
            os.write(file, b"\n")  # so that the next writer's line does not stick to this torn one
            raise OSError("the disk is full")
    finally:
        os.close(file)


def _say(code: int, message: str, hint: str) -> int:
    os.write(2, f"dogwatch: {message}\nhint: {hint}\n".encode("utf-8", "replace"))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
