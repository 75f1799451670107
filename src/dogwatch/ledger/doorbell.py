"""The doorbell: whoever commits rings, after the commit, at every store that listens.

Each listener is a Unix datagram socket in a folder beside the ledger. A ring is one byte, sent without waiting, and
carries no news but "look": several rings are as good as one. The socket is bound on first use, so that a short
command leaves nothing behind. Where the folder's path is too long for a socket's address, or cannot be written, the
bell never rings and the store's `wait` polls.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time

ADDRESS_BYTES_MAX = 107
NAME_PREFIX = "bell-"
SETTLED_NS = 1_000_000_000


class Doorbell:
    """One store's end of the bell: it rings at all others and listens for them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._name = NAME_PREFIX + os.urandom(4).hex()
        self._address = os.path.join(folder, self._name)
        self._ringing: socket.socket | None = None
        self._listening: socket.socket | None = None
        self._poll = select.poll()
        self._others: list[str] = []
        self._others_of = -1

    def ring(self) -> None:
        """Tells every other listener; never waits and never fails, for the commit stands whoever hears of it."""
        try:
            changed = os.stat(self._folder).st_mtime_ns
            if changed != self._others_of:
                names = os.listdir(self._folder)
                bells = [name for name in names if name.startswith(NAME_PREFIX) and name != self._name]
                self._others = [os.path.join(self._folder, name) for name in bells]
                # A folder that has just changed may change again without looking any different.
                self._others_of = changed if time.time_ns() - changed > SETTLED_NS else -1
        except OSError:
            return
        for address in self._others:
            self._send(address)

    def fileno(self) -> int:
        """Readable when somebody has rung."""
        return self._listen().fileno()

    def wait(self, timeout_s: float) -> bool:
        """Waits for a ring, and takes all that have come."""
        listening = self._listen()
        rung = bool(self._poll.poll(max(0.0, timeout_s) * 1000))
        if rung:
            listening.recv(16)
            while self._poll.poll(0):
                listening.recv(16)
        return rung

    def close(self) -> None:
        """Takes the bell off. Closing twice is no error."""
        if self._listening is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._address)
            self._poll.unregister(self._listening)
            self._listening.close()
            self._listening = None
        if self._ringing is not None:
            self._ringing.close()
            self._ringing = None

    def _listen(self) -> socket.socket:
        if self._listening is None:
            self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._listening.setblocking(False)
            self._poll.register(self._listening, select.POLLIN)
            with contextlib.suppress(OSError):
                if len(os.fsencode(self._address)) <= ADDRESS_BYTES_MAX:
                    os.makedirs(self._folder, mode=0o700, exist_ok=True)
                    self._listening.bind(self._address)
                    # Commits from before the bell was hung: whoever listens must look once.
                    self._send(self._address)
        return self._listening

    def _send(self, address: str) -> None:
        if self._ringing is None:
            self._ringing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._ringing.setblocking(False)
        try:
            self._ringing.sendto(b"!", address)
        except ConnectionRefusedError:
            # Its listener died without taking it off.
            with contextlib.suppress(OSError):
                os.unlink(address)
        except OSError:
            # A full buffer means that it has been rung enough; a missing one has just been taken off.
            pass
