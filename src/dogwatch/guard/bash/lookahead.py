"""Where a bracket is closed, found without reading what is in it, as bash itself looks for the end of `((`."""

from dogwatch.guard.verdict import Denied

CHARS_MAX = 600_000
COMMANDS_MAX = 6_000
SIMPLER = "split it into several simpler commands"
_CLOSES = {"(": ")", "{": "}", "[": "]"}


class Counter:
    """How far all readers of a text have looked ahead, and how many commands they have read. Hostile texts end here."""

    __slots__ = ("ahead", "commands")

    def __init__(self) -> None:
        self.ahead = 0
        self.commands = 0

    def count(self) -> None:
        self.commands += 1
        if self.commands > COMMANDS_MAX:
            raise Denied("too-complex", "there are too many commands to be followed", SIMPLER)

    def look(self, chars: int) -> None:
        self.ahead += chars
        if self.ahead > CHARS_MAX:
            raise Denied("too-complex", "the command's brackets are nested in too many ways to be read", SIMPLER)


def closing(text: str, at: int, counter: Counter, chars_max: int = CHARS_MAX) -> int:
    """The place of the bracket that closes the one at `at`, or -1. Quoted brackets do not count."""
    start = at
    waiting: list[str] = []
    end = min(len(text), at + chars_max)
    while at < end:
        char = text[at]
        if waiting and char == waiting[-1]:
            waiting.pop()
            if not waiting:
                counter.look(at - start)
                return at
        elif waiting and waiting[-1] == '"':
            if char == "\\":
                at += 1
            elif char == "$" and text[at + 1 : at + 2] in ("(", "{"):
                at += 1
                waiting.append(_CLOSES[text[at]])
            elif char == "`":
                at = _quote_end(text, at, "`")
        elif char == "(" or (char == "{" and text[at - 1] == "$") or (char == "[" and (not waiting or "]" in waiting)):
            waiting.append(_CLOSES[char])
        elif char == '"':
            waiting.append('"')
        elif char == "\\":
            at += 1
        elif char == "'":
            at = _quote_end(text, at, "'", escapes=text[at - 1] == "$")
        elif char == "`":
            at = _quote_end(text, at, "`")
        at += 1
    counter.look(end - start)
    return -1


def _quote_end(text: str, at: int, quote: str, escapes: bool = True) -> int:
    """The place of the quote that closes the one at `at`; the end of the text where none does."""
    at += 1
    while at < len(text) and text[at] != quote:
        at += 2 if escapes and text[at] == "\\" else 1
    return at
