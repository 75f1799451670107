"""What an agent, or an unlucky operator, has laid where dogwatch reads and writes: others must not suffer from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dogwatch.actions import postbox, sandbox
from dogwatch.actions.spawn import SpawnFailedError, spawn
from dogwatch.coordination.agents import restart
from dogwatch.coordination.delivery import take_back
from dogwatch.coordination.mail import send
from dogwatch.coordination.usage import AgentTally
from dogwatch.crew.watchdog.books import Books
from dogwatch.guard.fast import is_canary
from dogwatch.harness.claude import Claude
from dogwatch.ledger.records import load, save
from dogwatch.ledger.sqlite import SqliteStore
from dogwatch.model.delivery import Acknowledged, Typing
from dogwatch.model.folders import folder_at
from dogwatch.model.moment import Moment
from dogwatch.model.plan import ByteCheck, Limits, Plan, Role
from dogwatch.model.records import MessageRecord, RunRecord
from dogwatch.model.sight import Sight
from dogwatch.model.spool import parse
from dogwatch.model.tally import Tally, TallyRecord
from dogwatch.model.view import RunView
from dogwatch.testing.clock import ManualClock
from dogwatch.world.processes import boot_id, identify
from dogwatch.world.spool import SpoolReader
from support.hooking import AGENT, RUN, HookedAgent, hooked_agent
from support.records import agent_record, message_record

MESSAGE = message_record(run=RUN, to=AGENT, sender="x", subject="x", queued=Moment("b", 1.0, 1.0), incarnation=2)
ACKNOWLEDGED = Acknowledged(at=Moment("b", 1.0, 1.0))
POSTED = Typing(step="posted", at=Moment("b", 1.0, 1.0))
NAME = os.path.basename(postbox._path("", MESSAGE))


@pytest.fixture
def agent() -> Iterator[HookedAgent]:
    with hooked_agent() as made:
        yield made


def prompt(text: str, cwd: str = "/p") -> bytes:
    return json.dumps({"cwd": cwd, "prompt": text}, separators=(",", ":")).encode()


# The canary


def test_only_a_canarys_own_header_makes_it_one() -> None:
    assert is_canary(prompt("[dogwatch:m1 canary guard]"))
    assert is_canary(prompt("[dogwatch:m1 canary guard]\nwords"))
    for text in (
        "[dogwatch:m1 dispatch deploy]\nRoll out the canary release.",
        "[dogwatch:m1 dispatch canary]\nGo.",
        "[dogwatch:m1 mail from-canary]\n[dogwatch:m2 canary guard]",
        "a canary [dogwatch:m1 canary guard]",
        "[dogwatch: canary",
    ):
        assert not is_canary(prompt(text, cwd="/my canary app")), text


def test_a_task_that_speaks_of_canaries_reaches_the_model(agent: HookedAgent) -> None:
    done = agent.hook("UserPromptSubmit", prompt("[dogwatch:m1 dispatch deploy]\nRoll out the canary release."))
    assert (done.returncode, done.stdout) == (0, b"")
    assert [line.event for line in agent.lines()] == ["UserPromptSubmit"]


# The post box


def test_no_link_in_the_post_box_is_written_through(agent: HookedAgent, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("as it was", encoding="utf-8")
    for name in (NAME, f"{NAME}.{os.getpid()}.new"):
        os.symlink(precious, f"{agent.box()}/{name}")
    postbox.put(agent.box(), MESSAGE, "text")
    assert precious.read_text(encoding="utf-8") == "as it was"
    assert Path(agent.box(), NAME).read_text(encoding="utf-8") == "text"
    assert not Path(agent.box(), NAME).is_symlink()


def test_a_spoiled_post_box_is_empty_before_the_next_incarnation(agent: HookedAgent, tmp_path: Path) -> None:
    box = Path(agent.box())
    (box / "folder" / "in it").mkdir(parents=True)
    os.mkfifo(box / "pipe")
    os.symlink(tmp_path, box / "link")
    (box / NAME).mkdir()
    assert not postbox.take_back(str(box), MESSAGE)
    box.chmod(0)
    postbox.empty(str(box))
    assert list(box.iterdir()) == []
    assert tmp_path.exists()
    box.rmdir()
    for spoil in (lambda: box.write_text(""), lambda: os.symlink(tmp_path, box)):
        spoil()
        assert not postbox.take_back(str(box), MESSAGE)
        postbox.empty(str(box))
        postbox.put(str(box), MESSAGE, "text")
        assert postbox.take_back(str(box), MESSAGE)
        box.rmdir()
    postbox.empty(str(box))


# The registry


def test_a_torn_line_of_the_registry_does_not_hide_the_next(agent: HookedAgent) -> None:
    agent.registry().write_bytes(b'{"agent":"wri')
    agent.register()
    assert agent.bash("npm test").returncode == 0
    assert len(agent.registry().read_bytes().splitlines()) == 2


# The client's own files


def test_a_pipe_in_place_of_a_state_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    os.mkfifo(tmp_path / "sessions" / f"{os.getpid()}.json")
    role = Role(name="r", harness="claude", environment={"CLAUDE_CONFIG_DIR": str(tmp_path)})
    process = identify(os.getpid(), boot_id())
    assert process is not None
    assert Claude().told_state(role, [process]) == "unknown"


@pytest.mark.parametrize("number", [b"1" + b"0" * 400, b"NaN", b"Infinity", b'"x"'])
def test_a_number_that_is_none_says_nothing_of_the_context(number: bytes) -> None:
    assert Claude().context(b'{"message":{"usage":{"input_tokens":' + number + b"}}}") is None


# The sandbox


def inside(agent: HookedAgent, text: str, hidden: tuple[str, ...] = (), work: tuple[str, ...] = ()) -> tuple[int, str]:
    command = sandbox.wrapped(agent.home, RUN, AGENT, ("sh", "-c", text), hidden, work)
    done = subprocess.run(command, env=agent.environment, capture_output=True, timeout=120, check=False)
    return done.returncode, done.stderr.decode()


def test_a_clients_folder_may_be_a_link(agent: HookedAgent) -> None:
    real, link = agent.project / "dotfiles", agent.project / ".claude"
    real.mkdir()
    os.symlink(real, link)
    assert inside(agent, f"echo x > {link}/sessions/1.json", hidden=(f"{link}/sessions",)) == (0, "")
    assert list((real / "sessions").iterdir()) == []


def test_the_guards_code_is_read_only_but_for_those_who_work_on_it(agent: HookedAgent) -> None:
    path = f"{sandbox.CODE}/guard/hook.py"
    code, said = inside(agent, f": >> {path}")
    assert code != 0
    assert "Read-only file system" in said
    assert inside(agent, f": >> {path}", work=(os.path.dirname(sandbox.CODE),)) == (0, "")


def test_a_project_in_the_home_can_be_written_and_the_home_cannot(agent: HookedAgent) -> None:
    home = agent.home
    project = f"{home.path}/projects/one"
    os.makedirs(project)
    assert inside(agent, f"echo x > {project}/file", work=(project,)) == (0, "")
    for work in (home.path, home.run(RUN), f"{home.path}/runs"):
        assert inside(agent, f"echo x > {home.run(RUN)}/file", work=(work,))[0] != 0, work


def test_a_spool_that_was_locked_is_opened_for_the_next_incarnation(agent: HookedAgent) -> None:
    assert inside(agent, "chmod 000 $DOGWATCH_SPOOL") == (0, "")
    assert inside(agent, "echo line >> $DOGWATCH_SPOOL") == (0, "")
    assert os.stat(agent.home.spool(RUN, AGENT)).st_mode & 0o777 == 0o600


def test_the_guards_code_is_protected_by_the_hook(agent: HookedAgent) -> None:
    agent.register()
    assert agent.bash(f"sed -i s/2/0/ {sandbox.CODE}/guard/hook.py").returncode == 2
    assert agent.lines("Denied")[0].payload()["rule"] == "path.settings"
    own = {"DOGWATCH_PROJECT": os.path.dirname(sandbox.CODE)}
    assert agent.bash(f"sed -i s/2/0/ {sandbox.CODE}/guard/hook.py", **own).returncode == 0


def test_what_is_wrong_with_an_agents_folder_is_a_start_that_failed(agent: HookedAgent) -> None:
    moment = Moment("b", 1.0, 1.0)
    run = RunRecord(
        run=RUN,
        spec="s",
        project_folder=folder_at(str(agent.project)),
        output_folder=folder_at(str(agent.project)),
        created=moment,
    )
    role = Role(name=AGENT, harness="command", command=(sys.executable, "-c", ""))
    plan = Plan(name="t", roles=(role,), phases=(), deliverable=ByteCheck(path="x"))
    record = agent_record(AGENT, run=RUN, name="n")
    Path(agent.home.spool(RUN, AGENT)).mkdir()
    with pytest.raises(SpawnFailedError, match="directory"):
        spawn(agent.home, boot_id(), run, plan, record)


# The ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "ledger.db"), ManualClock())
    yield store
    store.close()


def test_a_letter_that_was_acknowledged_on_its_way_is_put_away(ledger: SqliteStore) -> None:
    receiver = agent_record(AGENT, run=RUN, incarnation=2)
    letter = ledger.run(lambda tx: send(tx, receiver, "mail", "from-x", "hello", sender="x", key="k"))
    on_its_way = replace(letter, delivery=ACKNOWLEDGED, typing=POSTED)
    ledger.run(lambda tx: save(tx, on_its_way))
    ledger.run(lambda tx: take_back(tx, on_its_way))
    assert ledger.read(lambda reader: load(reader, MessageRecord, letter.key)) is None
    assert ledger.read(lambda reader: load(reader, MessageRecord, f"past-{letter.key}")) is not None


def test_an_acknowledged_letter_on_its_way_does_not_stop_the_next_incarnation(ledger: SqliteStore) -> None:
    agent = agent_record(AGENT, run=RUN, name="n")
    ledger.run(lambda tx: save(tx, agent))
    letter = ledger.run(lambda tx: send(tx, agent, "mail", "from-x", "hello", sender="x", key="k"))
    ledger.run(lambda tx: save(tx, replace(letter, delivery=ACKNOWLEDGED, typing=POSTED)))
    run = RunRecord(
        run=RUN, spec="s", project_folder=folder_at("/p"), output_folder=folder_at("/p"), created=Moment("b", 1.0, 1.0)
    )
    plan = Plan(name="t", roles=(), phases=(), deliverable=ByteCheck(path="x"), limits=Limits())
    view = RunView(plan=plan, run=run, agents={AGENT: agent})
    assert ledger.run(lambda tx: restart(tx, view, agent, "exited", []))
    assert ledger.read(lambda reader: load(reader, MessageRecord, letter.key)) is None


@pytest.mark.parametrize("made", ["folder", "pipe", "nothing"])
def test_a_spool_that_is_no_file_tells_nothing_and_stops_nobody(tmp_path: Path, made: str) -> None:
    path = tmp_path / "spool"
    if made == "folder":
        path.mkdir()
    if made == "pipe":
        os.mkfifo(path)
    assert SpoolReader(str(path), 1).turn().state == "none"


@pytest.mark.parametrize("field", [(1, "inf"), (2, "nan"), (2, "-inf"), (3, "1" * 40), (4, "9" * 30), (3, "-1")])
def test_a_line_with_numbers_that_are_none_is_not_read(field: tuple[int, str]) -> None:
    fields = ["1", "5.0", "6.0", "1", "42", "Stop", "2", "{}"]
    assert parse("\t".join(fields).encode()) is not None
    fields[field[0]] = field[1]
    assert parse("\t".join(fields).encode()) is None


def test_counts_that_the_ledger_does_not_take_hinder_nobody_elses(ledger: SqliteStore) -> None:
    now = Moment("b", 1.0, 1.0)
    lease = ledger.run(lambda tx: tx.acquire("watchdog", "w", 60.0))
    assert lease is not None
    agents = {name: agent_record(name, run=RUN, role="r") for name in ("bad", "good")}
    run = RunRecord(run=RUN, spec="s", project_folder=folder_at("/p"), output_folder=folder_at("/p"), created=now)
    plan = Plan(name="t", roles=(), phases=(), deliverable=ByteCheck(path="x"), limits=Limits())
    many = {str(number): Tally(denied={"kill.foreign": 1}) for number in range(30_000)}
    found = {"bad": AgentTally(incarnations=many), "good": AgentTally(incarnations={"1": Tally(denied={"x": 1})})}
    sights = dict.fromkeys(found, Sight())
    Books().keep(ledger, lease, RunView(plan=plan, run=run, agents=agents), found, sights, now)
    kept = ledger.read(lambda reader: load(reader, TallyRecord, TallyRecord(run=RUN, agent="good").key))
    assert kept is not None
    assert kept.sum.denied == {"x": 1}
    assert ledger.read(lambda reader: load(reader, TallyRecord, TallyRecord(run=RUN, agent="bad").key)) is None


def test_no_terminal_but_its_own_is_there(agent: HookedAgent) -> None:
    controller, terminal = os.openpty()
    try:
        path = os.ttyname(terminal)
        assert inside(agent, f"test ! -e {path} && test -w /dev/null && test -d /dev/shm") == (0, "")
        code = f"import os,pty; a, b = pty.openpty(); os.write(b, b'x'); assert os.read(a, 1) == b'x', {path!r}"
        assert inside(agent, f'{sys.executable} -c "{code}"') == (0, "")
    finally:
        os.close(controller)
        os.close(terminal)
