"""Calls of the command line, each in a process of its own, without the second that an interpreter needs to begin."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = str(HERE.parents[1] / "src")


class Server:
    """The process from which the commands are forked; it ends together with the tests that use it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOGWATCH_", "TMUX"))}
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(HERE / "command_server.py")],
                env={**kept, "PYTHONPATH": SOURCE},
                cwd="/",
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                # Ctrl-C goes to all in the terminal's group, and cleaning up after it needs this server.
                start_new_session=True,
            )
        atexit.register(self.close)

    def close(self) -> None:
        """The server leaves when it can be asked no more, also where a forked child of the tests has the socket too."""
        if self.owner == os.getpid():
            self.control.shutdown(socket.SHUT_RDWR)
            self.control.close()
            self.process.wait(60)


_servers: dict[int, Server] = {}
_starting = threading.Lock()


def _server() -> Server:
    """That of this process, and not of one that it was forked from."""
    with _starting:
        return _servers.get(os.getpid()) or _servers.setdefault(os.getpid(), Server())


def call(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    stdin: bytes = b"",
    timeout_s: float = 280,
    program: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """`python -m dogwatch WORDS`, or `python PROGRAM WORDS`, to its end. An environment that changes how Python begins
    gets an interpreter of its own."""
    argv = [sys.executable, *([program] if program else ["-m", "dogwatch"]), *words]
    if environment.get("PYTHONPATH") != SOURCE:
        return subprocess.run(
            argv, env=environment, cwd=folder, input=stdin, capture_output=True, timeout=timeout_s, check=False
        )
    message = {"words": list(words), "environment": dict(environment), "folder": str(folder), "program": program}
    stdin_pipe, stdout_pipe, stderr_pipe, status_pipe = (os.pipe() for _ in range(4))
    theirs = (stdin_pipe[0], stdout_pipe[1], stderr_pipe[1], status_pipe[1])
    with open(status_pipe[0]) as status:
        try:
            socket.send_fds(_server().control, [json.dumps(message).encode()], theirs)
        finally:
            for stream in theirs:
                os.close(stream)
        first = status.readline()
        assert first, "the command server has ended"
        try:
            output, errors = _communicate((stdin_pipe[1], stdout_pipe[0], stderr_pipe[0]), stdin, timeout_s)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(first), signal.SIGKILL)
            raise subprocess.TimeoutExpired(argv, timeout_s) from None
        return subprocess.CompletedProcess(argv, int(status.readline()), output, errors)


def _communicate(ours: tuple[int, int, int], stdin: bytes, timeout_s: float) -> tuple[bytes, bytes]:
    """Gives the input and takes all that is said, until nobody is left who could say more."""
    until = time.monotonic() + timeout_s
    said: dict[int, list[bytes]] = {ours[1]: [], ours[2]: []}
    with selectors.DefaultSelector() as selector:
        for stream in said:
            selector.register(stream, selectors.EVENT_READ)
        selector.register(ours[0], selectors.EVENT_WRITE)
        os.set_blocking(ours[0], False)
        try:
            while selector.get_map():
                ready = selector.select(max(0.0, until - time.monotonic()))
                if not ready and time.monotonic() >= until:
                    raise TimeoutError
                for key, _ in ready:
                    stream = key.fd
                    if stream == ours[0]:
                        stdin = _give(stream, stdin)
                        is_over = not stdin
                    else:
                        said[stream].append(os.read(stream, 1 << 16))
                        is_over = not said[stream][-1]
                    if is_over:
                        selector.unregister(stream)
                        os.close(stream)
        finally:
            for stream in [key.fd for key in selector.get_map().values()]:
                os.close(stream)
    return b"".join(said[ours[1]]), b"".join(said[ours[2]])


def _give(stream: int, stdin: bytes) -> bytes:
    """What is left to give; nothing where nobody reads it any more."""
    try:
        return stdin[os.write(stream, stdin) :]
    except BrokenPipeError:
        return b""
