"""Which runs a command asks for, on real ledgers: their names, their order, and what is there of them already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dogwatch.cli.framework import run_command
from dogwatch.cli.rounds import NAME_LENGTH_MAX, first_attempt, is_kept, runs_with, wanted
from dogwatch.coordination.rounds import Ingredients, Wanted, attempts_of, make_runs
from dogwatch.errors import RefusedError, UsageError
from dogwatch.ledger.api import Store
from dogwatch.ledger.records import load_all
from dogwatch.model.admission import QueuedRun
from dogwatch.model.plan import Plan
from dogwatch.model.records import Stage
from dogwatch.world import home
from support.cli_ledgers import PLAN, admit_run, end_run, ledger_at, short_home

OTHER = replace(PLAN, name="eel")


def want(
    rounds: int = 2, prefix: str = "ct", files: Sequence[tuple[str, Plan]] = (("/a", PLAN), ("/b", OTHER))
) -> list[Wanted]:
    return wanted(files, rounds, prefix, "/p")


def start(store: Store, wants: Sequence[Wanted], group: str = "ct", ceiling: int = 0) -> list[str]:
    """What the command does: look, decide, make."""
    known = store.read(lambda r: [attempts_of(r, one) for one in wants])
    made_of = {
        number: Ingredients(plan=one.plan, project=one.project, output="/p/out")
        for number, one in enumerate(wants)
        if not is_kept(known[number])
    }
    there = [[run.run for run in one] for one in known]
    return store.run(lambda tx: make_runs(tx, wants, there, made_of, group, ceiling))


def queue(store: Store) -> list[str]:
    found = store.read(lambda r: load_all(r, QueuedRun, "queued/"))
    return [one.run for one in sorted(found, key=lambda one: one.number)]


def test_all_files_of_a_round_come_before_the_next_round(store: Store) -> None:
    names = start(store, want())
    assert names == ["ct-t1-r1", "ct-t2-r1", "ct-t1-r2", "ct-t2-r2"]
    assert queue(store) == names
    record = store.read(lambda r: attempts_of(r, want()[1]))[0]
    assert (record.spec, record.project, record.output) == ("/b", "/p", "/p/out/ct-t2-r1")


def test_without_a_prefix_names_are_numbered_and_always_new(store: Store) -> None:
    assert start(store, want(prefix="")) == ["tide-1", "eel-1", "tide-2", "eel-2"]
    assert start(store, want(rounds=1, prefix="")) == ["tide-3", "eel-3"]


def test_the_group_has_one_ceiling_also_for_what_was_queued_before(store: Store) -> None:
    start(store, want(rounds=1), ceiling=2)
    start(store, want(), ceiling=3)
    queued = store.read(lambda r: load_all(r, QueuedRun, "queued/"))
    assert [(one.group, one.ceiling) for one in queued] == [("ct", 3)] * 4


def test_what_is_delivered_stays_done_what_lives_goes_on_and_what_failed_is_made_again(store: Store) -> None:
    done, failed, living, waiting = start(store, want())
    for run in (done, failed, living):
        admit_run(store, run)
    end_run(store, done, "PARTIAL")
    end_run(store, failed, "FAILED", "interrupted by the operator")
    again = start(store, want())
    assert again == [done, "ct-t2-r1-2", living, waiting]
    assert queue(store) == [waiting, "ct-t2-r1-2"]
    end_run(store, "ct-t2-r1-2", "FAILED")
    assert start(store, want())[1] == "ct-t2-r1-3"
    assert [run.run for run in store.read(lambda r: attempts_of(r, want()[1]))] == [failed, "ct-t2-r1-2", "ct-t2-r1-3"]


def test_more_rounds_and_more_files_go_on_with_the_same_prefix(store: Store) -> None:
    start(store, want(rounds=1, files=[("/a", PLAN)]))
    assert start(store, want(rounds=2)) == ["ct-t1-r1", "ct-t2-r1", "ct-t1-r2", "ct-t2-r2"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([("/b", OTHER), ("/a", PLAN)], "is of /a, not of /b"),
        ([("/a", replace(PLAN, on_task_failure="partial")), ("/b", OTHER)], "settings were others"),
    ],
)
def test_a_prefix_with_other_files_is_refused_and_nothing_is_made(
    store: Store, files: list[tuple[str, Plan]], words: str
) -> None:
    names = start(store, want())
    with pytest.raises(RefusedError, match=words) as refused:
        start(store, want(rounds=3, files=files))
    assert "another --prefix" in refused.value.hint
    assert queue(store) == names


def test_another_project_and_a_rehearsal_are_other_runs(store: Store) -> None:
    start(store, want(rounds=1))
    with pytest.raises(RefusedError, match="works in /p, not in /q"):
        start(store, [replace(one, project="/q") for one in want(rounds=1)])
    with pytest.raises(RefusedError, match="is no rehearsal"):
        start(store, [replace(one, rehearse=True) for one in want(rounds=1)])


def test_a_rehearsal_goes_on_although_its_stage_is_another(store: Store) -> None:
    one = replace(want(rounds=1)[0], rehearse=True)
    roles = tuple(replace(role, environment={"HOME": "/stage/homes"}) for role in PLAN.roles)
    staged = replace(PLAN, roles=roles, notify=replace(PLAN.notify, on=()))
    made_of = {0: Ingredients(plan=staged, project="/s/p", output="/s/o", stage=Stage(folder="/s", port=20_001))}
    store.run(lambda tx: make_runs(tx, [one], [[]], made_of, "ct", 0))
    assert start(store, [one]) == ["ct-t1-r1"]


def test_two_commands_at_the_same_instant_make_each_run_once(store: Store) -> None:
    wants = want(rounds=1)
    made_of = {number: Ingredients(plan=one.plan, project="/p", output="/o") for number, one in enumerate(wants)}
    store.run(lambda tx: make_runs(tx, wants, [[], []], made_of, "ct", 0))
    with pytest.raises(RefusedError, match="just started ct-t1-r1"):
        store.run(lambda tx: make_runs(tx, wants, [[], []], made_of, "ct", 0))
    assert len(queue(store)) == 2


@pytest.mark.parametrize("prefix", ["CT", "1st", "-ct", "c t", "ct/1", "ct.6", "é", "_a"])
def test_a_prefix_that_cannot_begin_a_name_is_refused_with_an_example(prefix: str) -> None:
    with pytest.raises(UsageError, match="cannot begin") as refused:
        want(prefix=prefix)
    assert "ct-v6" in refused.value.hint


def test_a_name_never_gets_longer_than_the_sockets_allow() -> None:
    assert f"/runs/{'r' * NAME_LENGTH_MAX}/door" == home._LONGEST_NAME
    longest = "p" * (NAME_LENGTH_MAX - len("-t2-r64-99"))
    assert len(want(64, longest)[-1].name) == NAME_LENGTH_MAX - len("-99")
    with pytest.raises(UsageError, match="too long: it has 31 characters, 30 fit"):
        want(64, longest + "p")


def test_the_runs_of_a_prefix_are_found_by_round_file_and_attempt(store: Store) -> None:
    names = start(store, want(rounds=11))
    start(store, want(rounds=1, prefix="ct-t1", files=[("/a", PLAN)]))
    end_run(store, "ct-t2-r1", "FAILED")
    start(store, want(rounds=11))
    assert store.read(lambda r: runs_with(r, "ct")) == [*names[:2], "ct-t2-r1-2", *names[2:]]
    assert store.read(lambda r: runs_with(r, "c")) == []
    assert [first_attempt(name, "ct") for name in ("ct-t2-r1", "ct-t2-r1-12")] == ["ct-t2-r1"] * 2
    assert first_attempt("tide-2", "") == "tide-2"


def test_the_commands_know_queued_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with short_home() as folder, ledger_at(folder) as ledger:
        monkeypatch.setenv("DOGWATCH_HOME", str(folder))
        start(ledger, want(rounds=1))
        assert run_command(["status"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert sorted(line.split()[:2] for line in lines[1:3]) == [["ct-t1-r1", "QUEUED"], ["ct-t2-r1", "QUEUED"]]
        assert any(line.endswith("ct-t1-r1 is before it") for line in lines)
        assert run_command(["status", "ct-t1-r1"]) == 0
        assert "it is the next one" in capsys.readouterr().out
        assert run_command(["status", "--prefix", "ct"]) == 0
        assert capsys.readouterr().out.endswith("delivered 0/2\n")
        assert run_command(["status", "--prefix", "c"]) == 66
        assert run_command(["status", "ct-t1-r1", "--prefix", "ct"]) == 64
        capsys.readouterr()
        assert run_command(["kill", "ct-t1-r1/writer"]) == 77
        assert "hint: dogwatch kill ct-t1-r1 takes it out of the queue" in capsys.readouterr().err
        assert ledger.read(lambda r: r.items("orders/ct-t1-r1")) == []
