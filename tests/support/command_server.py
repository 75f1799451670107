"""A process that runs commands of dogwatch for tests, each in a child of its own. It has imported everything
already: most of a command's time is its imports.

Its standard input is a socket. A message is a command, or a program, with its environment and folder, and comes with
its three streams and a fourth one, to which the process id is written and, when it has ended, the exit code. The
server leaves when the socket is closed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys

import dogwatch.cli
import dogwatch.ledger
import dogwatch.spec

MESSAGE_MAX = 1 << 17
"""For environment and all: one message is one packet."""


def import_everything() -> None:
    """What any of the commands may need."""
    for package in (dogwatch.cli, dogwatch.ledger, dogwatch.spec):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def become(message: bytes, streams: list[int]) -> int:
    """Makes a child what the message says; the exit code of its command."""
    wanted = json.loads(message)
    for number, stream in enumerate(streams[:3]):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    # As Python itself opens it: no newline is translated, and bytes that are no text go through.
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, newline="\n", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["folder"])
    sys.argv = [wanted["program"] or "dogwatch", *wanted["words"]]
    if wanted["program"]:
        runpy.run_path(wanted["program"], run_name="__main__")
    return dogwatch.cli.main()


def serve() -> int:
    """Returns in the server at its end, and in a command's process with the exit code."""
    control = socket.socket(fileno=os.dup(0))
    while True:
        message, streams, _, _ = socket.recv_fds(control, MESSAGE_MAX, 4)
        if not message:
            return 0
        if not os.fork():
            control.close()
            return attend(message, streams)
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue


def attend(message: bytes, streams: list[int]) -> int:
    """Between the server and a command there is one who waits for it: several commands may run at a time."""
    child = os.fork()
    if not child:
        return become(message, streams)
    for stream in (0, *streams[:3]):
        os.close(stream)
    os.write(streams[3], f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):  # nobody waited for so long
        os.write(streams[3], f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    import_everything()
    gc.freeze()
    sys.exit(serve())
