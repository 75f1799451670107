"""A pipeline file as plain values that know where they stand: text, then YAML nodes, then values and their places.

The scalars are those of YAML 1.2 (`true`, `false`, numbers, `null`): `on`, `12:30` and `2024-01-01` are just text.
Everything is bounded, so that no file can hang or exhaust its reader.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any

import yaml

from dogwatch.spec.problem import Place, Problem, UnreadableError, dotted, shortened
from dogwatch.spec.text import line_and_column, read_text
from dogwatch.values import dataclass

DEPTH_MAX = 20
NODES_MAX = 20_000
DIGITS_MAX = 18
PROBLEMS_MAX = 1000

_TAG = "tag:yaml.org,2002:"
_LIMIT = "limit"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2 and with limits while it composes."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012  (PyYAML's own form: one table for each class)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._nodes += 1
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._too_much(f"values are nested more than {DEPTH_MAX} deep")
        if self._nodes > NODES_MAX:
            raise self._too_much(f"the file has more than {NODES_MAX} values")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def _too_much(self, message: str) -> yaml.MarkedYAMLError:
        here = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        return yaml.MarkedYAMLError(_LIMIT, None, message, here)


_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile("^(?:true|false|True|False|TRUE|FALSE)$"), list("tfTF"))
_Loader.add_implicit_resolver(f"{_TAG}null", re.compile("^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile("^[-+]?[0-9]+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    f"{_TAG}float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


@dataclass
class Source:
    """The file's values, and for each place where it stands; problems met on the way are collected here."""

    text: str = ""
    data: Any = None
    values: dict[Place, yaml.Mark] = field(default_factory=dict)
    ends: dict[Place, yaml.Mark] = field(default_factory=dict)
    keys: dict[Place, yaml.Mark] = field(default_factory=dict)
    texts: dict[Place, str] = field(default_factory=dict)
    settings: dict[Place, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether there are more problems than anybody would read; no more are noted then."""
        return len(self.problems) >= PROBLEMS_MAX

    def report(self, place: Place, message: str, hint: str = "", *, at_key: bool = False, near: str = "") -> None:
        """Notes a problem with the value at `place` (or its key); `near` is the text in the value to point at."""
        above = (place[:depth] for depth in range(len(place), 0, -1))
        setting = next((self.settings[part] for part in above if part in self.settings), None)
        if setting is not None:
            self.note(0, 0, (setting,), message, hint)
        elif not self.full:
            self.note(*self._position(place, at_key, near), place, message, hint)

    def note(self, line: int, column: int, place: Place, message: str, hint: str) -> None:
        """Notes a problem at a position. What it quotes of the file may be of any length, so it is cut."""
        if not self.full:
            self.problems.append(Problem(line, column, shortened(dotted(place)), shortened(message), shortened(hint)))

    def line(self, place: Place) -> int:
        """The line in which the value at `place` begins; 0 where it does not stand in the file."""
        mark = self.values.get(place)
        return 0 if mark is None or place in self.settings else mark.line + 1

    def refuse_control_characters(self, place: Place, text: str) -> None:
        """Texts are typed into terminals and given to programs, where such characters would do something."""
        if bad := _CONTROL.search(text):
            self.report(place, f"the text holds the control character {bad[0]!a}", "leave it out")

    def _position(self, place: Place, at_key: bool, near: str) -> tuple[int, int]:
        if at_key and place in self.keys:
            return _position(self.keys[place])
        while place and place not in self.values:
            place = place[:-1]
        if place not in self.values:
            return 1, 1
        start = self.values[place]
        if near:
            offset = self.text.find(near, start.index, self.ends[place].index)
            if offset >= 0:
                return line_and_column(self.text, offset)
        return _position(start)


def read(path: str) -> Source:
    """The file's values; UnreadableError where there is nothing to go on with."""
    source = Source(text=read_text(path))
    loader = _Loader(source.text)
    try:
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise UnreadableError(_syntax(error, source.text)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        line, column = _position(loader.get_mark())
        raise UnreadableError(Problem(line, column, "", f"not valid YAML: {error}")) from None
    finally:
        loader.dispose()
    if root is None:
        raise UnreadableError(
            Problem(1, 1, "", "the file is empty", "a pipeline begins with `name:`; see the folder `examples`")
        )
    _Reader(source).read(root)
    if not isinstance(source.data, dict):
        line, column = _position(root.start_mark)
        message = f"a pipeline is a mapping of keys to values, not {kind_of(source.data)}"
        raise UnreadableError(Problem(line, column, "", message, "begin with `name:`, `roles:` and `phases:`"))
    return source


def scalar(text: str) -> Any:
    """What `text` means where it stands alone in YAML, without quotes."""
    loader = _Loader("")
    try:
        tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    finally:
        loader.dispose()
    return _construct(tag, text)


def kind_of(value: Any) -> str:
    """A value as people call it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= 40 else "text"
    return "a list" if isinstance(value, list) else "a mapping"


class _Reader:
    """Walks the nodes once, follows aliases, and writes values, places and problems into the source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.nodes = 0

    def read(self, root: yaml.Node) -> None:
        self.source.data = self._value(root, ())

    def _value(self, node: yaml.Node, place: Place) -> Any:
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise _unreadable(f"with its aliases, the file has more than {NODES_MAX} values", node.start_mark)
        if len(place) > DEPTH_MAX:
            raise _unreadable("an alias leads back to itself", node.start_mark)
        self.source.values[place] = node.start_mark
        self.source.ends[place] = node.end_mark
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            if node.tag != f"{_TAG}seq":
                self._refuse_tag(node, place)
            return [self._value(item, (*place, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, place)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        if node.tag != f"{_TAG}map":
            self._refuse_tag(node, place)
        values: dict[str, Any] = {}
        for key, item in node.value:
            line, column = _position(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self.source.note(
                    line, column, place, "a key must be plain text", "quote text that begins with '{' or '['"
                )
                continue
            name = key.value
            there = (*place, name)
            if name == "<<":
                hint = "repeat the keys, or use an alias for a whole value"
                self.source.note(line, column, there, "merge keys are not known here", hint)
                continue
            if name in values:
                first = _position(self.source.keys[there])[0]
                self.source.note(
                    line, column, there, f"{name!r} is given twice, first in line {first}", "keep one of them"
                )
                continue
            self.source.keys[there] = key.start_mark
            self.source.refuse_control_characters(there, name)
            values[name] = self._value(item, there)
        return values

    def _scalar(self, node: yaml.Node, place: Place) -> Any:
        self.source.texts[place] = node.value
        self.source.refuse_control_characters(place, node.value)
        if node.tag not in {f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "null")}:
            self._refuse_tag(node, place)
            return node.value
        try:
            return _construct(node.tag, node.value)
        except ValueError as error:
            self.source.report(place, str(error), "write a plain value without a tag")
            return node.value

    def _refuse_tag(self, node: yaml.Node, place: Place) -> None:
        self.source.report(place, f"the tag {node.tag!r} is not known here", "a pipeline file needs no tags: remove it")


def _construct(tag: str, text: str) -> Any:
    kind = tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "int" and len(text) <= DIGITS_MAX:
        return int(text)
    if kind in ("int", "float"):
        return float(text)
    if kind == "str":
        return text
    raise ValueError(f"{text[:40]!r} is neither true nor false")


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = _position(mark) if mark else (1, 1)
    if error.problem == "but found another document":
        return Problem(
            line, column, "", "the file has more than one document", "remove the line `---` and what follows"
        )
    if error.context == _LIMIT:
        return Problem(line, column, "", str(error.problem), "split the pipeline")
    lines = text.splitlines()
    here = lines[line - 1] if line <= len(lines) else ""
    hint = ""
    if "\t" in here[: len(here) - len(here.lstrip())] or here[column - 1 : column] == "\t":
        hint = "indent with spaces: YAML does not allow tabs"
    elif "{" in here:
        hint = "put quotes around a text that holds '{' or '${'"
    elif ": " in here or "expected" in str(error.problem):
        hint = "check the indentation, and put quotes around a text that holds ': ' or ' #'"
    return Problem(line, column, "", f"not valid YAML: {error.problem or error.context}", hint)


def _unreadable(message: str, mark: yaml.Mark) -> UnreadableError:
    line, column = _position(mark)
    return UnreadableError(Problem(line, column, "", message, "write it out, or split the pipeline"))


def _position(mark: yaml.Mark) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1
