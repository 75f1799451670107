"""Backslashes: what `$'…'`, `echo -e` and `printf` make of them."""

from dogwatch.guard.bash.holes import character
from dogwatch.guard.verdict import ParseError

_SIMPLE = dict(zip("abeEfnrtv\\", "\a\b\033\033\f\n\r\t\v\\", strict=True))
_HEX = "0123456789abcdefABCDEF"
_OCTAL = "01234567"


def unescape(text: str, style: str) -> str:
    """The text as `echo -e` ("echo") or a format of `printf` ("printf") writes it."""
    return text if "\\" not in text else _decode(text, 0, "", style)[0]


def ansi(text: str, at: int) -> tuple[str, int]:
    """What `$'…'` means, from behind its opening quote on, and where it ends."""
    return _decode(text, at, "'", "ansi")


def _decode(text: str, at: int, quote: str, style: str) -> tuple[str, int]:
    kept: list[str] = []
    raw = bytearray()  # bytes that are given one by one make characters together
    ended = False
    while True:
        char = text[at : at + 1]
        at += 1
        if char == quote:
            break
        if not char:
            raise ParseError("a ' is never closed")
        byte = -1
        if char == "\\" and at < len(text):
            if style == "echo" and text[at] == "c":
                break
            char, byte, at = _escape(text, at, style)
            # A zero byte ends the text in bash; what follows is dropped.
            ended = ended or (byte == 0 and style == "ansi")
        if ended:
            continue
        if byte >= 0:
            raw.append(byte)
            continue
        if raw:
            kept.append(raw.decode("utf-8", "replace"))
            raw.clear()
        kept.append(char)
    kept.append(raw.decode("utf-8", "replace"))
    return "".join(kept), at


def _escape(text: str, at: int, style: str) -> tuple[str, int, int]:
    """The character or the byte (else -1) of the escape whose letter stands at `at`, and where it ends."""
    char = text[at]
    at += 1
    if char in _SIMPLE:
        return _SIMPLE[char], -1, at
    if char in "'\"?" and style != "echo":
        return char, -1, at
    if char == "x":
        digits, at = _digits(text, at, 2, _HEX)
        return ("", int(digits, 16), at) if digits else ("\\x", -1, at)
    if char in _OCTAL and (style != "echo" or char == "0"):
        digits, at = _digits(text, at - 1, 4 if style == "echo" else 3, _OCTAL)
        return "", int(digits, 8) & 255, at
    if char in "uU":
        digits, at = _digits(text, at, 4 if char == "u" else 8, _HEX)
        return (character(int(digits, 16)), -1, at) if digits else ("\\" + char, -1, at)
    if char == "c" and style == "ansi" and at < len(text):
        return character(ord(text[at].upper()) ^ 64 if text[at] != "?" else 127), -1, at + 1
    return "\\" + char, -1, at


def _digits(text: str, at: int, most: int, allowed: str) -> tuple[str, int]:
    end = at
    while end < len(text) and end - at < most and text[end] in allowed:
        end += 1
    return text[at:end], end
