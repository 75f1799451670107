"""How long a task is expected to take: said, learnt, or the default, and where it comes from."""

from __future__ import annotations

from dogwatch.policy.learning import DEFAULT_S, SAMPLES_MIN, expectation, learnt_s


def test_what_the_file_says_counts_before_all_else() -> None:
    assert expectation(60.0, "writer", [5.0] * 40) == (60.0, "the pipeline file")


def test_a_few_tasks_teach_nothing() -> None:
    assert learnt_s([5.0] * (SAMPLES_MIN - 1)) is None
    assert expectation(None, "writer", [5.0] * (SAMPLES_MIN - 1)) == (DEFAULT_S, "the default")


def test_enough_tasks_teach_how_long_nearly_all_of_them_took() -> None:
    took = [float(n) for n in range(1, 21)]
    assert expectation(None, "writer", took) == (20.0, "learnt from the last 20 tasks of writer")
    assert learnt_s([*[10.0] * 49, 9999.0]) == 10.0, "one that went wrong is no rule"
