"""`python -m torture.permits`: twice as many claimants as permits, killed at random instants.

Who is given a permit takes one of as many file locks as there are permits, and the kernel frees those of the dead. So
it is not the ledger alone that says how many hold one: a claimant that is given a permit and finds no lock free has
been given one too many. A lock is taken under another lock, the watch, so that nobody is counted twice.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dogwatch.coordination.admission import abandoned, ask, release
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Store, Tx
from dogwatch.ledger.records import load_all, save
from dogwatch.model.admission import Launch, PermitRecord, WaitRecord
from dogwatch.model.memory import HostRecord, HostSettings
from dogwatch.model.process import ProcessId
from dogwatch.world.clock import SystemClock
from dogwatch.world.processes import boot_id, identify, life
from torture.engines import ENGINES, new_engine

ROLE = "claimant"
HOLD_S_MAX = 0.03
ASK_S_MAX = 0.01
HIT_S_MAX = 0.04
SWEEP_EVERY = 25
"""After so many kills all who hold a permit are killed at one instant, and others must get theirs."""
HOST_S = 5.0
PATIENCE_S = 60.0
PR_SET_PDEATHSIG = 1


class ViolatedError(Exception):
    """Something that must never happen did."""


@dataclass(frozen=True)
class Places:
    """As many locks as permits, and what the claimants note. `steady` is there while permits are to be kept."""

    folder: Path
    limit: int

    @property
    def steady(self) -> Path:
        return self.folder / "steady"

    def refused(self, pid: int) -> Path:
        """There when this claimant was held while permits were to be kept."""
        return self.folder / f"refused-{pid}"

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    def enter(self, who: str) -> int:
        """Takes a lock and returns its descriptor; notes how many were taken then."""
        with open(self.folder / "watch", "w") as watch:
            fcntl.flock(watch, fcntl.LOCK_EX)
            mine, taken = -1, 0
            for number in range(self.limit):
                fd = os.open(self.folder / f"place-{number}", os.O_RDWR | os.O_CREAT, 0o600)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    taken += 1
                    os.close(fd)
                    continue
                if mine < 0:
                    mine = fd
                    os.pwrite(fd, f"{os.getpid():10}".encode(), 0)
                else:
                    os.close(fd)
            self.note(f"{taken + 1} {who}")
            return mine

    def note(self, line: str) -> None:
        fd = os.open(self.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, f"{line}\n".encode())
        os.close(fd)

    def holders(self) -> list[int]:
        """The pids of those who have a lock now."""
        found = []
        with open(self.folder / "watch", "w") as watch:
            fcntl.flock(watch, fcntl.LOCK_EX)
            for number in range(self.limit):
                with contextlib.suppress(FileNotFoundError), open(self.folder / f"place-{number}", "rb") as file:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        found.append(int(file.read()))
        return found


def claim_for_ever(url: str, places: Places, seed: int) -> None:
    """What a claimant does until it is killed."""
    chance, boot = random.Random(seed), boot_id()
    process = identify(os.getpid(), boot)
    assert process is not None
    lives = partial(life, boot=boot)
    launch = Launch(kind="process", holder=f"process:{process}", role=ROLE, process=process)
    with contextlib.closing(open_store(url, SystemClock())) as store:
        while True:
            if store.run(lambda tx: ask(tx, launch, lives)).verdict != "admit":
                if places.steady.exists():
                    places.refused(process.pid).touch()
                time.sleep(chance.uniform(0, ASK_S_MAX))
                continue
            place = places.enter(str(process))
            if place < 0:
                os.kill(os.getpid(), signal.SIGSTOP)  # it keeps its permit, and everybody can look
            time.sleep(chance.uniform(0, HOLD_S_MAX))
            while places.steady.exists():
                time.sleep(HOLD_S_MAX)
            os.close(place)
            store.run(lambda tx: release(tx, launch.holder))


class Claimants:
    """The orchestrator of one run."""

    def __init__(self, url: str, places: Places, seed: int) -> None:
        self.kills = self.sweeps = 0
        self.slowest_s = 0.0
        self._url = url
        self._places = places
        self._chance = random.Random(seed)
        self._boot = boot_id()
        self._pids: list[int] = []
        self._store: Store | None = None
        self._host_at = 0.0
        self._libc = ctypes.CDLL(None, use_errno=True)

    def run(self, kills: int) -> None:
        """So many kills; ViolatedError where a promise is broken."""
        try:
            self._keep_host()
            while len(self._pids) < 2 * self._places.limit:
                self._start()
            self._until(self._is_full, "all permits are taken for the first time", steady=True)
            while self.kills < kills:
                time.sleep(self._chance.uniform(0, HIT_S_MAX))
                self._kill(self._chance.choice(self._pids))
                self._start()
                self._keep_host()
                if self.kills % SWEEP_EVERY == 0:
                    self._sweep()
        finally:
            for pid in list(self._pids):
                self._kill(pid)
            self._check_end()

    def _start(self) -> None:
        seed, parent = self._chance.getrandbits(32), os.getpid()
        self._close()
        gc.collect()
        pid = os.fork()
        if pid:
            self._pids.append(pid)
            return
        try:
            self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                claim_for_ever(self._url, self._places, seed)
        except BaseException as error:
            self._places.note(f"failed {type(error).__name__}: {error}")
        finally:
            os._exit(1)

    def _kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._pids.remove(pid)
        self.kills += 1

    def _sweep(self) -> None:
        """All who hold a permit die at one instant; those who waited must have theirs, without anybody's help."""
        self._until(self._is_full, "all permits are taken", steady=True)
        self._places.steady.touch()
        dead = self._places.holders()
        for pid in dead:
            self._kill(pid)
        began = time.monotonic()
        self._until(lambda: self._is_full() and not set(dead) & set(self._places.holders()), "the freed permits")
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self._places.steady.unlink()
        while len(self._pids) < 2 * self._places.limit:
            self._start()
        self.sweeps += 1

    def _is_full(self) -> bool:
        return len(self._places.holders()) == self._places.limit

    def _are_others_refused(self) -> bool:
        return all(self._places.refused(pid).exists() for pid in set(self._pids) - set(self._places.holders()))

    def _until(self, fact: Callable[[], bool], what: str, *, steady: bool = False) -> None:
        """Waits for the fact; with `steady`, whoever gets a permit keeps it until everybody else was refused one."""
        if steady:
            for pid in self._pids:
                self._places.refused(pid).unlink(missing_ok=True)
            self._places.steady.touch()
        deadline = time.monotonic() + PATIENCE_S
        while not (fact() and (not steady or self._are_others_refused())):
            self._keep_host()
            self.look()
            if time.monotonic() > deadline:
                raise ViolatedError(f"{what}: not within {PATIENCE_S:.0f} s; {self._state()}")
            time.sleep(0.005)
        if steady:
            self._places.steady.unlink()

    def look(self) -> None:
        """ViolatedError where a claimant has noted what must not be."""
        for line in self._places.notes.read_text().splitlines() if self._places.notes.exists() else ():
            words = line.partition(" ")
            if not words[0].isdigit() or int(words[0]) > self._places.limit:
                raise ViolatedError(f"of {self._places.limit} permits: {line}")

    def _check_end(self) -> None:
        """Everybody is dead: nothing of them may count as taken, and nobody as waiting."""
        self.look()
        boot = self._boot

        def lives(process: ProcessId) -> str:
            return life(process, boot)

        def left(tx: Tx) -> list[str]:
            permits, waits = abandoned(tx, lives)
            gone = {permit.key for permit in permits} | {wait.key for wait in waits}
            return [one.key for prefix in ("permit/", "waits/") for one in tx.scan(prefix) if one.key not in gone]

        if kept := self._open().run(left):
            raise ViolatedError(f"all claimants are dead, and these are left: {', '.join(kept)}")
        self._close()

    def _keep_host(self) -> None:
        """What a dispatcher would write: memory is GREEN, and the cap."""
        if time.monotonic() - self._host_at < HOST_S:
            return
        self._host_at = time.monotonic()
        settings = HostSettings(roles={ROLE: self._places.limit})
        self._open().run(lambda tx: save(tx, HostRecord(host=tx.host, at=tx.now, since=tx.now, settings=settings)))
        self._close()

    def _state(self) -> str:
        def read(tx: Tx) -> str:
            permits, waits = load_all(tx, PermitRecord, "permit/"), load_all(tx, WaitRecord, "waits/")
            return f"permits {[one.launch.holder for one in permits]}, waits {[one.launch.holder for one in waits]}"

        return f"{self._open().run(read)}, places {self._places.holders()}, claimants {self._pids}"

    def _open(self) -> Store:
        if self._store is None:
            self._store = open_store(self._url, SystemClock())
        return self._store

    def _close(self) -> None:
        """No store is open when a claimant is forked."""
        if self._store is not None:
            self._store.close()
            self._store = None


def main(arguments: Sequence[str]) -> int:
    """One run, from its flags to its verdict."""
    parser = argparse.ArgumentParser(prog="python -m torture.permits", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    parser.add_argument("--kills", type=int, default=1000, help="how many claimants to kill (1000)")
    parser.add_argument("--limit", type=int, default=3, help="how many permits there are (3)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    flags = parser.parse_args(arguments)
    print(f"seed {flags.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="dwp"))
    places = Places(folder, flags.limit)
    engine, began = new_engine(flags.engine, folder), time.monotonic()
    claimants = Claimants(engine.url, places, flags.seed)
    try:
        claimants.run(flags.kills)
    except ViolatedError as error:
        print(f"VIOLATED: {error} (seed {flags.seed})")
        return 1
    finally:
        engine.close()
        noted = places.notes.read_text().split("\n")[:-1] if places.notes.exists() else []
        shutil.rmtree(folder)
    counts = [int(line.partition(" ")[0]) for line in noted]
    figures = {
        "kills": claimants.kills,
        "sweeps": claimants.sweeps,
        "granted": len(counts),
        "limit": flags.limit,
        "most at once": max(counts),
        "slowest to be free again s": round(claimants.slowest_s, 3),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
