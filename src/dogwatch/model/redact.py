"""Takes tokens out of text: those with a well-known shape, and values that are known to be secret.

What is taken out becomes `[redacted:KIND]`. It is done where text comes in, before any of it is cut or kept, for every
look at every agent: text without a trace of a token costs a few searches for plain words.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dogwatch.values import dataclass

VALUE_CHARACTERS_MIN = 8
"""Shorter values are not looked for: they would be found in half of all words."""
DEPTH_MAX = 200
ROW_CHARACTERS_MIN = 60
"""A row of a screen that is shorter was not broken by the terminal."""

_SECRET_NAME = re.compile(
    r"TOKEN(?!S|IZ)|SECRET|PASSW(?:OR)?D|PASSPHRASE|APIKEY|CREDENTIAL|(?:^|_)(?:KEY|PAT|PASS|PW|AUTH|DSN)(?:_|$)"
)
_NAME_OF_A_PLACE = re.compile(r"_(?:FILE|PATH|DIR|SOCK|URL|URI|HOST|ENDPOINT|NAME|TTL_MS)$")
_PLACE = re.compile(r"(?:~|\.{1,2})?/|[a-z+]+://")
_PLACEHOLDER = re.compile(r"\$[A-Za-z_{(]|<|\*{3}|%[(A-Za-z]|\{[A-Za-z_{]|\[redacted:")
_BREAK = r"(?:[ \t│┃|]*\n[ \t│┃|]*)?"
"""Where a terminal, or a client in its box, has broken a long word into two rows."""
_MARGIN = " \t│┃|"
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24}")


def is_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is secret: API_KEY and PGPASSWORD, not SSH_AUTH_SOCK."""
    name = name.upper().replace("-", "_")
    return bool(_SECRET_NAME.search(name)) and not _NAME_OF_A_PLACE.search(name)


@dataclass(frozen=True, slots=True)
class _Shape:
    """How one kind of secret looks: `needles`, in lower case, of which one is there wherever the shape is, and what
    follows it; the pattern as text has it, and as a screen breaks it into rows. Patterns are compiled when they are
    first needed: for most commands that is never."""

    needles: tuple[str, ...]
    flat: str
    wrapped: str
    replace: Callable[[re.Match[str]], str]
    follows: str = ""

    def may_be_in(self, lowered: str) -> bool:
        """Whether it is worth looking for. Words like `token` are on every screen, mostly without a value."""
        return any(self._follows(needle, lowered) for needle in self.needles)

    def _follows(self, needle: str, lowered: str) -> bool:
        at = lowered.find(needle)
        while at >= 0 and self.follows and not re.compile(self.follows).match(lowered, at + len(needle)):
            at = lowered.find(needle, at + 1)
        return at >= 0


def _token(
    kind: str, prefixes: str, letters: str, least: int, check: Callable[[re.Match[str]], bool] | None = None
) -> _Shape:
    """One of the prefixes, then at least so many of the letters."""
    words = prefixes.split()

    def replace(match: re.Match[str]) -> str:
        return match[0] if check is not None and not check(match) else f"[redacted:{kind}]"

    flat = f"(?:{'|'.join(map(re.escape, words))})[{letters}]{{{least},}}"
    broken = "|".join(_BREAK.join(map(re.escape, word)) for word in words)
    wrapped = f"(?:{broken})(?:{_BREAK}[{letters}]){{{least},}}"
    return _Shape(tuple(word.lower() for word in words), flat, wrapped, replace)


def _stands_alone(match: re.Match[str]) -> bool:
    """Not the end of another word, such as `task-` or `disk-`, nor a piece of an image in base64, and more than a word
    itself."""
    before = match.string[max(0, match.start() - 24) : match.start()]
    if before[-1:].isalnum() or _BASE64.fullmatch(before):
        return False
    return any(char.isdigit() for char in match[0]) and any(char.isalpha() for char in match[0][3:])


def _is_jwt(match: re.Match[str]) -> bool:
    return match[0].count(".") >= 2


_LETTERS = "A-Za-z0-9_-"
_VALUE = r"[^\s\"'`\\]{8,}"
_BROKEN_VALUE = rf"[^\s\"'`\\](?:{_BREAK}[^\s\"'`\\]){{7,}}"
_QUOTED = rf"(?<=\")[^\"\\\n]{{8,}}|(?<=')[^'\\\n]{{8,}}|{_VALUE}"
_SEPARATOR = r"[\"']?[ \t]*(?:=>|:=|[=:])[ \t]*[\"']?"
_ASSIGNS = r"[a-z0-9_-]{0,40}[\"']?[ \t]*(?:=>|:=|[=:])"
_NAMED = (
    r"(?i)(?P<keep>(?P<name>(?:api|access|secret|private|auth|account|signing|encryption|master)[_-]?key(?:[_-]?id)?"
    rf"|token|secret|passw(?:or)?d|passphrase|credentials?){_SEPARATOR})(?P<value>{_QUOTED})"
)
_VARIABLE = (
    r"(?P<keep>(?P<name>[A-Z0-9]_(?:KEY|PAT|PASS|PW|AUTH|DSN)(?:_[A-Z0-9]+)*)"
    rf"(?:=[\"']?|\"[ \t]*:[ \t]*\"))(?P<value>{_QUOTED})"
)
_HEADER = (
    r"(?i)(?P<keep>authorization[\"']?[ \t]*[:=][ \t]*[\"']?(?:(?:bearer|basic|token|digest)[ \t]+)?)"
    rf"(?P<value>{_VALUE})"
)
_BEARER = rf"(?i)(?P<keep>\bbearer[ \t]+)(?P<value>{_VALUE})"
_URL = r"(?P<keep>://[^\s/:@\"'<>]{0,80}:)(?P<value>[^\s/\"'<>]{1,300})(?=@)"
_PEM_NAME = r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_PEM = (
    # Whole, cut at its end, or cut at its beginning as on a screen that has scrolled.
    rf"-----BEGIN {_PEM_NAME}(?:[^-]{{0,20000}}-----END {_PEM_NAME}|[A-Za-z0-9+/=\s\\│┃|]*)"
    rf"|(?m:^[ \t│┃|]*)(?:[A-Za-z0-9+/=]{{16,100}}[ \t│┃|]*\n+[ \t│┃|]*){{1,100}}-----END {_PEM_NAME}"
)


def _is_literal(value: str) -> bool:
    return not _PLACEHOLDER.match(value)


def _kept(kind: str, check: Callable[[re.Match[str]], bool]) -> Callable[[re.Match[str]], str]:
    """Only the value is taken out; the name before it tells what was there."""
    return lambda match: (
        f"{match['keep']}[redacted:{kind}]" if _is_literal(match["value"]) and check(match) else match[0]
    )


def _is_assigned(match: re.Match[str]) -> bool:
    """`password: required` is prose and `token = tokens.pop()` is code; a digit, a variable's name in capitals, or
    quotes around both make it a value."""
    name, keep = match["name"], match["keep"]
    if any(char.isdigit() for char in match["value"]):
        return True
    is_quoted = keep[len(name)] in "\"'" and keep[-1] in "\"'"
    return is_quoted or ("=" in keep and (name.isupper() or name.lower().startswith(("passw", "secret"))))


def _has_digit(match: re.Match[str]) -> bool:
    return any(char.isdigit() for char in match["value"])


def _any(match: re.Match[str]) -> bool:
    return True


def _plain(needles: str, follows: str, pattern: str, kind: str, check: Callable[[re.Match[str]], bool]) -> _Shape:
    broken = pattern.replace(_VALUE, _BROKEN_VALUE)
    return _Shape(tuple(needles.split()), pattern, broken, _kept(kind, check), follows)


_SHAPES = (
    _Shape(("private key",), _PEM, _PEM, lambda match: "[redacted:private-key]"),
    _token("anthropic", "sk-ant-", _LETTERS, 16),
    _token("openai", "sk-proj- sk-svcacct- sk-admin- sk-or-v1-", _LETTERS, 20),
    _token("api-key", "sk-", "A-Za-z0-9", 20, _stands_alone),
    _token("github", "ghp_ gho_ ghu_ ghs_ ghr_", "A-Za-z0-9", 30),
    _token("github", "github_pat_", "A-Za-z0-9_", 22),
    _token("gitlab", "glpat- gldt- glrt- glptt-", _LETTERS, 20),
    _token("aws", "AKIA ASIA", "A-Z0-9", 16, _stands_alone),
    _token("slack", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxe. xoxc- xoxd- xapp-", "A-Za-z0-9.%-", 10),
    _token("slack", "hooks.slack.com/", "A-Za-z0-9/_+-", 20),
    _token("google", "AIza", _LETTERS, 35, _stands_alone),
    _token("google", "ya29. GOCSPX-", _LETTERS, 20),
    _token("npm", "npm_", "A-Za-z0-9", 36),
    _token("pypi", "pypi-", _LETTERS, 40),
    _token("stripe", "sk_live_ rk_live_ sk_test_ rk_test_ whsec_", "A-Za-z0-9", 16),
    _token("huggingface", "hf_", "A-Za-z0-9", 30),
    _token("jwt", "eyJ", f".={_LETTERS}", 30, _is_jwt),
    _plain("://", r"[^\s/]{0,400}@", _URL, "password", _any),
    _plain("authorization", "", _HEADER, "authorization", _any),
    _plain("bearer", r"[ \t]", _BEARER, "authorization", _has_digit),
    _plain("key token secret passw passphrase credential", _ASSIGNS, _NAMED, "value", _is_assigned),
    _plain("_key _pat _pass _pw _auth _dsn", _ASSIGNS, _VARIABLE, "value", _any),
)


def known_secrets(*environments: Mapping[str, str]) -> dict[str, str]:
    """The values of those variables whose names say that they are secret, each with such a name."""
    return {
        value: name
        for variables in environments
        for name, value in variables.items()
        if is_secret(name) and _is_worth_hiding(value)
    }


class Redactor:
    """Knows what must not be told: all shapes, and these values, each with the name that stands for it."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        known = [(form, name) for value, name in (secrets or {}).items() for form in _forms(value)]
        # The longest first: a form that is the beginning of another must not leave the rest of it behind.
        known.sort(key=lambda one: -len(one[0]))
        self._known = tuple(_exact(form, name) for form, name in known)

    def text(self, text: str) -> str:
        """`text` without any token."""
        return self._without(text, text, wrapped=False)

    def lines(self, rows: Sequence[str]) -> tuple[str, ...]:
        """The rows of a screen without any token, also one that goes on in the next row. Empty rows are left out."""
        glued = "".join([row.strip(_MARGIN) for row in rows])
        # Two line breaks are none that a terminal has made.
        text = "".join(f"{row}\n" if len(row.rstrip()) >= ROW_CHARACTERS_MIN else f"{row}\n\n" for row in rows)
        return tuple(row for row in self._without(text, glued, wrapped=True).split("\n") if row.strip())

    def value(self, value: Any, depth: int = 0) -> Any:
        """The same for all texts in a JSON-like value, which is left as it is."""
        if isinstance(value, str):
            return self.text(value)
        if depth > DEPTH_MAX:
            return "[redacted:depth]"
        if isinstance(value, Mapping):
            return {self.value(key, depth + 1): self._item(key, item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value]
        return value

    def suspects(self, text: str) -> bool:
        """Whether a closer look is needed; wherever a token is, it is. Also right for a value's JSON."""
        lowered = text.lower()
        for sign, traces in _TRACES:
            if sign in lowered:
                for trace in traces:
                    if trace in lowered:
                        return True
        return any(form in text for form, *_ in self._known)

    def _item(self, key: object, item: Any, depth: int) -> Any:
        """What stands under a name that says secret; `key` alone is any key."""
        if isinstance(key, str) and isinstance(item, str) and len(key) > len("pass") and is_secret(key):
            item = "[redacted:value]" if _is_worth_hiding(item) and _is_literal(item) else item
        return self.value(item, depth)

    def _without(self, text: str, seen: str, *, wrapped: bool) -> str:
        """`seen` is where needles are looked for: the text, put together where rows have broken it."""
        for form, flat, broken, instead in self._known:
            if form in seen:
                text = re.compile(broken if wrapped else flat).sub(instead, text)
        lowered = seen.lower()
        for shape in _SHAPES:
            if shape.may_be_in(lowered):
                text = re.compile(shape.wrapped if wrapped else shape.flat).sub(shape.replace, text)
        return text


_NEEDLES = {needle for shape in _SHAPES for needle in shape.needles}
_SHORTEST = (
    # Some write a slash in JSON as an escape.
    r":\/",
    *sorted(one for one in _NEEDLES if not any(other != one and other in one for other in _NEEDLES)),
)
_SIGNS = ("_", "-", "")
_TRACES = tuple(
    (sign, tuple(one for one in _SHORTEST if next(s for s in _SIGNS if s in one) == sign)) for sign in _SIGNS
)
"""What is there wherever any shape is, in text that is all lower case, below a sign that all of them have and most
texts have not. Plain loops, because whatever is kept is looked at: a search for each is faster than one pattern."""
BY_SHAPE = Redactor()


def redact(value: Any) -> Any:
    """A text, or any JSON-like value, without tokens of a well-known shape."""
    return BY_SHAPE.value(value)


def _is_worth_hiding(value: str) -> bool:
    """Long enough to be a secret and to be told from other text: not a plain word, a number or the place of a file."""
    if len(value) < VALUE_CHARACTERS_MIN or _PLACE.match(value):
        return False
    return not (len(value) < 2 * VALUE_CHARACTERS_MIN and (value.isdigit() or (value.isalpha() and value.islower())))


def _exact(form: str, name: str) -> tuple[str, str, str, Callable[[re.Match[str]], str]]:
    broken = _BREAK.join(map(re.escape, form))
    return form, re.escape(form), broken, lambda match: f"[redacted:{name}]"


def _forms(value: str) -> Iterator[str]:
    """The value as it may be met: as it is, in JSON, in a URL and in base64, at the beginning of what was encoded or
    anywhere in it."""
    raw = value.encode(errors="surrogatepass")
    forms = [value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    forms += [quote(value, safe="", errors="replace"), base64.b64encode(raw).decode().rstrip("=")]
    for shift in range(3):
        # Only those characters that do not depend on what stands before and behind it.
        first, last = (0, 2, 3)[shift], (shift + len(raw)) // 3 * 4
        encoded = base64.b64encode(b"\0" * shift + raw).decode()[first:last]
        forms += [encoded, encoded.replace("+", "-").replace("/", "_")]
    yield from dict.fromkeys(form for form in forms if len(form) >= VALUE_CHARACTERS_MIN)
