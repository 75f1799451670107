"""The ledger's keys and the names of its queues are built in `model/keys.py` and nowhere else: two places that spell
one key would be two things."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from dogwatch.model import keys

SOURCE = Path(__file__).parents[2] / "src" / "dogwatch"
ROOMS = sorted({path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")} - {"model"})


def all_keys() -> dict[str, str]:
    """Every key by its name, with a place for each argument."""
    found = {name: value for name, value in vars(keys).items() if name.isupper()}
    for name, function in inspect.getmembers(keys, inspect.isfunction):
        arguments = inspect.signature(function).parameters.values()
        found[name] = function(*[0 if one.annotation == "int" else one.name.upper() for one in arguments])
    return found


PREFIXES = tuple(sorted({f"{key.partition('/')[0]}/" for key in all_keys().values() if "/" in key}))


def literal_keys(source: str) -> Iterator[tuple[int, str]]:
    """The texts that look like a key, with their lines; what only documents is none."""
    tree = ast.parse(source)
    words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words:
            yield from [(node.lineno, node.value)] if node.value.startswith(PREFIXES) else []


def test_no_two_things_share_a_key() -> None:
    found = all_keys()
    whole = {name: key for name, key in found.items() if not key.endswith(("/", ":"))}
    assert len(set(whole.values())) == len(whole)
    assert {"run/", "agent/", "task/", "message/", "alerts/", "orders/"} <= set(PREFIXES)


def test_what_several_keys_begin_with_is_the_beginning_of_each() -> None:
    found = all_keys()
    for one, many in (("agent", "agents"), ("task", "tasks"), ("message", "messages")):
        assert found[one].startswith(found[many])
    assert keys.permit("h", "run:r").startswith(keys.permits("h", "run"))
    assert keys.permits("h", "run").startswith(keys.permits("h"))
    assert keys.wait("h", "agent:r/a").startswith(keys.waits("h", "agent"))
    assert keys.waits("h", "agent").startswith(keys.waits("h"))


def test_no_run_can_be_taken_for_a_host() -> None:
    assert not keys.dispatcher("0123456789abcdef").startswith(keys.CREW)
    assert keys.crew("0123456789abcdef", "captain") != keys.dispatcher("0123456789abcdef")


@pytest.mark.parametrize("room", ROOMS)
def test_only_the_model_spells_keys(room: str) -> None:
    place = SOURCE / room
    told = [
        f"{path.relative_to(SOURCE)}:{line}: {text!r}"
        for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))
        for line, text in literal_keys(path.read_text(encoding="utf-8"))
    ]
    assert not told, "use dogwatch.model.keys:\n" + "\n".join(told)


@pytest.mark.parametrize("text", ['get(f"run/{name}")', 'delete("active/" + run)', 'scan(f"agent/{run}/")'])
def test_a_key_that_is_spelt_is_found(text: str) -> None:
    assert list(literal_keys(text))
