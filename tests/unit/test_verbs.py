"""Verbs: one file is all it takes, and no handler reads from its request who calls."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dogwatch.cli.commands import COMMANDS
from dogwatch.cli.framework import run_command
from dogwatch.door import verbs
from dogwatch.door.answering import answer
from dogwatch.door.registry import VERBS, place
from dogwatch.door.wire import read_request
from dogwatch.errors import DogwatchError, RefusedError, UnmarkedError, UsageError
from dogwatch.ledger.api import Store, Tx
from dogwatch.ledger.records import load_run
from dogwatch.model.brief import Header
from dogwatch.model.plan import Output, Phase
from dogwatch.model.redact import Redactor
from dogwatch.model.view import RunView
from dogwatch.testing.clock import ManualClock
from support.virtual import Machine, VirtualAgent
from unit.test_virtual_world import COLLECT, DRAFT, WORKERS, begin, plan

T = TypeVar("T")
NAMES = VERBS.names()
PONDER = '''"""Ponder a question. For agents with time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from dogwatch.door.verb import Argument, Verb

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller, Sight
    from dogwatch.ledger.api import Tx


@dataclass(frozen=True, kw_only=True)
class Request:
    question: Annotated[str, Argument("what to ponder")]


@dataclass(frozen=True, kw_only=True)
class Answer:
    by: str
    thought: str


def look(sight: Sight, request: Request) -> int:
    return len(request.question)


def handle(tx: Tx, caller: Caller, request: Request, seen: int) -> Answer:
    return Answer(by=f"{caller.run}/{caller.agent}:{caller.incarnation}", thought=f"{seen} letters")


def tell(request: Request, answer: Answer) -> str:
    return f"{answer.by} pondered {request.question}: {answer.thought}"


VERB = Verb(
    line="ponder a question",
    words=__doc__,
    example='dogwatch NAME "why"',
    request=Request,
    answer=Answer,
    look=look,
    handle=handle,
    tell=tell,
)
'''


@pytest.fixture
def more_verbs(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Adds a verb, as one source file."""
    folder = tmp_path / "more-verbs"
    folder.mkdir()
    verbs.__path__.append(str(folder))
    added: list[str] = []

    def add(name: str) -> None:
        (folder / f"{name}.py").write_text(PONDER.replace("NAME", " ".join(place(name))), encoding="utf-8")
        added.append(name)

    yield add
    verbs.__path__.remove(str(folder))
    for name in added:
        sys.modules.pop(f"{verbs.__name__}.{name}", None)
        VERBS._found.pop(name, None)


def test_a_new_file_is_a_verb_at_the_door_and_a_command_at_once(
    more_verbs: Callable[[str], None], ledger: Store, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = begin(ledger, clock, plan(Phase(name="draft", dispatches=(DRAFT,))), lambda agent, header: "silent")
    machine.run_until(lambda: bool(machine.agents.get("writer") and machine.agents["writer"].prompts))
    before = machine.agents["writer"].call("ponder", question="why?")
    machine.run_until(lambda: bool(before.answers), 60)
    assert before.answers[0]["code"] == "usage", "there is no such verb yet"
    more_verbs("ponder")

    call = machine.agents["writer"].call("ponder", question="why?")
    machine.run_until(lambda: bool(call.answers), 60)
    assert call.answers[0] == {"ok": True, "by": "v-1/writer:1", "thought": "4 letters"}

    assert run_command(["--help"]) == 0
    assert "  ponder       ponder a question\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run_command(["ponder", "--help"])
    shown = capsys.readouterr().out
    for words in (
        "Ponder a question. For agents with time.",
        "what to ponder",
        "{by, thought}",
        'dogwatch ponder "why"',
    ):
        assert words in shown
    assert run_command(["completions", "bash"]) == 0
    assert '"ponder "*)' in capsys.readouterr().out
    assert run_command(["pondr"]) == 64
    assert "did you mean ponder?" in capsys.readouterr().err


def test_a_new_file_may_be_a_verb_of_a_command_that_there_is_or_of_a_new_one(
    more_verbs: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("mail_ponder", "think_hard", "think_very_hard"):
        more_verbs(name)
    assert run_command(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "  mail         read, acknowledge or send mail\n" in shown
    assert "  think        ponder a question; ponder a question\n" in shown
    for words in (["mail", "--help"], ["mail", "ponder", "--help"], ["think", "very-hard", "--help"]):
        with pytest.raises(SystemExit):
            run_command(words)
    shown = capsys.readouterr().out
    assert "{read,ack,send,ponder}" in shown
    assert 'dogwatch mail ponder "why"' in shown
    assert 'dogwatch think very-hard "why"' in shown


def test_a_captain_has_loaded_every_verb_before_anybody_calls(
    ledger: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files may be replaced under it by an upgrade, before the first agent reports."""
    monkeypatch.setattr(VERBS, "_found", {})
    machine = begin(ledger, clock, plan(Phase(name="draft", dispatches=(DRAFT,))), lambda agent, header: "silent")
    machine.run_until(lambda: bool(machine.events("agent_spawn_intended")))
    assert sorted(VERBS._found) == sorted(NAMES)


def test_a_captain_has_loaded_what_the_handlers_of_its_verbs_import() -> None:
    code = "import sys, dogwatch.crew.captain.captain; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needed = set()
    for name in NAMES:
        tree = ast.parse(inspect.getsource(sys.modules[VERBS.load(name).handle.__module__]))
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            needed |= {str(node.module) for node in ast.walk(function) if isinstance(node, ast.ImportFrom)}
    assert "dogwatch.coordination.reporting" in needed
    assert needed - set(done.stdout.split()) == set()


def test_a_file_that_cannot_be_loaded_ends_no_captain(
    more_verbs: Callable[[str], None], ledger: Store, clock: ManualClock
) -> None:
    more_verbs("broken")
    Path(verbs.__path__[-1], "broken.py").write_text("VERB = unknown", encoding="utf-8")
    machine = begin(ledger, clock, plan(Phase(name="draft", dispatches=(DRAFT,))))
    machine.run_until(lambda: machine.view("v-1").run.cleared)
    assert machine.view("v-1").run.state == "COMPLETED"


def test_what_is_no_file_of_the_folder_is_never_loaded() -> None:
    for name in ("", "__init__", "os", "../client", "mail_read.py", "verbs.mail_read"):
        assert VERBS.find(name) is None


def test_what_editors_and_archives_leave_in_the_folder_is_no_verb(
    more_verbs: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for left in (".#claim.py", "._claim.py", "claim.orig.py", "claim copy.py", ".py"):
        Path(verbs.__path__[-1], left).touch()
    assert VERBS.names() == NAMES
    assert run_command(["--help"]) == 0
    assert "take an offered task" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_who_calls_is_no_part_of_a_request(name: str) -> None:
    verb = VERBS.load(name)
    assert dataclasses.is_dataclass(verb.request)
    fields = {field.name for field in dataclasses.fields(verb.request)}
    assert not fields & {"run", "agent", "incarnation", "role", "caller"}
    assert list(inspect.signature(verb.handle).parameters) == ["tx", "caller", "request", "seen"]
    source = inspect.getsource(sys.modules[verb.handle.__module__])
    read = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "request"
    }
    assert read <= fields


@pytest.mark.parametrize("name", NAMES)
def test_a_verb_says_what_it_is_for_and_how_it_is_called(name: str) -> None:
    verb = VERBS.load(name)
    assert verb.words is not None
    assert verb.words.strip()
    assert verb.line
    assert verb.example.startswith(f"dogwatch {' '.join(place(name))}")
    for kind in (verb.request, verb.answer):
        with pytest.raises(dataclasses.FrozenInstanceError):
            object.__new__(kind).made_up = 1
        assert all(field.kw_only for field in dataclasses.fields(kind))


def test_no_verb_stands_where_another_has_its_own_verbs() -> None:
    commands = {place(name)[0] for name in NAMES if len(place(name)) == 2}
    assert not commands & set(NAMES)
    assert not {place(name)[0] for name in NAMES} & COMMANDS.keys(), "a command with a file of its own hides the verb"


DONE = {"result": "done", "op_id": "1"}
SEND = {"to": "reader", "text": "x", "expect_s": 60, "outputs": ["a.md"], "op_id": "1"}


@pytest.mark.parametrize(
    ("name", "body", "kind", "message"),
    [
        ("report", {"op_id": "1"}, UsageError, "result must be a text that is not empty"),
        ("report", {**DONE, "result": "maybe"}, UsageError, "a report is done or failed, not 'maybe'"),
        ("report", {**DONE, "result": ["done"]}, UsageError, "result must be a text that is not empty"),
        ("report", {**DONE, "task": 7}, UsageError, "task is a text"),
        ("report", {**DONE, "note": {"a": 1}}, UsageError, "a note is a text of at most 16384 bytes"),
        ("report", {**DONE, "note": "x" * 16385}, UsageError, "a note is a text of at most 16384 bytes"),
        ("report", {**DONE, "note": "\ud800"}, UsageError, "a note is not valid Unicode"),
        ("report", {**DONE, "note": "a\0b"}, UsageError, "a note holds a NUL character"),
        ("report", {"result": "done"}, UsageError, "op_id must be a text that is not empty"),
        ("checkpoint", {"checkpoint": "c", "verdict": "hm"}, UsageError, "a verdict is approve or revise, not 'hm'"),
        ("heartbeat", {"progress_percent": 101}, UsageError, "progress_percent is a number from 0 to 100"),
        ("heartbeat", {"progress_percent": True}, UsageError, "progress_percent is a number from 0 to 100"),
        ("heartbeat", {"progress_percent": float("nan")}, UsageError, "progress_percent is a number from 0 to 100"),
        ("mail_send", {"to": "", "text": "x"}, UsageError, "to must be a text that is not empty"),
        ("task_send", {**SEND, "to": None}, UsageError, "to must be a text that is not empty"),
        ("task_send", {**SEND, "expect_s": "1m"}, UnmarkedError, "the expected time is from 1 s to 86400 s"),
        ("task_send", {**SEND, "outputs": "a.md"}, UnmarkedError, "the expected files are at most 20 different paths"),
        ("task_send", {**SEND, "outputs": ["\ud800"]}, UsageError, "an output is not valid Unicode"),
    ],
)
def test_a_field_that_is_wrong_is_refused_in_words(
    name: str, body: Mapping[str, Any], kind: type[DogwatchError], message: str
) -> None:
    with pytest.raises(DogwatchError) as error:
        read_request(VERBS.load(name).request, body, Redactor())
    assert (type(error.value), error.value.message) == (kind, message)


def test_a_request_is_what_came_without_unknown_fields_and_without_tokens_in_its_note() -> None:
    secret = "sk-ant-" + "api03-" + "a1B2c3D4e5" * 4
    body = {**DONE, "note": f"used {secret}", "task": None, "newer": [1], "agent": "other"}
    request = read_request(VERBS.load("report").request, body, Redactor())
    told = dataclasses.asdict(request)
    assert secret not in told.pop("note")
    assert told == {"result": "done", "task": "", "op_id": "door:1"}
    assert read_request(VERBS.load("heartbeat").request, {"op_id": "1"}, Redactor()).progress_percent is None


class Watched:
    """A captain that tells in which order it was asked for things."""

    def __init__(self, ledger: Store) -> None:
        self.run = "v-1"
        self.deeds: list[str] = []
        self.ledger = ledger
        self.redactor = Redactor()
        self.world = self.eyes = self.log = self

    def marker(self, folder: str, outputs: Sequence[Output]) -> dict[str, str]:
        self.deeds.append(f"looked at {folder}/{outputs[0].path}")
        return {output.path: "as before" for output in outputs}

    def record(self, fn: Callable[[Tx], T]) -> T:
        self.deeds.append("recorded")
        return self.ledger.run(fn)

    def view(self) -> RunView:
        return self.ledger.read(lambda reader: load_run(reader, self.run))

    def error(self, event: str, **fields: object) -> None:
        self.deeds.append(f"failed: {fields['error']}")


@pytest.fixture
def offered(ledger: Store, clock: ManualClock) -> Machine:
    """A run whose workers were offered a task and do nothing."""

    def waits(agent: VirtualAgent, header: Header) -> str:
        return "silent"

    machine = begin(ledger, clock, plan(Phase(name="collect", dispatches=(COLLECT,)), roles=(WORKERS,)), waits)
    machine.run_until(lambda: len(machine.events("message_delivered")) == 2)
    return machine


def body(op: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "op_id": "one", "run": "v-1", "agent": "worker-1", "incarnation": 1, **more}


def test_what_a_verb_looks_at_it_sees_before_its_transaction(offered: Machine, ledger: Store) -> None:
    captain = Watched(ledger)
    told = answer(captain, body("claim", task="collect"))
    assert told["ok"], told
    assert captain.deeds == ["looked at /out/v-1/data.csv", "recorded"]
    assert captain.view().tasks["collect"].marker == {"data.csv": "as before"}
    assert "Collect." in told["text"]
    again = answer(captain, body("claim", task="collect"))
    assert again == told
    assert captain.deeds[2:] == ["recorded"], "what is claimed already needs no look"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"agent": "nobody"}, "refused"),
        ({"run": "v-2"}, "refused"),
        ({"incarnation": 2}, "stale"),
        ({"incarnation": True}, "stale"),
        ({"incarnation": 2, "task": 7}, "stale"),
        ({"task": 7}, "usage"),
        ({"agent": ["worker-1"]}, "usage"),
    ],
)
@pytest.mark.parametrize("op", ["claim", "report"])
def test_who_calls_is_checked_first_whether_the_verb_looks_or_not(
    offered: Machine, ledger: Store, op: str, change: dict[str, Any], code: str
) -> None:
    captain = Watched(ledger)
    before = captain.view()
    told = answer(captain, {**body(op, task="collect", result="done"), **change})
    assert (told["ok"], told["code"]) == (False, code), told
    assert not [deed for deed in captain.deeds if deed.startswith(("looked", "failed"))]
    assert captain.view().tasks == before.tasks
    assert captain.view().agents == before.agents
    assert offered.events("request_refused")[-1].body["code"] == code


def test_answers_are_json_and_leave_out_what_there_is_not(offered: Machine, ledger: Store) -> None:
    captain = Watched(ledger)
    sent = answer(captain, body("mail_send", to="worker-2", text="hello"))
    assert set(sent) == {"ok", "message"}
    read = answer(captain, body("mail_read", agent="worker-2"))
    assert read == {"ok": True, "mail": [{"message": sent["message"], "from": "worker-1", "text": "hello"}]}
    assert json.loads(json.dumps(read)) == read
    assert answer(captain, body("heartbeat", op_id="two")) == {"ok": True}
    assert RefusedError.code == answer(captain, body("report", result="done", op_id="three"))["code"]
