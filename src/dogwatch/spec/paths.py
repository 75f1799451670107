"""What must be true of the files that a pipeline names: outputs, artifacts, checks, the deliverable, scenario files."""

from __future__ import annotations

import os
import re

from dogwatch.model.plan import INSTRUCTIONS_BYTES_MAX, PLACEHOLDERS, fill
from dogwatch.spec.order import Order
from dogwatch.spec.problem import Place, did_you_mean
from dogwatch.spec.rules import agents_of
from dogwatch.spec.source import Source
from dogwatch.spec.survey import DispatchEntry, Survey
from dogwatch.spec.targets import is_target, read_targets


class Files:
    """Which dispatch writes which file."""

    def __init__(self, found: Survey) -> None:
        self.found = found
        self.order = Order(found)
        self.writers: dict[str, list[tuple[DispatchEntry, Place]]] = {}
        """The concrete paths, with `{run}` left as it is, and who writes them."""
        self._sure: set[str] = set()
        for entry in found.dispatches:
            for path, place in entry.outputs:
                for concrete in self._concrete(entry, path):
                    self.writers.setdefault(concrete, []).append((entry, place))
                    if entry.address != "any" or "{agent}" not in path:
                        self._sure.add(concrete)

    def holders(self, entry: DispatchEntry) -> tuple[str, ...]:
        """The agents that may do this dispatch's work."""
        return (entry.target,) if entry.address == "one" else agents_of(self.found, entry.target)

    def known(self, phase: int) -> tuple[str, ...]:
        """The files that are sure to be written by the end of `phase`."""
        return tuple(path for path in self.writers if path in self._sure and self.author(path, phase))

    def author(self, path: str, phase: int) -> DispatchEntry | None:
        """The dispatch that writes `path` last by the end of `phase`."""
        writers = [entry for entry, _ in self.writers.get(path, ()) if entry.phase <= phase and path in self._sure]
        return max(writers, key=lambda entry: (entry.phase, len(self.order.before(entry.name))), default=None)

    def _concrete(self, entry: DispatchEntry, path: str) -> tuple[str, ...]:
        agents = self.holders(entry)
        role = next((role.name for role in self.found.roles if set(agents) & set(role.agents())), "{role}")
        return tuple(fill(path, agent=agent, role=role, run="{run}") for agent in agents)


def apply(source: Source, found: Survey, folder: str) -> None:
    """Reports everything that is wrong with the files."""
    files = Files(found)
    for entry in found.dispatches:
        for path, place in entry.outputs:
            _form(source, place, path, PLACEHOLDERS)
    for place, body in found.byte_checks:
        if isinstance(body.get("path"), str):
            _form(source, (*place, "path"), body["path"], ())
    _writers(source, files)
    _artifacts(source, files)
    _deliverable(source, files)
    _scripts(source, found, folder)
    _instructions(source, found, folder)
    _targets_file(source, found, folder)


def _form(source: Source, place: Place, path: str, placeholders: tuple[str, ...]) -> None:
    parts = path.split("/")
    unknown = [name for name in re.findall(r"\{[^{}]*\}|[{}]", path) if name not in placeholders]
    if path.startswith(("/", "~")):
        source.report(place, f"the path {path!r} is not relative", "paths start in the run's output folder")
    elif ".." in parts:
        source.report(place, f"the path {path!r} leads out of the output folder", "write it without '..'")
    elif not all(parts) or "." in parts:
        source.report(place, f"the path {path!r} has an empty part or a '.' in it", "write it like `charts/tides.png`")
    elif re.search(r"[\s\\]", path):
        source.report(place, f"the path {path!r} has a blank or a backslash in it", "use '-' or '/' instead")
    elif unknown and placeholders:
        source.report(place, f"{unknown[0]!r} in a path has no meaning", f"known here: {', '.join(placeholders)}")
    elif unknown:
        source.report(place, f"{unknown[0]!r} is not filled in here", "write the file's name in full")


def _writers(source: Source, files: Files) -> None:
    reported: set[Place] = set()
    for path, writers in files.writers.items():
        for index, (entry, place) in enumerate(writers):
            if place in reported:
                continue
            clash = next((pair for pair in writers[:index] if _clash(files.order, pair[0], entry)), None)
            if clash is None:
                continue
            reported.add(place)
            other, other_place = clash
            if other_place == place and entry.address == "all":
                holders = len(files.holders(entry))
                message = f"all {holders} holders of {entry.target!r} would write the same file {path!r}"
                source.report(place, message, "put `{agent}` into the path")
            elif other is entry and other_place != place:
                source.report(place, f"{path!r} is given twice", "keep one of them")
            elif other is not entry:
                message = f"{path!r} is written by {other.name!r} too, perhaps at the same time"
                hint = f"say `after: [{other.name}]`, or use another path"
                source.report(place, message, hint)


def _clash(order: Order, first: DispatchEntry, second: DispatchEntry) -> bool:
    return first is second or not (order.comes_before(first, second) or order.comes_before(second, first))


def _artifacts(source: Source, files: Files) -> None:
    for checkpoint in files.found.checkpoints:
        if checkpoint.artifact is None:
            continue
        path, place = checkpoint.artifact
        author = files.author(path, checkpoint.phase)
        if author is None:
            later = files.author(path, len(files.found.phases))
            if later is not None:
                message = f"{path!r} is written only in the later phase {files.found.phases[later.phase][0]!r}"
                source.report(place, message, "move the checkpoint there")
            else:
                known = files.known(checkpoint.phase)
                source.report(place, f"no dispatch so far writes {path!r}", did_you_mean(path, known))
            continue
        holders = files.holders(author)
        for reviewer, spot in checkpoint.reviewers:
            own = next((agent for agent in agents_of(files.found, reviewer) if agent in holders), None)
            if own is not None:
                message = f"{own!r} writes {path!r} in {author.name!r} and cannot review it"
                source.report(spot, message, "name somebody who has no part in it")


def _deliverable(source: Source, files: Files) -> None:
    if files.found.deliverable is None or not files.found.deliverable[0].strip():
        return
    path, place = files.found.deliverable
    last = len(files.found.phases)
    if files.author(path, last) is None:
        hint = did_you_mean(path, files.known(last)) or "add it to the `outputs` of a dispatch"
        source.report(place, f"no dispatch writes the deliverable {path!r}", hint)


def _scripts(source: Source, found: Survey, folder: str) -> None:
    for role in found.roles:
        script = role.body.get("script")
        if role.body.get("harness") != "scripted" or not isinstance(script, str) or not script.strip():
            continue
        if "\0" in script or not os.path.isfile(script_path(folder, script)):
            message = f"there is no scenario file {script!r}"
            source.report((*role.place, "script"), message, "the path is relative to the pipeline file's folder")


def _instructions(source: Source, found: Survey, folder: str) -> None:
    for role in found.roles:
        name = role.body.get("instructions")
        if not isinstance(name, str) or not name.strip():
            continue
        path = script_path(folder, name) if "\0" not in name else ""
        hint = "the path is relative to the pipeline file's folder"
        if not os.path.isfile(path):
            source.report((*role.place, "instructions"), f"there is no file {name!r}", hint)
        elif not 0 < os.path.getsize(path) <= INSTRUCTIONS_BYTES_MAX:
            message = f"the instructions {name!r} are empty, or larger than {INSTRUCTIONS_BYTES_MAX} bytes"
            source.report((*role.place, "instructions"), message, "put what is long into files that it names")


def _targets_file(source: Source, found: Survey, folder: str) -> None:
    """What is in the file is not quoted: it is there because it is secret."""
    if found.targets_file is None or not found.targets_file[0].strip():
        return
    name, place = found.targets_file
    path = script_path(folder, name)
    if "\0" in name or not os.path.isfile(path):
        hint = "the path is relative to the pipeline file's folder"
        source.report(place, f"there is no targets file {name!r}", hint)
        return
    try:
        lines = read_targets(path)
    except (OSError, ValueError) as error:
        source.report(place, f"the targets file {name!r} cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    if not lines:
        source.report(place, f"the targets file {name!r} names no target", "one URL a line")
    for number, target in lines:
        if not is_target(target):
            hint = "a target begins with its kind, such as mailto://, ntfy:// or json://"
            source.report(place, f"line {number} of the targets file {name!r} is no URL of a target", hint)


def script_path(folder: str, script: str) -> str:
    """A file that is named beside the pipeline file as an absolute path."""
    return os.path.normpath(os.path.join(folder, script))
