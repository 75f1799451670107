"""How far a queue of runs is: counts, the estimate of the end, what waits, and the lines without a terminal."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from dogwatch.cli.progress import Narrator, Standing, expected_s, left_s, left_words, lines, look
from dogwatch.ledger.api import Store
from dogwatch.model.folders import folder_at
from dogwatch.model.memory import HostRecord
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Dispatch, Phase, Plan, Role
from dogwatch.model.records import RunRecord
from support.cli_ledgers import PLAN, add_run, admit_run, end_run


def at(seconds: float) -> Moment:
    return Moment("boot", 1000.0 + seconds, 5000.0 + seconds)


def a_run(
    name: str, spec: str = "/a", start: float | None = None, end: float | None = None, state: str = ""
) -> RunRecord:
    return RunRecord(
        run=name,
        spec=spec,
        project_folder=folder_at("/p"),
        output_folder=folder_at("/o"),
        created=at(0),
        admitted=None if start is None else at(start),
        ended=None if end is None else at(end),
        state=state or ("COMPLETED" if end is not None else "SPAWN" if start is None else "RUNNING"),
    )


def standing(*runs: RunRecord, host: HostRecord | None = None) -> Standing:
    queued = {run.run: f"{run.run} has a reason" for run in runs if run.admitted is None and not run.over}
    return Standing(runs=runs, reasons=queued, host=host)


def test_the_estimate_comes_from_runs_of_the_same_file() -> None:
    done, going = a_run("r1", start=0, end=600), a_run("r2", start=600)
    other = a_run("r3", spec="/b", start=0, end=60)
    assert left_s(standing(done, other, going), {}, at(700)) == pytest.approx(500)
    assert left_s(standing(done, other, going, a_run("r4")), {}, at(700)) == pytest.approx(1100)


def test_before_that_from_what_the_file_expects_and_then_from_other_files() -> None:
    going, waiting = a_run("r1", start=0), a_run("r2", spec="/b")
    assert left_s(standing(going, waiting), {}, at(10)) is None
    assert left_s(standing(going, waiting), {"/a": 100}, at(10)) is None
    assert left_s(standing(going, waiting), {"/a": 100, "/b": 50}, at(10)) == pytest.approx(140)
    done = a_run("r0", spec="/c", start=0, end=30)
    assert left_s(standing(done, a_run("r2", spec="/b")), {}, at(31)) == pytest.approx(30)


def test_a_failed_run_tells_nothing_about_how_long_one_takes() -> None:
    failed = a_run("r1", start=0, end=5, state="FAILED")
    assert left_s(standing(failed, a_run("r2")), {}, at(6)) is None


def test_as_many_are_thought_to_run_at_once_as_did_when_the_latest_was_let_in() -> None:
    done = [a_run("d1", start=0, end=100), a_run("d2", start=0, end=100)]
    going = [a_run("g1", start=100), a_run("g2", start=100)]
    waiting = [a_run(f"w{n}") for n in range(4)]
    assert left_s(standing(*done, *going, *waiting), {}, at(100)) == pytest.approx(300)
    # One has just ended, and the next one is not let in yet: still two at once.
    ended = [a_run("g1", start=100, end=200), going[1]]
    assert left_s(standing(*done, *ended, *waiting), {}, at(200)) == pytest.approx(210)


def test_a_run_that_takes_longer_than_thought_is_not_called_finished() -> None:
    at_work = standing(a_run("d", start=0, end=1000), a_run("g", start=1000))
    assert left_s(at_work, {}, at(9000)) == pytest.approx(100)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "no estimate yet"),
        (0.0, "less than a minute left"),
        (720.0, "about 12 min left, ends about {:%H:%M}"),
        (7800.0, "about 2 h 10 min left, ends about {:%H:%M}"),
        (180000.0, "about 50 h 00 min left, ends about {:%a %H:%M}"),
    ],
)
def test_the_estimate_in_words(seconds: float | None, words: str) -> None:
    end = time.localtime(5000.0 + (seconds or 0.0))
    shape = words[words.index("{:") + 2 : words.index("}")] if "{" in words else ""
    told = words.replace(f"{{:{shape}}}", time.strftime(shape, end)) if shape else words
    assert left_words(seconds, at(0)) == told


def plan_of(*dispatches: Dispatch) -> Plan:
    return replace(
        PLAN, roles=(Role(name="a", count=2), Role(name="b")), phases=(Phase(name="p", dispatches=dispatches),)
    )


def test_what_a_file_expects_follows_its_order_and_its_holders() -> None:
    one = Dispatch(name="one", to="b", task="x", expect_s=100)
    assert expected_s(plan_of(one)) == 100
    assert expected_s(plan_of(one, replace(one, name="two"))) == 200, "one holder does one thing after the other"
    assert expected_s(plan_of(one, replace(one, name="two", to="a", address="all"))) == 100
    after = replace(one, name="two", to="a", address="all", after=("one",))
    assert expected_s(plan_of(after, one)) == 200
    pool = [replace(one, name=f"n{n}", to="a", address="any") for n in range(3)]
    assert expected_s(plan_of(*pool)) == 200
    assert expected_s(replace(plan_of(one), phases=plan_of(one).phases * 3)) == 300
    assert expected_s(plan_of(one, replace(one, name="two", expect_s=None))) is None


def test_below_the_table_stand_the_bar_the_estimate_what_waits_and_the_zone() -> None:
    host = HostRecord(host="", at=at(600), zone="YELLOW", since=at(540), why="memory available: 18%, YELLOW below 20%")
    failed = a_run("r2", start=0, end=5, state="FAILED")
    at_work = standing(a_run("r1", start=0, end=500), failed, a_run("r3", start=500), a_run("r4"), host=host)
    assert lines(at_work, {}, at(605)) == [
        "",
        "████████████░░░░░░░░░░░░  1 of 4 done, 1 running, 1 queued, 1 failed",
        left_words(895, at(605)),
        "r4 waits: r4 has a reason",
        "memory: YELLOW for 1m 05s: memory available: 18%, YELLOW below 20%",
    ]


def test_one_run_alone_has_lines_only_where_something_is_in_its_way() -> None:
    calm = HostRecord(host="", at=at(0), since=at(0))
    assert lines(standing(a_run("r1", start=0), host=calm), {}, at(1)) == []
    assert lines(standing(a_run("r1"), host=calm), {}, at(1)) == ["", "r1 waits: r1 has a reason"]
    assert lines(standing(a_run("r1", start=0), host=replace(calm, zone="RED")), {}, at(1)) == [
        "",
        "memory: RED for 1s",
    ]


def test_when_all_are_over_nothing_is_estimated_any_more() -> None:
    shown = lines(standing(a_run("r1", start=0, end=5), a_run("r2", start=0, end=5)), {}, at(9))
    assert shown == ["", f"{'█' * 24}  2 of 2 done, 0 running, 0 queued, 0 failed"]


def test_a_look_at_memory_that_is_old_is_said_to_be_old() -> None:
    two = (a_run("r1", start=0), a_run("r2", start=0))
    assert lines(standing(*two, host=HostRecord(host="", at=at(0), since=at(0))), {}, at(200))[-1].endswith(
        "looked for 3m 20s"
    )


def test_without_a_terminal_each_start_and_each_end_is_one_line(store: Store) -> None:
    names = [add_run(store) for _ in range(4)]
    end_run(store, names[0])
    narrator = Narrator([names[0]])

    def told() -> list[str]:
        return narrator.tell(store.read(lambda reader: look(reader, names)))

    assert told() == []
    admit_run(store, names[1])
    assert told() == ["tide-2: started"]
    assert told() == []
    end_run(store, names[1])
    end_run(store, names[2], "FAILED", "killed by the operator")
    first, second = told()
    assert first.startswith("tide-2: COMPLETED after ")
    assert first.endswith(", 3 of 4 over")
    assert second == "tide-3: FAILED (killed by the operator), 3 of 4 over"
    assert told() == []


def test_a_look_at_the_ledger_sorts_the_runs_by_what_they_do(store: Store) -> None:
    names = [add_run(store) for _ in range(4)]
    admit_run(store, names[1])
    end_run(store, names[3], "FAILED")
    found = store.read(lambda reader: look(reader, [*reversed(names), "nothing"]))
    assert [run.run for run in found.queued] == [names[0], names[2]], "in the order of the queue"
    assert [run.run for run in found.running] == [names[1]]
    assert [run.run for run in found.failed] == [names[3]]
    assert found.host is None
