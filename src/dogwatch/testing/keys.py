"""What the terminal sends, turned into keys: text, whole pastes, Enter and the few others that the agent knows."""

from __future__ import annotations

import codecs
from typing import NamedTuple

PASTE_START = b"\x1b[200~"
PASTE_END = b"\x1b[201~"

_NAMED = {0x0D: "enter", 0x0A: "newline", 0x7F: "backspace", 0x08: "backspace", 0x03: "ctrl-c", 0x15: "ctrl-u"}


class Key(NamedTuple):
    """`text` and `paste` carry their text; the others are known by name alone."""

    name: str
    text: str = ""


class Decoder:
    """Bytes in any portions to keys. After a lone Esc the caller waits a moment, then calls `flush`."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._pasting = False
        self._text = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def waiting(self) -> bool:
        """Whether an Esc has come that may be a key of its own or the beginning of a sequence."""
        return not self._pasting and bool(self._buffer)

    def feed(self, data: bytes) -> list[Key]:
        """The keys that are complete with `data`."""
        self._buffer += data
        keys: list[Key] = []
        while self._buffer:
            key = self._paste() if self._pasting else self._next()
            if key is None:
                break
            if key.name:
                keys.append(key)
        return keys

    def flush(self) -> list[Key]:
        """Esc as a key, where nothing has followed it."""
        alone = self._buffer == b"\x1b"
        self._buffer.clear()
        return [Key("escape")] if alone else []

    def _paste(self) -> Key | None:
        end = self._buffer.find(PASTE_END)
        if end < 0:
            return None
        text = self._buffer[:end].decode("utf-8", "surrogateescape")
        del self._buffer[: end + len(PASTE_END)]
        self._pasting = False
        # tmux sends a pasted line break as CR unless it is told not to.
        return Key("paste", text.replace("\r\n", "\n").replace("\r", "\n"))

    def _next(self) -> Key | None:
        """The next key; one without a name means "nothing of interest"; None means "incomplete"."""
        if self._buffer.startswith(PASTE_START):
            del self._buffer[: len(PASTE_START)]
            self._pasting = True
            return Key("")
        first = self._buffer[0]
        if first == 0x1B:
            return self._escape()
        if first < 0x20 or first == 0x7F:
            del self._buffer[0]
            return Key(_NAMED.get(first, ""))
        length = next((i for i, byte in enumerate(self._buffer) if byte < 0x20 or byte == 0x7F), len(self._buffer))
        text = self._text.decode(bytes(self._buffer[:length]))
        del self._buffer[:length]
        return Key("text" if text else "", text)

    def _escape(self) -> Key | None:
        if len(self._buffer) == 1:
            return None
        if self._buffer[1] not in b"[O":
            del self._buffer[0]
            return Key("escape")
        end = next((i for i, byte in enumerate(self._buffer[2:], 2) if 0x40 <= byte <= 0x7E), -1)
        if end < 0:
            return None
        del self._buffer[: end + 1]
        return Key("")
