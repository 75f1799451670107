"""The order in which several workers get the tests."""

from __future__ import annotations

from itertools import pairwise

from support.order import BLOCK, mixed

COMPUTING = [("unit", name, number) for name in ("test_a.py", "test_b.py") for number in range(5 * BLOCK)]
WAITING = [("faults", f"test_f{name}.py", number) for name in range(10) for number in range(3)]


def order(tests: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    return mixed(tests, lambda test: test[:2])


def test_every_test_is_there_once_and_each_kind_keeps_its_order() -> None:
    found = order(WAITING + COMPUTING)
    assert len(found) == len(WAITING) + len(COMPUTING)
    assert [test for test in found if test[0] == "faults"] == WAITING
    assert [test for test in found if test[0] == "unit"] == COMPUTING


def test_tests_that_wait_are_spread_over_the_whole_and_stay_together_with_their_file() -> None:
    found = order(WAITING + COMPUTING)
    at = [place for place, test in enumerate(found) if test[0] == "faults"]
    assert at[:3] == [0, 1, 2]
    begins = at[::3]
    assert at == [begin + number for begin in begins for number in range(3)]
    gaps = [later - earlier for earlier, later in pairwise(begins)]
    assert gaps == [BLOCK + 3] * 9


def test_where_there_is_one_kind_only_nothing_changes() -> None:
    for tests in ([], WAITING, COMPUTING):
        assert order(tests) == tests
