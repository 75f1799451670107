"""`dataclass` as in the standard library, in a fraction of its time to make a class.

The standard one writes and compiles six methods for every frozen class as soon as its module is imported: for the sixty
classes behind `dogwatch status` that was a third of the command. Here only `__init__` is compiled, and only when the
first object is made. What type checkers, `fields`, `replace`, `asdict` and `match` see is the standard library's own.
A class with InitVar or `order` needs the original; and so do all classes of a family of which one has the original.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False):
        """The class with the methods of a dataclass."""

        def make(kind: type) -> type:
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(kind)
            return _with_methods(made, frozen=frozen)

        return make if cls is None else make(cls)


def _with_methods(cls: Any, *, frozen: bool) -> Any:
    fields = dataclasses.fields(cls)
    own = vars(cls)
    methods: dict[str, Any] = {
        "__init__": _lazy_init(cls, frozen=frozen),
        "__repr__": _repr(tuple(f.name for f in fields if f.repr)),
    }
    compared = tuple(field.name for field in fields if field.compare)
    # A class that says itself what is equal has a `__hash__` of None from Python, which is none of its own.
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    methods |= _comparing(compared)
    if has_hash:
        del methods["__hash__"]
    elif not frozen:
        methods["__hash__"] = None
    if frozen:
        methods |= _freezing(cls, tuple(field.name for field in fields))
    for name, method in methods.items():
        if name not in own or name == "__hash__":
            setattr(cls, name, method)
    return cls


def _repr(names: tuple[str, ...]) -> Any:
    def __repr__(self: Any) -> str:  # noqa: N807 - becomes a method
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _comparing(names: tuple[str, ...]) -> dict[str, Any]:
    values = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807 - becomes a method
        return bool(values(self) == values(other)) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807 - becomes a method
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _freezing(cls: Any, names: tuple[str, ...]) -> dict[str, Any]:
    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807 - becomes a method
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807 - becomes a method
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    found: dict[str, Any] = {"__setattr__": __setattr__, "__delattr__": __delattr__}
    if "__slots__" in vars(cls):
        # Copies and pickles would otherwise be filled by assignment.
        def __getstate__(self: Any) -> list[Any]:  # noqa: N807 - becomes a method
            return [getattr(self, name) for name in names]

        def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807 - becomes a method
            for name, value in zip(names, state, strict=True):
                object.__setattr__(self, name, value)

        found |= {"__getstate__": __getstate__, "__setstate__": __setstate__}
    return found


def _lazy_init(cls: Any, *, frozen: bool) -> Any:
    """Compiles the real one when it is first needed, and takes its own place with it."""

    def __init__(self: Any, *args: Any, **fields: Any) -> None:  # noqa: N807 - becomes a method
        made = _init(cls, frozen=frozen)
        cls.__init__ = made
        made(self, *args, **fields)

    return __init__


def _init(cls: Any, *, frozen: bool) -> Any:
    """The real one, compiled. Locals begin with two underscores, which no field does."""
    known: dict[str, Any] = {"__missing": MISSING, "__set_of": object.__setattr__.__get__}
    plain: list[str] = []
    named: list[str] = []
    values: dict[str, str] = {}
    for field in dataclasses.fields(cls):
        name = given = value = field.name
        if field.default_factory is not MISSING:
            known[f"__make_{name}"] = field.default_factory
            given = f"{name}=__missing"
            value = f"__make_{name}() if {name} is __missing else {name}" if field.init else f"__make_{name}()"
        elif field.default is not MISSING:
            known[f"__default_{name}"] = field.default
            given = f"{name}=__default_{name}"
            value = name if field.init else f"__default_{name}"
        elif not field.init:
            continue
        if field.init:
            (named if field.kw_only else plain).append(given)
        values[name] = value
    if frozen:
        lines = ["__set = __set_of(self)", *(f"__set({name!r}, {value})" for name, value in values.items())]
    else:
        lines = [f"self.{name} = {value}" for name, value in values.items()]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *plain, *(["*", *named] if named else [])])
    exec("\n ".join([f"def __init__({parameters}):", *lines, "return"]), known)  # noqa: S102 - only names of fields
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made
