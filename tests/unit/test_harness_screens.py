"""The screens of real agent CLIs: every capture is read as what it was, and a client is known by its processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dogwatch.cli.sightings import CLIENTS, Client, Onlooker, Sighting, recognise
from dogwatch.harness import Screen
from dogwatch.world.onlooker import Pane, Process

SCREENS = Path(__file__).resolve().parent.parent / "data" / "screens"
READERS: dict[str, Client] = {client.name: client for client in CLIENTS}
CLAUDE, CODEX, OPENCODE = "✳ Claude Code", "codex", "OC | scripted title"
READY, WORKING = "◇  Ready (gemini)", "✦  Working… (gemini)"

# Each capture with the title that its pane had, what it shows, and what stands in its composer.
EXPECTED: list[tuple[str, str, str, str | None]] = [
    ("claude/after-answer", CLAUDE, "idle", ""),
    ("claude/after-autocompact", CLAUDE, "idle", ""),
    ("claude/after-compact", CLAUDE, "idle", ""),
    ("claude/after-esc-prompt-restored", CLAUDE, "error", "@@err 500@@@@err 429@@"),
    ("claude/after-interrupt", CLAUDE, "idle", ""),
    ("claude/after-model", CLAUDE, "dialog", None),
    ("claude/api-error-529-final", CLAUDE, "error", ""),
    ("claude/api-retry-500", CLAUDE, "retry", ""),
    ("claude/busy-bash", CLAUDE, "busy", ""),
    ("claude/busy-hang", CLAUDE, "busy", ""),
    ("claude/busy-hang-12s", CLAUDE, "busy", ""),
    ("claude/busy-queued", CLAUDE, "busy", ""),
    ("claude/busy-stall", CLAUDE, "busy", ""),
    ("claude/exited-sigHUP", "", "shell", None),
    ("claude/exited-sigKILL", CLAUDE, "shell", None),
    ("claude/exited-to-shell", "", "shell", None),
    ("claude/exited-to-shell-fullscreen", "", "shell", None),
    ("claude/firstrun-1", "", "shell", None),
    ("claude/firstrun-2", "", "dialog", None),
    ("claude/firstrun-3", "", "dialog", None),
    ("claude/firstrun-4-idle", "", "idle", ""),
    ("claude/firstrun-5-automode-dialog", "", "dialog", None),
    ("claude/idle", "", "idle", ""),
    ("claude/idle-with-background-shell", CLAUDE, "idle", ""),
    ("claude/permission-prompt", CLAUDE, "permission", None),
    ("claude/plain-busy-bash", "", "busy", ""),
    ("claude/plain-busy-hang", "", "busy", ""),
    ("claude/plain-busy-hang-25s", "", "busy", ""),
    ("claude/plain-done", "", "idle", ""),
    ("claude/plain-idle", "", "idle", ""),
    ("claude/plain-permission", "", "permission", None),
    ("claude/plain-tmuxenv-busy-hang", "", "busy", ""),
    ("claude/plain-tmuxenv-idle", "", "idle", ""),
    ("claude/subagent-done", CLAUDE, "idle", ""),
    ("claude/subagent-running", CLAUDE, "busy", ""),
    ("claude/teammate", CLAUDE, "idle", ""),
    ("codex/after-answer", CODEX, "idle", ""),
    ("codex/after-approval", CODEX, "idle", ""),
    ("codex/after-bash", CODEX, "idle", ""),
    ("codex/after-compact", CODEX, "idle", ""),
    ("codex/after-esc-stall", CODEX, "idle", ""),
    ("codex/after-interrupt", CODEX, "idle", ""),
    ("codex/api-429", CODEX, "error", ""),
    ("codex/api-error-final", CODEX, "error", ""),
    ("codex/api-retry", "⠸ codex", "retry", ""),
    ("codex/api-retry-3s", "⠧ codex", "retry", ""),
    ("codex/busy-bash", "⠹ codex", "busy", ""),
    ("codex/busy-hang", "⠇ codex", "busy", ""),
    ("codex/busy-stall", "⠋ codex", "busy", ""),
    ("codex/canary-refused", "ws", "idle", ""),
    ("codex/exited-sigkill", "⠹ codex", "shell", None),
    ("codex/exited-to-shell", "", "shell", None),
    ("codex/firstrun-1", "", "dialog", None),
    ("codex/firstrun-2-hook-review", "", "dialog", None),
    ("codex/idle", CODEX, "idle", ""),
    ("codex/model-news", "", "dialog", None),
    ("codex/permission-prompt", "[ ! ] Action Required | codex", "permission", None),
    ("codex/second-pane", "", "idle", ""),
    ("codex/stop-block", CODEX, "idle", ""),
    ("codex/subagent-done", CODEX, "idle", ""),
    ("codex/subagent-running", CODEX, "idle", ""),  # a sub-agent of Codex does not show on the screen
    ("codex/zombie-nudged-shell", "", "shell", None),
    ("gemini/after-answer", READY, "idle", ""),
    ("gemini/after-compact", READY, "idle", ""),
    ("gemini/after-interrupt", READY, "idle", ""),
    ("gemini/api-error-final", READY, "error", ""),
    ("gemini/api-retry", WORKING, "busy", ""),  # retries of Gemini do not show on the screen
    ("gemini/api-retry-2", WORKING, "busy", ""),
    ("gemini/api-retry-72s", WORKING, "busy", ""),
    ("gemini/busy-bash", WORKING, "busy", ""),
    ("gemini/busy-hang", WORKING, "busy", ""),
    ("gemini/exited-sigkill", READY, "shell", None),
    ("gemini/exited-to-shell", "", "shell", None),
    ("gemini/firstrun-trust", READY, "dialog", None),
    ("gemini/idle", READY, "idle", ""),
    ("gemini/permission-edit", "", "permission", None),
    ("gemini/permission-shell", "", "permission", None),
    ("gemini/permission-subagent", "", "permission", None),
    ("opencode/after-answer", OPENCODE, "idle", ""),
    ("opencode/after-approve", OPENCODE, "idle", ""),
    ("opencode/after-compact", OPENCODE, "idle", ""),
    ("opencode/after-esc1", OPENCODE, "busy", ""),
    ("opencode/after-interrupt", OPENCODE, "idle", ""),
    ("opencode/api-retry", OPENCODE, "retry", ""),
    ("opencode/busy-bash", OPENCODE, "busy", ""),
    ("opencode/busy-hang", OPENCODE, "busy", ""),
    ("opencode/exited-sigkill", OPENCODE, "shell", None),
    ("opencode/exited-to-shell", "", "shell", None),
    ("opencode/idle", "OpenCode", "idle", ""),
    ("opencode/permission-prompt", OPENCODE, "permission", None),
    ("opencode/wide-permission-edit", OPENCODE, "permission", None),
    ("opencode/wide-refused", OPENCODE, "idle", ""),
]


def capture(name: str) -> tuple[str, ...]:
    return tuple((SCREENS / f"{name}.txt").read_text(encoding="utf-8").split("\n"))


def read(name: str, title: str = "") -> Screen:
    return READERS[name.partition("/")[0]].read(capture(name), title)


@pytest.mark.parametrize(("name", "title", "state", "composer"), EXPECTED, ids=[row[0] for row in EXPECTED])
def test_a_real_screen_is_read_as_what_it_was(name: str, title: str, state: str, composer: str | None) -> None:
    assert read(name, title) == Screen(state, composer)  # type: ignore[arg-type]


def test_every_capture_is_in_the_table() -> None:
    captures = {f"{path.parent.name}/{path.stem}" for path in SCREENS.glob("*/*.txt")}
    assert captures == {row[0] for row in EXPECTED}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude/permission-prompt", "Bash python3 -c 'import time; time.sleep(30)' > out.txt"),
        ("claude/after-model", "Switch model?"),
        ("claude/firstrun-3", "Do you want to use this API key?"),
        ("codex/permission-prompt", "Bash touch /srv/lab/tmp/zz"),
        ("codex/firstrun-1", "Hooks need review"),
        ("opencode/permission-prompt", "Bash touch zz"),
        ("opencode/wide-permission-edit", "Edit mark"),
    ],
)
def test_a_dialog_tells_what_it_asks(name: str, expected: str) -> None:
    assert READERS[name.partition("/")[0]].question(capture(name)) == expected


@pytest.mark.parametrize("client", ["claude", "codex", "opencode", "gemini"])
@pytest.mark.parametrize("lines", [(), ("",), ("hello", "world"), ("│ a table │", "─" * 60, "text")])
def test_a_screen_that_no_pattern_knows_is_unknown(client: str, lines: tuple[str, ...]) -> None:
    assert READERS[client].read(lines) == Screen("unknown", None)


@pytest.mark.parametrize("name", [row[0] for row in EXPECTED])
def test_what_stands_higher_up_is_history(name: str) -> None:
    """Whether as an older frame of the client's own, or quoted as an agent quotes what its tools have printed."""
    client = name.partition("/")[0]
    now = ("", "● that was it", *capture(f"{client}/idle"))
    assert READERS[client].read([*capture(name), *now]).state == "idle"
    assert READERS[client].read([*(f"  {line}" for line in capture(name)), *now]).state == "idle"


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        ("claude/idle", "❯", "❯ fix the tests", "fix the tests"),
        ("claude/idle", "❯", "❯ one\n  two", "one\ntwo"),
        ("claude/idle", "❯", '❯ Try "fix lint errors"', ""),
        ("claude/idle", "❯", "> fix the tests", "fix the tests"),
        ("codex/idle", "Ask Codex to do anything", "fix the tests", "fix the tests"),
        ("opencode/idle", 'Ask anything… "Fix broken tests"', "fix the tests", "fix the tests"),
        ("gemini/idle", "  Type your message or @path/to/file", "fix the tests", "fix the tests"),
    ],
)
def test_a_draft_in_the_composer_is_read(name: str, before: str, after: str, expected: str) -> None:
    lines = "\n".join(line.rstrip() for line in capture(name)).replace(before, after).split("\n")
    assert READERS[name.partition("/")[0]].read(lines) == Screen("idle", expected)


def test_gemini_says_by_its_title_that_it_waits_for_permission() -> None:
    assert read("gemini/busy-hang", "✋  Action Required (gemini)").state == "permission"


def test_codex_says_by_its_title_alone_that_it_works() -> None:
    assert read("codex/busy-hang", "codex").state == "idle"
    assert read("codex/busy-hang", "⠇ codex").state == "busy"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude/exited-sigKILL", "killed"),
        ("codex/exited-sigkill", "killed"),
        ("opencode/exited-sigkill", "killed"),
        ("gemini/exited-sigkill", "killed"),
        ("claude/exited-to-shell", "ended"),
        ("codex/exited-to-shell", "ended"),
        ("opencode/exited-to-shell", "ended"),
        ("gemini/exited-to-shell", "ended"),
        ("codex/zombie-nudged-shell", ""),
    ],
)
def test_what_a_client_has_left_behind_tells_how_it_ended(name: str, expected: str) -> None:
    assert READERS[name.partition("/")[0]].remains(capture(name)) == expected


def process(pid: int, parent: int, *words: str, session: int = 1, front: bool = True, state: str = "S") -> Process:
    group = 1 if front else pid
    return Process(
        pid=pid,
        parent=parent,
        state=state,
        group=group,
        session=session,
        front_group=1,
        cpu_s=0.0,
        rss_bytes=2**20,
        start_ticks=pid,
        age_s=120.0,
        name=words[0],
        argv=words,
    )


@pytest.mark.parametrize(
    ("words", "client"),
    [
        (("claude",), "claude"),
        (("/home/me/.local/bin/claude", "--resume", "x"), "claude"),
        (("node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"), "claude"),
        (("node", "--max-old-space-size=8192", "/usr/local/bin/claude"), "claude"),
        (("node", "/usr/bin/codex"), "codex"),
        (("/x/codex-linux-x64/vendor/codex/codex",), "codex"),
        (("/x/opencode-ai/bin/opencode.exe",), "opencode"),
        (("/usr/bin/node", "/srv/gemini/node_modules/@google/gemini-cli/bundle/gemini.js"), "gemini"),
        (("/bin/sh", "/usr/local/bin/gemini"), "gemini"),
        (("python3", "-m", "dogwatch.testing.agent", "--scenario", "x.json"), "scripted"),
        (("vim", "claude"), None),
        (("grep", "-r", "codex"), None),
        (("bash", "-c", "claude"), None),
        (("node", "-e", "gemini"), None),
        (("codex-linux-sandbox", "--", "ls"), None),
        (("claude-monitor",), None),
        (("-bash",), None),
    ],
)
def test_a_client_is_known_by_its_program(words: tuple[str, ...], client: str | None) -> None:
    found, _ = recognise([process(2, 1, *words)])
    assert (found and found.name) == client


def test_a_client_that_an_agent_has_started_is_not_the_pane_s_own() -> None:
    found, at = recognise([process(1, 0, "bash", front=False), process(2, 1, "claude"), process(3, 2, "codex", "exec")])
    assert found is not None
    assert (found.name, at and at.pid) == ("claude", 2)


def pane(screen: str, *tree: Process, title: str = "", dead: bool = False, command: str = "") -> Pane:
    lines = capture(screen) if screen else ("",)
    return Pane(9, "%1", "api", 0, 0, dead, command, title, lines, tree)


def seen(*looks: Pane, every_s: float = 2.0) -> Sighting:
    """The sighting of the last of several looks."""
    onlooker = Onlooker()
    return [onlooker.see([look], number * every_s) for number, look in enumerate(looks)][-1][0]


CLAUDE_TREE = (process(1, 0, "bash", front=False), process(2, 1, "claude"))


def test_a_prompt_that_flashes_between_two_tool_calls_is_not_idle() -> None:
    busy, idle = pane("claude/busy-bash", *CLAUDE_TREE), pane("claude/idle", *CLAUDE_TREE)
    assert [seen(*looks).state for looks in ([busy, idle], [busy, idle, busy], [busy, idle, idle])] == [
        "busy",
        "busy",
        "idle",
    ]
    assert seen(idle, idle).state == "idle"
    assert seen(idle, busy).state == "busy"


@pytest.mark.parametrize("before", ["api-retry-500", "permission-prompt", "api-error-529-final"])
def test_two_looks_that_differ_and_end_at_the_prompt_are_busy(before: str) -> None:
    assert seen(pane(f"claude/{before}", *CLAUDE_TREE), pane("claude/idle", *CLAUDE_TREE), every_s=0.3).state == "busy"


def test_the_age_of_a_state_counts_from_the_look_that_first_saw_it() -> None:
    busy, idle = pane("claude/busy-bash", *CLAUDE_TREE), pane("claude/idle", *CLAUDE_TREE)
    changed = seen(busy, busy, idle, idle, idle)
    assert (changed.state_s, changed.change_seen) == (4.0, True)
    always = seen(busy, busy, busy)
    assert (always.state_s, always.change_seen) == (4.0, False)
    assert seen(busy).state_s is None
    assert seen(busy, busy, every_s=0.3).state_s is None


def test_a_client_whose_process_is_gone_has_exited() -> None:
    shell = process(1, 0, "bash")
    gone = seen(pane("claude/busy-bash", *CLAUDE_TREE), pane("claude/busy-bash", shell))
    assert (gone.client, gone.state, gone.needs_you) == ("claude", "exited", True)
    assert gone.doing == "its process has exited, the shell is back"
    assert (gone.pid, gone.rss_bytes, gone.cpu_percent) == (None, None, None)


def test_a_killed_client_is_known_by_what_it_left_on_the_screen() -> None:
    killed = seen(pane("codex/exited-sigkill", process(1, 0, "zsh")))
    assert (killed.client, killed.state, killed.needs_you) == ("codex", "exited", True)
    ended = seen(pane("claude/exited-to-shell", process(1, 0, "zsh")))
    assert (ended.client, ended.state, ended.needs_you) == ("claude", "ended", False)
    other = seen(pane("codex/zombie-nudged-shell", process(1, 0, "zsh")))
    assert (other.client, other.state) == ("shell", "shell")


def test_a_dead_pane_is_known_by_the_command_it_was_started_with() -> None:
    dead = seen(pane("", dead=True, command='"claude --model opus"'))
    assert (dead.client, dead.state, dead.doing) == ("claude", "exited", "its process has exited, the pane is kept")


def test_a_suspended_client_is_told() -> None:
    tree = (process(1, 0, "bash"), process(2, 1, "claude", front=False, state="T"))
    assert (seen(pane("claude/idle", *tree)).state, seen(pane("claude/idle", *tree)).needs_you) == ("stopped", True)


def test_a_living_client_under_a_shell_s_screen_is_unknown() -> None:
    strange = seen(pane("claude/exited-to-shell", *CLAUDE_TREE))
    assert (strange.state, strange.doing) == ("unknown", "its process lives, but a shell is on the screen")


def test_a_tool_is_told_and_a_server_of_the_client_is_not() -> None:
    server = process(3, 2, "python3", "mcp_server.py")
    tool = (
        process(4, 2, "codex-linux-sandbox", "--", "x", session=4),
        process(5, 4, "bwrap", "--new-session", session=4),
        process(6, 5, "bash", "-c", "pytest -q", session=4),
        process(7, 6, "/usr/bin/pytest", "-q", session=4),
    )
    assert seen(pane("claude/busy-bash", *CLAUDE_TREE, server)).doing == "busy; no tool is running"
    assert seen(pane("claude/busy-bash", *CLAUDE_TREE, server, *tool)).doing == "busy; runs `pytest -q` for 2m"
    idle = seen(pane("claude/idle-with-background-shell", *CLAUDE_TREE, *tool))
    assert (idle.state, idle.doing) == ("idle", "idle at its prompt; still runs `pytest -q` for 2m")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("/srv/.venv/bin/python3", "/srv/.venv/bin/pytest", "-q"), "pytest -q"),
        (("python3", "-m", "pytest", "tests"), "pytest tests"),
        (("/usr/bin/make", "-j8", "all"), "make -j8 all"),
        (("bash", "-c", "for i in 1 2 3; do echo; done"), "bash -c for i in 1 2 3; do…"),
    ],
)
def test_a_tool_is_named_by_what_it_runs(words: tuple[str, ...], expected: str) -> None:
    assert seen(pane("claude/busy-bash", *CLAUDE_TREE, process(4, 2, *words, session=4))).tool == expected


def test_text_of_others_cannot_move_the_cursor() -> None:
    evil = Pane(9, "%1", "a\x1b[2J", 0, 0, False, "", "", ("",), (process(1, 0, "vi\x1b[2Jm"),))
    assert "\x1b" not in f"{seen(evil).session}{seen(evil).program}{seen(evil).doing}"


def test_those_that_need_a_person_stand_first_and_shells_last() -> None:
    panes = [
        Pane(9, f"%{number}", name, 0, 0, False, "", "", capture(screen) if screen else ("",), tree)
        for number, (name, screen, tree) in enumerate(
            [
                ("a", "", (process(1, 0, "bash"),)),
                ("b", "claude/idle", CLAUDE_TREE),
                ("c", "claude/permission-prompt", CLAUDE_TREE),
            ]
        )
    ]
    assert [sighting.session for sighting in Onlooker().see(panes, 0.0)] == ["c", "b", "a"]
