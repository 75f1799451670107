"""Reads the words of bash: quotes, escapes and expansions. Commands are read by `shell.Parser`, which is built on this.

Nothing is ever read twice: where bash itself must look ahead (`((`, `a[…]=`), a plain search decides, and what it costs
is counted. So hostile nesting cannot make the time grow faster than the text.
"""

from dogwatch.guard.bash.escapes import ansi
from dogwatch.guard.bash.lookahead import SIMPLER, Counter, closing
from dogwatch.guard.bash.tree import Arithmetic, Double, Literal, Parameter, Part, Process, Script, Substitution, Word
from dogwatch.guard.verdict import DEPTH_MAX, Denied, ParseError

META = frozenset(" \t\n;&|()<>")
_STOPS_WORD = META | frozenset("'\"\\$`")
_STOPS_BRACE = frozenset("'\"\\$`}")
_STOPS_PATTERN = frozenset("'\"\\$`}/")
_STOPS_INDEX = frozenset("'\"\\$`[]")
_STOPS_EXTENDED = frozenset("'\"\\$`()")
_STOPS_DOUBLE = frozenset('"\\$`')
_STOPS_HERE = frozenset("\\$`")
_NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAME = _NAME_START | frozenset("0123456789")
_SPECIAL = frozenset("@*#?-$!0123456789")
_NOT_AFTER_MARK = ("}", "-", ":", "?", "+", "=", "%", "/", "")


class Lexer:
    """A place in a text, and the words that are read from there."""

    def __init__(self, text: str, depth: int = 0, counter: Counter | None = None) -> None:
        self.text = text
        self.at = 0
        self.depth = depth - 1
        self.counter = counter or Counter()
        self.deeper()

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise Denied("too-complex", "the command is nested too deeply to be read", SIMPLER)

    def peek(self, ahead: int = 0) -> str:
        """The character at this place, "" at the end."""
        return self.text[self.at + ahead : self.at + ahead + 1]

    def substitution(self) -> Script:
        """The commands up to the closing parenthesis, which is read too."""
        raise NotImplementedError

    def nested(self, text: str) -> "Lexer":
        """A reader of the same kind for a text within this one."""
        raise NotImplementedError

    def whole(self) -> Script:
        """The whole text as commands."""
        raise NotImplementedError

    def word(self) -> Word:
        """A word that begins here and ends before a blank or an operator."""
        return Word(tuple(self.parts(_STOPS_WORD)))

    def name(self) -> str:
        """The name that begins here, "" where none does."""
        text, start = self.text, self.at
        if text[start : start + 1] not in _NAME_START:
            return ""
        at = start + 1
        while text[at : at + 1] in _NAME:
            at += 1
        self.at = at
        return text[start:at]

    def parts(self, stops: frozenset[str], in_double: bool = False) -> list[Part]:
        """Parts up to a character of `stops` that is neither a quote nor an expansion; it is not read."""
        text, end = self.text, len(self.text)
        found: list[Part] = []
        while self.at < end:
            start = at = self.at
            while at < end and text[at] not in stops:
                at += 1
            if at > start:
                found.append(Literal(text[start:at], False))
                self.at = at
                if at == end:
                    break
            char = text[at]
            if char == "\\":
                self._escape(found, in_double)
            elif char == "'" and not in_double:
                found.append(Literal(self._single(), True))
            elif char == "'":
                found.append(Literal("'", False))
                self.at += 1
            elif char == '"':
                self.at += 1
                found.append(self._double())
            elif char == "$":
                self._dollar(found, in_double)
            elif char == "`":
                found.append(self._backquotes(in_double))
            elif char == "(" and self._extended(found):
                continue
            elif char in "<>" and text[at + 1 : at + 2] == "(":
                self.at += 2
                found.append(Process(self.substitution(), char == "<"))
            else:
                break
        return found

    def quoted_parts(self, stops: frozenset[str] = _STOPS_HERE) -> list[Part]:
        """What double quotes or a here-document hold: only `$`, backquotes and some escapes are special."""
        text, end = self.text, len(self.text)
        found: list[Part] = []
        while self.at < end:
            start = at = self.at
            while at < end and text[at] not in stops:
                at += 1
            if at > start:
                found.append(Literal(text[start:at], True))
                self.at = at
                if at == end:
                    break
            char = text[at]
            if char == "\\":
                following = self.peek(1)
                self.at += 2
                if following != "\n":
                    special = following in stops
                    found.append(Literal(following if special else "\\" + following, True))
            elif char == "$":
                self._dollar(found, True)
            elif char == "`":
                found.append(self._backquotes('"' in stops))
            else:
                break
        return found

    def index(self) -> Word:
        """What stands in `[…]` of an array, from behind the bracket on; the closing one is read."""
        self.deeper()
        parts: list[Part] = []
        level = 0
        while True:
            parts += self.parts(_STOPS_INDEX)
            char = self.peek()
            if char == "":
                raise ParseError("a `[` is never closed")
            self.at += 1
            if char == "]" and level == 0:
                break
            level += 1 if char == "[" else -1
            parts.append(Literal(char, False))
        self.depth -= 1
        return Word(tuple(parts))

    def calculation(self, start: int, end: int) -> Word:
        """The text of an arithmetic expression with its expansions."""
        return Word(tuple(self.nested(self.text[start:end]).quoted_parts()))

    def calculates(self) -> int:
        """Where the calculation ends whose inner parenthesis stands here; -1 where these are two subshells."""
        end = closing(self.text, self.at, self.counter)
        inside = self.text[self.at + 1 : end]
        return end if end >= 0 and self.text[end + 1 : end + 2] == ")" and ";" not in inside else -1

    def _escape(self, found: list[Part], in_double: bool) -> None:
        following = self.peek(1)
        self.at += 2
        if following == "" or (in_double and following not in '$`"\\\n}'):
            found.append(Literal("\\" + following, True))
        elif following != "\n":
            found.append(Literal(following, True))

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise ParseError("a ' is never closed")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def _double(self) -> Double:
        """After the opening quote, up to and with the closing one."""
        self.deeper()
        parts = self.quoted_parts(_STOPS_DOUBLE)
        if self.peek() != '"':
            raise ParseError('a " is never closed')
        self.at += 1
        self.depth -= 1
        return Double(tuple(parts))

    def _extended(self, found: list[Part]) -> bool:
        """`@(a|b)` and its like: file names nobody knows. A `(` elsewhere ends the word."""
        last = found[-1] if found else None
        if not (isinstance(last, Literal) and not last.quoted and last.text[-1] in "?*+@!"):
            return False
        self.deeper()
        self.at += 1
        found[-1] = Literal(last.text[:-1] + "*", False)
        while True:
            # What is run in there is kept, so that it is judged.
            found += [Double((part,)) for part in self.parts(_STOPS_EXTENDED) if not isinstance(part, Literal)]
            char = self.peek()
            if char == "":
                raise ParseError("a `(` is never closed")
            if char == ")":
                break
            found.append(Literal("*", False))
            self._extended(found)
        self.at += 1
        self.depth -= 1
        found.append(Literal("*", False))
        return True

    def _backquotes(self, in_double: bool) -> Substitution:
        text, at = self.text, self.at + 1
        kept: list[str] = []
        while True:
            char = text[at : at + 1]
            if not char:
                raise ParseError("a ` is never closed")
            if char == "`":
                break
            if char == "\\" and text[at + 1 : at + 2] in ("`", "\\", "$", '"' if in_double else "`"):
                at += 1
                char = text[at]
            kept.append(char)
            at += 1
        self.at = at + 1
        return Substitution(self.nested("".join(kept)).whole())

    def _dollar(self, found: list[Part], in_double: bool) -> None:
        following = self.peek(1)
        if self.text.startswith("\\\n", self.at + 1):
            raise ParseError("a line ends within an expansion")
        if following == "(":
            self.at += 2
            end = self.calculates() if self.peek() == "(" else -1
            if end < 0:
                found.append(Substitution(self.substitution()))
            else:
                found.append(Arithmetic(self.calculation(self.at + 1, end)))
                self.at = end + 2
        elif following == "{":
            found.append(self._braced(in_double))
        elif following == "[":
            end = closing(self.text, self.at + 1, self.counter)
            if end < 0:
                raise ParseError("a `$[` is never closed")
            found.append(Arithmetic(self.calculation(self.at + 2, end)))
            self.at = end + 1
        elif following == "'" and not in_double:
            text, self.at = ansi(self.text, self.at + 2)
            found.append(Literal(text, True))
        elif following == '"' and not in_double:
            self.at += 2
            found.append(self._double())
        elif following and following in _SPECIAL:
            self.at += 2
            found.append(Parameter(following))
        else:
            self.at += 1
            name = self.name()
            if name and self.text.startswith("\\\n", self.at):
                raise ParseError("a line ends within an expansion")
            found.append(Parameter(name, bare=True) if name else Literal("$", in_double))

    def _braced(self, in_double: bool) -> Part:
        """`${…}`."""
        self.deeper()
        self.at += 2
        if self.peek() in (" ", "\t", "\n", "|"):
            raise ParseError("`${ ` runs commands in the newest bash and is an error in others")
        mark = ""
        if (self.peek() == "#" and self.peek(1) not in (*_NOT_AFTER_MARK, "#")) or (
            self.peek() == "!" and self.peek(1) not in _NOT_AFTER_MARK
        ):
            mark = self.peek()
            self.at += 1
        name = self._parameter_name()
        index = None
        if self.peek() == "[":
            self.at += 1
            index = self.index()
        op, words = self._operation(in_double)
        if self.peek() != "}":
            raise ParseError("a `${` is never closed, or holds what bash does not know")
        self.at += 1
        self.depth -= 1
        return Parameter(name, mark, index, op, words)

    def _parameter_name(self) -> str:
        name = self.name()
        if name:
            return name
        start = self.at
        while self.peek().isdigit():
            self.at += 1
        if self.at == start and self.peek() and self.peek() in _SPECIAL:
            self.at += 1
        if self.at == start:
            raise ParseError("a `${` names no variable")
        return self.text[start : self.at]

    def _operation(self, in_double: bool) -> tuple[str, tuple[Word, ...]]:
        char, two = self.peek(), self.text[self.at : self.at + 2]
        if char == "}":
            return "", ()
        if two in (":-", ":=", ":?", ":+") or (char and char in "-=?+:"):
            op = two if two in (":-", ":=", ":?", ":+") else char
            self.at += len(op)
            return op, (Word(tuple(self.parts(_STOPS_BRACE, in_double))),)
        if char and char in "#%^,~":
            op = two if two == char * 2 else char
            self.at += len(op)
            return op, (Word(tuple(self.parts(_STOPS_BRACE))),)
        if char == "/":
            op = two if two in ("//", "/#", "/%") else "/"
            self.at += len(op)
            # A slash that begins the pattern of `//` belongs to it.
            first = [Literal("/", False)] if op == "//" and self.peek() == "/" else []
            self.at += len(first)
            pattern = Word((*first, *self.parts(_STOPS_PATTERN)))
            if self.peek() != "/":
                return op, (pattern,)
            self.at += 1
            return op, (pattern, Word(tuple(self.parts(_STOPS_BRACE))))
        if char == "@" and two != "@}":
            self.at += 2
            return two, ()
        if char and char in "@*":
            self.at += 1
            return char, ()
        raise ParseError("a `${` holds what bash does not know")
