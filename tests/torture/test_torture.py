"""The torture of the ledger: a short run on each engine, and runs and histories that it must not let pass."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torture.verify import History, violations

from dogwatch.ledger.api import StoredEvent
from dogwatch.model.moment import Moment
from support.helpers import wait_for

ROOT = Path(__file__).parent.parent.parent
ENGINES = ["sqlite", "postgresql"]

# Every seventh commit is none, though its caller is told so.
LIAR = """
import sys
from dogwatch.ledger.sqlite import SqliteStore
from torture.__main__ import main

commit, calls = SqliteStore._commit, 0

def lie(self, tx):
    global calls
    calls += 1
    if calls % 7:
        commit(self, tx)
    else:
        self._connection.execute("ROLLBACK")

SqliteStore._commit = lie
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a name so short that doorbells fit into it."""
    return tmp_path_factory.mktemp("t")


def start(scratch: Path, program: list[str], *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program, f"--folder={scratch}", *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=200)[0]
    except BaseException:
        process.kill()
        raise


@pytest.mark.parametrize("engine", ENGINES)
def test_kills_lose_nothing_and_do_nothing_twice(engine: str, scratch: Path) -> None:
    file = scratch / "figures.json"
    process = start(scratch, ["-m", "torture"], "--engine", engine, "--kills=40", "--seed=1", f"--json={file}")
    output = finish(process)
    assert process.returncode == 0, output
    assert output.startswith("seed 1\n")
    assert output.endswith("nothing lost, nothing twice\n")
    figures = json.loads(file.read_text())
    assert figures["kills"] >= 40
    assert figures["pauses"] > 0
    assert figures["violated"] == []
    assert all(figures[f"acknowledged by {role}s"] > 40 for role in ("writer", "claimer", "holder", "stage"))
    assert [path.name for path in scratch.iterdir()] == ["figures.json"]


def test_a_ledger_that_loses_commits_is_found_out(scratch: Path) -> None:
    process = start(scratch, ["-c", LIAR], "--kills=40", "--seed=2")
    output = finish(process)
    assert process.returncode == 1, output
    assert "VIOLATED: " in output
    assert "(seed 2)" in output
    assert "nothing lost" not in output
    (kept,) = scratch.iterdir()
    assert f"the ledger and the journals are in {kept}" in output


def test_ctrl_c_ends_all_workers_and_leaves_nothing(scratch: Path) -> None:
    process = start(scratch, ["-m", "torture"], "--kills=100000")
    try:
        wait_for(lambda: len(list(scratch.glob("*/journals/*"))) > 5, what="the workers")
        process.send_signal(signal.SIGINT)
    finally:
        output = finish(process)
    assert process.returncode == 130, output
    # Workers are forks and have the orchestrator's own command line.
    wait_for(lambda: not [line for line in command_lines() if str(scratch).encode() in line], what="the workers' end")
    assert list(scratch.iterdir()) == []


def command_lines() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


def sound() -> History:
    """A small history in which every promise is kept."""
    facts: list[tuple[str, str, str, dict[str, Any]]] = [
        ("written", "writer-0/1#0", "writer-0", {"n": 1, "parts": 2}),
        ("written", "writer-0/1#1", "writer-0", {"n": 1, "parts": 2, "document": "shared/0", "revision": 1}),
        ("written", "writer-0/2#0", "writer-0", {"n": 2, "parts": 1}),
        ("pushed", "push/errands/i", "claimer-1", {"queue": "errands", "item": "i"}),
        ("claimed", "claim/errands/1", "claimer-1", {"queue": "errands", "item": "i", "fence": 1}),
        ("claimed", "claim/errands/2", "claimer-1", {"queue": "errands", "item": "i", "fence": 2}),
        ("done", "done/errands/i", "claimer-1", {"queue": "errands", "item": "i", "fence": 2, "next": ""}),
        ("pushed", "push/stage-a/j", "stage-3", {"queue": "stage-a", "item": "j"}),
        ("claimed", "claim/stage-a/1", "stage-3", {"queue": "stage-a", "item": "j", "fence": 1}),
        ("passed", "passed/stage-a/j", "stage-3", {"queue": "stage-a", "item": "j", "fence": 1, "next": "stage-b"}),
        ("claimed", "claim/stage-b/1", "stage-3", {"queue": "stage-b", "item": "j", "fence": 1}),
        ("passed", "passed/stage-b/j", "stage-3", {"queue": "stage-b", "item": "j", "fence": 1, "next": ""}),
        ("granted", "grant/mutex/1", "holder-2", {"name": "mutex", "slot": 0, "fence": 1, "holder": "x"}),
        ("granted", "grant/permits/1", "holder-2", {"name": "permits", "slot": 0, "fence": 1, "holder": "x"}),
        ("granted", "grant/permits/2", "holder-2", {"name": "permits", "slot": 1, "fence": 2, "holder": "y"}),
        ("fenced", "fenced/1", "holder-2", {"name": "permits", "slot": 0, "fence": 1, "holder": "x"}),
        ("fenced", "fenced/2", "holder-2", {"name": "mutex", "slot": 0, "fence": 1, "holder": "x"}),
        ("granted", "grant/mutex/2", "holder-2", {"name": "mutex", "slot": 0, "fence": 2, "holder": "y"}),
        ("fenced", "fenced/3", "holder-2", {"name": "mutex", "slot": 0, "fence": 2, "holder": "y"}),
    ]
    moment = Moment("boot", 1.0, 1.0)
    events = [
        StoredEvent(str(number), kind, body, moment, run, "", op_id)
        for number, (kind, op_id, run, body) in enumerate(facts, start=1)
    ]
    ops = list(dict.fromkeys(event.op_id.partition("#")[0] for event in events))
    return History(
        events=events,
        journals={"all": [f"{verb} {op}" for op in ops for verb in ("try", "ack")] + ["held mutex 2 0 y"]},
        followed={"follower-4": [f"{event.cursor} {event.op_id}" for event in events]},
        by_run={"writer-0": ["1", "2", "3"]},
        revisions={"shared/0": 1},
        effects=frozenset({"stage-a.j", "stage-b.j"}),
    )


def changed(op_id: str, **body: object) -> Callable[[History], History]:
    """The history with another body of one event."""

    def change(history: History) -> History:
        events = [
            dataclasses.replace(event, body={**event.body, **body}) if event.op_id == op_id else event
            for event in history.events
        ]
        return dataclasses.replace(history, events=events)

    return change


def dropped(*op_ids: str) -> Callable[[History], History]:
    """The history without some events, as if they had never been: no follower has seen them either."""
    return rearranged(lambda events: [event for event in events if event.op_id not in op_ids])


def moved(op_id: str, behind: str) -> Callable[[History], History]:
    """The history with one event at another place."""

    def move(events: list[StoredEvent]) -> list[StoredEvent]:
        event = next(event for event in events if event.op_id == op_id)
        events.remove(event)
        events.insert([other.op_id for other in events].index(behind) + 1, event)
        return events

    return rearranged(move)


def rearranged(change: Callable[[list[StoredEvent]], list[StoredEvent]]) -> Callable[[History], History]:
    def apply(history: History) -> History:
        events = change(list(history.events))
        return dataclasses.replace(
            history,
            events=events,
            followed={"follower-4": [f"{event.cursor} {event.op_id}" for event in events]},
            by_run={"writer-0": [event.cursor for event in events if event.run == "writer-0"]},
        )

    return apply


def noted(*lines: str) -> Callable[[History], History]:
    """The history with more lines in a journal."""
    return lambda history: dataclasses.replace(history, journals={**history.journals, "more": lines})


def followed(change: Callable[[list[str]], list[str]]) -> Callable[[History], History]:
    """The history with another record of the follower's."""
    return lambda history: dataclasses.replace(
        history, followed={"follower-4": change(list(history.followed["follower-4"]))}
    )


def replaced(**parts: Any) -> Callable[[History], History]:
    return lambda history: dataclasses.replace(history, **parts)


BROKEN: dict[str, tuple[Callable[[History], History], str]] = {
    "a lost acknowledged event": (dropped("writer-0/2#0"), "writer-0/2 was acknowledged and is not in the ledger"),
    "half a transaction": (dropped("writer-0/1#0"), "only 1 of 2 events of the transaction writer-0/1"),
    "a doubled event": (rearranged(lambda events: [*events, events[2]]), "writer-0/2#0 is in the ledger 2 times"),
    "an event from nowhere": (
        rearranged(lambda events: [*events, dataclasses.replace(events[2], op_id="what")]),
        "what is in the ledger and was never tried",
    ),
    "an operation acknowledged twice": (noted("ack done/errands/i"), "done/errands/i was acknowledged 2 times"),
    "a writer out of order": (changed("writer-0/2#0", n=3), "writer-0 has 3 after 1"),
    "a run with a gap": (replaced(by_run={"writer-0": ["1", "3"]}), "the events of writer-0 are not the same"),
    "a lost change": (replaced(revisions={"shared/0": 2}), "shared/0 has revision 2 after 1 changes"),
    "a change made twice": (changed("writer-0/1#1", revision=2), "shared/0 has revision 2 after 0 (writer-0/1#1)"),
    "an item never done": (dropped("done/errands/i"), "errands i was pushed and never done"),
    "an item lost between stages": (
        dropped("claim/stage-b/1", "passed/stage-b/j"),
        "stage-b j was pushed and never done",
    ),
    "an item done by a stale claim": (
        changed("done/errands/i", fence=1),
        "errands i was done with fence 1 when 2 had been granted",
    ),
    "a fence of an item granted twice": (
        changed("claim/errands/2", fence=1),
        "errands i was claimed with fence 1 after 1",
    ),
    "an item claimed when it was done": (
        moved("claim/errands/2", "done/errands/i"),
        "errands i was claimed when it was done already",
    ),
    "an item that nobody pushed": (dropped("push/errands/i"), "errands i was claimed before it was pushed"),
    "an item left in its queue": (replaced(left=["errands k"]), "errands k is left"),
    "a record without its effect": (
        replaced(effects=frozenset({"stage-a.j"})),
        "stage-b.j is recorded and never happened",
    ),
    "an effect without its record": (
        replaced(effects=frozenset({"stage-a.j", "stage-b.j", "stage-b.k"})),
        "stage-b.k happened and is not recorded",
    ),
    "a stale holder that wrote": (
        moved("fenced/2", "fenced/3"),
        "x wrote as mutex slot 0 fence 1 after 2 had been granted",
    ),
    "two holders of a mutex": (
        moved("fenced/2", "grant/mutex/2"),
        "mutex has 1 slots and was held by 2 at once: fences [1, 2]",
    ),
    "a fence granted twice": (changed("grant/permits/2", fence=1), "permits was granted with fence 1 after 1"),
    "a slot too many": (changed("grant/permits/2", slot=3), "slot 3 of permits was granted, which has 3"),
    "a write under a grant that was none": (
        changed("fenced/1", slot=2),
        "x wrote as permits slot 2 fence 1, which was never granted to it",
    ),
    "a grant told to two": (
        noted("held mutex 1 0 z"),
        "z was told that it holds mutex slot 0 fence 1, which is not recorded",
    ),
    "a follower with a gap": (followed(lambda seen: seen[:4] + seen[5:]), "follower-4 missed claim/errands/1"),
    "a follower that saw double": (followed(lambda seen: [*seen, seen[0]]), "follower-4 saw writer-0/1#0 twice"),
    "a follower out of order": (
        followed(lambda seen: [seen[1], seen[0], *seen[2:]]),
        "follower-4 saw 2 writer-0/1#1 where the ledger has 1 writer-0/1#0",
    ),
    "a worker that failed": (replaced(deaths=["writer-0 ended by itself"]), "writer-0 ended by itself"),
    "an error without an outage": (
        noted("error 1.0 2.0 LedgerError away"),
        "an error without an outage: LedgerError away",
    ),
    "pauses that prove nothing": (replaced(pauses=20), "no stale holder was refused in 20 pauses"),
}


def test_a_sound_history_passes() -> None:
    assert violations(sound()) == []
    explained = noted("error 1.0 2.0 LedgerError away", "refused renew mutex")(sound())
    assert violations(dataclasses.replace(explained, outages=[(1.5, 3.0)], pauses=20)) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_history_is_found_out(name: str) -> None:
    spoil, sentence = BROKEN[name]
    found = violations(spoil(sound()))
    assert any(sentence in line for line in found), found
