"""The files that a patch of Codex's form would write: it names each in a line of its own."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = "apply_patch"
BEGIN = "*** Begin Patch"
_HEADERS = ("*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:")


def written(patch: str) -> "Iterator[str]":
    """The paths as they stand there."""
    for line in patch.split("\n"):  # as the client does: in a name other ends of lines are letters
        words = line.strip()
        for header in _HEADERS:
            if words.startswith(header):
                yield words[len(header) :].strip()


def folder(command: str) -> str:
    """Where a command that holds a patch applies it, empty where it does not say: the client itself reads
    `cd FOLDER && apply_patch`."""
    words = command.split(None, 3)
    return words[1].strip("'\"") if words[:1] == ["cd"] and words[2:3] == ["&&"] else ""
