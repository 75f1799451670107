"""Text that is known only in part.

Everywhere in the guard a text is a plain `str`; what cannot be known from the command is one character in it, a hole.
Holes are high surrogates, which no decoded text holds (`clean` takes them out of what comes from outside), so that
joining, splitting and comparing texts needs no class of its own.
"""

WILD = "\ud800"
"""Any text at all, of any length, chosen by nobody knows whom."""
WORDS = "\ud801"
"""The same, not quoted: any number of words, also none."""
TAME = "\ud802"
"""A value of the environment, or of a program that prints plain facts: never code, perhaps empty."""
NUMBER = "\ud803"
OWN = "\ud804"
"""The pid of a background job of this very command (`$!`, `jobs -p`)."""
SELF = "\ud805"
"""The pid of the shell that runs this command (`$$`)."""
PARENT = "\ud806"
"""The pid of whoever runs this shell (`$PPID`): the agent's client."""
FOUND = "\ud807"
"""Pids that were looked up by name, port or list: they may be anybody's."""
DISK = "\ud808"
"""What stands in a file that was there before this command."""
HOME = "\ud809"
"""The user's home folder."""
DOGWATCH = "\ud80a"
"""The folder that DOGWATCH_HOME names."""
GENERATED = "\ud80f"
"""Shell code that a program known for it has printed, such as `ssh-agent -s`."""
STAR, ANY, OPEN, CLOSE = "\ud80b", "\ud80c", "\ud80d", "\ud80e"
"""The shell's `*`, `?`, `[` and `]` where they stand for file names."""

_MARK = b"\xed\xa0"  # every hole begins with these bytes in UTF-8
_ONE = (ANY,)
_CHARS_MAX = 1000
_CLEAN = dict.fromkeys(range(55296, 56320), "�")


def clean(text: str) -> str:
    """The text without characters that would look like holes."""
    return text if text.isascii() else text.translate(_CLEAN)


def character(code: int) -> str:
    """The character of that number; never a hole, whatever an escape sequence says."""
    return chr(code) if 0 <= code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


def known(text: str) -> bool:
    """Whether the text has no hole."""
    return text.isascii() or _MARK not in text.encode("utf-8", "surrogatepass")


def hole(char: str) -> bool:
    return "\ud800" <= char <= "\ud80f"


def wild(text: str) -> bool:
    """Whether a part of the text could be anything, also code."""
    return not text.isascii() and any(char in text for char in (WILD, WORDS, FOUND, DISK))


def without_holes(text: str) -> str:
    """The text as if every hole were empty."""
    return text if known(text) else "".join(char for char in text if not hole(char))


def without_empty(text: str) -> str:
    """The text as if variables within a name were empty, as they are in `ki${nothing}ll`. Where a variable is a whole
    part of a path it stays: `$folder/x` is not meant to be `/x`."""
    if TAME not in text:
        return text
    kept: list[str] = []
    for at, char in enumerate(text):
        before, behind = text[at - 1 : at], text[at + 1 : at + 2]
        if char != TAME or not (before.isalnum() or behind.isalnum() or before == "-"):
            kept.append(char)
    return "".join(kept)


def shown(text: str) -> str:
    """The text for people: `…` for what is not known."""
    return "".join(_SHOWN.get(char, char) for char in text[:200])


_SHOWN = {
    WILD: "…",
    WORDS: "…",
    TAME: "…",
    NUMBER: "…",
    FOUND: "…",
    DISK: "…",
    GENERATED: "…",
    OWN: "$!",
    SELF: "$$",
} | {
    PARENT: "$PPID",
    HOME: "~",
    DOGWATCH: "$DOGWATCH_HOME",
    STAR: "*",
    ANY: "?",
    OPEN: "[",
    CLOSE: "]",
}


def could_be(text: str, name: str) -> bool:
    """Whether some filling of the holes makes `text` equal to `name`."""
    if known(text):
        return text == name
    if len(text) > _CHARS_MAX:
        return True
    at = then = 0
    star = back = -1
    pieces = _pieces(text)
    while then < len(name):
        if at < len(pieces) and pieces[at] == "":
            star, back = at, then
            at += 1
        elif at < len(pieces) and (pieces[at] in _ONE or name[then] in pieces[at]):
            at += 1
            then += 1
        elif star >= 0:
            back += 1
            at, then = star + 1, back
        else:
            return False
    return all(piece == "" for piece in pieces[at:])


def _pieces(text: str) -> list[str]:
    """One entry for each character: itself, the characters of a class, ANY, or "" for whatever there may be."""
    found: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == OPEN:
            end = text.find(CLOSE, at)
            if end < 0:
                found.append("[")
                continue
            inside = text[at:end]
            # Ranges and negations are taken for any character: `could` must not say no too soon.
            found.append(inside if inside.isalpha() else ANY)
            at = end + 1
        elif char == ANY:
            found.append(ANY)
        elif char == CLOSE:
            found.append("]")
        elif hole(char):
            if found[-1:] != [""]:
                found.append("")
        else:
            found.append(char)
    return found
