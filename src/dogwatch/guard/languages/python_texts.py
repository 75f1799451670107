"""Values of a python program, and what its operators and methods make of them."""

from dogwatch.guard.bash.holes import FOUND, OWN, PARENT, TAME, WILD, character, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Value = tuple[str, "object"]
"""("text", str), ("number", int), ("ref", dotted name), ("list", list), ("file", path), one of KEPT or UNKNOWN."""
KEPT = ("own", "found")
"""Whatever is made of these stays what it is: one's own process, or pids that were looked up."""

UNKNOWN: Value = ("unknown", "")
RISKY = frozenset("os posix subprocess signal ctypes psutil pty sys importlib builtins __builtins__ nt".split())
"""Modules that can do harm."""
_TEXT_MAX = 20_000
_FACTS: dict[str, Value] = {"sys.executable": ("text", "python3"), "os.sep": ("text", "/")}


def as_text(value: Value) -> str:
    kind, content = value
    if kind == "number":
        return str(content)
    if kind == "own":
        return OWN
    if kind == "parent":
        return PARENT
    if kind == "found":
        return FOUND
    return str(content) if kind == "text" else WILD


def each(value: Value) -> "Iterator[Value]":
    """The value itself, or what a choice may be."""
    if value[0] == "choice" and isinstance(value[1], list):
        yield from value[1]
    else:
        yield value


def member(value: Value, name: str) -> Value:
    kind, content = value
    if kind == "ref":
        return _FACTS.get(f"{content}.{name}", ("ref", f"{content}.{name}"))
    return value if kind in KEPT else UNKNOWN


def combined(op: str, left: Value, right: Value) -> Value:
    if op == "Add" and left[0] == right[0] == "text":
        made = str(left[1]) + str(right[1])
        return ("text", made) if len(made) <= _TEXT_MAX else UNKNOWN
    if op == "Add" and "text" in (left[0], right[0]) and left[0] != "number" != right[0]:
        return ("text", _or_hole(left) + _or_hole(right))
    if op == "Add" and left[0] == "list" and isinstance(left[1], list):
        return ("list", [*left[1], *(right[1] if right[0] == "list" and isinstance(right[1], list) else [UNKNOWN])])
    if op == "Mult" and left[0] == "text" and right[0] == "number" and isinstance(right[1], int):
        text = str(left[1])
        return ("text", text * right[1]) if 0 <= right[1] * len(text) <= _TEXT_MAX else UNKNOWN
    if op == "Div" and ("text" in (left[0], right[0])):
        return ("text", f"{_or_hole(left)}/{_or_hole(right)}")
    if op == "Mod" and left[0] == "text":
        return ("text", _formatted(str(left[1]), right))
    if left[0] == right[0] == "number" and isinstance(left[1], int) and isinstance(right[1], int):
        made_number = {"Add": left[1] + right[1], "Sub": left[1] - right[1], "BitXor": left[1] ^ right[1]}.get(op)
        return ("number", made_number) if made_number is not None else UNKNOWN
    return UNKNOWN


def _or_hole(value: Value) -> str:
    return str(value[1]) if value[0] in ("text", "number") else as_text(value).replace(WILD, TAME)


def _formatted(text: str, value: Value) -> str:
    values = value[1] if value[0] == "list" and isinstance(value[1], list) else [value]
    for one in values:
        place = next((at for at in range(len(text) - 1) if text[at] == "%" and text[at + 1] in "sdr"), -1)
        if place < 0:
            break
        text = text[:place] + _or_hole(one) + text[place + 2 :]
    return text


def method(base: Value, name: str, arguments: list[list[Value]]) -> Value:
    """A method of a text or a list."""
    kind, content = base
    first = arguments[0][0] if arguments else UNKNOWN
    if kind == "text" and isinstance(content, str):
        if name == "join":
            items = first[1] if first[0] == "list" and isinstance(first[1], list) else None
            if items is None and first[0] == "text":
                items = [("text", char) for char in str(first[1])]
            return ("text", content.join(_or_hole(one) for one in items)) if items is not None else UNKNOWN
        if name in ("decode", "encode", "strip", "rstrip", "lstrip", "expandtabs"):
            return ("text", content.strip() if "strip" in name and not arguments else content)
        if name in ("lower", "upper", "swapcase", "title", "capitalize") and known(content):
            return ("text", getattr(content, name)())
        if name == "replace" and len(arguments) > 1 and first[0] == arguments[1][0][0] == "text":
            return ("text", content.replace(str(first[1]), str(arguments[1][0][1]))[:_TEXT_MAX])
        if name in ("split", "splitlines"):
            mark = str(first[1]) if first[0] == "text" and first[1] else None
            return ("list", [("text", one) for one in content.split(mark)])
        if name == "format":
            for one in arguments:
                content = content.replace("{}", _or_hole(one[0]), 1)
            return ("text", content)
        if name == "hex":
            return ("text", content.encode("utf-8", "replace").hex())
    if kind == "number" and name == "to_bytes" and isinstance(content, int) and 0 <= content < 2**400:
        raw = content.to_bytes(50, "big").lstrip(b"\0")
        return ("text", "".join(character(byte) for byte in raw))
    return UNKNOWN
