"""What the fast hook lets pass at once is what the client's JSON really says, and plainly harmless."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dogwatch.guard.fast import _READING_TOOLS, is_harmless
from dogwatch.guard.plain import plainly_harmless
from support.hooking import SAMPLES, call

WORDS = r"""ls cat echo grep kill 1 tmux kill-server src x.py && | ; " ' \ / \n \u006b \\ \" $(ls) ` > 2>&1 { } "} é 😀
git commit >/dev/null ","command":"kill "tool_name":"Read" "tool_input":{"command":"ls" """.split()
PIECES = st.sampled_from([*WORDS, "git status", "\n", "\t", " ", "\b", "\r", "\x7f", "\0", "\ud800", "\udcff"])
COMMANDS = st.one_of(
    st.lists(PIECES, max_size=8).map(" ".join), st.lists(PIECES, max_size=8).map("".join), st.text(max_size=40)
)

MEMBERS = [
    '"tool_name":"Bash"',
    '"tool_name":"Read"',
    '"tool_name": "Bash"',
    r'"tool_nam\u0065":"Bash"',
    r'"x\"tool_name":"Read"',
    '"tool_input":{"command":"ls"}',
    '"tool_input":{"command":"kill 1"}',
    '"tool_input" :{"command":"kill 1"}',
    r'"tool_inpu\u0074":{"command":"kill 1"}',
    '"tool_input":{"command":"ls","command":"kill 1"}',
    r'"tool_input":{"command":"ls","comman\u0064":"kill 1"}',
    r'"tool_input":{"command":"\u006bill 1"}',
    '"tool_name":"Bash","tool_input":{"command":"ls"}',
    '"tool_name":"Bash","tool_input":{"command":"ls","command": "kill 1"}',
    '"tool_name":"Read","tool_input":{}',
    '"effort":{"level":"low"}',
    '"effort":{"tool_name":"Read","tool_input":{"command":"ls"}}',
    '"effort":"}"',
]
"""What stands in an object: keys that come twice, in any order, in any writing, and deeper than they should."""


@settings(max_examples=300, derandomize=True)
@given(command=COMMANDS, description=COMMANDS, ascii_only=st.booleans())
def test_what_passes_at_once_is_plainly_harmless_as_json_has_it(
    command: str, description: str, ascii_only: bool
) -> None:
    tool_input = {"command": command, "description": description}
    text = json.dumps({"tool_name": "Bash", "tool_input": tool_input}, separators=(",", ":"), ensure_ascii=ascii_only)
    if is_harmless(text.encode("utf-8", "surrogatepass")):
        assert plainly_harmless(command.encode("utf-8", "surrogatepass"))


@settings(max_examples=300, derandomize=True)
@given(members=st.lists(st.sampled_from(MEMBERS), max_size=4), is_inner=st.booleans())
def test_no_arrangement_of_keys_makes_harm_pass(members: list[str], is_inner: bool) -> None:
    text = "{" + ",".join(members) + "}"
    text = '{"x":' + text + "}" if is_inner else text
    if is_harmless(text.encode()):
        told = json.loads(text)
        assert told["tool_name"] in ("Read", "Bash")
        assert told["tool_name"] == "Read" or plainly_harmless(told["tool_input"]["command"].encode())


def bash(command: str) -> bytes:
    """The payload with this text between the quotes of the command."""
    return call("Bash", {"command": "COMMAND"}).replace(b"COMMAND", command.encode())


@pytest.mark.parametrize(
    "payload",
    [
        call("Bash", {"command": "ls"}),
        call("Bash", {"command": "ls"}) + b"\n",
        call("Bash", {"command": 'grep -n "a b" x | head\nwc -l x', "description": 'says "tool_name":"Bash" é'}),
        call("Read", {"file_path": '/x "tool_name":"Bash"'}),
        call("Read", {"file_path": "\\"}),
        call("Task", {"prompt": "tmux kill-server"}),
        bash("ls\\tsrc\\nls"),
    ],
)
def test_harmless_calls_pass_at_once(payload: bytes) -> None:
    assert isinstance(json.loads(payload), dict)
    assert is_harmless(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b'"tool_name":"Read"',
        b'["tool_name":"Read","tool_input":{}]',
        bash("kill 1"),
        bash("\\u006bill 1"),
        bash("ls \\u0026\\u0026 kill 1"),
        bash("ls \\\\"),
        bash('ls \\\\","x":"'),
        bash("ls \\/"),
        bash("ls \\r"),
        bash("ls \\b"),
        bash('ls \\"'),
        bash("ls\\nkill 1"),
        bash('ls","command":"kill 1'),
        bash('ls","comm\\u0061nd":"kill 1'),
        call("Bash", {"description": "x", "command": "ls"}),
        call("Bash", {"x": {"command": "ls"}}),
        call("Bash", {"command": ["ls"]}),
        call("Bash", {"command": "kill 1", "description": '"tool_name":"Read"'}),
        call("Bash", {"command": "kill 1", "x": {"tool_name": "Read"}}),
        call("Bash", {"command": "kill 1", "x": {"tool_name": "Read", "tool_input": {"command": "ls"}}}),
        call("Bash", {"command": "kill 1", 'x"tool_name': "Read"}),
        call("Bash", {"command": "kill 1"}).replace(b'"tool_name":"Bash"', b'"tool_name":"Read","tool_name":"Bash"'),
        call("Bash", {"command": "kill 1"}).replace(b'"tool_name":"Bash"', b'"tool_name":"Bash","tool_name":"Read"'),
        call("Bash", {"command": "kill 1", "tool_name": "Read"}).replace(b'"tool_name":"Bash"', b'"tool_name": "Bash"'),
        call("Bash", {"command": "ls"})[:-1] + b',"tool_input" : {"command":"kill 1"}}',
        b'{"tool_input":{"tool_name":"Read","command":"kill 1"}}',
        b'{"tool_input":{"tool_name":"Read","tool_input":{"command":"ls"}},"tool_n\\u0061me":"Bash"}',
        b'{"x":{"tool_name":"Read","tool_input":{}},"tool_name" :"Bash","tool_input" :{"command":"kill 1"}}',
        call("Read", {}).replace(b'"Read"', b'"Read\\u0000"'),
        call("read", {}),
        call("Readx", {}),
        call("mcp__x__Read", {}),
        call("Write", {"file_path": "x"}),
        (SAMPLES / "PreToolUse.json").read_bytes(),
    ],
)
def test_all_else_is_left_to_the_full_guard(payload: bytes) -> None:
    assert not is_harmless(payload)


def test_no_tool_that_runs_or_writes_something_passes_by_its_name() -> None:
    for tool in (b"Bash", b"Write", b"Edit", b"MultiEdit", b"NotebookEdit", b"Monitor", b"PowerShell", b"REPL"):
        assert tool not in _READING_TOOLS


def written(path: str, cwd: str, tool: str = "Write") -> bytes:
    payload = json.loads(call(tool, {"file_path": path, "content": "x"})) | {"cwd": cwd}
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()


def test_a_file_of_the_project_is_written_at_once(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for path in ("a.py", "src/a.py", "not/there/yet.py", "über.py"):
        assert is_harmless(written(f"{tmp_path}/{path}", str(tmp_path))), path


def test_a_file_elsewhere_hidden_or_behind_a_link_is_left_to_the_full_guard(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to(tmp_path)
    (project / "file").symlink_to(tmp_path / "other")
    (project / "loop").symlink_to(project / "loop")
    cwd = str(project)
    for path in (
        f"{tmp_path}/a.py",
        "a.py",
        f"{cwd}/../a.py",
        f"{cwd}/.claude/settings.json",
        f"{cwd}/.git/hooks/pre-commit",
        f"{cwd}//a.py",
        f"{cwd}/link/a.py",
        f"{cwd}/file",
        f"{cwd}/loop/a.py",
        f"{cwd}x/a.py",
        f"{cwd}/tmux-0/default",
        f'{cwd}/a"b',
        "",
    ):
        assert not is_harmless(written(path, cwd)), path
    assert not is_harmless(written("/proc/1/mem", "/proc"))
    assert not is_harmless(written(f"{cwd}/a.py", cwd, "NotebookEdit"))
