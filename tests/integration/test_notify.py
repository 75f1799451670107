"""Notifications with real senders: what arrives, what is tried again, what is recorded, and what a kill changes."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dogwatch.actions import notify
from dogwatch.coordination.ledgers import open_home_ledger
from dogwatch.coordination.notices import push_notice
from dogwatch.coordination.runs import create_run
from dogwatch.crew.captain.helm import Helm
from dogwatch.crew.captain.notices import send_notices, unsent
from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.crew.shared.hands import CrewHands
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import join, renew
from dogwatch.errors import LeaseLostError
from dogwatch.ledger.api import Lease, StoredEvent
from dogwatch.ledger.records import load_all
from dogwatch.model.jobs import NoticeRecord
from dogwatch.model.keys import notices_queue
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Notify, Plan
from dogwatch.model.process import ProcessId
from dogwatch.world.clock import SystemClock
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, identify, life
from support.helpers import events_of, wait_for

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
USER, PASSWORD, TOKEN = "tide-user", "hunter2-password", "tok-0123456789"
WAIT_S = 90.0


@dataclass
class Target:
    """A local HTTP server: what it got, the code it answers with, and whether it answers at all."""

    code: int = 200
    open: threading.Event = field(default_factory=threading.Event)
    got: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"json://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{TOKEN}?rto=60"


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    made.open.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.got.append({"path": self.path, "authorization": self.headers["Authorization"], **body})
            made.open.wait(WAIT_S)
            with contextlib.suppress(OSError):
                self.send_response(made.code)
                self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield made
        finally:
            made.open.set()
            server.shutdown()
            thread.join()


class TurnedClock(SystemClock):
    """The machine's clock, which a test may turn forward."""

    ahead_s = 0.0

    def now(self) -> Moment:
        return super().now().plus(self.ahead_s)


@dataclass(frozen=True)
class World:
    """What `send_notices` may see and touch."""

    eyes: MachineEyes
    hands: CrewHands
    door: Any = None


class Captain:
    """A captain that does nothing but send: the real ledger, eyes and hands, one step at a time."""

    def __init__(self, home: Home, run: str, hands: type[CrewHands] = CrewHands) -> None:
        self.home = home
        self.run = run
        self.clock = TurnedClock()
        self.boot = boot_id()
        self.selector = selectors.DefaultSelector()
        self.ledger = open_home_ledger(home, self.clock)
        os.makedirs(home.run(run), mode=0o700, exist_ok=True)
        self.world = World(MachineEyes(home, self.boot, self.selector, "captain", run), hands(home, self.boot))
        self.lines: list[str] = []
        self.log = Log("captain", run, self.lines.append)
        me = identify(os.getpid(), self.boot)
        assert me is not None
        notifies = Notify().or_those_of(os.environ).has_ways
        lease = join(self.ledger, "captain", run, me, self.world.eyes.life, self.clock.now(), notifies=notifies)
        assert lease is not None
        self.lease: Lease = lease

    @property
    def helm(self) -> Helm:
        return Helm(self.world, self.ledger, self.lease, self.run, self.clock.now(), self.log)

    def push(self, key: str = "writer:1", kind: Any = "quarantine", body: str = "It failed 4 times.") -> bool:
        return self.ledger.run(lambda tx: push_notice(tx, self.run, kind, key, "writer is given up", body, "writer"))

    def step(self) -> None:
        self.lease = renew(self.ledger, self.lease, self.clock.now())
        helm = self.helm
        send_notices(helm, helm.view())

    def records(self) -> list[NoticeRecord]:
        return self.ledger.read(lambda reader: load_all(reader, NoticeRecord, f"notice/{self.run}/"))

    def sender(self) -> ProcessId:
        """The sender that is at it now."""
        process = self.records()[0].process
        assert process is not None
        return process

    def step_until(self, fact: Callable[[], T], what: str) -> T:
        def looked() -> T:
            self.step()
            return fact()

        return wait_for(looked, WAIT_S, lambda: f"{what}: {self.records()} {self.lines}")

    def waiting(self) -> list[NoticeRecord]:
        """Those that wait for their next attempt."""
        return [record for record in self.records() if not record.sending]

    def finish(self) -> None:
        """Steps until nothing is left to send; pauses are passed over by turning the clock."""

        def over() -> bool:
            self.clock.ahead_s += 60.0 if self.waiting() else 0.0
            return not unsent(self.helm)

        self.step_until(over, "the end of the sending")

    def events(self, kind: str = "") -> list[StoredEvent]:
        return [event for event in events_of(self.ledger, kind) if event.kind.startswith("notice_")]


@pytest.fixture
def home() -> Iterator[Home]:
    """A home of its own. No sender outlives its test: each would end by itself, the test does not wait for it."""
    base = tempfile.mkdtemp(prefix="dwn")
    try:
        yield Home(f"{base}/h")
    finally:
        for process in senders(f"{base}/h"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(base, ignore_errors=True)


def senders(home: str) -> list[int]:
    """The pids of all that the captains of this home have started to send."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if f"DOGWATCH_HOME={home}".encode() in variables and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


def make_run(home: Home, ways: Notify, *, sensitive: bool = False) -> str:
    plan = Plan(name="t", roles=(), phases=(), deliverable=ByteCheck(path="x"), notify=ways, sensitive=sensitive)
    ledger = open_home_ledger(home, SystemClock())
    try:
        return ledger.run(lambda tx: create_run(tx, plan, "/", "/nowhere", "")).run
    finally:
        ledger.close()


def captain(home: Home, ways: Notify, *, sensitive: bool = False) -> Captain:
    return Captain(home, make_run(home, ways, sensitive=sensitive))


def recorder(folder: Path, code: int = 0) -> tuple[str, ...]:
    """A command that appends what it got to `folder/got`, and its environment to `folder/env`."""
    return ("sh", "-c", f'cat >>"$1"/got; echo >>"$1"/got; env -0 >"$1"/env; exit {code}', "tell", str(folder))


def received(folder: Path) -> list[dict[str, Any]]:
    path = folder / "got"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_notice_arrives_once_on_each_way_and_is_recorded(home: Home, target: Target, tmp_path: Path) -> None:
    mine = captain(home, Notify(targets=(target.url,), command=recorder(tmp_path)))
    assert mine.push()
    mine.finish()
    assert len(target.got) == 1
    assert (target.got[0]["title"], target.got[0]["message"]) == ("t-1: writer is given up", "It failed 4 times.")
    assert target.got[0]["path"].startswith(f"/{TOKEN}")
    notice = {"kind": "quarantine", "run": "t-1", "agent": "writer"}
    notice |= {"title": "writer is given up", "body": "It failed 4 times."}
    assert received(tmp_path) == [notice]
    variables = dict(v.split("=", 1) for v in (tmp_path / "env").read_text().split("\0") if "=" in v)
    assert {name: variables[f"DOGWATCH_NOTICE_{name.upper()}"] for name in notice} == notice
    assert variables["DOGWATCH_HOME"] == home.path
    told = mine.events()
    assert [(event.kind, event.run, event.agent) for event in told] == [("notice_sent", "t-1", "writer")]
    assert sorted(told[0].body["ways"]) == ["command sh", "json://127.0.0.1"]
    assert (told[0].body["notice"], told[0].body["attempts"]) == ("quarantine:writer:1", 1)
    assert mine.records() == []


def test_the_same_occasion_is_told_once_however_often_it_is_pushed(home: Home, tmp_path: Path) -> None:
    mine = captain(home, Notify(command=recorder(tmp_path)))
    assert mine.push()
    assert not mine.push()
    mine.finish()
    assert not mine.push(body="Again.")
    assert not unsent(mine.helm)
    assert mine.push("writer:2")
    assert mine.push("writer:1", "permission")
    mine.finish()
    assert [notice["kind"] for notice in received(tmp_path)] == ["quarantine", "quarantine", "permission"]


def test_a_notice_that_is_not_committed_is_not_sent(home: Home, tmp_path: Path) -> None:
    mine = captain(home, Notify(command=recorder(tmp_path)))

    def broken(tx: Any) -> None:
        assert push_notice(tx, mine.run, "held", "memory", "held", "")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        mine.ledger.run(broken)
    assert not unsent(mine.helm)


@pytest.mark.parametrize("ways", [Notify(), Notify(command=("true",), on=("ended",)), Notify(command=("true",), on=())])
def test_what_nobody_wants_to_be_told_is_not_queued_and_nothing_is_started(home: Home, ways: Notify) -> None:
    mine = captain(home, ways)
    assert not mine.push()
    mine.step()
    assert mine.ledger.read(lambda reader: reader.items(notices_queue(mine.run))) == []
    assert not os.path.exists(f"{home.run(mine.run)}/notices")
    assert mine.push(kind="ended") == ("ended" in ways.on and ways.has_ways)


def test_only_one_sender_is_at_it_at_a_time_and_no_step_waits_for_it(home: Home, target: Target) -> None:
    target.open.clear()
    mine = captain(home, Notify(targets=(target.url,)))
    mine.push("1")
    mine.push("2")
    mine.step()
    wait_for(lambda: target.got, WAIT_S, "the request")
    for _ in range(3):
        mine.step()
    assert [record.item for record in mine.records()] == ["quarantine:1"]
    assert life(mine.sender(), mine.boot) == "alive"
    assert len(target.got) == 1
    target.open.set()
    assert mine.selector.select(WAIT_S), "the end of the sender wakes the captain"
    mine.finish()
    assert [event.body["notice"] for event in mine.events()] == ["quarantine:1", "quarantine:2"]


def test_a_target_that_refuses_is_tried_three_times_with_growing_pauses(
    home: Home, target: Target, tmp_path: Path
) -> None:
    target.code = 403
    mine = captain(home, Notify(targets=(target.url,), command=recorder(tmp_path)))
    mine.push()
    for attempt, (too_early_s, due_s) in enumerate([(4.0, 2.0), (29.0, 2.0)], 1):
        mine.step_until(mine.waiting, "the refusal")
        mine.clock.ahead_s += too_early_s
        mine.step()
        assert not mine.records()[0].sending
        assert len(target.got) == attempt
        mine.clock.ahead_s += due_s
        mine.step()
        assert mine.records()[0].sending
    mine.finish()
    assert len(target.got) == 3
    assert len(received(tmp_path)) == 1, "what took the notice at once is not asked again"
    (failed,) = mine.events()
    assert failed.kind == "notice_failed"
    assert failed.body["reason"] == "json://127.0.0.1: it answered 403"
    assert (failed.body["attempts"], failed.body["ways"]) == (3, ["command sh"])
    mine.step()
    assert len(target.got) == 3


def test_one_that_waits_for_its_next_attempt_does_not_hold_up_the_others(home: Home, tmp_path: Path) -> None:
    tell = ("sh", "-c", 'test "$DOGWATCH_NOTICE_KIND" = held && touch "$1"/held', "tell", str(tmp_path))
    mine = captain(home, Notify(command=tell))
    mine.push("1")
    mine.push("2", "held")
    mine.step_until(mine.events, "the second notice")
    assert mine.events()[0].body["notice"] == "held:2"
    assert [record.item for record in mine.records()] == ["quarantine:1"]


def test_a_target_that_takes_the_second_attempt_counts_as_told(home: Home, target: Target) -> None:
    target.code = 503
    mine = captain(home, Notify(targets=(target.url,)))
    mine.push()
    mine.step_until(mine.waiting, "the refusal")
    target.code = 200
    mine.finish()
    assert [(event.kind, event.body["attempts"]) for event in mine.events()] == [("notice_sent", 2)]
    assert len(target.got) == 2


def test_what_hangs_is_given_up_at_the_deadline_and_leaves_no_process(
    home: Home, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "DEADLINE_S", 3.0)
    target.open.clear()
    hang = ("sh", "-c", 'sleep 600 & echo $! >"$1"/pid; wait', "tell", str(tmp_path))
    mine = captain(home, Notify(targets=(target.url,), command=hang))
    mine.push()
    mine.step()
    pid = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), WAIT_S, "the command"))
    sleeper = identify(pid, mine.boot)
    sender = mine.sender()
    mine.finish()
    (failed,) = mine.events("notice_failed")
    assert "json://127.0.0.1: no answer within 3 s" in failed.body["reason"]
    assert "command sh: not finished in time" in failed.body["reason"]
    assert sleeper is None or life(sleeper, mine.boot) == "dead"
    assert life(sender, mine.boot) == "dead"
    wait_for(lambda: not senders(home.path), WAIT_S, lambda: f"the last process: {senders(home.path)}")


@pytest.mark.parametrize(
    ("ways", "reason"),
    [
        (Notify(targets=("nonsense://x.example",)), "nonsense://***: apprise does not understand this URL"),
        (Notify(targets=("json://127.0.0.1:1",)), "json://127.0.0.1: no connection, or no answer in time"),
        (Notify(command=("/no/such/program",)), "command program: it cannot be run"),
        (Notify(command=("sh", "-c", "exit 3")), "command sh: exit code 3"),
        (Notify(targets_file="/no/such/file"), "the targets file file: cannot be read: FileNotFoundError"),
        (Notify(targets_file="/dev/null"), "the targets file null: names no target"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_the_reason_of_a_failure_is_named(home: Home, ways: Notify, reason: str) -> None:
    mine = captain(home, ways)
    mine.push()
    mine.finish()
    assert [event.body["reason"] for event in mine.events("notice_failed")] == [reason]


def test_no_secret_of_a_target_is_left_anywhere(home: Home, target: Target, tmp_path: Path) -> None:
    """Neither in events nor logs, nor in any other file of the home, nor where other users could see it."""
    (tmp_path / "targets").write_text(f"# mine\n{target.url}\nnonsense://{TOKEN}.example/{PASSWORD}\n")
    target.code = 500
    target.open.clear()
    mine = captain(home, Notify(targets_file=str(tmp_path / "targets")))
    mine.push()
    mine.step()
    wait_for(lambda: target.got, WAIT_S, "the request")
    shown = b"".join(
        (Path("/proc") / str(pid) / name).read_bytes() for pid in senders(home.path) for name in ("cmdline", "environ")
    )
    assert b"notify_send" in shown
    target.open.set()
    mine.finish()
    assert target.got[0]["authorization"], "the password was sent to the target"
    events = json.dumps([event.body for event in events_of(mine.ledger)])
    assert "it answered 500" in events
    log = Path(home.log("notify", mine.run)).read_text()
    assert "json://127.0.0.1: it answered 500" in log
    mine.ledger.close()
    files = {path: path.read_bytes() for path in Path(home.path).rglob("*") if path.is_file()}
    assert any(b"it answered 500" in data for data in files.values())
    for secret in (USER, PASSWORD, TOKEN):
        assert secret not in events + log + "".join(mine.lines)
        assert secret.encode() not in shown
        assert [path for path, data in files.items() if secret.encode() in data] == []


def test_the_operators_command_is_not_given_dogwatchs_own_secrets(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOGWATCH_NOTIFY", " ".join(["sh", str(tmp_path / "tell")]))
    monkeypatch.setenv("DOGWATCH_NOTIFY_TARGETS", "")
    (tmp_path / "tell").write_text(f"env >{tmp_path}/env\n")
    mine = captain(home, Notify())
    monkeypatch.setenv("DOGWATCH_LEDGER", "postgresql://secret@nowhere/x")
    mine.push()
    mine.finish()
    assert [event.body["ways"] for event in mine.events("notice_sent")] == [["command sh"]]
    lines = (tmp_path / "env").read_text().splitlines()
    names = {line.partition("=")[0] for line in lines}
    assert "DOGWATCH_NOTICE_KIND" in names
    assert not names & {"DOGWATCH_NOTIFY", "DOGWATCH_NOTIFY_TARGETS", "DOGWATCH_LEDGER"}


def test_a_way_that_is_taken_away_meanwhile_is_said_to_be_missing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOGWATCH_NOTIFY", "true")
    mine = captain(home, Notify())
    mine.push()
    monkeypatch.delenv("DOGWATCH_NOTIFY")
    mine.finish()
    assert [event.body["reason"] for event in mine.events("notice_failed")] == ["nothing: is configured any more"]


def test_the_captain_has_read_its_environment_when_it_joined_and_no_transaction_reads_it_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DOGWATCH_NOTIFY", "DOGWATCH_NOTIFY_TARGETS"):
        monkeypatch.delenv(name, raising=False)
    without = captain(home, Notify())
    monkeypatch.setenv("DOGWATCH_NOTIFY", "true")
    assert not without.push()
    having = captain(home, Notify())
    monkeypatch.delenv("DOGWATCH_NOTIFY")
    assert having.push()


def test_before_a_run_has_a_captain_the_dispatchers_environment_decides(home: Home) -> None:
    run = make_run(home, Notify())
    ledger = open_home_ledger(home, SystemClock())

    def push() -> bool:
        return ledger.run(lambda tx: push_notice(tx, run, "ended", "run", "the run failed", "no deliverable"))

    try:
        assert not push()
        me = identify(os.getpid(), boot_id())
        assert me is not None
        assert join(ledger, "dispatcher", "", me, lambda one: "alive", SystemClock().now(), notifies=True)
        assert push()
    finally:
        ledger.close()


def test_a_sensitive_run_tells_no_details(home: Home, tmp_path: Path) -> None:
    mine = captain(home, Notify(command=recorder(tmp_path)), sensitive=True)
    mine.push(body="the screen says: tides")
    mine.finish()
    assert received(tmp_path)[0]["body"] == "The pipeline is sensitive; dogwatch events t-1 tells more."


def test_control_characters_and_lengths_are_kept_from_the_ways(home: Home, tmp_path: Path) -> None:
    mine = captain(home, Notify(command=recorder(tmp_path)))
    mine.push(body="a\0b\x1b[31m\n" + "x" * 100_000)
    mine.finish()
    body = received(tmp_path)[0]["body"]
    assert body.startswith("ab[31m\nxxx")
    assert len(body) == 4000


class DiesBefore(CrewHands):
    """A captain's hands that are killed when the attempt is recorded and its sender not started."""

    def start_notice(self, run: str, item: str, notice: Mapping[str, str], attempt: int, ways: Notify) -> ProcessId:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class DiesAfter(CrewHands):
    """A captain's hands that are killed when the sender is started and not recorded."""

    def start_notice(self, run: str, item: str, notice: Mapping[str, str], attempt: int, ways: Notify) -> ProcessId:
        super().start_notice(run, item, notice, attempt, ways)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def serve(path: str, run: str, hands: str) -> None:
    """A captain as a process of its own, for a test to kill."""
    kinds = {"lives": CrewHands, "dies_before": DiesBefore, "dies_after": DiesAfter}
    made = Captain(Home(path), run, kinds[hands])
    while unsent(made.helm):
        made.step()
        made.selector.select(0.1)


@contextlib.contextmanager
def captain_process(home: Home, run: str, hands: str) -> Iterator[subprocess.Popen[bytes]]:
    script = f"import test_notify; test_notify.serve({home.path!r}, {run!r}, {hands!r})"
    path = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests" / "integration")]
    environment = {**os.environ, "PYTHONPATH": ":".join(path)}
    child = subprocess.Popen([sys.executable, "-c", script], env=environment)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def prepared(home: Home, ways: Notify) -> str:
    """A run with one notice on its queue, and no captain."""
    run = make_run(home, ways)
    ledger = open_home_ledger(home, SystemClock())
    assert ledger.run(lambda tx: push_notice(tx, run, "ended", "run", "the run failed", "no deliverable"))
    ledger.close()
    return run


def test_a_captain_killed_while_its_sender_waits_for_the_answer_costs_no_second_notice(
    home: Home, target: Target
) -> None:
    target.open.clear()
    run = prepared(home, Notify(targets=(target.url,)))
    with captain_process(home, run, "lives") as first:
        wait_for(lambda: target.got, WAIT_S, "the request")
        wait_for(lambda: _has_process(home, run), WAIT_S, "the record of the sender")
        first.kill()
        first.wait()
    successor = Captain(home, run)
    successor.step()
    assert life(successor.sender(), successor.boot) == "alive", "it is the sender of the captain that was killed"
    target.open.set()
    successor.finish()
    assert len(target.got) == 1
    assert [(event.kind, event.body["attempts"]) for event in successor.events()] == [("notice_sent", 1)]


def _has_process(home: Home, run: str) -> bool:
    ledger = open_home_ledger(home, SystemClock())
    try:
        records = ledger.read(lambda reader: load_all(reader, NoticeRecord, f"notice/{run}/"))
        return bool(records and records[0].process)
    finally:
        ledger.close()


def test_a_sender_that_was_started_and_not_recorded_is_waited_for_by_the_second(home: Home, target: Target) -> None:
    target.open.clear()
    run = prepared(home, Notify(targets=(target.url,)))
    with captain_process(home, run, "dies_after") as first:
        assert first.wait(WAIT_S) == -signal.SIGKILL
    wait_for(lambda: target.got, WAIT_S, "the request")
    successor = Captain(home, run)
    assert successor.records()[0].process is None
    successor.step()
    # The second sender has come as far as it can: it has the lock's file open, and the first has the lock.
    wait_for(lambda: _opens_lock(successor.sender()), WAIT_S, "the second sender")
    assert len(target.got) == 1
    target.open.set()
    successor.finish()
    wait_for(lambda: not senders(home.path), WAIT_S, "the end of both senders")
    assert len(target.got) == 1
    assert [(event.kind, event.body["attempts"]) for event in successor.events()] == [("notice_sent", 1)]


def _opens_lock(keeper: ProcessId) -> bool:
    """Whether a process of the keeper's session has a notice's lock open."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(int(folder.name)) == keeper.pid:
                links = [os.readlink(fd) for fd in (folder / "fd").iterdir()]
                if any(link.endswith("/lock") for link in links):
                    return True
    return False


def test_an_attempt_that_was_recorded_and_not_started_is_started_by_the_successor(home: Home, target: Target) -> None:
    run = prepared(home, Notify(targets=(target.url,)))
    with captain_process(home, run, "dies_before") as first:
        assert first.wait(WAIT_S) == -signal.SIGKILL
    assert target.got == []
    successor = Captain(home, run)
    successor.finish()
    assert len(target.got) == 1
    assert [(event.kind, event.body["attempts"]) for event in successor.events()] == [("notice_sent", 1)]


def test_a_result_that_was_written_while_there_was_no_captain_is_found(home: Home, target: Target) -> None:
    run = prepared(home, Notify(targets=(target.url,)))
    with captain_process(home, run, "dies_after") as first:
        assert first.wait(WAIT_S) == -signal.SIGKILL
    wait_for(lambda: target.got and not senders(home.path), WAIT_S, "the end of the sender")
    successor = Captain(home, run)
    successor.step()
    assert [event.kind for event in successor.events()] == ["notice_sent"]
    assert len(target.got) == 1


def test_only_a_sender_that_died_itself_leads_to_a_second_notice(home: Home, target: Target, tmp_path: Path) -> None:
    target.open.clear()
    mine = captain(home, Notify(targets=(target.url,), command=recorder(tmp_path)))
    mine.push()
    mine.step()
    wait_for(lambda: target.got and received(tmp_path), WAIT_S, "both ways")
    wait_for(lambda: _noted(home, mine.run), WAIT_S, "the command's part to be noted")
    keeper = mine.sender()
    for pid in [pid for pid in senders(home.path) if os.getsid(pid) == keeper.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: life(keeper, mine.boot) == "dead", WAIT_S, "the sender's end")
    target.open.set()
    mine.finish()
    assert len(target.got) == 2
    assert len(received(tmp_path)) == 1, "what was noted as taken is not sent again"
    assert [(event.kind, event.body["attempts"]) for event in mine.events()] == [("notice_sent", 2)]
    assert any("the sender: died" in line for line in mine.lines)


def _noted(home: Home, run: str) -> bool:
    return any("command" in path.read_text() for path in Path(home.run(run)).glob("notices/*/ways.json"))


def test_a_captain_that_has_lost_its_place_records_nothing(home: Home, target: Target) -> None:
    mine = captain(home, Notify(targets=(target.url,)))
    mine.push()
    mine.ledger.run(lambda tx: tx.release(mine.lease))
    with pytest.raises(LeaseLostError):
        mine.step()
    assert mine.records() == []
    assert target.got == []


def dogwatch(home: Home, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DOGWATCH_")}
    environment = {**kept, "DOGWATCH_HOME": home.path, "PYTHONPATH": str(ROOT / "src"), **variables}
    argv = [sys.executable, "-m", "dogwatch", *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S)


def test_the_test_command_sends_at_once_and_says_what_happened(home: Home, target: Target, tmp_path: Path) -> None:
    tell = tmp_path / "tell"
    tell.write_text(f"cat >{tmp_path}/got\n")
    ways = {"DOGWATCH_NOTIFY": f"sh '{tell}'", "DOGWATCH_NOTIFY_TARGETS": target.url}
    done = dogwatch(home, "notify", "--test", "Hello tide", **ways)
    assert sorted(done.stdout.splitlines()) == ["command sh: sent", "json://127.0.0.1: sent"]
    assert (done.returncode, done.stderr) == (0, "")
    assert [got["message"] for got in target.got] == ["Hello tide"]
    assert received(tmp_path)[0]["body"] == "Hello tide"
    target.code = 401
    refused = dogwatch(home, "notify", "--test", **ways)
    assert refused.returncode == 1
    assert "json://127.0.0.1: it answered 401\n" in refused.stdout
    assert not [secret for secret in (USER, PASSWORD, TOKEN) if secret in refused.stdout + refused.stderr]
    assert not os.path.exists(home.path), "nothing is recorded"


def test_the_test_command_takes_the_ways_of_a_pipeline_file_first(home: Home, target: Target, tmp_path: Path) -> None:
    spec = {
        "name": "t",
        "notify": {"targets": [target.url]},
        "roles": {"writer": {"harness": "command", "command": ["cat"]}},
        "phases": [{"name": "a", "dispatches": [{"name": "a", "to": "writer", "task": "Write.", "outputs": ["a.md"]}]}],
        "deliverable": {"path": "a.md"},
    }
    (tmp_path / "pipeline.yaml").write_text(json.dumps(spec))
    done = dogwatch(home, "notify", "--test", "--spec", str(tmp_path / "pipeline.yaml"), DOGWATCH_NOTIFY="false")
    assert (done.returncode, done.stdout, done.stderr) == (0, "json://127.0.0.1: sent\n", "")
    assert len(target.got) == 1


def test_the_test_command_says_when_nothing_is_configured(home: Home) -> None:
    done = dogwatch(home, "notify", "--test")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: no way to notify anybody is configured\nhint: ")
    assert dogwatch(home, "notify").returncode == 64


def test_a_watchdog_may_push_a_notice_for_that_imports_nothing_that_acts() -> None:
    script = "import sys, dogwatch.coordination.notices; print([m for m in sys.modules if '.actions' in m])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_captain_does_not_import_apprise() -> None:
    modules = "dogwatch.crew.captain.captain, dogwatch.crew.captain.notices, dogwatch.cli.notify"
    script = f"import sys, {modules}; print('apprise' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
