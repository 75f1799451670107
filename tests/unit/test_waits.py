"""The wait-for graph: edges, chains down to the process, rings, and which wait of a ring is broken."""

from __future__ import annotations

from dogwatch.cli.waits import tree
from dogwatch.model.sight import Wait
from dogwatch.policy.waits import WaitGraph

WAITS = (
    Wait("review", "writer", "task draft", 1500.0),
    Wait("writer", "data", "mail m1", 1400.0),
    Wait("data", "sub-agent q3", "its result", 1320.0),
    Wait("writer", "make (pid 7)", "Bash make", 10.0),
)
RING = (Wait("a", "b", "mail m1", 90.0), Wait("b", "c", "mail m2", 40.0), Wait("c", "a", "mail m3", 60.0))


def test_a_chain_goes_down_along_the_oldest_waits() -> None:
    assert [wait.target for wait in WaitGraph(WAITS).chain("review")] == ["writer", "data", "sub-agent q3"]
    assert WaitGraph(WAITS).chain("nobody") == ()
    assert str(WAITS[1]) == "writer waits for data (mail m1), 1400 s"


def test_a_ring_is_found_from_each_of_its_members_and_gone_round_once() -> None:
    assert WaitGraph(RING).ring("a") == ("a", "b", "c")
    assert WaitGraph(RING).ring("b") == ("b", "c", "a")
    assert len(WaitGraph(RING).chain("a")) == 3
    assert WaitGraph(WAITS).ring("review") == ()


def test_who_only_waits_for_a_member_of_a_ring_is_not_in_it() -> None:
    assert WaitGraph((*RING, Wait("d", "a", "mail m4", 5.0))).ring("d") == ()


def test_the_youngest_wait_is_broken() -> None:
    assert WaitGraph(RING).youngest(("a", "b", "c")) == "b"
    assert WaitGraph(RING).youngest(("c", "a", "b")) == "b"


def test_the_tree_shows_each_wait_below_whom_it_holds_up() -> None:
    assert list(tree(WAITS)) == [
        "review",
        "  waits 25m 00s for writer: task draft",
        "    waits 23m 20s for data: mail m1",
        "      waits 22m 00s for sub-agent q3: its result",
        "    waits 10s for make (pid 7): Bash make",
    ]


def test_a_ring_has_an_end_on_the_screen_and_is_named_once() -> None:
    assert WaitGraph(RING).rings() == [("a", "b", "c")]
    lines = list(tree(RING))
    assert lines[0] == "a"
    assert lines[-1].strip() == "… (as above)"
    assert len(lines) == 5
