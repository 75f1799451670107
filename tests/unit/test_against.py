"""Two revisions side by side: which figures belong together, which of two values is worse, and what the rounds say."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest
from bench import __main__ as command
from bench import against
from bench.against import AgainstError, Measured, compare, match, read, table, worse

from dogwatch.world.processes import boot_id, identify, life
from support.helpers import wait_for


def figure(name: str, value: float = 1.0, *, smaller_is_better: bool = True) -> Measured:
    return Measured(name=name, value=value, unit="x", smaller_is_better=smaller_is_better)


@pytest.mark.parametrize(
    ("old", "new", "smaller_is_better", "expected"),
    [
        (10.0, 11.0, True, 1.1),
        (10.0, 5.0, True, 0.5),
        (10.0, 5.0, False, 2.0),
        (1000.0, 2000.0, False, 0.5),
        (0.0, 0.0, True, 1.0),
        (0.0, 0.01, True, inf),
        (0.5, 0.0, False, inf),
        (0.5, 0.0, True, 0.0),
    ],
)
def test_more_than_one_is_worse_in_either_direction(
    old: float, new: float, smaller_is_better: bool, expected: float
) -> None:
    assert worse(old, new, smaller_is_better=smaller_is_better) == pytest.approx(expected)


def pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    return [(a.name, b.name) for a, b in match([figure(name) for name in old], [figure(name) for name in new])]


def test_figures_are_matched_by_name() -> None:
    assert pairs(["a", "b", "gone"], ["b", "a", "fresh"]) == [("b", "b"), ("a", "a")]


def test_a_count_in_a_name_may_change_where_that_leaves_no_choice() -> None:
    assert pairs(["0 of 2044 missed"], ["1 of 2,050 missed"]) == [("0 of 2044 missed", "1 of 2,050 missed")]
    assert pairs(["100 agents", "500 agents"], ["100 agents", "600 agents"]) == [
        ("100 agents", "100 agents"),
        ("500 agents", "600 agents"),
    ]
    assert pairs(["100 agents", "500 agents"], ["200 agents"]) == []
    assert pairs(["100 agents"], ["200 agents", "300 agents"]) == []


def test_the_median_of_the_rounds_decides() -> None:
    old = [{"cli": [figure("status", 10.0)]}] * 3
    new = [{"cli": [figure("status", value)]} for value in (30.0, 10.5, 9.0)]
    (found,) = compare(old, new).figures
    assert (found.benchmark, found.name) == ("cli", "status")
    assert found.ratio == pytest.approx(1.05)
    assert found.met


def test_a_figure_that_is_more_than_a_tenth_worse_is_not_met() -> None:
    old = [{"sim": [figure("speed", 1000.0, smaller_is_better=False), figure("cost", 1.0)]}]
    found = compare(old, [{"sim": [figure("speed", 880.0, smaller_is_better=False), figure("cost", 1.1)]}])
    assert [one.met for one in found.figures] == [False, True]
    assert not found.met
    assert [line.split()[-1] for line in table(found)[1:]] == ["NO", "yes"]


def test_figures_of_one_side_are_listed_and_do_not_count() -> None:
    found = compare(
        [{"cli": [figure("a"), figure("gone")], "old": [figure("b")]}], [{"cli": [figure("a"), figure("c")]}]
    )
    assert (found.only_old, found.only_new) == (("cli: gone", "old: b"), ("cli: c",))
    assert found.met
    assert "only in the old revision: old: b" in table(found)
    assert "only in the new one: cli: c" in table(found)


def test_an_infinite_ratio_is_kept_as_none() -> None:
    (found,) = compare([{"g": [figure("missed", 0.0)]}], [{"g": [figure("missed", 0.1)]}]).figures
    assert found.as_json()["ratio"] is None
    assert not found.met
    json.dumps(found.as_json(), allow_nan=False)


def test_results_files_are_read_with_their_direction() -> None:
    figures = [
        {"name": "a", "value": 2, "unit": "x", "comparison": ">=", "target": 1},
        {"name": "b", "value": 3, "unit": "ms", "comparison": "<=", "target": 4},
    ]
    assert read(json.dumps({"figures": figures})) == [
        Measured(name="a", value=2.0, unit="x", smaller_is_better=False),
        Measured(name="b", value=3.0, unit="ms", smaller_is_better=True),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--against", "no-such-revision"], "there is no revision no-such-revision"),
        (["--against", "HEAD", "hoks"], "did you mean hooks?"),
        (["--against", "HEAD", "--rounds", "none"], "none is no number of rounds"),
        (["--against", "HEAD", "--rounds", "0"], "0 is no number of rounds"),
        (["--against"], "--against needs a value"),
        (["--against", "HEAD", "cli", "sim"], "one benchmark at a time"),
    ],
)
def test_what_cannot_be_compared_is_said_with_a_hint(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "clean_up_when_interrupted", lambda: None)
    assert command.main(arguments) == command.WRONG_USAGE
    said = capsys.readouterr().err
    assert message in said
    assert "hint: " in said


def test_all_but_the_longest_are_compared_and_a_name_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str], int]] = []
    monkeypatch.setattr(command, "clean_up_when_interrupted", lambda: None)

    def run(revision: str, names: Sequence[str], rounds: int) -> bool:
        asked.append((revision, list(names), rounds))
        return True

    monkeypatch.setattr(against, "run", run)
    assert command.main(["--against", "HEAD~1"]) == 0
    assert command.main(["accuracy", "--rounds", "3", "--against", "v1"]) == 0
    assert asked[0] == ("HEAD~1", [name for name in command.BENCHMARKS if name != "accuracy"], against.ROUNDS)
    assert asked[1] == ("v1", ["accuracy"], 3)


def test_what_fails_is_shown_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(AgainstError, match=r"could not fail \(exit code 3\):\n  so it is"):
        against._call(["sh", "-c", "echo so it is; exit 3"], tmp_path, "fail")


def test_an_interrupt_ends_what_runs(tmp_path: Path) -> None:
    code = (
        "import signal\nfrom pathlib import Path\nfrom bench import against, harness\n"
        "harness.clean_up_when_interrupted()\n"
        f"against._call(['sh', '-c', 'echo $$ > pid; sleep 300'], Path({str(tmp_path)!r}), 'wait')\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(against.__file__).parents[1], stderr=subprocess.PIPE
    )
    noted = tmp_path / "pid"
    pid = int(wait_for(lambda: noted.exists() and noted.read_text().strip(), 60, "the command to start") or 0)
    process = identify(pid, boot_id())
    assert process is not None
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said
    wait_for(lambda: life(process, boot_id()) == "dead", 60, "its end")
