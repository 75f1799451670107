"""The servers that the ledger's benchmark needs: all of them sync what they acknowledge, on the same disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from bench.harness import RESULTS

START_S_MAX = 20.0
TESTS = Path(__file__).parent.parent / "tests"


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The address of a Redis that syncs every command before it answers; its data lie in `folder`."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("error: there is no redis-server to compare with\nhint: apt-get install redis-server")
    folder.mkdir()
    # Relative to the folder that the server works in: an absolute one may be too long for a socket.
    settings = {
        "port": "0",
        "unixsocket": "redis.sock",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "auto-aof-rewrite-percentage": "0",
        "daemonize": "no",
    }
    command = [program, *(part for name, value in settings.items() for part in (f"--{name}", value))]
    with open(folder / "redis.log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        address = str(folder / "redis.sock")
        deadline = time.monotonic() + START_S_MAX
        while not os.path.exists(address):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("redis-server did not start: " + (folder / "redis.log").read_text())
            time.sleep(0.02)
        yield address
    finally:
        process.kill()
        process.wait()


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of an empty database on a PostgreSQL with the settings that make it durable, over a Unix socket."""
    # The tests' servers are the benchmark's, too.
    sys.path.append(str(TESTS))
    from support.postgres import new_server

    with _temporary_folders_on_this_disk():
        server = new_server(fsync="on", synchronous_commit="on", full_page_writes="on", shared_buffers="128MB")
    try:
        # What the start has left in memory is not to be written during the measurement.
        server.execute("CHECKPOINT")
        assert server.execute("SHOW fsync") == server.execute("SHOW synchronous_commit") == [("on",)]
        _, _, database = server.new_database().rpartition("/")
        yield f"postgresql://dogwatch@/{database}?host={quote(str(server.folder), safe='')}&port={server.port}"
    finally:
        server.close()


@contextmanager
def _temporary_folders_on_this_disk() -> Iterator[None]:
    """Another disk, or memory, would sync faster or slower than the one that everything else is measured on."""
    before = tempfile.tempdir
    if os.stat(tempfile.gettempdir()).st_dev != os.stat(RESULTS).st_dev:
        tempfile.tempdir = str(RESULTS)
    try:
        yield
    finally:
        tempfile.tempdir = before
