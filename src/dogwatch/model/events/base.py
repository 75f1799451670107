"""What every event is: a frozen value with keyword-only fields, a kind that its class is named after, and a body.

The classes are declared like dataclasses, and mypy checks them like dataclasses (PEP 681), but no code is generated for
them: a captain writes most of the kinds, and ninety dataclasses would add a sixth to the time that it takes to start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform

from dogwatch.model.codec import encode

E = TypeVar("E", bound="Event")

_PLAIN = frozenset({str, int, float, bool, type(None)})
COLUMNS = ("run", "agent")
"""Fields of every event that the ledger keeps in columns, apart from the body."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Declared:
    """A class whose annotations are its fields. Those without a default must be given."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[Mapping[str, Any]] = {}
    _allowed: ClassVar[frozenset[str]] = frozenset()
    _required: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        own = [name for name, hint in vars(cls).get("__annotations__", {}).items() if not hint.startswith("ClassVar")]
        cls._fields = (*cls._fields, *own)
        cls._defaults = {**cls._defaults, **{name: vars(cls)[name] for name in own if name in vars(cls)}}
        cls._allowed = frozenset(cls._fields)
        cls._required = cls._allowed - cls._defaults.keys()

    def __init__(self, **fields: Any) -> None:
        # What is not given is found in the class, as the field's default.
        if not (fields.keys() >= self._required and self._allowed.issuperset(fields)):
            missing, unknown = sorted(self._required - fields.keys()), sorted(fields.keys() - self._allowed)
            raise TypeError(f"{type(self).__name__}: missing fields {missing}, unknown fields {unknown}")
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self._fields)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"


class Event(Declared):
    """Something that happened, in the past tense. Everything but `run` and `agent` is its body.

    Fields without a default are always written; the others only where they differ from it, so that they are absent
    from the body as they are from those of older versions. A name that is taken or reserved has an underscore at its
    end (`kind_`, `from_`), which the body does not have.
    """

    kind: ClassVar[str] = ""
    repeats_agent: ClassVar[bool] = False
    """Whether the body names the agent too: programs read it there."""
    keys: ClassVar[Mapping[str, str]] = {}
    """The body's keys by the names of the fields."""
    _written: ClassVar[Sequence[tuple[str, str]] | None] = ()
    """The same where all of them are always written, which is most often so; otherwise None."""
    run: str = ""
    agent: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__)[1:]
        cls.keys = {name: name.removesuffix("_") for name in cls._fields if name not in COLUMNS}
        cls._written = None if cls._defaults.keys() & cls.keys.keys() else tuple(cls.keys.items())

    @property
    def body(self) -> dict[str, Any]:
        """What the ledger keeps of it, as plain JSON values."""
        given = self.__dict__
        written = self._written
        if written is None:
            named = self.keys.items()
            written = [(name, key) for name, key in named if name in given and not self._is_default(name, given[name])]
        body = {key: value if type(value := given[name]) in _PLAIN else encode(value) for name, key in written}
        return {"agent": self.agent, **body} if self.repeats_agent else body

    def _is_default(self, name: str, value: object) -> bool:
        return name in self._defaults and value == self._defaults[name]

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """The keys that every body has."""
        return tuple(key for name, key in cls.keys.items() if name not in cls._defaults)

    @classmethod
    def default(cls, name: str) -> Any:
        """The default of a field that has one."""
        return cls._defaults[name]

    def but(self: E, **changes: Any) -> E:
        """The same with other values for some fields."""
        return type(self)(**{**self.__dict__, **changes})
