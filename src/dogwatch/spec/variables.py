"""`${name}` in the file's texts: replaced by the variable's value before anything else looks at the text."""

from __future__ import annotations

import re
from typing import Any

from dogwatch.spec.problem import Place, did_you_mean
from dogwatch.spec.source import Source

HERE = "here"
"""The one variable that is always there: the pipeline file's folder, for programs that are kept beside it."""

ADDED_MAX = 1024 * 1024

_VARIABLE = re.compile(r"\$(?P<escape>\$)?\{(?P<name>[^{}]*)(?P<end>\}?)")


def substitute(source: Source, folder: str, overridden: frozenset[str]) -> None:
    """Replaces the variables in all texts. What is unknown is reported, and so is a `--set` that nothing uses."""
    declared = source.data.get("vars", {})
    if not isinstance(declared, dict):
        declared = {}
    for name, value in declared.items():
        if isinstance(value, bool | int | float):
            declared[name] = source.texts[("vars", name)]
    if HERE in declared:
        message = f"the variable {HERE!r} is reserved: it is the pipeline file's folder"
        source.report(("vars", HERE), message, "choose another name", at_key=True)
    known = {name: text if isinstance(text, str) else "" for name, text in declared.items()}
    known[HERE] = folder
    work = _Substitution(source, known)
    source.data = {key: value if key == "vars" else work.value(value, (key,)) for key, value in source.data.items()}
    for name in overridden - work.used:
        if ("vars", name) not in source.keys:
            hint = did_you_mean(name, set(known) - overridden - {HERE}) or "a path into the file has dots in it"
            source.report(("vars", name), f"the file has no variable {name!r}", hint)


class _Substitution:
    """One walk over all values; remembers which variables were used."""

    def __init__(self, source: Source, known: dict[str, str]) -> None:
        self.source = source
        self.known = known
        self.used: set[str] = set()
        self.added = 0

    def value(self, value: Any, place: Place) -> Any:
        if isinstance(value, dict):
            return {key: self.value(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*place, index)) for index, item in enumerate(value)]
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: self._replaced(match, place), value)
        return value

    def _replaced(self, match: re.Match[str], place: Place) -> str:
        name = match["name"]
        if match["escape"]:
            return match[0][1:]
        if self.source.full:
            return match[0]
        if not match["end"]:
            self.source.report(place, "'${' has no '}' after it", "write `$${` for the characters '${'", near=match[0])
        elif name in self.known:
            self.used.add(name)
            self.added += len(self.known[name])
            if self.added <= ADDED_MAX:
                return self.known[name]
            self.source.report(place, f"the variables add more than {ADDED_MAX} characters to the file", near=match[0])
        else:
            hint = f"{did_you_mean(name, self.known)} (`$${{` stands for the characters '${{')"
            self.source.report(place, f"there is no variable {name!r}", hint, near=match[0])
        return match[0]
