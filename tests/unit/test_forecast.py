"""Prediction of memory: what is learnt, what a run takes in its phases, and whether one more fits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.model.admission import Demand, MemoryProfile
from dogwatch.model.memory import GB
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Phase, Plan, Role
from dogwatch.policy.forecast import (
    CLIENT,
    MB,
    PhaseDemand,
    Profiles,
    RunForecast,
    by_key,
    demand_of,
    forecast,
    heaviest,
    quantiles,
    run_demand,
    run_forecast,
)
from dogwatch.policy.needs import lives

UNSEEN = replace(CLIENT, unseen=True)


def profile(
    role: str = "writer", pipeline: str = "book", harness: str = "claude", **peaks: Sequence[float]
) -> Profiles:
    """Peaks in GB."""
    of = {phase: tuple(int(one * GB) for one in found) for phase, found in peaks.items()}
    return by_key([MemoryProfile(harness=harness, pipeline=pipeline, role=role, peaks=of)])


def asked(profiles: Profiles, phase: str = "draft") -> Demand:
    return demand_of(profiles, "claude", "book", "writer", phase)


def run(name: str, *phases: tuple[str, float, float | None], used: float = 0.0, spread: float = 0.0) -> RunForecast:
    """Phases with what they take on top, in GB, and how long they last."""
    demands = tuple(
        PhaseDemand(
            phase=phase, demand=Demand(mean_bytes=gb * GB, spread_bytes=spread * GB, learnt=True), left_s=left_s
        )
        for phase, gb, left_s in phases
    )
    return RunForecast(run=name, phases=demands, used_bytes=int(used * GB), agents=1)


def order(to: str, name: str = "") -> Dispatch:
    return Dispatch(name=name or to, to=to, task="Do it.")


BOOK = Plan(
    name="book",
    roles=(
        Role(name="scout", harness="claude"),
        Role(name="writer", harness="claude"),
        Role(name="judge", harness="claude", count=3),
        Role(name="keeper", harness="command"),
    ),
    phases=(
        Phase(name="search", dispatches=(order("scout"),)),
        Phase(name="draft", dispatches=(order("writer"),)),
        Phase(
            name="review",
            checkpoints=(Checkpoint(name="c", artifact="a", author="writer", reviewers=("judge-1", "judge-2")),),
        ),
        Phase(name="print", dispatches=(order("scout", "last"),)),
    ),
    deliverable=ByteCheck(path="a"),
)


# One agent.


@pytest.mark.parametrize("harness", ["claude", "codex", "opencode", "gemini"])
def test_without_history_a_client_takes_what_is_publicly_known(harness: str) -> None:
    found = demand_of({}, harness, "book", "writer", "draft")
    assert (found.mean_bytes, found.learnt) == (2.1 * GB, False)
    assert demand_of({}, "scripted", "book", "writer").mean_bytes < 100 * MB


def test_an_unknown_harness_is_taken_for_a_client() -> None:
    assert demand_of({}, "of-tomorrow", "book", "writer") == UNSEEN


def test_the_closest_history_counts() -> None:
    phase, life = profile(draft=[1.0, 1.1, 0.9], all=[3.0, 3.1, 2.9]), profile(all=[3.0, 3.1, 2.9])
    every = profile("", "", all=[5.0, 5.1, 4.9])
    assert asked({**phase, **every}).mean_bytes == pytest.approx(1.0 * GB)
    assert asked({**phase, **every}, "review").mean_bytes == pytest.approx(3.0 * GB)
    assert asked({**life, **every}).mean_bytes == pytest.approx(3.0 * GB)
    assert asked(every).mean_bytes == pytest.approx(5.0 * GB)
    assert all(asked(known).learnt for known in (phase, life, every))


def test_the_history_of_others_does_not_count() -> None:
    others = {**profile("judge", all=[9.0] * 9), **profile(pipeline="atlas", all=[9.0] * 9)}
    assert asked({**others, **profile(harness="codex", all=[9.0] * 9)}) == UNSEEN


def test_two_peaks_teach_nothing_but_what_was_seen_can_come_again() -> None:
    few = asked(profile(all=[6.0, 1.0]))
    assert not few.learnt
    assert few.mean_bytes == 6.0 * GB
    assert asked(profile(all=[0.5, 0.4])) == UNSEEN, "two small ones are no reason for hope"


def test_few_samples_make_the_spread_wider() -> None:
    spreads = [asked(profile(all=[1.0, 2.0, 3.0] * times)).spread_bytes for times in range(1, 17)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[0] > 2 * GB
    assert spreads[-1] == pytest.approx(0.82 * GB, rel=0.05)


def test_equal_peaks_do_not_make_the_next_one_certain() -> None:
    assert asked(profile(all=[2.0] * 50)).spread_bytes > 0.09 * GB


def test_quantiles_are_peaks_that_were_seen() -> None:
    known = next(iter(profile(draft=[n / 10 for n in range(1, 51)], all=[1.0]).values()))
    found = quantiles(known, "draft")
    assert found is not None
    in_gb = [round(one / GB, 1) for one in (found.p50_bytes, found.p90_bytes, found.p99_bytes)]
    assert (found.samples, in_gb) == (50, [2.5, 4.5, 5.0])
    assert quantiles(known, "review") is None
    whole = quantiles(known)
    assert whole is not None
    assert (whole.samples, whole.p50_bytes, whole.p99_bytes) == (1, GB, GB)


# A run.


def test_an_agent_lives_from_the_first_phase_that_needs_it_to_the_last() -> None:
    found = lives(BOOK)
    assert found["scout"] == (0, 3)
    assert found["writer"] == (1, 2), "a review may return its work"
    assert found["judge-1"] == (2, 2)
    assert found["judge-3"] == found["keeper"] == (0, len(BOOK.phases)), "nobody says when it is needed: always"


def test_all_holders_of_a_role_live_while_the_role_is_addressed() -> None:
    dispatch = Dispatch(name="d", to="judge", address="any", task="Do it.")
    assert set(lives(replace(BOOK, phases=(Phase(name="p", dispatches=(dispatch,)),))).values()) == {(0, 0), (0, 1)}


def test_the_demand_of_a_run_is_that_of_its_heaviest_phase_to_come() -> None:
    found = run_demand(BOOK, {})
    assert [(one.phase, one.demand.agents) for one in found] == [
        ("search", 3),
        ("draft", 4),
        ("review", 6),
        ("print", 3),
    ]
    assert heaviest(found).phase == "review"
    assert heaviest(run_demand(BOOK, {}, 3)).demand.agents == 3
    assert heaviest(run_demand(BOOK, {}, 4)).demand == Demand(agents=0, learnt=True)
    assert [one.demand.agents for one in run_demand(BOOK, {}, all_along=True)] == [6] * 4


def test_a_run_is_learnt_when_all_who_live_in_the_phase_are() -> None:
    known = {**profile("scout", all=[1.0] * 9), **profile("judge", all=[1.0] * 9)}
    known |= profile("keeper", harness="command", all=[0.1] * 9)
    assert [one.demand.learnt for one in run_demand(BOOK, known)] == [True, False, False, True]


def test_what_is_used_already_is_not_counted_again() -> None:
    known = profile("", "", all=[2.0, 2.1, 1.9, 2.0, 2.05, 1.95, 2.0])
    whole = run_demand(BOOK, known, 1)
    living = {"scout": int(0.5 * GB), "writer": int(0.2 * GB)}
    rest = run_demand(BOOK, known, 1, living=living)
    for before, after in zip(whole[:2], rest, strict=False):
        assert after.demand.mean_bytes == pytest.approx(before.demand.mean_bytes - 0.7 * GB, rel=0.01)
        assert after.demand.agents == before.demand.agents - 2
    assert rest[2].demand.agents == whole[2].demand.agents - 2, "the writer has ended by then"


def test_who_has_more_than_its_mean_gives_nothing_to_others() -> None:
    one = replace(BOOK, roles=BOOK.roles[1:2], phases=BOOK.phases[1:2])
    known = profile(all=[2.0, 2.1, 1.9, 2.0])
    more = [run_demand(one, known, living={"writer": int(gb * GB)})[0].demand.mean_bytes for gb in (0, 1, 2, 2.1, 3, 9)]
    assert more == sorted(more, reverse=True)
    assert more[1] == pytest.approx(GB, rel=0.01)
    assert 0 < more[-1] < 0.05 * GB


def test_nobody_ends_before_the_phase_that_is_under_way() -> None:
    living = {"scout": GB, "writer": GB, "judge-1": GB, "judge-2": GB, "judge-3": GB, "keeper": GB}
    found = run_demand(BOOK, {}, 3, living=living)
    assert [one.demand.agents for one in found] == [0]
    assert found[0].demand.mean_bytes > 0
    earlier = run_demand(BOOK, {}, 2, living=living)
    assert [one.demand.agents for one in earlier] == [0, -3], "writer and two judges end with the review"


# Whether it fits.


def test_the_reason_names_the_phase_whose_end_frees_enough() -> None:
    t1 = run("t1", ("review", 6.0, None), ("print", 0.0, None), used=4.0)
    found = forecast(run("t3", ("draft", 13.4, None)), [t1], 18.0 * GB, 0.95)
    assert (found.fits, found.never) == (False, False)
    assert found.reason == "t3 waits: predicted peak 19.4 of 18.0 GB free until t1's review ends"
    assert (round(found.predicted_bytes / GB, 1), found.until) == (19.4, "t1's review ends")


def test_what_fits_has_no_reason() -> None:
    found = forecast(run("t3", ("draft", 11.9, None)), [run("t1", ("review", 6.0, None))], 18.0 * GB, 0.95)
    assert (found.fits, found.reason, found.until, found.never) == (True, "", "", False)


def test_the_soonest_end_counts_where_times_are_known() -> None:
    late, soon = run("t1", ("draft", 6.0, 900.0), used=3.0), run("t2", ("draft", 6.0, 60.0), used=3.0)
    unknown = run("t0", ("draft", 6.0, None), used=3.0)
    assert forecast(run("t3", ("x", 6.0, None)), [unknown, late, soon], 20 * GB, 0.95).until == "t2 ends"
    assert forecast(run("t3", ("x", 6.0, None)), [unknown, late], 14 * GB, 0.95).until == "t1 ends"
    assert (
        forecast(run("t3", ("x", 6.0, None)), [unknown, replace(unknown, run="t9")], 14 * GB, 0.95).until == "t0 ends"
    )


def test_a_phase_whose_end_does_not_free_enough_is_passed_over() -> None:
    t1 = run("t1", ("draft", 6.0, 10.0), ("review", 5.9, 10.0), ("print", 1.0, 10.0), used=1.0)
    assert forecast(run("t3", ("x", 6.0, None)), [t1], 9 * GB, 0.95).until == "t1's review ends"
    assert forecast(run("t3", ("x", 6.0, None)), [t1], 6 * GB, 0.95).until == "t1 ends"


def test_where_one_end_is_not_enough_all_are_named() -> None:
    admitted = [run("t1", ("d", 1.0, 90.0), used=4.0), run("t2", ("d", 1.0, 10.0), used=4.0)]
    found = forecast(run("t3", ("x", 8.0, None)), admitted, 2 * GB, 0.95)
    assert found.reason == "t3 waits: predicted peak 10.0 of 2.0 GB free until t2 and t1 have ended"


def test_what_never_fits_is_said() -> None:
    for admitted in ([], [run("t1", ("d", 1.0, None), used=1.0)]):
        found = forecast(run("t3", ("x", 8.0, None)), admitted, 2 * GB, 0.95)
        assert (found.fits, found.never, found.until) == (False, True, "")
        assert found.reason.endswith("2.0 GB free and no run that could end makes enough room")


def test_what_does_not_fit_never_looks_as_if_it_did() -> None:
    found = forecast(run("t3", ("x", 1.0001, None)), [], 1.0 * GB, 0.95)
    assert "predicted peak 1.1 of 1.0 GB free" in found.reason
    small = forecast(run("t3", ("x", 0.1, None)), [], 100 * MB, 0.95)
    assert "predicted peak 102 of 100 MB free" in small.reason


def test_without_a_sensor_everything_fits() -> None:
    assert forecast(run("t3", ("x", 9000.0, None)), [], math.inf, 0.95).fits


def test_processes_are_forecast_as_memory_is() -> None:
    t1 = run_forecast("t1", BOOK, {}, 2, living={"writer": GB, "judge-3": GB, "keeper": MB})
    new = run_forecast("t3", BOOK, {})
    # t1 starts three more for its review, t3 needs six for its own.
    assert forecast(new, [t1], math.inf, 0.95, room_agents=9).fits
    found = forecast(new, [t1], math.inf, 0.95, room_agents=8)
    assert found.reason == "t3 waits: predicted 9 more agents of 8 until t1's review ends"
    assert forecast(new, [t1], math.inf, 0.95, room_agents=5).until == "t1 ends"
    assert forecast(new, [t1], math.inf, 0.95, room_agents=2).never


def test_more_confidence_wants_more_room() -> None:
    new, confidences = run("t", ("x", 8.0, None), spread=2.0), (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)
    found = [forecast(new, [], math.inf, confidence).predicted_bytes for confidence in confidences]
    assert found[0] == found[1] == 8 * GB
    assert found[1:] == sorted(set(found[1:]))


def test_what_is_assumed_is_wrong_for_all_at_once() -> None:
    known: dict[str, MemoryProfile] = {}
    for role in BOOK.roles:
        known |= profile(role.name, BOOK.name, role.harness, all=[1.5, 2.1, 2.7])
    learnt, assumed = (heaviest(run_demand(BOOK, profiles)) for profiles in (known, {}))
    assert learnt.common_bytes / learnt.demand.spread_bytes < assumed.common_bytes / assumed.demand.spread_bytes


sizes = st.floats(min_value=0.0, max_value=64.0)
demands = st.builds(
    lambda mean, spread, agents, learnt: Demand(
        mean_bytes=mean * GB, spread_bytes=spread * GB, agents=agents, learnt=learnt
    ),
    sizes,
    sizes,
    st.integers(min_value=0, max_value=20),
    st.booleans(),
)
phases = st.builds(
    lambda demand, share, left_s: PhaseDemand(
        phase="p", demand=demand, common_bytes=share * demand.spread_bytes, left_s=left_s
    ),
    demands,
    st.floats(min_value=0.0, max_value=1.0),
    st.none() | st.floats(min_value=0.0, max_value=1e4),
)
runs = st.builds(
    lambda all_phases, used, agents: RunForecast(
        run="t", phases=tuple(all_phases), used_bytes=int(used * GB), agents=agents
    ),
    st.lists(phases, max_size=4),
    sizes,
    st.integers(min_value=0, max_value=9),
)
confidences = st.floats(min_value=0.5, max_value=0.999)


@settings(max_examples=60, deadline=None)
@given(runs, st.lists(runs, max_size=4), sizes, sizes, confidences, st.integers(min_value=0, max_value=99))
def test_more_room_never_holds_what_less_room_admits(
    new: RunForecast, admitted: list[RunForecast], room: float, more: float, confidence: float, agents: int
) -> None:
    small = forecast(new, admitted, room * GB, confidence, agents)
    large = forecast(new, admitted, (room + more) * GB, confidence, agents + 3)
    assert large.fits or not small.fits
    assert large.predicted_bytes == small.predicted_bytes
    assert small.fits == (small.reason == "")
    assert small.fits or small.never == (small.until == "")


@settings(max_examples=60, deadline=None)
@given(runs, st.lists(runs, max_size=4), phases, sizes, confidences)
def test_more_demand_never_fits_where_less_did_not(
    new: RunForecast, admitted: list[RunForecast], more: PhaseDemand, room: float, confidence: float
) -> None:
    less = forecast(new, admitted, room * GB, confidence, 50)
    larger = replace(new, phases=(*new.phases, more))
    assert less.fits or not forecast(larger, admitted, room * GB, confidence, 50).fits
    another = RunForecast(run="more", phases=(more,))
    assert less.fits or not forecast(new, [*admitted, another], room * GB, confidence, 50).fits
    if new.phases:
        first = new.phases[0]
        demand = replace(first.demand, mean_bytes=first.demand.mean_bytes + more.demand.mean_bytes)
        heavier = replace(new, phases=(replace(first, demand=demand), *new.phases[1:]))
        assert less.fits or not forecast(heavier, admitted, room * GB, confidence, 50).fits


def test_a_phase_of_another_shape_does_not_hide_a_heavy_one() -> None:
    certain = PhaseDemand(phase="a", demand=Demand(mean_bytes=17.4 * GB, learnt=True))
    doubtful = PhaseDemand(phase="b", demand=Demand(mean_bytes=GB, spread_bytes=10 * GB, learnt=True))
    other = run("t1", ("x", 0.0, None), spread=100.0)
    one, two = (RunForecast(run="t3", phases=phases) for phases in ((certain,), (certain, doubtful)))
    assert forecast(two, [other], 0.0, 0.95).predicted_bytes > forecast(one, [other], 0.0, 0.95).predicted_bytes


# The probability that is stated, against draws.

Draw = Callable[[random.Random, float], float]


def _normal(chance: random.Random, mean: float) -> float:
    return max(0.0, chance.gauss(mean, 0.3 * mean))


def _skewed(chance: random.Random, mean: float) -> float:
    sigma = math.sqrt(math.log(1 + 0.3**2))
    return mean * chance.lognormvariate(-(sigma**2) / 2, sigma)


def share_over(draw: Draw, samples: int, roles: int, count: int, together: int, confidence: float) -> float:
    """How often what is drawn is over what was predicted from `samples` earlier draws of the same."""
    chance = random.Random(f"{draw.__name__} {samples} {roles} {count} {together}")
    plan = replace(
        BOOK,
        roles=tuple(Role(name=f"r{n}", harness="claude", count=count) for n in range(roles)),
        phases=(Phase(name="p"),),
    )
    means = {role.name: (1 + 0.4 * n) * GB for n, role in enumerate(plan.roles)}
    over = 0
    for _ in range(300):
        known = by_key(
            MemoryProfile(
                harness="claude",
                pipeline="book",
                role=role,
                peaks={"all": tuple(int(draw(chance, mean)) for _ in range(samples))},
            )
            for role, mean in means.items()
        )
        one = run_forecast("t", plan, known)
        predicted = forecast(one, [one] * (together - 1), math.inf, confidence).predicted_bytes
        over += sum(draw(chance, mean) for mean in means.values() for _ in range(count * together)) > predicted
    return over / 300


@pytest.mark.parametrize(
    ("samples", "roles", "count", "together"), [(3, 1, 3, 1), (3, 1, 6, 3), (8, 3, 2, 2), (30, 2, 3, 3)]
)
def test_what_is_admitted_stays_under_the_line_with_the_stated_probability(
    samples: int, roles: int, count: int, together: int
) -> None:
    error = 3 * math.sqrt(0.05 * 0.95 / 300)
    assert share_over(_normal, samples, roles, count, together, 0.95) <= 0.05 + error


def test_a_longer_tail_costs_little_of_it() -> None:
    assert share_over(_skewed, 5, 2, 3, 2, 0.95) <= 0.10


def test_what_the_living_still_take_keeps_the_probability() -> None:
    chance = random.Random(4)
    plan = replace(BOOK, roles=(Role(name="writer", harness="claude", count=12),), phases=(Phase(name="p"),))
    known = profile(all=[_normal(random.Random(n), 2.0) for n in range(50)])
    each = asked(known)
    over = 0
    for _ in range(300):
        peaks = {agent: chance.gauss(each.mean_bytes, each.spread_bytes) for agent in plan.agents()}
        living = {agent: int(most * chance.uniform(0.6, 1.0)) for agent, most in peaks.items()}
        one = run_forecast("t", plan, known, living=living)
        rest = sum(peaks.values()) - sum(living.values())
        over += rest > forecast(one, [], math.inf, 0.95).predicted_bytes
    assert over / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
