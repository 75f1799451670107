"""The overnight experiment, shortened: the first round of its pipelines on one seed; and its command line."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from evaluation.__main__ import main
from evaluation.overnight.comparison import Comparison, variations
from evaluation.overnight.night import POLICIES, Outcome, night
from evaluation.overnight.parameters import NEEDS, PARAMETERS, PHASES, TEAMS, world
from evaluation.overnight.scenario import draw, needed

from support.fleet import ROOT
from support.helpers import wait_for

SEED = 7
ROUND = 4


@cache
def shortened(policy: str) -> Outcome:
    return night(policy, SEED, pipelines=ROUND)


@cache
def single() -> Outcome:
    return night("c", SEED, pipelines=1)


def test_four_at_once_without_throttling_lose_runs_because_reclaimed_workers_never_come_back() -> None:
    outcome = shortened("a")
    assert outcome.delivered < outcome.pipelines == ROUND
    assert outcome.idle_kills > 0
    assert (outcome.returns, outcome.active_kills) == (0, 0)
    assert outcome.zones["RED"] > 0


def test_the_first_minutes_of_four_at_once_are_those_of_the_public_figures() -> None:
    by_then = shortened("a").by_then
    assert 0.30 <= by_then["available_min"] <= 0.40
    assert 50 <= by_then["processes_max"] <= 52
    assert 7 <= by_then["idle_kills"] <= 15


def test_dogwatch_delivers_everything_without_red_and_without_ending_anybody_at_work() -> None:
    outcome = shortened("c")
    assert outcome.delivered == outcome.pipelines == ROUND
    assert not outcome.has_red
    assert outcome.active_kills == 0
    assert outcome.violations == ()


def test_dogwatch_is_faster_than_a_fixed_two_at_once() -> None:
    fixed = shortened("b")
    assert fixed.delivered == ROUND
    assert shortened("c").hours < fixed.hours


def test_the_same_seed_gives_the_same_night_to_the_byte() -> None:
    again = night("c", SEED, pipelines=1)
    assert again == single()
    assert again.samples


def test_all_policies_meet_the_same_world() -> None:
    assert draw(3, world(), 12) == draw(3, world(), 12)
    assert draw(3, world(), 4) != draw(4, world(), 4)
    first = {one.name: one.jobs for one in draw(3, world(), 4)}
    whole = {one.name: one.jobs for one in draw(3, world(), 12)}
    without_spikes = [
        key for key in first if not any(job.spike_s for job in (*first[key].values(), *whole[key].values()))
    ]
    assert len(without_spikes) >= 2
    assert all(first[key] == whole[key] for key in without_spikes)


def test_every_parameter_has_a_unit_or_none_and_a_source() -> None:
    assert len({one.name for one in PARAMETERS}) == len(PARAMETERS)
    for one in PARAMETERS:
        assert one.source.startswith(("figure:", "assumed", "calibrated on (")), one
    assert set(world().values) == {one.name for one in PARAMETERS}


def test_the_teams_are_those_of_the_figures() -> None:
    sizes = [sum(team.values()) for team in TEAMS.values()]
    assert (min(sizes), max(sizes), sum(sizes)) == (8, 12, 41)
    assert sum(world()[f"share_{phase}"] for phase in PHASES) == pytest.approx(1.0)


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(KeyError, match="agent_tb"):
        world(agent_tb=1)


@pytest.mark.parametrize("kind", NEEDS)
def test_each_kind_of_need_gives_every_phase_its_own_roles(kind: str) -> None:
    for phase, roles in PHASES.items():
        assert set(roles) <= set(needed(phase, world(kind)))
    assert (set(needed("research", world(kind))) == set(TEAMS["t8"])) == (kind == "all")


def test_each_variation_changes_one_thing() -> None:
    worlds = variations()
    fixed = worlds.pop("as fixed")
    assert len(worlds) > 30
    for name, varied in worlds.items():
        changed = [key for key in fixed.values if fixed[key] != varied[key]]
        assert len(changed) + (fixed.needs != varied.needs) == 1, name


def test_the_plots_are_drawings_with_a_line_for_each_policy() -> None:
    comparison = Comparison()
    for policy in POLICIES:
        comparison.add(replace(single(), policy=policy))
    for text in comparison.plots().values():
        assert ElementTree.fromstring(text).tag.endswith("svg")  # noqa: S314 - it is our own
    lines = comparison.plots()["overnight.svg"].count("<polyline")
    assert lines == 2 * len(POLICIES)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["tonight"], "there is no experiment 'tonight'"),
        (["overnight", "--night"], "unrecognized arguments: --night"),
        (["overnight", "--seeds", "0"], "--seeds must be at least 1"),
        (["overnight", "--seed", "-1"], "--seed cannot be negative"),
        (["overnight", "--pipelines", "13"], "--pipelines must be between 1 and 12"),
        (["overnight", "--sensitivity", "2"], "--sensitivity takes no more seeds than --seeds"),
        (["overnight", "--plots", "/dev/null/plots"], "the plots cannot be written"),
        (["real", "--rounds", "-1"], "--rounds cannot be negative"),
        (["--long"], "unrecognized arguments: --long"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_refused(words: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 64
    told = capsys.readouterr()
    assert told.err.startswith(f"error: {error}")
    assert not told.out


def test_the_help_names_both_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert re.findall(r"^  (\w+) ", capsys.readouterr().out, re.MULTILINE) == ["real", "overnight"]


def test_the_json_and_the_plots_have_every_night(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One pipeline alone cannot be faster than with two at once: the goal is not met."""
    folder = tmp_path / "plots"
    words = ["overnight", "--seed", str(SEED), "--pipelines", "1", "--json", "--plots", str(folder)]
    assert main(words) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["seeds"] == [SEED]
    assert {policy: len(found) for policy, found in told["nights"].items()} == dict.fromkeys(POLICIES, 1)
    assert told["nights"]["c"][0]["sha256"] == single().sha256
    assert sorted(path.name for path in folder.iterdir()) == ["overnight-hours.svg", "overnight.svg"]


def test_an_interrupt_ends_it_with_what_was_done_so_far() -> None:
    """On a terminal, with a line of progress, in the middle of many nights on two jobs."""
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "evaluation", "overnight", "--pipelines", "1", "--seeds", "1000", "--jobs", "2"]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=follower, start_new_session=True)
    os.close(follower)
    try:
        shown = bytearray()

        def has_one_seed() -> bool:
            shown.extend(os.read(leader, 4096))
            # A seed is three nights. One of two jobs may be held up in the first seed: then the second is done.
            return re.search(rb" ([6-9]|\d\d+) of 3000 nights", shown) is not None

        wait_for(has_one_seed, 120, "the first seed")
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=60)
        shown.extend(os.read(leader, 4096))
    finally:
        process.kill()
        process.wait()
        os.close(leader)
    assert process.returncode == 130
    assert re.search(rb"interrupted: [1-9]\d* of 1000 seeds were done", shown)
    assert re.search(rb"^\(c\) dogwatch's own admission", told, re.MULTILINE)
