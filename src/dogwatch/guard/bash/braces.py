"""Brace expansion: `{a,b}` and `{1..3}`, before anything else in a word is expanded."""

from dogwatch.guard.bash.holes import WORDS
from dogwatch.guard.bash.tree import Literal, Parameter, Part, Word

_WORDS_MAX = 256
_ATOMS_MAX = 2000
_GIVE_UP = [Word((Literal(WORDS, False),))]

Atoms = list[str | Part]


class _TooManyError(Exception):
    pass


def expand_braces(word: Word) -> list[Word]:
    """The words that the word becomes; one that nobody knows where they would be too many."""
    text = "".join(part.text for part in word.parts if isinstance(part, Literal) and not part.quoted)
    if "{" not in text or "}" not in text or not ("," in text or ".." in text):
        return [word]
    atoms: Atoms = []
    for part in word.parts:
        if isinstance(part, Literal) and not part.quoted:
            atoms += part.text
        else:
            atoms.append(part)
    if len(atoms) > _ATOMS_MAX:
        return _GIVE_UP
    try:
        return [_word(one) for one in _expand(atoms, 0)]
    except (_TooManyError, RecursionError):
        return _GIVE_UP


def _word(atoms: Atoms) -> Word:
    parts: list[Part] = []
    text = ""
    for atom in [*atoms, None]:
        if isinstance(atom, str):
            text += atom
            continue
        if text:
            _add(parts, text)
            text = ""
        if atom is not None:
            parts.append(atom)
    return Word(tuple(parts))


def _add(parts: list[Part], text: str) -> None:
    """Adds literal text. Braces come before variables: `$x{a,b}` is `$xa $xb`."""
    last = parts[-1] if parts else None
    if isinstance(last, Parameter) and last.bare:
        length = 0
        while length < len(text) and text[length].isascii() and (text[length].isalnum() or text[length] == "_"):
            length += 1
        if length:
            parts[-1] = Parameter(last.name + text[:length], bare=True)
            text = text[length:]
    if text:
        parts.append(Literal(text, False))


def _expand(atoms: Atoms, depth: int) -> list[Atoms]:
    if depth > 40:
        raise _TooManyError
    for start, atom in enumerate(atoms):
        if atom != "{":
            continue
        end, commas = _matching(atoms, start)
        if end < 0:
            continue
        middle = _between(atoms, start, end, commas, depth)
        if middle is None:
            continue
        rest = _expand(atoms[end + 1 :], depth + 1)
        if len(middle) * len(rest) > _WORDS_MAX:
            raise _TooManyError
        return [atoms[:start] + one + other for one in middle for other in rest]
    return [atoms]


def _matching(atoms: Atoms, start: int) -> tuple[int, list[int]]:
    """Where the brace at `start` is closed (-1: nowhere), and the commas between that are its own.

    As in bash, a `}` closes nothing before there was a comma or a `..`.
    """
    level = 0
    commas: list[int] = []
    divided = False
    for at in range(start + 1, len(atoms)):
        atom = atoms[at]
        if atom == "}" and level == 0 and divided:
            return at, commas
        if atom == "{":
            level += 1
        elif atom == "}" and level:
            level -= 1
        elif atom == "," and level == 0:
            divided = True
            commas.append(at)
        elif atom == "." and level == 0 and atoms[at + 1 : at + 2] == ["."] and atoms[at + 2 : at + 3] != ["}"]:
            divided = True
    return -1, []


def _between(atoms: Atoms, start: int, end: int, commas: list[int], depth: int) -> list[Atoms] | None:
    """What the braces stand for; None where they are plain text."""
    if not commas:
        inside = atoms[start + 1 : end]
        text = "".join(atom for atom in inside if isinstance(atom, str))
        sequence = _sequence(text) if len(text) == len(inside) else None
        return None if sequence is None else [list(item) for item in sequence]
    edges = [start, *commas, end]
    found: list[Atoms] = []
    for number, right in enumerate(edges[1:]):
        found += _expand(atoms[edges[number] + 1 : right], depth + 1)
        if len(found) > _WORDS_MAX:
            raise _TooManyError
    return found


def _sequence(text: str) -> list[str] | None:
    ends = text.split("..")
    if len(ends) not in (2, 3) or not all(ends) or (len(ends) == 3 and not _is_number(ends[2])):
        return None
    step = abs(int(ends[2])) if len(ends) == 3 else 1
    first, last = ends[0], ends[1]
    if _is_number(first) and _is_number(last):
        width = 0
        if any(one.lstrip("-").startswith("0") and len(one.lstrip("-")) > 1 for one in (first, last)):
            width = max(len(first), len(last))
        return [f"{number:0{width}d}" for number in _steps(int(first), int(last), step)]
    if len(first) == len(last) == 1 and first.isascii() and last.isascii() and first.isalpha() and last.isalpha():
        return [chr(code) for code in _steps(ord(first), ord(last), step)]
    return None


def _steps(first: int, last: int, step: int) -> range:
    step = step or 1
    found = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(found) > _WORDS_MAX:
        raise _TooManyError
    return found


def _is_number(text: str) -> bool:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return digits.isascii() and digits.isdigit() and len(digits) < 16
