"""The wait-for graph: edges, chains down to the process, rings, and which wait of a ring is broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dogwatch.cli.waits import tree
from dogwatch.model.delivery import Acknowledged
from dogwatch.model.folders import folder_at
from dogwatch.model.life import GivenUp
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Checkpoint, Dispatch, Phase, Plan, Role
from dogwatch.model.process import ProcessId
from dogwatch.model.records import CheckpointRecord, RunRecord, TaskRecord, Verdict
from dogwatch.model.sight import OutputSight, Sight, ToolCall, Turn, Wait
from dogwatch.model.view import RunView
from dogwatch.policy.waits import WaitGraph, looked_for, waiters, waits_for_files
from support.records import living_agent, message_record

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


NOW = Moment("boot", 10_000.0, 50_000.0)
PROCESS = ProcessId("boot", 42, 7)


def writing(name: str, path: str, command: str, *, since_s: float = 100.0, is_new: bool = False) -> Sight:
    """An agent that should write the file, in a tool."""
    tool = ToolCall("Bash", command, NOW.mono - since_s)
    output = OutputSight(path, 0, 0.0, is_new)
    return Sight(process="alive", turn=Turn("working", 1.0, 1.0, 42, tools={"t": tool}), outputs=(output,))


def view_of(*names: str) -> RunView:
    """A run in which each has a task that it holds."""
    roles = tuple(Role(name=name) for name in names)
    dispatches = tuple(Dispatch(name=f"{name}-task", to=name, task="Write it.") for name in names)
    plan = Plan(
        name="t", roles=roles, phases=(Phase(name="p", dispatches=dispatches),), deliverable=ByteCheck(path="a")
    )
    agents = {n: living_agent(n, since=NOW, run="r", process=PROCESS) for n in names}
    tasks = {
        f"{n}-task": TaskRecord(
            run="r",
            task=f"{n}-task",
            dispatch=f"{n}-task",
            phase=0,
            holders=(n,),
            text="Write it.",
            state="claimed",
            agent=n,
        )
        for n in names
    }
    run = RunRecord(
        run="r",
        spec="t",
        state="RUNNING",
        created=NOW,
        project_folder=folder_at("p"),
        output_folder=folder_at("o"),
        deadline_s=1.0,
    )
    return RunView(run=run, plan=plan, agents=agents, tasks=tasks)


def rings(a: Sight, b: Sight) -> list[tuple[str, ...]]:
    view, sights = view_of("a", "b"), {"a": a, "b": b}
    files = [one for name, sight in sights.items() for one in looked_for(name, sight, view.limits_of(name), NOW)]
    return WaitGraph(waits_for_files(view, sights, files, NOW)).rings()


def test_tools_that_look_for_each_others_files_wait_in_a_ring() -> None:
    a = writing("a", "out/a.md", "until ls b.md; do sleep 1; done")
    assert rings(a, writing("b", "b.md", "while ! [ -e ../out/a.md ]; do sleep 1; done")) == [("a", "b")]


@pytest.mark.parametrize("command", ["cat aa.md", "cat a.md.bak", "cat b-a.md", "make all"])
def test_words_that_only_look_like_the_file_are_none(command: str) -> None:
    a = writing("a", "out/a.md", "until ls b.md; do sleep 1; done")
    assert rings(a, writing("b", "b.md", command)) == []


def test_a_file_that_is_there_or_a_tool_that_is_young_is_not_waited_for() -> None:
    a = writing("a", "a.md", "until ls b.md; do sleep 1; done")
    assert rings(a, writing("b", "b.md", "until ls a.md; do sleep 1; done", is_new=True)) == []
    assert rings(a, writing("b", "b.md", "until ls a.md; do sleep 1; done", since_s=5)) == []


def test_a_ring_counts_only_when_everybody_in_it_has_waited_for_a_while() -> None:
    assert WaitGraph(RING).ring("a", 40.0) == ("a", "b", "c")
    assert WaitGraph(RING).ring("a", 41.0) == ()


LETTER = message_record(run="r", to="a", sender="b", subject="s", queued=NOW)


def test_nobody_waits_for_an_agent_only_because_it_works_beside_it() -> None:
    assert waiters(view_of("a", "b"), "a") == ()


def test_whose_letter_is_not_acknowledged_waits_and_the_captain_is_no_agent() -> None:
    view = view_of("a", "b", "c")
    letters = {"m1": LETTER, "m2": replace(LETTER, id="m2", sender="captain")}
    assert waiters(replace(view, messages=letters), "a") == ("b",)
    done = {
        "m1": replace(LETTER, delivery=Acknowledged(at=NOW)),
        "m3": replace(LETTER, id="m3", kind="offer", sender="c"),
    }
    assert waiters(replace(view, messages=done), "a") == ()


def test_who_has_sent_it_a_task_waits_until_that_is_settled() -> None:
    view = view_of("a", "b")
    sent = replace(view.tasks["a-task"], task="b.1", dispatch="b.1", sender="b")
    assert waiters(replace(view, tasks={**view.tasks, "b.1": sent}), "a") == ("b",)
    assert waiters(replace(view, tasks={**view.tasks, "b.1": replace(sent, state="accepted")}), "a") == ()


def test_whose_own_task_comes_after_it_waits_and_a_pool_does_not() -> None:
    view = view_of("a", "b")
    first, second = view.plan.phases[0].dispatches
    phase = Phase(name="p", dispatches=(first, replace(second, after=(first.name,))))
    pending = replace(view.tasks["b-task"], state="pending", agent="")
    later = replace(view, plan=replace(view.plan, phases=(phase,)))
    assert waiters(replace(later, tasks={**view.tasks, "b-task": pending}), "a") == ("b",)
    pool = replace(pending, holders=("b", "c"))
    assert waiters(replace(later, tasks={**view.tasks, "b-task": pool}), "a") == ()


def test_author_and_reviewer_wait_for_one_another() -> None:
    view = view_of("a", "b")
    review = Checkpoint(name="review", artifact="a.md", author="a-task", reviewers=("b",))
    plan = replace(view.plan, phases=(replace(view.plan.phases[0], checkpoints=(review,)),))
    record = CheckpointRecord(run="r", checkpoint="review", phase=0)
    before = replace(view, plan=plan, checkpoints={"review": record})
    assert waiters(before, "a") == ("b",), "its work is what the reviewer is to read"
    assert waiters(before, "b") == ()
    asked = replace(record, state="asked", round=1)
    done = {**view.tasks, "a-task": replace(view.tasks["a-task"], state="accepted")}
    during = replace(before, tasks=done, checkpoints={"review": asked})
    assert waiters(during, "b") == ("a",), "it owes a verdict"
    assert waiters(during, "a") == ()
    voted = replace(asked, verdicts={"b": Verdict(approve=True, note="", round=1)})
    assert waiters(replace(during, checkpoints={"review": voted}), "b") == ()


def test_what_the_watchdog_has_seen_counts_and_a_replaced_waiter_is_its_successor() -> None:
    view = view_of("a", "b", "b-r1")
    agents = {**view.agents, "b": replace(view.agents["b"], life=GivenUp(cause="x", successor="b-r1"))}
    seen = (Wait("b", "a", "file a.md", 70.0), Wait("p", "a", "task a-task", 90.0), Wait("c", "b", "mail m9", 5.0))
    assert waiters(replace(view, agents=agents), "a", seen) == ("b-r1",)


def test_a_phase_that_waits_is_no_agent_of_the_same_name() -> None:
    assert waiters(view_of("a", "b"), "a", (Wait("b", "a", "task a-task", 90.0),)) == ()
