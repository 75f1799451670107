"""Static expansion: what the words of a command become, as far as that can be known.

A word becomes a list of alternatives, each a list of fields: usually one alternative of one field. `Expander` is asked
with the shell's state; substitutions are walked through by the walker, so that what they run is judged too.
"""

from dogwatch.guard.bash.braces import expand_braces
from dogwatch.guard.bash.holes import ANY, CLOSE, OPEN, STAR, TAME, WILD, WORDS, known
from dogwatch.guard.bash.parameters import Chunk, parameter
from dogwatch.guard.bash.state import Shell, Texts, merged, plain
from dogwatch.guard.bash.tree import (
    Arithmetic,
    Assignment,
    Double,
    Literal,
    Parameter,
    Part,
    Process,
    Substitution,
    Word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from dogwatch.guard.bash.interfaces import Walker

    T = TypeVar("T")

PRODUCT_MAX = 24


class Expander:
    """Expands words in the state of a shell."""

    def __init__(self, walker: "Walker") -> None:
        self.walker = walker
        self.world = walker.world

    def arguments(self, words: tuple[Word | Assignment, ...], shell: Shell) -> list[list[str]]:
        """All words of a command: each alternative is a list of fields."""
        found: list[list[str]] = [[]]
        for item in words:
            if isinstance(item, Assignment):
                alternatives = self._declaration(item, shell)
            else:
                alternatives = [[]]
                for word in expand_braces(item):
                    alternatives = _product(alternatives, self._fields(word, shell), WORDS)
            found = _product(found, alternatives, WORDS)
        return found

    def text(self, word: Word, shell: Shell) -> Texts:
        """The word as one text, without splitting: what is assigned, redirected to or compared."""
        return self._joined(word, shell, globs=False)

    def pattern(self, word: Word, shell: Shell) -> Texts:
        """The word as a pattern: what is not quoted may be a glob."""
        return self._joined(word, shell, globs=True)

    def number(self, word: Word, shell: Shell) -> str:
        """The value of an arithmetic expression, as text."""
        texts = self.text(word, shell)
        return self.walker.calculated(texts, shell)

    def _declaration(self, item: Assignment, shell: Shell) -> list[list[str]]:
        """`export name=value`: one field, not split. An array is assigned at once."""
        if item.items is not None or item.index is not None:
            self.walker.assign(item, shell)
            return [[item.name]]
        values = self.text(item.value, shell) if item.value is not None else ("",)
        return [[f"{item.name}{'+' if item.appends else ''}={value}"] for value in values]

    def _joined(self, word: Word, shell: Shell, globs: bool) -> Texts:
        found: list[str] = []
        for chunks in self._chunks(word.parts, shell, False):
            made = ""
            for kind, texts in chunks:
                piece = " ".join(texts)
                made += glob(piece) if globs and kind in ("literal", "split", "split list") else piece
            found.append(self._tilde(made, word) if not globs else made)
        return merged(found)

    def _fields(self, word: Word, shell: Shell) -> list[list[str]]:
        separators = self.separators(shell)
        found = []
        for chunks in self._chunks(word.parts, shell, False):
            fields = assemble(chunks, separators)
            if fields:
                fields[0] = self._tilde(fields[0], word)
            found.append(fields)
        return found

    def separators(self, shell: Shell) -> str:
        if "IFS" not in shell.variables:
            return " \t\n"
        value = shell.variables["IFS"]
        text = plain(value) if isinstance(value, tuple) and value else None
        return text if text is not None else " \t\n" if value == () else WILD

    def _tilde(self, text: str, word: Word) -> str:
        first = word.parts[0] if word.parts else None
        if not (isinstance(first, Literal) and not first.quoted and text.startswith("~")):
            return text
        user, slash, rest = text.partition("/")
        if user in ("~", "~+"):
            return (self.world.home if user == "~" else TAME) + slash + rest
        return text if not user[1:].isalnum() else TAME + slash + rest

    def _chunks(self, parts: tuple[Part, ...], shell: Shell, quoted: bool) -> list[list[Chunk]]:
        found: list[list[Chunk]] = [[]]
        for part in parts:
            found = _product(found, self._part(part, shell, quoted), ("quoted" if quoted else "split", (WILD,)))
        return found

    def _part(self, part: Part, shell: Shell, quoted: bool) -> list[list[Chunk]]:
        self.world.spend()
        if isinstance(part, Literal):
            return [[("quoted" if quoted or part.quoted else "literal", (part.text,))]]
        if isinstance(part, Double):
            inside = self._chunks(part.parts, shell, True)
            # Quotes make a field even of nothing; "$@" without parameters makes none.
            return [
                chunks if chunks and all(kind == "list" for kind, _ in chunks) else [("quoted", ("",)), *chunks]
                for chunks in inside
            ]
        kind = "quoted" if quoted else "split"
        if isinstance(part, Parameter):
            return [[chunk] for chunk in parameter(self, part, shell, quoted)]
        if isinstance(part, Substitution):
            return [[(kind, (_trimmed(text),))] for text in self.walker.output(part.body, shell)]
        if isinstance(part, Arithmetic):
            return [[("quoted", (self.number(part.word, shell),))]]
        path = self.walker.process(part, shell) if isinstance(part, Process) else WILD
        return [[("quoted", (path,))]]


def _trimmed(text: str) -> str:
    """A substitution loses its last line ends, and zero bytes."""
    return text.rstrip("\n").replace("\0", "")


def _product(found: "list[list[T]]", following: "list[list[T]]", unknown: "T") -> "list[list[T]]":
    """Every beginning with every continuation; one that nobody knows where they would be too many."""
    if len(following) == 1:
        for one in found:
            one += following[0]
        return found
    if len(found) * len(following) > PRODUCT_MAX:
        return [[*one, unknown] for one in found]
    return [one + other for one in found for other in following]


def glob(text: str) -> str:
    """The text with its `*`, `?` and `[…]` as what they stand for."""
    if "*" in text or "?" in text:
        text = text.replace("*", STAR).replace("?", ANY)
    start = text.find("[")
    while start >= 0:
        end = _bracket_end(text, start)
        if end < 0:
            break
        text = text[:start] + OPEN + text[start + 1 : end] + CLOSE + text[end + 1 :]
        start = text.find("[", end)
    return text


def _bracket_end(text: str, start: int) -> int:
    """Where the class of characters ends that begins at `start`; -1 where it is none."""
    at = start + 2 if text[start + 1 : start + 2] in ("!", "^") else start + 1
    at += text[at : at + 1] == "]"
    while at < len(text):
        if text.startswith("[:", at) and ":]" in text[at:]:
            at = text.index(":]", at) + 2
        elif text[at] == "]":
            return at
        else:
            at += 1
    return -1


def assemble(chunks: list[Chunk], separators: str) -> list[str]:
    """The fields that the pieces of one word become."""
    fields: list[str] = []
    current: str | None = None
    for kind, texts in chunks:
        if kind == "quoted":
            current = (current or "") + texts[0]
        elif kind == "literal":
            current = (current or "") + glob(texts[0])
        elif kind == "list":
            # "$@": each one a field; the first and the last are joined to their neighbours, none is nothing.
            for number, text in enumerate(texts):
                if number:
                    fields.append(current or "")
                    current = None
                current = (current or "") + text
        else:
            for number, text in enumerate(texts):
                if number and current is not None:
                    fields.append(current)
                    current = None
                current = _split(text, separators, fields, current)
    if current is not None:
        fields.append(current)
    return fields


def _split(text: str, separators: str, fields: list[str], current: str | None) -> str | None:
    """Adds the fields of a text that is not quoted; what may go on is returned."""
    if not separators:
        return (current or "") + _loose(text) if text else current
    if separators == WILD:
        return (current or "") + WORDS if text else current  # nobody knows where it is divided
    blanks = "".join(char for char in separators if char in " \t\n")
    others = "".join(char for char in separators if char not in " \t\n")
    at = 0
    while at < len(text):
        start = at
        while at < len(text) and text[at] not in separators:
            at += 1
        if at > start:
            current = (current or "") + _loose(text[start:at])
        if at == len(text):
            break
        delimited = False
        while at < len(text) and text[at] in blanks:
            at += 1
        if at < len(text) and text[at] in others:
            delimited = True
            at += 1
            while at < len(text) and text[at] in blanks:
                at += 1
        if current is not None or delimited:
            fields.append(current or "")
            current = None
    return current


def _loose(text: str) -> str:
    """A field of a text that was not quoted: unknown text may be any number of words, and globs are live."""
    return glob(text) if known(text) else glob(text).replace(WILD, WORDS)
