"""Redirections: where a command's input comes from, and where its output goes."""

from dogwatch.guard.bash.files import normal
from dogwatch.guard.bash.holes import DISK, NUMBER, WILD, WORDS, known
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Io, Shell, Texts, merged
from dogwatch.guard.bash.tree import Redirect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dogwatch.guard.bash.interfaces import Walker


def redirected(
    walker: "Walker", redirects: tuple[Redirect, ...], shell: Shell, io: Io, run: "Callable[[Io], Texts]"
) -> Texts:
    """Runs a command with its redirections; what is left is what it writes to its standard output."""
    inner = Io(io.stdin, io.merged)
    sinks: list[tuple[Texts, bool]] = []
    dropped = False
    opened: dict[int, Texts] = {}
    for redirect in redirects:
        texts = walker.expander.text(redirect.target, shell)
        if redirect.variable:
            shell.variables[redirect.variable] = (NUMBER,)
        if redirect.op in ("<<", "<<<"):
            content = tuple(text + "\n" for text in texts) if redirect.op == "<<<" else texts
            opened[redirect.fd] = content
        elif redirect.op in ("<", "<>"):
            opened[redirect.fd] = merged(text for path in texts for text in content_of(walker, path, shell, io))
            if redirect.op == "<>":
                _write(walker, texts, UNKNOWN, False, shell)
        elif redirect.op == "<&":
            number = texts[0]
            source = shell.fds.get(int(number)) if number.isdigit() and len(number) < 6 else UNKNOWN
            opened[redirect.fd] = source if source is not None else UNKNOWN
        elif redirect.op == ">&" and all(text == "-" or text.rstrip("-").isdigit() for text in texts):
            if redirect.fd == 2 and texts == ("1",):
                inner.merged = True
            elif redirect.fd == 1:
                dropped = texts[0] not in ("1",) and not inner.merged
        else:
            appends = redirect.op in (">>", "&>>")
            if redirect.fd == 1 or redirect.op[0] == "&" or (redirect.op == ">&" and redirect.fd == 1):
                sinks = [(texts, appends)]
                inner.merged = inner.merged or redirect.op[0] == "&"
                _check(walker, texts, shell)
            else:
                _write(walker, texts, UNKNOWN, appends, shell)
    if 0 in opened:
        inner.stdin = opened.pop(0)
    before = dict(shell.fds)
    shell.fds.update(opened)
    output = run(inner)
    if opened:
        shell.fds = before
    for paths, appends in sinks:
        _write(walker, paths, output, appends, shell)
    return NOTHING if sinks or dropped else output


def keep(walker: "Walker", redirects: tuple[Redirect, ...], shell: Shell, io: Io) -> None:
    """`exec` without a command: the redirections stay."""

    def run(inner: Io) -> Texts:
        shell.fds = {**shell.fds, 0: inner.stdin} if inner.stdin is not None else shell.fds
        kept.update(shell.fds)
        return UNKNOWN

    kept: dict[int, Texts] = {}
    redirected(walker, redirects, shell, Io(None, io.merged), run)
    shell.fds = kept


def content_of(walker: "Walker", path: str, shell: Shell, io: Io) -> Texts:
    """What is read from a path; DISK where it was there before and nobody knows what it holds."""
    if path == "/dev/null":
        return NOTHING
    if path in ("/dev/stdin", "-", "/dev/fd/0", "/proc/self/fd/0"):
        return waiting(shell, io) or NOTHING
    if path.startswith(("/dev/fd/", "/proc/self/fd/")):
        number = path.rpartition("/")[2]
        if number.isdigit() and len(number) < 6:
            return shell.fds.get(int(number), UNKNOWN)
    return walker.world.files.read(normal(path, shell.cwd)) or (DISK,)


def waiting(shell: Shell, io: Io) -> Texts | None:
    """What stands on standard input."""
    return io.stdin if io.stdin is not None else shell.fds.get(0)


def _check(walker: "Walker", paths: Texts, shell: Shell) -> None:
    for path in paths:
        walker.may_write(normal(path, shell.cwd), path)


def _write(walker: "Walker", paths: Texts, contents: Texts, appends: bool, shell: Shell) -> None:
    _check(walker, paths, shell)
    for path in paths:
        walker.write(normal(path, shell.cwd), contents, appends, shell)


def as_data(texts: Texts) -> Texts:
    """What a program passes on of what it read: nobody's script any more, but any text."""
    return tuple(text if known(text) else text.replace(DISK, WILD).replace(WORDS, WILD) for text in texts)
