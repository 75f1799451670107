"""Which tool calls prove that a client has read a file, and what a file's version is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dogwatch.model.spool import PAYLOAD_BYTES_MAX, SpoolLine, render
from dogwatch.policy.readings import BEGUN_MAX, Reads, TheFile, is_reading, note
from dogwatch.policy.versions import version_of
from dogwatch.spec.load import load
from dogwatch.world.instructions import BYTES_MAX, InstructionsFile, ReadingReader

FILE = TheFile(frozenset({"/proj/doc/writer.md"}), 300)
SHORT = TheFile(frozenset({"/proj/doc/writer.md"}), 12)


def call(name: str, cwd: str = "/proj", **given: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": given, "cwd": cwd}


@pytest.mark.parametrize(
    "what",
    [
        call("Read", file_path="/proj/doc/writer.md"),
        call("Read", file_path="doc/writer.md"),
        call("Read", file_path="/proj/./doc/../doc/writer.md", offset=1, limit=2000),
        call("read_file", absolute_path="/proj/doc/writer.md"),
        call("read_file", file_path="writer.md", offset=0, limit=250, cwd="/proj/doc"),
        call("read", filePath="/proj/doc/writer.md"),
        call("view", path="/proj/doc/writer.md", view_range=[1, -1]),
        call("mcp__files__read_text_file", path="/proj/doc/writer.md"),
        call("Bash", command="cat doc/writer.md"),
        call("Bash", command="cat -n '/proj/doc/writer.md' other.md # all of it"),
        call("Bash", command="sed -n '1,$p' doc/writer.md"),
        call("shell", command=["bash", "-lc", "sed -n 1,200p doc/writer.md"]),
        call("shell", command=["cat", "writer.md"], workdir="doc"),
        call("run_shell_command", command="head -n 500 doc/writer.md"),
        call("exec_command", cmd="tail -n +1 doc/writer.md"),
        call("Read", file_path="/proj/doc/writer.md", offset="1", limit="250"),
        call("Bash", command="cat README.md && cat doc/writer.md"),
        call("Bash", command="ls -la; cat doc/writer.md; echo done"),
        call("Bash", command="cat doc/writer.md && ls | head -3"),
        call("Bash", command="cd doc && cat writer.md"),
        call("Bash", command="cd /proj/doc; sed -n 1,220p writer.md; pwd", cwd="/"),
        call("Bash", command="cd 'doc' && ls && cat writer.md 2>/dev/null"),
        call("Bash", command="cat missing.md doc/writer.md 2> /dev/null; true"),
        call("Bash", command="sed -n -e '1,220p' doc/writer.md"),
        call("Bash", command="sed -ne '1,$p' doc/writer.md"),
        call("Bash", command="cat doc/*.md"),
        call("Bash", command='cd "/proj" && head -n 300 d?c/wr*.md'),
        call("Bash", command="echo '&& it'\\''s' \"a; b\" && cat doc/writer.md # that's it; really"),
        call("read_many_files", paths=["README.md", "doc/writer.md"]),
        call("read_many_files", include=["**/*.md"]),
        call("read_many_files", paths=["/proj/doc/**"]),
        call("read_many_files", paths="doc/*.md"),
    ],
)
def test_a_whole_reading_is_proof(what: dict[str, Any]) -> None:
    assert is_reading(what, FILE)


@pytest.mark.parametrize(
    "what",
    [
        call("Read", file_path="/proj/doc/other.md"),
        call("Read", file_path="writer.md"),
        call("Read", file_path="/proj/doc/writer.md", offset=250),
        call("Read", file_path="/proj/doc/writer.md", limit=5),
        call("view", path="/proj/doc/writer.md", view_range=[200, -1]),
        call("Write", file_path="/proj/doc/writer.md"),
        call("Grep", path="/proj/doc/writer.md"),
        call("Bash", command="cat doc/writer.md > /dev/null"),
        call("Bash", command="cat doc/writer.md | head -1"),
        call("Bash", command="true || cat doc/writer.md"),
        call("Bash", command="echo\ncat doc/writer.md"),
        call("Bash", command="echo cat doc/writer.md"),
        call("Bash", command="head doc/writer.md"),
        call("Bash", command="sed -n 250,300p doc/writer.md"),
        call("Bash", command="sed -i s/a/b/ doc/writer.md"),
        call("Bash", command="grep -c . doc/writer.md"),
        call("Bash", command="tail doc/writer.md"),
        call("Bash", command="cat 'doc/writer.md"),
        call("Bash", command=""),
        call("Bash", command=["cat", 7]),
        call("Bash", command=["cat", "doc/*.md"]),
        call("Read", file_path="/proj/doc/writer.md", limit="5"),
        call("Read", file_path="/proj/doc/writer.md", limit="many"),
        call("Bash", command="cat --help doc/writer.md && true"),
        call("Bash", command="cat doc/writer.md || true"),
        call("Bash", command="true || ls && cat doc/writer.md && ls || true"),
        call("Bash", command="false && cat doc/writer.md; true"),
        call("Bash", command="ls & cat doc/writer.md"),
        call("Bash", command="cat doc/writer.md &"),
        call("Bash", command="ls | cat doc/writer.md"),
        call("Bash", command="cat doc/writer.md | cat"),
        call("Bash", command="echo '&&' cat doc/writer.md"),
        call("Bash", command='echo ";" cat doc/writer.md'),
        call("Bash", command="echo \\; cat doc/writer.md"),
        call("Bash", command='echo "$(echo "a; cat doc/writer.md; b")"'),
        call("Bash", command="echo `ls; cat doc/writer.md; ls`"),
        call("Bash", command="echo $'\\'; cat doc/writer.md; '"),
        call("Bash", command="true # && cat doc/writer.md"),
        call("Bash", command="if false; then ls; cat doc/writer.md; fi"),
        call("Bash", command="false && { ls; cat doc/writer.md; }; true"),
        call("Bash", command="(false && cat doc/writer.md); true"),
        call("Bash", command="exit 0; cat doc/writer.md"),
        call("Bash", command="cat doc/writer.md 2 > /dev/null"),
        call("Bash", command="cat doc/writer.md 'x'2>/dev/null"),
        call("Bash", command="cat doc/writer.md &> /dev/null"),
        call("Bash", command="cd doc && cat doc/writer.md"),
        call("Bash", command="ls; cd / && cat doc/writer.md"),
        call("Bash", command='cd "$HOME" && cat doc/writer.md'),
        call("Bash", command="cd - && cat doc/writer.md"),
        call("Bash", command="cat 'doc/*.md'"),
        call("Bash", command="cat *.md"),
        call("Bash", command="cat */*/writer.md"),
        call("Bash", command="cat doc/[^w]riter.md"),
        call("Bash", command="cat doc/*w*r*i*t*e*r*.md"),
        call("Bash", command="cat **/doc/writer.md"),
        call("Bash", command="sed -n 1,220p doc/*.md"),
        call("Bash", command="sed -n -e 1,5p doc/writer.md"),
        call("read_many_files", paths=["*.md"]),
        call("read_many_files", paths=["**/*.md"], exclude=["doc/**"]),
        call("read_many_files", paths=[7, ""]),
        call("read_many_files"),
        {"tool_name": "Read", "tool_input": "doc/writer.md", "cwd": "/proj"},
        {},
    ],
)
def test_whatever_shows_less_is_none(what: dict[str, Any]) -> None:
    assert not is_reading(what, FILE)


def test_of_a_short_file_its_length_is_enough() -> None:
    assert is_reading(call("Bash", command="head -20 doc/writer.md"), SHORT)
    assert is_reading(call("Read", file_path="/proj/doc/writer.md", limit=12), SHORT)
    assert not is_reading(call("Bash", command="head doc/writer.md"), SHORT)


def line(event: str, mono: float, what: dict[str, Any]) -> SpoolLine:
    raw = json.dumps(what).encode()
    return SpoolLine(1.0, mono, 1, 7, event, len(raw), raw[:PAYLOAD_BYTES_MAX])


def test_a_reading_counts_from_its_beginning_and_only_where_it_succeeded() -> None:
    what = {**call("Read", file_path="/proj/doc/writer.md"), "tool_use_id": "t1"}
    begun = note(Reads(), line("PreToolUse", 10.0, what), FILE)
    assert begun.at == 0.0
    assert note(begun, line("PostToolUseFailure", 11.0, what), FILE).at == 0.0
    assert note(begun, line("PostToolUse", 12.0, {**what, "tool_response": {"exit_code": 1}}), FILE).at == 0.0
    done = note(begun, line("PostToolUse", 12.0, {**what, "tool_response": {"stdout": "…"}}), FILE)
    assert done == Reads(10.0, {})
    assert note(Reads(), line("PostToolUse", 12.0, {**what, "agent_id": "a1"}), FILE).at == 0.0, "a sub-agent's"


def test_a_reading_whose_answer_was_cut_counts() -> None:
    what = {**call("Read", file_path="/proj/doc/writer.md"), "tool_use_id": "t1"}
    long = {**call("Read", file_path="/proj/doc/writer.md"), "tool_response": "x" * 70000, "tool_use_id": "t1"}
    begun = note(Reads(), line("PreToolUse", 10.0, what), FILE)
    assert not line("PostToolUse", 12.0, long).payload()
    assert note(begun, line("PostToolUse", 12.0, long), FILE).at == 10.0


def test_a_reading_by_a_pattern_is_noticed_in_the_spool() -> None:
    what = {**call("Bash", command="cat doc/*.md"), "tool_use_id": "t1"}
    assert note(Reads(), line("PostToolUse", 12.0, what), FILE).at == 12.0


def test_of_calls_that_never_end_only_the_newest_are_kept() -> None:
    reads = Reads()
    for number in range(300):
        what = {**call("Read", file_path="/proj/doc/writer.md"), "tool_use_id": f"t{number}"}
        reads = note(reads, line("PreToolUse", 10.0 + number, what), FILE)
    assert len(reads.begun) == BEGUN_MAX
    assert max(reads.begun.values()) == 309.0
    assert min(reads.begun.values()) == 310.0 - BEGUN_MAX


def test_a_version_is_what_the_front_matter_says_or_else_the_digest() -> None:
    assert version_of(b"---\nname: writer\nversion: 1.4\n---\nWrite.\n").name == "1.4"
    assert version_of(b'---\r\nversion: "2.0-rc1"  # soon\r\n---\r\nWrite.\r\n').name == "2.0-rc1"
    plain = version_of(b"Write.\nversion: 3\n")
    assert plain.name == plain.digest[:12]
    assert version_of(b"---\nversion: 1\nno end").name != "1"
    assert version_of(b"\xff\xfe---").lines == 1
    assert version_of(b"a\n").digest != version_of(b"b\n").digest


def test_a_file_is_read_when_it_looks_different_and_settles(tmp_path: Path) -> None:
    path = tmp_path / "writer.md"
    file = InstructionsFile(str(path))
    assert file.version() is None
    path.write_text("one\n")
    first = file.version()
    assert first is not None
    assert not first.settled
    os.utime(path, (1e9, 1e9))
    settled = file.version()
    assert settled is not None
    assert settled.settled
    assert settled.digest == first.digest
    path.write_text("")
    assert file.version() is None
    path.unlink()
    os.mkfifo(path)
    assert file.version() is None, "nobody waits for a pipe"


def test_a_file_that_was_written_anew_with_its_old_time_is_another(tmp_path: Path) -> None:
    path = tmp_path / "writer.md"
    path.write_text("one\n")
    os.utime(path, (1e9, 1e9))
    file, before = InstructionsFile(str(path)), os.stat(path)
    first = file.version()
    path.write_text("two\n")
    while os.stat(path).st_ctime_ns == before.st_ctime_ns or os.stat(path).st_mtime_ns != before.st_mtime_ns:
        os.utime(path, (1e9, 1e9))  # the clock of the file system ticks slowly
    second = file.version()
    assert first is not None
    assert second is not None
    assert first.digest != second.digest


def test_a_long_spool_is_read_in_several_looks(tmp_path: Path) -> None:
    spool, path = tmp_path / "spool", str(tmp_path / "writer.md")
    read = {**call("Read", file_path=path), "tool_use_id": "t1"}
    other = render(1.0, 6.0, 1, 7, "Notification", {"message": "x" * 60000})
    spool.write_bytes(
        render(1.0, 5.0, 1, 7, "PostToolUse", read)
        + other * (2 * BYTES_MAX // len(other))
        + render(1.0, 9.0, 1, 7, "PostToolUse", read)
    )
    reader = ReadingReader(str(spool), 1, path, 3)
    assert [reader.at() for _ in range(3)] == [5.0, 5.0, 9.0]


def test_a_spool_tells_of_its_own_incarnation_only(tmp_path: Path) -> None:
    spool, path = tmp_path / "spool", str(tmp_path / "writer.md")
    read = {**call("Read", file_path=path), "tool_use_id": "t1"}
    spool.write_bytes(render(1.0, 5.0, 1, 7, "PostToolUse", read))
    assert ReadingReader(str(spool), 2, path, 3).at() == 0.0
    reader = ReadingReader(str(spool), 1, path, 3)
    assert reader.at() == 5.0
    with open(spool, "ab") as file:
        file.write(b"garbage\n" + render(1.0, 9.0, 1, 7, "PostToolUse", read))
    assert reader.at() == 9.0


def spec(tmp_path: Path, instructions: str) -> str:
    text = {
        "name": "t",
        "roles": {"writer": {"harness": "command", "command": ["cat"], "instructions": instructions}},
        "phases": [
            {"name": "p", "dispatches": [{"name": "d", "to": "writer", "task": "Write.", "outputs": ["draft.md"]}]}
        ],
        "deliverable": {"path": "draft.md"},
    }
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(text))
    return str(path)


def test_the_file_of_a_role_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "writer.md").write_text("Write well.\n")
    loaded = load(spec(tmp_path, "writer.md"))
    assert loaded.roles[0].instructions == str(tmp_path / "writer.md")
    (tmp_path / "empty.md").write_text("")
    for name, why in (("missing.md", "there is no file 'missing.md'"), ("empty.md", "are empty")):
        with pytest.raises(Exception, match=why):
            load(spec(tmp_path, name))
