"""Arithmetic of the shell, as far as plain numbers and variables go. Whatever else it is, its value is a number."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_BINARY = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_CHARS_MAX = 120
_LIMIT = 2**62


class _UnknownError(Exception):
    pass


def calculate(text: str, lookup: "Callable[[str], int | None]") -> int | None:
    """The value of the expression; None where it is not plain enough to say."""
    if len(text) > _CHARS_MAX or not text.isascii():
        return None
    try:
        tokens = _tokens(text)
        if not tokens:
            return 0
        value, at = _expression(tokens, 0, 1, lookup)
    except (_UnknownError, RecursionError):
        return None
    return value if at == len(tokens) else None


def names(text: str) -> list[str]:
    """The variables that the expression names."""
    found: list[str] = []
    word = ""
    for char in text + " ":
        if char.isalnum() or char == "_":
            word += char
        else:
            if word and not word[0].isdigit():
                found.append(word)
            word = ""
    return found


def assigns(text: str) -> bool:
    """Whether the expression may change a variable."""
    plain = text.replace("==", "").replace("!=", "").replace("<=", "").replace(">=", "")
    return "=" in plain or "<<=" in text or ">>=" in text or "++" in text or "--" in text


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char.isspace():
            at += 1
        elif char.isalnum() or char == "_":
            end = at
            while end < len(text) and (text[end].isalnum() or text[end] in "_#"):
                end += 1
            found.append(text[at:end])
            at = end
        else:
            two = text[at : at + 2]
            op = two if two in _BINARY else char
            if op not in _BINARY and op not in "()!~":
                raise _UnknownError
            if text[at + len(op) : at + len(op) + 1] == "=" or two in ("++", "--", "**"):
                raise _UnknownError  # assignments and powers
            found.append(op)
            at += len(op)
    return found


def _expression(tokens: list[str], at: int, least: int, lookup: "Callable[[str], int | None]") -> tuple[int, int]:
    left, at = _operand(tokens, at, lookup)
    while at < len(tokens) and _BINARY.get(tokens[at], 0) >= least:
        op = tokens[at]
        right, at = _expression(tokens, at + 1, _BINARY[op] + 1, lookup)
        left = _apply(op, left, right)
    return left, at


def _operand(tokens: list[str], at: int, lookup: "Callable[[str], int | None]") -> tuple[int, int]:
    if at >= len(tokens):
        raise _UnknownError
    first = tokens[at]
    if first == "(":
        value, at = _expression(tokens, at + 1, 1, lookup)
        if tokens[at : at + 1] != [")"]:
            raise _UnknownError
        return value, at + 1
    if first in ("+", "-", "!", "~"):
        value, at = _operand(tokens, at + 1, lookup)
        return (value if first == "+" else -value if first == "-" else int(not value) if first == "!" else ~value), at
    if first[0].isdigit():
        return number(first), at + 1
    if not (first[0].isalpha() or first[0] == "_"):
        raise _UnknownError
    found = lookup(first)
    if found is None:
        raise _UnknownError
    return found, at + 1


def number(token: str) -> int:
    """A number as the shell writes it: decimal, 0x…, 0…, base#…"""
    try:
        base, sharp, digits = token.partition("#")
        if sharp and 2 <= int(base) <= 36:
            return int(digits, int(base))
        if token[:2] in ("0x", "0X"):
            return int(token, 16)
        return int(token, 8) if token[0] == "0" and len(token) > 1 else int(token)
    except ValueError:
        raise _UnknownError from None


def _apply(op: str, left: int, right: int) -> int:
    if op in ("/", "%") and right == 0:
        raise _UnknownError
    if op in ("<<", ">>") and not 0 <= right < 63:
        raise _UnknownError
    if op == "/":
        value = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    elif op == "%":
        value = abs(left) % abs(right) * (1 if left >= 0 else -1)
    else:
        value = int(_SIMPLE[op](left, right))
    if abs(value) > _LIMIT:
        raise _UnknownError
    return value


_SIMPLE: "dict[str, Callable[[int, int], int]]" = {
    "||": lambda a, b: bool(a or b),
    "&&": lambda a, b: bool(a and b),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
