"""The files that a command writes before it runs them: a path, and every content it was given."""

from dogwatch.guard.bash.holes import DOGWATCH, HOME, WILD, clean, could_be, hole, known
from dogwatch.guard.bash.lookahead import SIMPLER
from dogwatch.guard.verdict import COMMAND_CHARS_MAX, Caller, Denied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FRAGMENT = "#!fragment\n"
"""Begins a content that is only what was put into a file that was there before."""
_FILES_MAX = 400
_CONTENTS_MAX = 6


class Files:
    """What was written, by this command and before it."""

    def __init__(self, caller: Caller, spend: "Callable[[int], None]") -> None:
        self.caller = caller
        self.spend = spend
        self.written: dict[str, list[str]] = {}
        self.programs: dict[str, str] = {}
        """Paths that were made to be a copy of, or a link to, a program."""
        self.ran: list[tuple[str, str]] = []
        """Scripts that were started before they were written: path and interpreter."""
        self.loaded: set[str] = set()
        """Modules that were looked at."""
        self._made = 0

    def write(self, path: str, contents: tuple[str, ...], appends: bool) -> None:
        """Keeps what was there before too: which of several writers comes last is not always known."""
        before = self.written.get(path, [])
        if appends and before:
            contents = tuple(old + new for old in before[-3:] for new in contents)
        kept = list(dict.fromkeys((*before, *contents)))
        if len(self.written) >= _FILES_MAX:
            raise Denied("too-complex", "the command writes too many files to be followed", SIMPLER)
        self.written[path] = kept if len(kept) <= _CONTENTS_MAX else [WILD, *kept[1 - _CONTENTS_MAX :]]

    def read(self, path: str) -> tuple[str, ...]:
        """Every content that the file at `path` may have got; nothing where it was not written."""
        self.spend(len(self.written) // 2)
        found = [text for key, texts in self.written.items() if same(key, path) for text in texts]
        return tuple(dict.fromkeys(found or self._earlier(path)))

    def _earlier(self, path: str) -> list[str]:
        """What the caller knows of the file. A folder that is not known is taken for the one that it works in."""
        homes = {HOME: self.caller.env.get("HOME", ""), DOGWATCH: self.caller.home}
        if path[:1] in homes:
            path = homes[path[0]] + path[1:]
        last = next((at for at in range(len(path) - 1, -1, -1) if hole(path[at])), -1) if not known(path) else -1
        if last >= 0:
            if path[last + 1 : last + 2] != "/":
                return []
            path = normal(path[last + 2 :], self.caller.cwd)
        text = self.caller.files.get(path)
        if text is None or "\0" in text:
            return []
        return [clean(text)] if len(text) <= COMMAND_CHARS_MAX else [WILD]

    def program(self, path: str) -> str:
        """The program that the path was made to be, "" where it was not."""
        return next((name for key, name in self.programs.items() if same(key, path)), "")

    def pipe(self) -> str:
        """A new path for what `<(…)` writes."""
        self._made += 1
        return f"/dev/fd/pipe{self._made}"

    def latest(self) -> dict[str, str]:
        """The last content of each file, where it is known."""
        return {path: texts[-1] for path, texts in self.written.items() if known(path) and known(texts[-1])}


def same(one: str, other: str) -> bool:
    """Whether two paths may be the same file; a relative one may lie in any folder."""
    if one == other:
        return True
    first, second = one.rpartition("/")[2], other.rpartition("/")[2]
    if first != second and known(first) and known(second):
        return False
    if not known(one) or not known(other):
        return could_be(one, other) if known(other) else could_be(other, one) if known(one) else _alike(first, second)
    if one.startswith("/") and other.startswith("/"):
        return False
    return one.endswith("/" + other) or other.endswith("/" + one)


def _alike(first: str, second: str) -> bool:
    """Of two paths that are known in part: whether their last names may be the same."""
    if known(second) or known(first):
        return could_be(first, second) if known(second) else could_be(second, first)
    one, other = _ends(first), _ends(second)
    starts = one[0].startswith(other[0]) or other[0].startswith(one[0])
    return starts and (one[1].endswith(other[1]) or other[1].endswith(one[1]))


def _ends(name: str) -> tuple[str, str]:
    """What stands before the first hole of a name, and behind its last."""
    places = [at for at, char in enumerate(name) if hole(char)]
    return name[: places[0]], name[places[-1] + 1 :]


def normal(path: str, cwd: str = "") -> str:
    """The path without `.` and `..`, from `cwd` on where it is relative."""
    if path == "~" or path.startswith("~/"):
        path = HOME + path[1:]
    absolute = path[:1] in ("/", HOME, DOGWATCH)
    whole = path if absolute or not cwd else f"{cwd}/{path}"
    kept: list[str] = []
    for name in whole.split("/"):
        if name == ".." and kept and kept[-1] != ".." and known(kept[-1]) and kept[-1]:
            kept.pop()
        elif name == ".." and kept == [""]:
            continue
        elif name not in ("", ".") or not kept:
            kept.append("" if name == "." else name)
    if len(kept) > 1 and kept[0] == "" and not whole.startswith("/"):
        kept = kept[1:]
    return "/".join(kept) or ("/" if whole.startswith("/") else ".")
