"""The targets of notifications: URLs of apprise, which may hold secrets in any of their parts."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

BYTES_MAX = 64 * 1024

_TARGET = re.compile(r"(?P<kind>[a-z][a-z0-9+.-]{0,31})://\S.*", re.IGNORECASE)
# Many services have a token where other URLs have a host (`tgram://TOKEN/CHAT`): only these kinds really name one.
_WITH_HOST = frozenset(
    "http https json jsons xml xmls form forms gotify gotifys"
    " mailto mailtos mmost mmosts mqtt mqtts rocket rockets".split()
)


def is_target(text: str) -> bool:
    """Whether the text has the form of a target; whether apprise knows its kind is seen when it is used."""
    return _TARGET.fullmatch(text.strip()) is not None


def read_targets(path: str) -> list[tuple[int, str]]:
    """The lines of a targets file that are neither empty nor a comment, with their numbers. OSError or ValueError where
    it cannot be read."""
    with open(path, encoding="utf-8-sig") as file:
        text = file.read(BYTES_MAX + 1)
    if len(text) > BYTES_MAX:
        raise ValueError(f"it has more than {BYTES_MAX} characters")
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def shown(target: str) -> str:
    """The target as it may be shown: its kind, and its host where it surely is one."""
    match = _TARGET.fullmatch(target.strip())
    if match is None:
        return "a target"
    kind = match["kind"].lower()
    try:
        host = urlsplit(target.strip()).hostname or ""
    except ValueError:
        host = ""
    real = kind in _WITH_HOST and (host == "localhost" or "." in host or ":" in host)
    return f"{kind}://{host}" if real else f"{kind}://***"
