"""Shell patterns: `*`, `?` and `[…]`, which stand in a text as the holes STAR, ANY, OPEN and CLOSE."""

from dogwatch.guard.bash.holes import ANY, CLOSE, OPEN, STAR, hole, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CHARS_MAX = 512
_GLOBS = (STAR, ANY, OPEN, CLOSE)
_CLASSES: "dict[str, Callable[[str], bool]]" = {
    "alpha": str.isalpha,
    "digit": str.isdigit,
    "alnum": str.isalnum,
    "upper": str.isupper,
    "lower": str.islower,
    "space": str.isspace,
    "punct": lambda char: char.isprintable() and not char.isalnum() and not char.isspace(),
}


def usable(pattern: str, text: str) -> bool:
    """Whether both are known well enough, and short enough, to be compared."""
    if not known(text) or any(hole(char) and char not in _GLOBS for char in pattern):
        return False
    return known(pattern) or (len(text) <= _CHARS_MAX and len(pattern) <= _CHARS_MAX)


def is_plain(pattern: str) -> bool:
    """Whether the pattern stands for itself only."""
    return known(pattern)


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text matches the pattern."""
    pieces = _pieces(pattern)
    at = then = 0
    star = back = -1
    while then < len(text):
        if at < len(pieces) and pieces[at] == STAR:
            star, back = at, then
            at += 1
        elif at < len(pieces) and _one(pieces[at], text[then]):
            at += 1
            then += 1
        elif star >= 0:
            back += 1
            at, then = star + 1, back
        else:
            return False
    return all(piece == STAR for piece in pieces[at:])


def without_prefix(text: str, pattern: str, longest: bool) -> str:
    if is_plain(pattern):
        return text.removeprefix(pattern)
    lengths = range(len(text) + 1)
    for length in reversed(lengths) if longest else lengths:
        if matches(pattern, text[:length]):
            return text[length:]
    return text


def without_suffix(text: str, pattern: str, longest: bool) -> str:
    if is_plain(pattern):
        return text.removesuffix(pattern)
    starts = range(len(text) + 1)
    for start in starts if longest else reversed(starts):
        if matches(pattern, text[start:]):
            return text[:start]
    return text


def replaced(text: str, pattern: str, replacement: str, op: str) -> str | None:
    """`${text/pattern/replacement}`; None where it would take too long to say."""
    if is_plain(pattern):
        if not pattern:
            return replacement + text if op == "/#" else text + replacement if op == "/%" else text
        if op == "/#":
            return replacement + text[len(pattern) :] if text.startswith(pattern) else text
        if op == "/%":
            return text[: -len(pattern)] + replacement if text.endswith(pattern) else text
        return text.replace(pattern, replacement, -1 if op == "//" else 1)
    if len(text) > _CHARS_MAX // 4:
        return None
    made: list[str] = []
    at = 0
    while at <= len(text):
        ends = range(len(text), at - 1, -1) if op != "/%" else (len(text),)
        end = next((end for end in ends if matches(pattern, text[at:end]) and (end > at or not text)), -1)
        if end >= 0 and (op != "/#" or at == 0):
            made.append(replacement)
            if op != "//" or end >= len(text):
                return "".join(made) + text[end:]
            at = max(end, at + 1)
        else:
            made.append(text[at : at + 1])
            at += 1
    return "".join(made)


def _one(piece: str, char: str) -> bool:
    if piece == ANY:
        return True
    if piece[0] != OPEN:
        return piece == char
    inside = piece[1:]
    negated = inside[:1] in ("!", "^")
    return _in_class(inside[1:] if negated else inside, char) != negated


def _in_class(inside: str, char: str) -> bool:
    at = 0
    while at < len(inside):
        if inside.startswith("[:", at) and ":]" in inside[at:]:
            end = inside.index(":]", at)
            test = _CLASSES.get(inside[at + 2 : end])
            if test is not None and test(char):
                return True
            at = end + 2
        elif inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            if inside[at] <= char <= inside[at + 2]:
                return True
            at += 3
        else:
            if inside[at] == char:
                return True
            at += 1
    return False


def _pieces(pattern: str) -> list[str]:
    """Each entry: a character, STAR, ANY, or OPEN with what stands in the brackets."""
    found: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == OPEN:
            end = pattern.find(CLOSE, at + 1)
            if end < 0:
                found.append("[")
                continue
            found.append(OPEN + pattern[at:end].replace(STAR, "*").replace(ANY, "?").replace(OPEN, "["))
            at = end + 1
        else:
            found.append("]" if char == CLOSE else char)
    return found
