"""Documents of older versions become those of today; what cannot be understood stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.ledger.bodies import dump, load
from dogwatch.ledger.upgrades import UPGRADES, upgrade_to_3, upgraded_document
from dogwatch.model import keys
from dogwatch.model.admission import PermitRecord, WaitRecord
from dogwatch.model.codec import decode
from dogwatch.model.jobs import CheckInRecord, NoticeRecord
from dogwatch.model.memory import HostRecord
from dogwatch.model.records import CrewRecord, GateRecord, RunRecord

HOST = "0123456789abcdef"
AT = {"boot": "b", "mono": 1.0, "wall": 2.0}
PROCESS = {"boot": "b", "pid": 7, "start_ticks": 8}
LAUNCH = {"kind": "agent", "holder": "agent:r-1/writer", "run": "r-1", "agent": "writer"}
RUN = {"run": "r-1", "spec": "/s.yaml", "project": "/p", "output": "/p/out/r-1", "created": AT, "state": "RUNNING"}
CREW = {"member": "captain", "run": "r-1", "process": PROCESS, "started": AT, "starts": 3}
WORDS = ("host", "down", "crew", "permit", "waits", "gate", "check-in", "notice", "run")

OLD: list[tuple[str, dict[str, Any], str, Any]] = [
    ("host", {"at": AT, "since": AT, "zone": "RED"}, keys.host(HOST), HostRecord),
    ("crew//dispatcher", {**CREW, "member": "dispatcher", "run": ""}, keys.dispatcher(HOST), CrewRecord),
    ("crew/r-1/captain", CREW, keys.crew("r-1", "captain"), CrewRecord),
    ("permit/agent:r-1/writer", {"launch": LAUNCH, "granted": AT}, keys.permit(HOST, "agent:r-1/writer"), PermitRecord),
    (
        "waits/agent:r-1/writer",
        {"launch": LAUNCH, "since": AT, "answer": {"verdict": "hold"}},
        keys.wait(HOST, "agent:r-1/writer"),
        WaitRecord,
    ),
    ("gate/r-1/0/g", {"run": "r-1", "phase": 0, "gate": "g", "process": PROCESS}, keys.gate("r-1", 0, "g"), GateRecord),
    ("check-in/r-1/i", {"run": "r-1", "item": "i", "process": PROCESS}, keys.check_in("r-1", "i"), CheckInRecord),
    ("notice/r-1/i", {"run": "r-1", "item": "i", "process": PROCESS}, keys.notice("r-1", "i"), NoticeRecord),
]
"""Key and body of version 2, the key of today and the record that is found there."""


@pytest.mark.parametrize(("key", "body", "new_key", "kind"), OLD, ids=[key for key, *_ in OLD])
def test_what_is_a_host_s_says_whose(key: str, body: dict[str, Any], new_key: str, kind: type) -> None:
    before = copy.deepcopy(body)
    upgraded = upgrade_to_3(key, body, HOST)
    assert upgraded is not None
    assert body == before
    assert upgraded[0] == new_key
    record: Any = decode(kind, upgraded[1])
    assert (record.host, record.key) == (HOST, new_key)
    assert {name: value for name, value in upgraded[1].items() if name != "host"} == before


def test_the_mark_that_a_host_is_down_is_that_host_s() -> None:
    assert upgrade_to_3("down", {"by": 7}, HOST) == (keys.down(HOST), {"by": 7})


@pytest.mark.parametrize("project", ["/", "/p", "/p/", "p", "", "//p", "/p/../q"])
@pytest.mark.parametrize("output", ["/", "/p/out/r-1", "/p", "/p/", "/elsewhere", "out", "", "//p/out", "/p//out"])
def test_a_run_s_folders_are_the_same_as_before(project: str, output: str) -> None:
    upgraded = upgrade_to_3("run/r-1", {**RUN, "project": project, "output": output}, HOST)
    assert upgraded is not None
    record = decode(RunRecord, upgraded[1])
    assert (record.key, record.project, record.output, record.state) == ("run/r-1", project, output, "RUNNING")


def test_an_output_in_the_project_goes_where_the_project_goes() -> None:
    upgraded = upgrade_to_3("run/r-1", RUN, HOST)
    assert upgraded is not None
    record = decode(RunRecord, upgraded[1])
    assert (record.output_folder.root, record.output_folder.path) == (record.project, "out/r-1")


@pytest.mark.parametrize(
    ("key", "body"),
    [
        ("gate/r-1/0/g", {"run": "r-1", "phase": 0, "gate": "g", "process": None}),
        ("plan/r-1", {"project": "/p"}),
        ("task/r-1/t", {"host": "x"}),
        ("queued/r-1", {"run": "r-1", "number": 1}),
        ("home", {"host": "x", "path": "/p", "hostname": "h"}),
        ("hosts", {}),
    ],
)
def test_what_is_the_fleet_s_stays_as_it_is(key: str, body: dict[str, Any]) -> None:
    assert upgrade_to_3(key, body, HOST) is None


@pytest.mark.parametrize(("key", "body"), [(key, body) for key, body, *_ in OLD] + [("run/r-1", RUN), ("down", {})])
@pytest.mark.parametrize("host", [HOST, "", "agent:r-1", "host"])
def test_what_was_upgraded_once_is_left_alone(key: str, body: dict[str, Any], host: str) -> None:
    upgraded = upgrade_to_3(key, body, host)
    assert upgraded is not None
    assert upgrade_to_3(*upgraded, host) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["launch", "holder", "process", "host", "project", "output", "project_folder", "run"])


@given(
    key=st.builds(
        lambda word, rest: word + rest, st.sampled_from(WORDS), st.sampled_from(["", "/", "//", "/r", "/r/a"])
    ),
    body=st.dictionaries(FIELDS, JSON, max_size=5) | JSON,
)
def test_an_odd_document_is_never_lost_and_never_an_error(key: str, body: Any) -> None:
    text = dump(body) if isinstance(body, dict) else str(body)
    found = upgraded_document(key, text, list(UPGRADES.values()), HOST)
    if found is None:
        return
    new_key, new_text = found
    kept = load(new_text)
    assert {name: value for name, value in body.items() if name not in ("project", "output", "host")}.items() <= {
        **kept
    }.items() or key.startswith("run")
    assert new_key.partition("/")[0] in (*WORDS, "dispatcher")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"host"', "[" * 100_000])
def test_what_is_no_object_stays_as_it_is(text: str) -> None:
    assert upgraded_document("host", text, list(UPGRADES.values()), HOST) is None


def test_a_key_that_would_become_too_long_stays_as_it_is() -> None:
    holder = "agent:" + "r" * 1000
    body = {"launch": {**LAUNCH, "holder": holder}, "granted": AT}
    assert upgraded_document(f"permit/{holder}", dump(body), list(UPGRADES.values()), HOST) is None
