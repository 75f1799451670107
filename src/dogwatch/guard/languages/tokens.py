"""Divides programs of other languages into strings, names and signs, so that a word in a string is no call."""

from dogwatch.guard.bash.escapes import unescape
from dogwatch.guard.bash.holes import TAME

Token = tuple[str, str]
"""Its kind ("text", "command", "name", "number", "sign", "line"), and its text."""

_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_BEFORE_PATTERN = frozenset("(,=:[!&|?{};~<>+-*%^\n")
_WORDS_BEFORE_PATTERN = ("return", "if", "unless", "and", "or", "not", "split", "grep", "map", "when", "case", "print")


class Grammar:
    """How a language writes comments and strings."""

    __slots__ = ("blocks", "comments", "dashes", "hashes", "interpolates", "patterns", "perlish", "quotes")

    def __init__(
        self,
        comments: tuple[str, ...] = ("#",),
        blocks: tuple[tuple[str, str], ...] = (),
        quotes: str = "'\"`",
        interpolates: str = "",
        patterns: bool = False,
        perlish: bool = False,
        hashes: bool = False,
        dashes: bool = False,
    ) -> None:
        self.comments = comments
        self.blocks = blocks
        self.quotes = quotes
        self.interpolates = interpolates
        """The sign that begins a value within a string: `$` for perl and php, `#{` for ruby, `${` for javascript."""
        self.patterns = patterns
        """Whether `/…/` is a pattern."""
        self.perlish = perlish
        """Whether `q(…)`, `qx(…)`, `s/…/…/` and the like exist."""
        self.hashes = hashes
        """Whether `%x(…)`, `%q(…)` exist."""
        self.dashes = dashes
        """Whether `-` is a letter of names."""


class Tokens:
    """The tokens of one program."""

    def __init__(self, code: str, grammar: Grammar) -> None:
        self.code = code
        self.grammar = grammar
        self.found: list[Token] = []
        self.at = 0
        self._read()

    def _read(self) -> None:
        code, grammar = self.code, self.grammar
        while self.at < len(code):
            char = code[self.at]
            if char == "\n":
                self._add("line", "\n", 1)
            elif char.isspace():
                self.at += 1
            elif self._comment():
                continue
            elif char in grammar.quotes:
                self._string(char)
            elif char == "/" and grammar.patterns and self._pattern_here():
                self._delimited(self.at, "/")
                self.found.append(("text", ""))
                self._flags()
            elif char == "%" and grammar.hashes and self._percent():
                continue
            elif char.isalpha() or char in "_$@":
                self._name()
            elif char.isdigit():
                end = self.at
                while end < len(code) and (code[end].isalnum() or code[end] == "."):
                    end += 1
                self._add("number", code[self.at : end], end - self.at)
            else:
                two = code[self.at : self.at + 2]
                sign = two if two in ("||", "&&", "|&", "=>", "==", "!=", "..", "->", "::", "=~", "?.") else char
                self._add("sign", sign, len(sign))

    def _add(self, kind: str, text: str, length: int) -> None:
        self.found.append((kind, text))
        self.at += length

    def _comment(self) -> bool:
        code, at = self.code, self.at
        for start, end in self.grammar.blocks:
            if code.startswith(start, at):
                place = code.find(end, at + len(start))
                self.at = len(code) if place < 0 else place + len(end)
                return True
        for mark in self.grammar.comments:
            if code.startswith(mark, at):
                end_of_line = code.find("\n", at)
                self.at = len(code) if end_of_line < 0 else end_of_line
                return True
        return False

    def _string(self, quote: str) -> None:
        triple = quote * 3
        mark = triple if self.code.startswith(triple, self.at) and quote != "`" else quote
        text, self.at = self._until(self.at + len(mark), mark)
        raw = quote == "'" and self.grammar.interpolates != "${"
        if not raw:
            text = self._interpolated(text)
        # In javascript backquotes are strings; elsewhere they run a command.
        kind = "command" if quote == "`" and self.grammar.interpolates != "${" else "text"
        self.found.append((kind, text.replace("\\'", "'") if raw else unescape(text.replace("\\$", "$"), "printf")))

    def _until(self, at: int, mark: str) -> tuple[str, int]:
        """The text up to `mark`, and the place behind it."""
        code, start = self.code, at
        while at < len(code) and not code.startswith(mark, at):
            at += 2 if code[at] == "\\" else 1
        return code[start:at], min(at + len(mark), len(code))

    def _interpolated(self, text: str) -> str:
        """Values within a string become holes; what is run within it is kept as code of its own."""
        sign = self.grammar.interpolates
        if not sign or sign not in text:
            return text
        made: list[str] = []
        at = 0
        while at < len(text):
            if text[at] == "\\":
                made.append(text[at : at + 2])
                at += 2
            elif (
                sign == "$"
                and text[at] in "$@"
                and text[at + 1 : at + 2].isalpha() | (text[at + 1 : at + 2] in ("_", "{"))
            ):
                at = _end_of_name(text, at + 1)
                made.append(TAME)
            elif len(sign) == 2 and text.startswith(sign, at):
                end = _closing(text, at + 1)
                self.found += Tokens(text[at + 2 : end], self.grammar).found
                self.found.append(("sign", ";"))
                made.append(TAME)
                at = end + 1
            else:
                made.append(text[at])
                at += 1
        return "".join(made)

    def _pattern_here(self) -> bool:
        """Whether a `/` begins a pattern: it does where no value stands before it."""
        for kind, text in reversed(self.found):
            if kind == "line":
                return True
            return (kind == "sign" and text[-1] in _BEFORE_PATTERN) or (
                kind == "name" and text in _WORDS_BEFORE_PATTERN
            )
        return True

    def _delimited(self, at: int, opening: str) -> str:
        """What stands between delimiters, from the opening one on; brackets may be nested."""
        closing = _PAIRS.get(opening, opening)
        code = self.code
        at += 1
        start, level = at, 1
        while at < len(code):
            char = code[at]
            if char == "\\":
                at += 2
                continue
            if char == closing:
                level -= 1
                if level == 0:
                    break
            elif char == opening:
                level += 1
            at += 1
        self.at = min(at + 1, len(code))
        return code[start:at]

    def _flags(self) -> str:
        start = self.at
        while self.at < len(self.code) and self.code[self.at].isalpha():
            self.at += 1
        return self.code[start : self.at]

    def _percent(self) -> bool:
        """Ruby's `%x(…)`, `%q(…)`, `%w(…)`."""
        letter, opening = self.code[self.at + 1 : self.at + 2], self.code[self.at + 2 : self.at + 3]
        if letter not in ("x", "q", "Q", "w", "W", "i") or opening.isalnum() or opening.isspace() or not opening:
            return False
        text = self._delimited(self.at + 2, opening)
        self.found.append(("command" if letter == "x" else "text", text))
        return True

    def _name(self) -> None:
        code, start = self.code, self.at
        end = start + 1
        while end < len(code) and (
            code[end].isalnum() or code[end] == "_" or (code[end] in "-*" and self.grammar.dashes)
        ):
            end += 1
        name = code[start:end]
        if name == "$" and code[end : end + 1] in ("$", "!", "0", "@"):
            end += 1
        if self.grammar.perlish and name in ("q", "qq", "qw", "qx", "m", "qr", "s", "tr", "y"):
            place = end
            while place < len(code) and code[place] in " \t":
                place += 1
            opening = code[place : place + 1]
            if (
                opening
                and not opening.isalnum()
                and opening not in ",;=)"
                and (place == end or opening not in "-+.<>&|")
            ):
                self._perl_quote(name, place, opening)
                return
        self._add("name", code[start:end], end - start)

    def _perl_quote(self, name: str, place: int, opening: str) -> None:
        text = self._delimited(place, opening)
        if name in ("s", "tr", "y"):
            second = self.code[self.at : self.at + 1] if opening in _PAIRS else ""
            if opening in _PAIRS:
                while self.code[self.at : self.at + 1].isspace():
                    self.at += 1
                second = self.code[self.at : self.at + 1]
                replacement = self._delimited(self.at, second) if second else ""
            else:
                replacement = self._delimited(self.at - 1, opening)
            if "e" in self._flags() and name == "s":
                self.found += Tokens(replacement, self.grammar).found
            self.found.append(("text", ""))
        elif name in ("m", "qr"):
            self._flags()
            self.found.append(("text", ""))
        elif name == "qw":
            for number, word in enumerate(text.split()):
                self.found += [("sign", ",")] * bool(number) + [("text", word)]
        else:
            made = text if name == "q" or opening == "'" else self._interpolated(text)
            self.found.append(("command" if name == "qx" else "text", made))


def _end_of_name(text: str, at: int) -> int:
    if text[at : at + 1] == "{":
        end = text.find("}", at)
        return len(text) if end < 0 else end + 1
    while at < len(text) and (text[at].isalnum() or text[at] in "_:"):
        at += 1
    return at


def _closing(text: str, at: int) -> int:
    """Where the brace at `at` is closed."""
    level = 0
    while at < len(text):
        level += (text[at] == "{") - (text[at] == "}")
        if level == 0:
            return at
        at += 1
    return len(text)
