"""Reads what simple commands are made of: blanks, comments, assignments, redirections and here-documents."""

from dogwatch.guard.bash.lexer import Lexer
from dogwatch.guard.bash.lookahead import Counter, closing
from dogwatch.guard.bash.tree import Assignment, Literal, Redirect, Word
from dogwatch.guard.verdict import ParseError

_REDIRECTS = ("<<<", "<<-", "&>>", "<<", "<&", "<>", ">>", ">&", ">|", "&>", "<", ">")
_BEGINS_REDIRECT = frozenset("<>&{0123456789")
_INDEX_CHARS_MAX = 4096


class _HereDocument:
    __slots__ = ("delimiter", "quoted", "redirect", "tabs")

    def __init__(self, redirect: Redirect, delimiter: str, quoted: bool, tabs: bool) -> None:
        self.redirect = redirect
        self.delimiter = delimiter
        self.quoted = quoted
        self.tabs = tabs


class Elements(Lexer):
    """The elements of commands, read from a text."""

    def __init__(self, text: str, depth: int = 0, counter: Counter | None = None) -> None:
        super().__init__(text, depth, counter)
        self._pending: list[_HereDocument] = []

    def _shown(self) -> str:
        return f"`{self.text[self.at : self.at + 12].splitlines()[0]}`" if self.peek().strip() else "line end"

    def _blanks(self) -> None:
        """To the next character that is neither blank nor comment nor an escaped line end."""
        text = self.text
        while True:
            char = text[self.at : self.at + 1]
            if char and char in " \t":
                self.at += 1
            elif char == "\\" and text[self.at + 1 : self.at + 2] == "\n":
                self.at += 2
            elif char == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                return

    def _newlines(self) -> None:
        """Over blanks, comments and line ends; here-documents begin behind a line end."""
        while True:
            self._blanks()
            if self.peek() != "\n":
                return
            self._newline()

    def _newline(self) -> None:
        self.at += 1
        self._here_documents()

    def _here_documents(self) -> None:
        for document in self._pending:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                line = self.text[self.at :] if end < 0 else self.text[self.at : end]
                self.at = len(self.text) if end < 0 else end + 1
                if document.tabs:
                    line = line.lstrip("\t")
                if line == document.delimiter:
                    break
                lines.append(line + "\n")
            body = "".join(lines)
            parts = [Literal(body, True)] if document.quoted else self.nested(body).quoted_parts()
            document.redirect.target = Word(tuple(parts))
        self._pending = []

    def _one_word(self) -> Word:
        word = self.word()
        if not word.parts:
            raise ParseError(f"there is a {self._shown()} where no word can be")
        return word

    def _assignment(self) -> Assignment | None:
        """The assignment at this place; None, and nothing read, where there is none."""
        start = self.at
        name = self.name()
        index = None
        if name and self.peek() == "[":
            end = closing(self.text, self.at, self.counter, _INDEX_CHARS_MAX)
            if end < 0 or self.text[end + 1 : end + 2] not in ("=", "+"):
                self.at = start
                return None
            index = Word(tuple(self.nested(self.text[self.at + 1 : end] + "]").index().parts))
            self.at = end + 1
        if name and self.text.startswith("\\\n", self.at):
            self._continued_name()
        appends = self.text.startswith("+=", self.at)
        if not name or not (appends or self.peek() == "="):
            self.at = start
            return None
        self.at += 2 if appends else 1
        if self.peek() == "(" and index is None:
            return Assignment(name, None, appends, None, self._items())
        return Assignment(name, index, appends, self.word(), None)

    def _continued_name(self) -> None:
        """A name that goes on in the next line: nobody assigns to one."""
        text, at = self.text, self.at
        while text.startswith("\\\n", at) or text[at : at + 1].isalnum() or text[at : at + 1] == "_":
            at += 2 if text[at] == "\\" else 1
        if text[at : at + 1] in ("=", "[", "+"):
            raise ParseError("a line ends within a name")

    def _items(self) -> tuple[Word | Assignment, ...]:
        """The values of an array, `(` and `)` read too."""
        self.deeper()
        self.at += 1
        items: list[Word | Assignment] = []
        while True:
            self._newlines()
            if self.peek() == ")":
                break
            if self.peek() == "[":
                end = closing(self.text, self.at, self.counter, _INDEX_CHARS_MAX)
                if end >= 0 and self.text[end + 1 : end + 2] == "=":
                    index = self.nested(self.text[self.at + 1 : end] + "]").index()
                    self.at = end + 2
                    items.append(Assignment("", index, False, self.word(), None))
                    continue
            items.append(self._one_word())
        self.at += 1
        self.depth -= 1
        return tuple(items)

    def _redirect(self, redirects: list[Redirect]) -> bool:
        """Reads one redirection, if there is one here."""
        text, start = self.text, self.at
        if text[start : start + 1] not in _BEGINS_REDIRECT:
            return False
        variable = ""
        at = start
        while text[at : at + 1].isdigit() and at - start < 5:
            at += 1
        if text[at : at + 1] == "{":
            self.at = at + 1
            variable = self.name()
            at = self.at + 1 if variable and self.peek() == "}" else at
            self.at = start
        op = next((op for op in _REDIRECTS if text.startswith(op, at)), "")
        prefixed = at > start
        if (
            not op
            or (op[0] == "&" and prefixed)
            or (op in ("<", ">") and not prefixed and text[at + 1 : at + 2] == "(")
        ):
            return False
        digits = text[start:at]
        fd = int(digits) if digits.isdigit() else -1 if variable else 0 if op[0] == "<" else 1
        self.at = at + len(op)
        self._blanks()
        if op in ("<<", "<<-"):
            redirect = Redirect(fd, "<<", Word(()), variable)
            delimiter, quoted = self._delimiter()
            self._pending.append(_HereDocument(redirect, delimiter, quoted, op == "<<-"))
        else:
            redirect = Redirect(fd, op, self._one_word(), variable)
        redirects.append(redirect)
        return True

    def _delimiter(self) -> tuple[str, bool]:
        """The word behind `<<` without its quotes, and whether it had any."""
        start = self.at
        word = self._one_word()
        raw = self.text[start : self.at]
        if all(isinstance(part, Literal) for part in word.parts):
            quoted = any(char in raw for char in "'\"\\")
            return "".join(part.text for part in word.parts if isinstance(part, Literal)), quoted
        if "$" in raw and '"' not in raw:
            raise ParseError("the end of a here-document holds an expansion")
        return raw.replace('"', ""), True
