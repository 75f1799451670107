"""The quick filter before the full guard: commands that are plainly harmless, seen without reading them as bash.

It imports nothing and looks at bytes, because it runs for every command. It may only say yes where the full guard says
yes too (a test holds the two together): plain words, whole words in quotes, no expansion, nothing that writes, and the
first word of each command from the tables below. Whatever it does not know is left to the full guard.
"""

BYTES_MAX = 2000
_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \t\n./_-,:=+@%^~*?|&;<>\x01"
_QUOTED = b"\x01"
"""Stands for a whole word in quotes, which is never a program and never an option."""
_SPACE = b" \t\n"
_BEHIND_QUOTE = b" \t\n;|&"
_REDIRECTS = frozenset((b"2>&1", b">/dev/null", b"2>/dev/null", b"&>/dev/null", b"</dev/null"))
_KILLERS = frozenset((b"tmux", b"kill", b"pkill", b"killall"))

_READERS = frozenset(
    b"ls cat head tail wc grep egrep fgrep echo pwd cd true false date whoami id hostname uname which stat file du df"
    b" cut tr diff cmp comm basename dirname realpath readlink printenv ps pgrep pidof uptime free nproc jq sleep sort"
    b" uniq rg find tree less more md5sum sha256sum lsof ss netstat column nl tac rev seq wait jobs".split()
)
"""They read and print, whatever their arguments are, but for the options in `_NOT_WITH`."""
_NOT_WITH = {
    b"find": (b"-exec", b"-ok", b"-delete", b"-fprint", b"-fls"),
    b"sort": (b"-o", b"--o", b"--c", b"-T", b"-S"),
    b"rg": (b"--pre", b"--hostname", b"--search-zip"),
    b"tree": (b"-o", b"--o"),
    b"jobs": (b"-x",),
    b"less": (b"-", b"+"),
    b"more": (b"-", b"+"),
}
_TOOLS = frozenset(b"mypy ruff black flake8 pylint isort eslint tsc prettier rustc rustfmt gofmt node-gyp".split())
"""They work on the project; a command among their arguments makes them suspect."""
_VERBS = {  # without those that run hooks or scripts of the project, which may be new
    b"git": frozenset(
        b"status diff log show add branch fetch tag remote blame ls-files rev-parse describe shortlog restore rm mv"
        b" reflog".split()
    ),
    b"cargo": frozenset((b"fmt", b"tree")),
    b"go": frozenset(b"build vet fmt mod list".split()),
    b"pip": frozenset(b"install list show freeze".split()),
    b"uv": frozenset(b"sync lock pip".split()),
    b"docker": frozenset(b"ps images logs inspect".split()),
    b"kubectl": frozenset(b"get describe logs".split()),
    b"systemctl": frozenset((b"status",)),
    b"tmux": frozenset((b"ls", b"list-sessions", b"list-windows", b"list-panes", b"has-session")),
}
_RUNS_A_COMMAND = (b"--upload-pack", b"--receive-pack", b"--exec", b"ext::")
_SUSPECT = (*_RUNS_A_COMMAND, b"-c", b"-e", b"-x", b"--command", b"--cmd", b"--run", b"--shell", b"--eval")


def plainly_harmless(command: bytes) -> bool:
    """Whether the full guard need not be asked."""
    if len(command) > BYTES_MAX or b"\\" in command or _QUOTED in command:
        return False
    text = command.strip(_SPACE)
    if b'"' in text or b"'" in text:
        text = _without_quotes(text)
    if not text or text.translate(None, _PLAIN):
        return False
    for mark in (b"&&", b"||", b"|", b";"):
        text = text.replace(mark, b"\n")
    return all(map(_is_harmless, text.split(b"\n")))


def _without_quotes(text: bytes) -> bytes:
    """The text with one sign for each whole word in quotes; empty where a quote is anything else."""
    kept = []
    at = 0
    while at < len(text):
        place = min(where for where in (text.find(b'"', at), text.find(b"'", at), len(text)) if where >= 0)
        kept.append(text[at:place])
        if place == len(text):
            break
        quote = text[place : place + 1]
        end = text.find(quote, place + 1)
        inside = text[place + 1 : end]
        before, behind = text[place - 1 : place], text[end + 1 : end + 2]
        if end < 0 or not before or before not in b" \t=" or (behind and behind not in _BEHIND_QUOTE):
            return b""
        if inside[:1] in b"-+" or inside.rpartition(b"/")[2] in _KILLERS or inside[:5] == b"ext::":
            return b""
        if quote == b'"' and (b"$" in inside or b"`" in inside):
            return b""
        if b"\n" in inside or b"\0" in inside:
            return b""
        kept.append(_QUOTED)
        at = end + 1
    return b"".join(kept)


def _is_harmless(part: bytes) -> bool:
    """One simple command."""
    words = part.split()
    if not words:
        return False
    name = words[0]
    for word in words:
        if (b"&" in word or b">" in word or b"<" in word) and word not in _REDIRECTS:
            return False
    if name in _READERS:
        refused = _NOT_WITH.get(name)
        return refused is None or not any(word.startswith(refused) for word in words[1:])
    verbs = _VERBS.get(name)
    if verbs is None:
        return name in _TOOLS and not any(map(_is_suspect, words[1:]))
    rest = words[1:]
    if name == b"git" and rest[:1] == [b"--no-pager"]:
        rest = rest[1:]
    if not rest or rest[0] not in verbs:
        return False
    if name == b"tmux" and any(_QUOTED in word for word in rest):
        return False  # tmux reads `;` and formats in its arguments
    if name == b"git":
        return not any(word.startswith(_RUNS_A_COMMAND) for word in rest)
    return not any(map(_is_suspect, rest))


def _is_suspect(word: bytes) -> bool:
    return word.rpartition(b"/")[2] in _KILLERS or word.startswith(_SUSPECT)
