"""What is counted of an agent from its spool and its transcripts as they grow, and what of it comes to the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dogwatch.coordination.runs import create_run
from dogwatch.coordination.usage import AgentTally, Told, close_tallies
from dogwatch.crew.shared.tallies import TallyReader
from dogwatch.crew.watchdog.books import Books
from dogwatch.harness import harness
from dogwatch.ledger import open_store
from dogwatch.ledger.api import Lease, Store
from dogwatch.ledger.records import change, load, load_run
from dogwatch.model.keys import notices_queue
from dogwatch.model.plan import ByteCheck, Dispatch, Notify, Phase, Plan, Role
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.model.sight import Sight, Turn
from dogwatch.model.spool import render
from dogwatch.model.tally import Tally, TallyRecord, Tokens
from dogwatch.testing.clock import ManualClock
from support.helpers import events_of

MODEL = "claude-opus-5-5"
BEGIN = 1794822000.0
IDLE, WORKING = Sight(turn=Turn("idle")), Sight(turn=Turn("working"))


class Client:
    """An agent's spool and its client's transcripts, written as Claude Code and its hooks do."""

    def __init__(self, folder: Path) -> None:
        self.spool = folder / "writer.spool"
        self.transcript = folder / "projects" / "p" / "c1.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.at = BEGIN
        self.incarnation = 0
        self._said = 0

    def start(self) -> Client:
        self.incarnation += 1
        return self.hook("SessionStart", transcript_path=str(self.transcript))

    def hook(self, event: str, **payload: Any) -> Client:
        self.at += 1.0
        with self.spool.open("ab") as file:
            file.write(render(self.at, self.at - BEGIN, self.incarnation, 77, event, payload))
        return self

    def fail(self, message: str = "Exit code 1") -> Client:
        return self.hook("PostToolUseFailure", tool_name="Bash", error=message, is_interrupt=False)

    def deny(self, rule: str, command: str = "kill 7") -> Client:
        return self.hook("Denied", rule=rule, reason="it is not yours", tool="Bash", command=command)

    def say(
        self, tokens: int = 10, lines: int = 1, subagent: str = "", model: str = MODEL, identity: str = ""
    ) -> Client:
        """One call of the model, in so many lines, of which only the last has all its tokens."""
        self._said += 1
        for number in range(1, lines + 1):
            usage = {"input_tokens": tokens, "output_tokens": number, "cache_read_input_tokens": 2 * tokens}
            message = {"id": identity or f"msg_{self._said}", "model": model, "usage": usage}
            self.write({"type": "assistant", "isSidechain": bool(subagent), "message": message}, subagent)
        return self

    def refuse(self, identity: str) -> Client:
        said = "<tool_use_error>InputValidationError: Bash failed</tool_use_error>"
        block = {"type": "tool_result", "tool_use_id": identity, "is_error": True, "content": said}
        return self.write({"type": "user", "message": {"content": [block]}})

    def write(self, entry: dict[str, Any], subagent: str = "") -> Client:
        self.at += 1.0
        path = self.transcript
        if subagent:
            path = self.transcript.with_suffix("") / "subagents" / f"agent-{subagent}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
        entry = {**entry, "timestamp": f"2026-11-16T{_clock(self.at)}Z"}
        with path.open("a") as file:
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")
        return self

    def reader(self) -> TallyReader:
        return TallyReader(str(self.spool), harness("claude"))

    def anew(self) -> AgentTally:
        """What a reader says that has just been started."""
        return self.reader().read()[0]


def _clock(wall: float) -> str:
    seconds = int(wall) - 1794787200  # midnight of that day
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.000"


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path).start()


def test_a_call_that_stands_in_several_lines_is_one(client: Client) -> None:
    client.say(lines=3).say()
    assert client.anew().incarnations["1"].own == {MODEL: Tokens(calls=2, input=20, output=4, cache_read=40)}


def test_sub_agents_are_told_apart_and_models_too(client: Client) -> None:
    client.say().hook("SubagentStart", agent_id="a1").say(subagent="a1").say(subagent="a1", model="haiku")
    tally = client.hook("SubagentStop", agent_id="a1").anew().incarnations["1"]
    assert tally.own[MODEL].calls == 1
    assert {model: one.calls for model, one in tally.subagents.items()} == {MODEL: 1, "haiku": 1}
    assert {model: one.calls for model, one in tally.models.items()} == {MODEL: 2, "haiku": 1}


def test_it_goes_on_where_it_was_and_a_new_reader_counts_the_same(client: Client) -> None:
    reader = client.reader()
    for number in range(20):
        client.say(lines=number % 3 + 1)
        if number % 4 == 0:
            client.hook("SubagentStart", agent_id=f"s{number}").say(subagent=f"s{number}").fail(f"error {number % 2}")
        tally, used = reader.read()
        assert used > 0
        assert (tally.incarnations, tally.told) == (client.anew().incarnations, client.anew().told)
    assert reader.read()[1] == 0, "nothing is new"


def test_a_budget_of_bytes_is_kept_to_and_what_is_left_comes_later(client: Client) -> None:
    for _ in range(2000):
        client.say()
    reader = client.reader()
    tally, used = reader.read(50_000)
    assert tally.behind
    assert used < 100_000
    while tally.behind:
        tally, _ = reader.read(50_000)
    assert tally.incarnations["1"].own[MODEL].calls == 2000
    assert reader.read(0)[0].behind, "without a budget nobody knows"


def test_incarnations_that_share_a_conversation_have_their_own_calls(client: Client) -> None:
    client.say().say().start().say(tokens=50)
    found = client.anew().incarnations
    assert (found["1"].own[MODEL].calls, found["2"].own[MODEL]) == (2, Tokens(1, 50, 1, 0, 100))


def test_a_transcript_that_is_written_anew_counts_nothing_twice(client: Client) -> None:
    reader = client.reader()
    client.say(identity="one").say(identity="two").refuse("t1")
    reader.read()
    client.transcript.write_text("")
    client.say(identity="two").refuse("t1").say(identity="three")
    tally = reader.read()[0].incarnations["1"]
    assert (tally.own[MODEL].calls, dict(tally.errors)) == (3, {"validation_failure": 1})


def test_a_second_conversation_of_the_same_incarnation_is_read_too(client: Client) -> None:
    client.say()
    client.transcript = client.transcript.with_name("c2.jsonl")
    client.hook("SessionStart", transcript_path=str(client.transcript)).say()
    assert client.anew().incarnations["1"].own[MODEL].calls == 2


def test_errors_are_counted_all_and_told_seldom(client: Client) -> None:
    for _ in range(120):
        client.fail()
    tally = client.hook("StopFailure", error="rate_limit", last_assistant_message="429").anew()
    assert dict(tally.incarnations["1"].errors) == {"tool_failed": 120, "rate_limited": 1}
    assert [one.trouble.count for one in tally.told if isinstance(one, Told)] == [1, 10, 100, 1]
    assert len({one.key for one in tally.told}) == 4


def test_tokens_are_taken_out_before_words_are_cut(client: Client) -> None:
    secret = "ghp_" + "a1B2" * 9
    client.fail("x" * 180 + " " + secret).deny("unresolved", f"curl -H 'Authorization: Bearer {secret}'")
    assert "ghp_" not in repr(client.anew().told)


def test_without_hooks_and_files_nothing_is_counted(tmp_path: Path) -> None:
    reader = TallyReader(str(tmp_path / "none"), harness("command"))
    assert reader.read() == (AgentTally(), 0)


# On the ledger


class Desk:
    """A ledger with one run, and a watchdog's lease."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.clock = clock
        self.ledger: Store = open_store(str(path), clock)
        phase = Phase(name="draft", dispatches=(Dispatch(name="draft", to="writer", task="Write."),))
        plan = Plan(
            name="v",
            roles=(Role(name="writer", harness="claude"),),
            phases=(phase,),
            deliverable=ByteCheck(path="draft.md"),
            notify=Notify(command=("true",)),
        )
        self.ledger.run(lambda tx: create_run(tx, plan, "/project", "/out", "/pipeline.yaml"))
        self.lease: Lease | None = self.ledger.run(lambda tx: tx.acquire("watchdog/v-1", "me", 1000.0))
        self.change(incarnation=1)
        self.books = Books()

    def change(self, **changes: Any) -> None:
        self.ledger.run(lambda tx: change(tx, AgentRecord, "agent/v-1/writer", lambda a: replace(a, **changes)))

    def keep(self, tally: AgentTally, sight: Sight = IDLE) -> None:
        assert self.lease is not None
        view = self.ledger.read(lambda reader: load_run(reader, "v-1"))
        self.books.keep(self.ledger, self.lease, view, {"writer": tally}, {"writer": sight}, self.clock.now())

    def close(self, tally: AgentTally) -> None:
        view = self.ledger.read(lambda reader: load_run(reader, "v-1"))
        self.ledger.run(lambda tx: close_tallies(tx, view, {"writer": tally}))

    def record(self) -> TallyRecord | None:
        return self.ledger.read(lambda reader: load(reader, TallyRecord, "tally/v-1/writer"))

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return [dict(event.body) for event in events_of(self.ledger, kind)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "ledger.db", ManualClock())
    yield desk
    desk.ledger.close()


def test_an_error_is_one_event_whoever_reads_it_again(client: Client, desk: Desk) -> None:
    reader = client.fail().deny("kill.foreign").reader()
    desk.keep(reader.read()[0])
    desk.keep(reader.read()[0])
    desk.books = Books()
    desk.keep(client.anew())
    expected = {"incarnation": 1, "type": "tool_failed", "tool": "Bash", "message": "Exit code 1", "severity": "info"}
    assert desk.bodies("agent_error") == [{**expected, "count": 1}]
    [denied] = desk.bodies("guard_denied")
    assert (denied["rule"], denied["severity"], denied["command"]) == ("kill.foreign", "critical", "kill 7")
    assert events_of(desk.ledger, "agent_error")[0].agent == "writer"


def test_a_flood_is_a_handful_of_events(client: Client, desk: Desk) -> None:
    reader = client.reader()
    for number in range(1000):
        client.fail()
        if number % 50 == 0:
            desk.keep(reader.read()[0])
    desk.keep(reader.read()[0])
    assert [one["count"] for one in desk.bodies("agent_error")] == [1, 10, 100, 1000]


def test_a_person_is_told_of_critical_denials_that_repeat(client: Client, desk: Desk) -> None:
    def notices() -> list[str]:
        items = desk.ledger.read(lambda reader: reader.items(notices_queue("v-1")))
        return [str(item.body["title"]) for item in items]

    desk.keep(client.deny("kill.foreign").deny("unresolved").deny("machine.power", "reboot").anew())
    assert notices() == []
    desk.keep(client.deny("kill.foreign").anew())
    desk.keep(client.deny("kill.foreign").anew())
    [title] = notices()
    assert "critical" in title


def test_a_sensitive_pipeline_keeps_no_words(client: Client, desk: Desk) -> None:
    desk.ledger.run(lambda tx: change(tx, RunRecord, "run/v-1", lambda run: replace(run, sensitive=True)))
    desk.keep(client.fail("the secret plan").deny("kill.foreign", "kill the plan").anew())
    assert "plan" not in json.dumps(desk.bodies("agent_error") + desk.bodies("guard_denied"))


def test_what_is_used_is_written_at_the_end_of_a_turn_and_now_and_then_within(client: Client, desk: Desk) -> None:
    reader = client.say().reader()

    def calls() -> int:
        record = desk.record()
        return record.sum.models[MODEL].calls if record is not None else 0

    desk.keep(reader.read()[0], WORKING)
    assert calls() == 1, "the first is written at once"
    client.say()
    desk.keep(reader.read()[0], WORKING)
    assert calls() == 1
    desk.clock.advance(30)
    desk.keep(reader.read()[0], WORKING)
    assert calls() == 2
    client.say()
    desk.keep(reader.read()[0], IDLE)
    assert calls() == 3
    assert desk.bodies("usage_recorded") == []


def test_the_end_of_an_incarnation_and_of_the_run_is_an_event_with_totals(client: Client, desk: Desk) -> None:
    client.say(tokens=100).say(tokens=100)
    desk.keep(client.anew())
    client.start()
    desk.change(incarnation=2)
    desk.keep(client.anew())
    [first] = desk.bodies("usage_recorded")
    assert (first["incarnation"], first["calls"], first["input_tokens"]) == (1, 2, 200)
    client.say(tokens=5).hook("SubagentStart", agent_id="a").say(tokens=7, subagent="a")
    for _ in range(2):
        desk.close(client.anew())
    _, second, whole = desk.bodies("usage_recorded")
    assert (second["incarnation"], second["calls"], second["subagents"]["input_tokens"]) == (2, 2, 7)
    assert (whole["calls"], whole["input_tokens"], whole["models"][MODEL]["calls"]) == (4, 212, 4)
    assert "incarnation" not in whole


def test_an_incarnation_that_called_no_model_after_a_restart_still_closes_the_one_before(
    client: Client, desk: Desk
) -> None:
    desk.keep(client.say().anew())
    desk.change(incarnation=2)
    desk.keep(client.anew())
    assert [one["incarnation"] for one in desk.bodies("usage_recorded")] == [1]


def test_what_was_counted_stays_when_its_file_is_gone(client: Client, desk: Desk) -> None:
    desk.keep(client.say().say().anew())
    client.transcript.unlink()
    desk.books = Books()
    desk.keep(client.say(tokens=1).anew())
    desk.close(client.anew())
    record = desk.record()
    assert record is not None
    assert record.sum.models[MODEL].calls == 2
    assert desk.bodies("usage_recorded")[-1]["calls"] == 2


def test_numbers_add_up_and_never_fall() -> None:
    small = Tally(own={MODEL: Tokens(1, 10, 1, 0, 5)}, errors={"api_error": 2}, denied={"parse": 1})
    large = Tally(own={MODEL: Tokens(2, 5, 3, 1, 0)}, subagents={"haiku": Tokens(1)}, errors={"tool_failed": 1})
    assert small.larger(large).own == {MODEL: Tokens(2, 10, 3, 1, 5)}
    assert small.larger(small) == small
    assert small.plus(large).own == {MODEL: Tokens(3, 15, 4, 1, 5)}
    assert small.plus(large).errors == {"api_error": 2, "tool_failed": 1}
