"""`host.yaml`: whatever stands there, the operator is told in words, and what was right before still holds."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from dogwatch.cli.checks_home import home_findings
from dogwatch.coordination.crew import LEASE_S
from dogwatch.crew.dispatcher.zoning import LOOK_S, MemoryWatch
from dogwatch.crew.shared.eyes import MachineEyes
from dogwatch.crew.shared.log import Log
from dogwatch.crew.shared.membership import join
from dogwatch.errors import SpecError
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.memory import GB, HostRecord, HostSettings
from dogwatch.sim.ledger import SimStore
from dogwatch.spec.host import BYTES_MAX, load_host, parse_host
from dogwatch.testing.clock import ManualClock
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, identify
from support.cli_ledgers import short_home

WHOLE = b"""
memory: 64 GB
agent_memory: 512 MB
agents: 40
parallel: 3
wave: 7
roles: {writer: 3, judge: 0}
harnesses: {claude: 20}
credentials: {work: 5}
confidence: 0.9
calm_s: 30
idle_s: 900
cycle_s: 60.5
growth_s: 30
silent_s: 20
"""


def refused(text: str | bytes) -> str:
    with pytest.raises(SpecError) as caught:
        parse_host(text if isinstance(text, bytes) else text.encode())
    error = caught.value
    assert error.message.startswith("host.yaml: "), error.message
    assert error.hint, error.message
    assert len(error.message) < 2000
    assert error.message.isprintable(), repr(error.message)
    return error.message


def test_all_settings_are_read() -> None:
    assert parse_host(WHOLE) == HostSettings(
        memory_bytes=64 * GB,
        agent_memory_bytes=GB // 2,
        agents=40,
        parallel=3,
        wave=7,
        roles={"writer": 3, "judge": 0},
        harnesses={"claude": 20},
        credentials={"work": 5},
        confidence=0.9,
        calm_s=30.0,
        idle_s=900.0,
        cycle_s=60.5,
        growth_s=30.0,
        silent_s=20.0,
    )


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "null"])
def test_an_empty_file_means_all_defaults(text: str) -> None:
    assert parse_host(text.encode()) == HostSettings()


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 GB", 64 * GB), ("1.5GB", 3 * GB // 2), ("512 mb", GB // 2), ("1 TB", 1024 * GB), (" 2 GB ", 2 * GB)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_host(f"memory: '{text}'".encode()).memory_bytes == size


@pytest.mark.parametrize("text", ["off", "'off'", "no", "false"])
def test_the_limit_of_agents_can_be_switched_off(text: str) -> None:
    assert parse_host(f"agent_memory: {text}".encode()).agent_memory_bytes == -1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory: 64", "no size such as 16 GB"),
        ("memory: 0 GB", "less than 1 MB"),
        ("memory: -1 GB", "no size"),
        ("memory: 1 KB", "less than 1 MB"),
        ("memory: 9 GiBB", "no size"),
        ("memory: [1 GB]", "no size"),
        ("memory: off", "no size"),
        ("agent_memory: 0", "no size"),
        ("agent_memory: on", "no size"),
        ("agents: 0", "no number from 1"),
        ("agents: -3", "no number from 1"),
        ("agents: 3.5", "no number from 1"),
        ("agents: true", "no number from 1"),
        ("agents: many", "no number from 1"),
        ("agents: 100001", "no number from 1"),
        ("parallel: 1e400", "no number from 1"),
        ("wave:", "no number from 1"),
        ("roles: 3", "no mapping of names to numbers"),
        ("roles: [writer]", "no mapping of names to numbers"),
        ("roles: {1: 3}", "no mapping of names to numbers"),
        ("roles: {writer: -1}", "no number from 1"),
        ("roles: {writer: false}", "no number from 1"),
        ("harnesses: {claude: lots}", "no number from 1"),
        ("credentials: {work: .nan}", "no number from 1"),
        ("confidence: 1", "no probability"),
        ("confidence: .nan", "no probability"),
        ("confidence: .inf", "no probability"),
        ("confidence: 0.2", "no probability"),
        ("confidence: yes", "no probability"),
        ("confidence: '0.9'", "no probability"),
        ("calm_s: 0", "no number of seconds"),
        ("idle_s: .nan", "no number of seconds"),
        ("idle_s: 10 min", "no number of seconds"),
        ("cycle_s: true", "no number of seconds"),
        ("cycle_s: 4", "no number of seconds from 5"),
        ("growth_s: 241", "no number of seconds from 5 to 240"),
        ("silent_s: 5", "no number of seconds from 6"),
        ("calm_s: 86400", "no number of seconds from 1 to 3600"),
        ("agents: 4\nagents: 40", "'agents' stands there twice"),
        ("roles: {a: 1, b: 2, a: 3}", "'a' stands there twice"),
        ("memry: 1 GB", "there is no setting 'memry'"),
        ("? [a]\n: 1", "not YAML"),
        ("1: 1", "there is no setting '1'"),
        ("null: 1", "there is no setting 'None'"),
        ("just words", "where settings were expected"),
        ("- memory: 1 GB", "where settings were expected"),
        ("a: b: c", "not YAML"),
        ("a: [", "not YAML"),
        ("\tmemory: 1 GB", "not YAML"),
        ("a: 1\n---\nb: 2", "not YAML"),
        ("memory: !!python/object:os.system x", "not YAML"),
        ("memory: 2001-99-99", "not YAML"),
        ("a: &a [*a]", "there is no setting 'a'"),
        ("memory: &a [*a]", "no size"),
        ("agents: " + "9" * 5000, "not YAML"),
        ("[" * 400, "not YAML"),
        ("\x1b[31m: 1", "not YAML"),
        ("'" + "x" * 1000 + "': 1", "there is no setting"),
        ("'" + "x" * 5000 + "': 1", "not YAML"),
        ('"\\e[31mred": 1', "there is no setting"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(text: str, words: str) -> None:
    assert words in refused(text)


def test_bytes_that_are_no_text_are_refused() -> None:
    assert "not YAML" in refused(b"memory: \xff\xfe")


def test_aliases_that_would_fill_the_memory_are_refused_at_once() -> None:
    lines = ["a: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"b{n}: &a{n} [{', '.join(['*a' + str(n - 1)] * 9)}]" for n in range(1, 30)]
    refused("\n".join(lines))
    refused("\n".join([*lines, "memory: *a29"]))
    assert "no size" in refused("memory: " + "[" * 20 + "]" * 20)


NAMES = st.sampled_from(
    [
        "memory",
        "agent_memory",
        "agents",
        "parallel",
        "wave",
        "roles",
        "harnesses",
        "credentials",
        "confidence",
        "idle_s",
        "x",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.dates()
    | st.binary(max_size=8)
    | st.sampled_from(["1 GB", "off", "64 GB", "0 GB", "99999999999 TB"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_values_give_settings_or_an_error_in_words(values: dict[str, object]) -> None:
    check(yaml.safe_dump(values, allow_unicode=True).encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"%YAML 9.9\n---\n")
@example(b"!!binary x: 1")
@example(b"=: 1")
@example(b"<<: 1")
@example(b"memory: !!timestamp x")
@example(b"memory: !!bool x")
@example(b"memory: !!int ''")
@example(b"memory: !!float x")
@example(b"roles: !!set {a}")
@example(b"roles: !!omap [a: 1]")
@example(b"agents: 0b")
@example(b"agents: 1:60:99")
def test_any_bytes_give_settings_or_an_error_in_words(data: bytes) -> None:
    check(data)


def check(data: bytes) -> None:
    told: list[SpecError] = []
    try:
        found = parse_host(data)
    except SpecError as error:
        told.append(error)
    if told:
        assert told[0].message.startswith("host.yaml: ")
        assert told[0].message.isprintable()
        assert told[0].hint
        return
    assert found.memory_bytes == 0 or found.memory_bytes >= 1024**2
    assert found.agent_memory_bytes in (0, -1) or found.agent_memory_bytes >= 1024**2
    assert 0 <= found.agents <= 100_000
    assert 1 <= found.parallel <= 100_000
    assert 1 <= found.wave <= 100_000
    assert 0.5 <= found.confidence < 1
    assert 1 <= found.idle_s <= 86_400
    for caps in (found.roles, found.harnesses, found.credentials):
        assert all(isinstance(name, str) and 0 <= cap <= 100_000 for name, cap in caps.items())


# The file itself.


def test_no_file_means_all_defaults(tmp_path: Path) -> None:
    assert load_host(str(tmp_path / "host.yaml")) == HostSettings()


def test_a_folder_a_pipe_a_device_or_a_huge_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * (BYTES_MAX + 1))
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for name in (".", "pipe", "large", "link", "loop"):
        with pytest.raises(SpecError) as caught:
            load_host(str(tmp_path / name))
        assert caught.value.hint
    held = os.open(tmp_path / "pipe", os.O_RDWR)
    with pytest.raises(SpecError):
        load_host(str(tmp_path / "pipe"))
    os.close(held)


# What a dispatcher and the operator see of it.


class Desk:
    """A dispatcher's eyes on a home, and its look at memory."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.clock = ManualClock()
        self.ledger = SimStore(self.clock)
        self.log: list[str] = []
        self.restart()

    def restart(self) -> None:
        """A new dispatcher, which remembers nothing."""
        boot = boot_id()
        self.selector = selectors.DefaultSelector()
        self.eyes = MachineEyes(self.home, boot, self.selector, "dispatcher", "")
        self.watch = MemoryWatch()
        process = identify(os.getpid(), boot)
        assert process is not None
        self.clock.advance(60.0)
        lease = join(self.ledger, "dispatcher", "", process, lambda one: "dead", self.clock.now())
        assert lease is not None
        self.lease = lease

    def look(self) -> HostRecord:
        self.clock.advance(LOOK_S)
        self.lease = self.ledger.run(lambda tx: tx.renew(self.lease, LEASE_S))
        log = Log("dispatcher", "", self.log.append)
        self.watch.look(self.eyes, self.ledger, self.lease, [], self.clock.now(), log)
        host = self.ledger.read(lambda reader: load(reader, HostRecord, keys.host(reader.host)))
        assert host is not None
        return host

    def write(self, text: str) -> None:
        # A new file each time: the time stamp alone may be the same.
        other = Path(f"{self.home.host}.new")
        other.write_text(text)
        other.rename(self.home.host)


@pytest.fixture
def desk() -> Iterator[Desk]:
    with short_home() as folder:
        home = Home(str(folder), "")
        os.makedirs(os.path.dirname(home.beat("dispatcher", "")), exist_ok=True)
        desk = Desk(home)
        yield desk
        desk.selector.close()


def test_a_file_that_breaks_keeps_the_last_good_settings_and_says_so(desk: Desk) -> None:
    assert (desk.look().settings, desk.look().problem) == (HostSettings(), "")
    desk.write("roles: {writer: 0}\nparallel: 4")
    good = HostSettings(roles={"writer": 0}, parallel=4)
    assert desk.look().settings == good
    desk.write("roles: {writer: none")
    broken = desk.look()
    assert broken.settings == good
    assert "not YAML" in broken.problem
    assert sum("host_settings_refused" in line for line in desk.log) == 1
    desk.look()
    assert sum("host_settings_refused" in line for line in desk.log) == 1, "said once"
    desk.write("parallel: 5")
    mended = desk.look()
    assert (mended.settings, mended.problem) == (HostSettings(parallel=5), "")


def test_a_new_dispatcher_does_not_lift_the_caps_of_a_file_that_broke(desk: Desk) -> None:
    desk.write("roles: {writer: 0}\nmemory: 8 GB")
    good = desk.look().settings
    desk.write("roles: {writer: 0")
    desk.look()
    desk.restart()
    host = desk.look()
    assert host.settings == good
    assert host.problem
    assert host.readings.size_bytes is not None
    assert host.readings.size_bytes <= 8 * GB


def test_a_file_that_was_broken_from_the_beginning_means_the_defaults(desk: Desk) -> None:
    desk.write("agents: many")
    host = desk.look()
    assert host.settings == HostSettings()
    assert "agents" in host.problem


def test_a_file_that_is_gone_means_the_defaults_again(desk: Desk) -> None:
    desk.write("agents: 4")
    assert desk.look().settings.agents == 4
    os.unlink(desk.home.host)
    assert (desk.look().settings, desk.look().problem) == (HostSettings(), "")


def test_doctor_says_what_is_wrong_with_the_file(desk: Desk) -> None:
    def finding() -> tuple[str, str, str]:
        found = next(one for one in home_findings({"DOGWATCH_HOME": desk.home.path}) if one.subject == "host.yaml")
        return found.level, found.text, found.fix

    assert finding() == ("ok", "none: the defaults hold", "")
    desk.write("agents: 4")
    assert finding() == ("ok", desk.home.host, "")
    desk.write("agnets: 4")
    state, text, fix = finding()
    assert state == "problem"
    assert "there is no setting 'agnets'" in text
    assert "agents" in fix
