"""Folders as another host could find them: a root, which each host may have somewhere else, and the way below it."""

from __future__ import annotations

from dogwatch.values import dataclass

EVERYWHERE = "/"
"""The root of whatever lies at the same place on every host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A root and a relative path. The root is where it is on the host that the record is for; a host that takes over
    puts its own in its place, and the path stays. It is empty for a path that is not absolute."""

    root: str
    path: str

    @property
    def absolute(self) -> str:
        """Where the folder is on this host."""
        if not self.path:
            return self.root
        return f"{self.root.removesuffix('/')}/{self.path}" if self.root else self.path


def folder_at(path: str, *roots: str) -> Folder:
    """The folder below the first of the roots that it lies in, or as it is."""
    for root in (*roots, EVERYWHERE):
        below = f"{root.removesuffix('/')}/"
        if root.startswith("/") and path == root:
            return Folder(root=root, path="")
        if root.startswith("/") and path.startswith(below) and path != below:
            return Folder(root=root, path=path.removeprefix(below))
    return Folder(root="", path=path)
