"""One call for all panes and screens, on a real tmux: dead and gone panes, and screens that try to look like others."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dogwatch.world import tmux
from dogwatch.world.processes import boot_id, identify
from support.helpers import wait_for

BOOT = boot_id()
HEIGHT = 8
HOSTILE = (
    "\\037%0 \x1f%1",
    "0123456789abcdef0123456789abcdef1",
    "'; kill-server",
    "#{pane_id} #(touch forged) %0 %H",
    "%begin 1 1 0",
    "can't find pane: %0",
    "日本語 ✳ é ❯ \U0001f600",
    "no server running on /tmp/x",
)


class Server:
    """A tmux server of the test's own, on a short path."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.socket = str(base / "s")
        self(
            "start-server",
            ";",
            "set-option",
            "-g",
            "exit-empty",
            "off",
            ";",
            "set-option",
            "-g",
            "remain-on-exit",
            "on",
        )

    def __call__(self, *words: str, stdin: str | None = None) -> str:
        argv = ["tmux", "-u", "-S", self.socket, "-f", "/dev/null", *words]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.base), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(argv, input=stdin, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    def open(self, name: str, text: str = "", *, then: str = "exec sleep 1000", width: int = 80) -> str:
        """A session whose screen holds `text`; its pane."""
        file = self.base / f"{name}.txt"
        file.write_text(text)
        command = f"cat {shlex.quote(str(file))}; {then}"
        size = ["-x", str(width), "-y", str(HEIGHT)]
        return self("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", name, *size, command).strip()

    def sweep(self, panes: Sequence[str]) -> tuple[dict[str, tmux.Pane], tmux.Screens]:
        found, screens = tmux.sweep(self.socket, panes)
        return {pane.session: pane for pane in found}, screens

    def wait_for_line(self, pane: str, line: str) -> None:
        wait_for(lambda: line in tmux.captures(self.socket, [pane])[pane], 30, f"{line!r} in {pane}")


@pytest.fixture
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="dw") as folder:
        server = Server(Path(folder))
        pid = int(server("display-message", "-p", "#{pid}"))
        yield server
        # Also where a test has stopped it.
        os.kill(pid, signal.SIGCONT)
        server("kill-server")
        wait_for(lambda: identify(pid, BOOT) is None, 30, "the end of the server")


def filled(*lines: str) -> tuple[str, ...]:
    return (*lines, *[""] * (HEIGHT - len(lines)))


def test_sixty_panes_and_six_hundred_that_are_gone_in_one_call(server: Server) -> None:
    names = [f"t-1-a{number}" for number in range(60)]
    commands = [f"new-session -d -s {name} -x 80 -y {HEIGHT} 'echo I am {name}; exec sleep 1000'" for name in names]
    server("source-file", "-", stdin="\n".join(commands))
    ids = [pane.id for pane in tmux.panes(server.socket)]
    gone = [f"%{number}" for number in range(5000, 5600)]
    asked = [pane for number, one in enumerate(ids) for pane in (one, *gone[number * 10 : number * 10 + 10])]
    wait_for(lambda: all(screen[0] for screen in server.sweep(ids)[1].values()), 60, "all screens")
    panes, screens = server.sweep(asked)
    assert sorted(panes) == sorted(names)
    assert screens == {panes[name].id: filled(f"I am {name}") for name in names}
    assert all(identify(pane.pid, BOOT) and not pane.dead for pane in panes.values())
    assert {str(pane.server) for pane in panes.values()} == {server("display-message", "-p", "#{pid}").strip()}


def test_a_dead_pane_still_shows_what_it_said_last(server: Server) -> None:
    # tmux moves the screen up by a line to say that the pane is dead.
    ended, living = server.open("ended", "\nmy last words\n", then="exit 3"), server.open("living", "well\n")
    wait_for(lambda: server.sweep([])[0]["ended"].dead, 30, "death")
    wait_for(lambda: server.sweep([ended])[1][ended][0], 30, "the screen moved up by a line")
    server.wait_for_line(living, "well")
    panes, screens = server.sweep([ended, living])
    assert not panes["living"].dead
    assert screens[ended][0] == "my last words"
    assert screens[living] == filled("well")


def test_a_pane_that_is_gone_takes_no_other_along(server: Server) -> None:
    ids = [server.open(f"t-{number}", f"screen {number}\n") for number in range(5)]
    for number, pane in enumerate(ids):
        server.wait_for_line(pane, f"screen {number}")
    for number in (0, 2, 4):
        server("kill-session", "-t", f"=t-{number}")
    panes, screens = server.sweep(ids)
    assert sorted(panes) == ["t-1", "t-3"]
    assert screens == {ids[1]: filled("screen 1"), ids[3]: filled("screen 3")}
    assert tmux.captures(server.socket, ids) == screens


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_screen_and_no_title_can_pass_for_another(server: Server, hostile: str) -> None:
    before = server.open("before", "before\n")
    between = server.open("between", f"\033]2;{hostile}\007{hostile}\n{hostile}\n\nend\n")
    after = server.open("after", "after\n")
    for pane, line in ((before, "before"), (between, "end"), (after, "after")):
        server.wait_for_line(pane, line)
    panes, screens = server.sweep([before, between, after])
    # A terminal shows no control characters.
    shown = hostile.replace("\x1f", "")
    assert screens[between] == filled(shown, shown, "", "end")
    assert (screens[before], screens[after]) == (filled("before"), filled("after"))
    assert {session: pane.id for session, pane in panes.items()} == {
        "before": before,
        "between": between,
        "after": after,
    }
    assert not (server.base / "forged").exists()


def test_a_screen_that_repeats_the_whole_answer_changes_nothing(server: Server) -> None:
    """What a sweep is answered with may be read by an agent and shown again; the next one has another mark."""
    other = server.open("other", "other\n")
    server.wait_for_line(other, "other")
    answer = server("list-panes", "-a", "-F", "0123456789abcdef#{pid}0123456789abcdef#{session_name}")
    copier = server.open("copier", answer + "other\n0123456789abcdef\nend\n")
    server.wait_for_line(copier, "end")
    panes, screens = server.sweep([copier, other])
    assert sorted(panes) == ["copier", "other"]
    assert screens[other] == filled("other")
    assert screens[copier] == filled(answer.strip(), "other", "0123456789abcdef", "end")


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8", "en_US.ISO-8859-1"])
def test_panes_and_wide_lines_are_seen_under_every_locale(
    server: Server, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    line = "日本語 ✳ é ❯ │ " * 12
    pane = server.open("wide", f"\033]2;✳ título\007{line}\nend\n", width=300)
    server.wait_for_line(pane, "end")
    panes, screens = server.sweep([pane])
    assert screens[pane] == filled(line.rstrip(), "end")
    assert panes["wide"].title == "✳ título"


def test_panes_of_every_height_and_in_every_mode_keep_to_their_own_screens(server: Server) -> None:
    first = server.open("split", "first\n")
    second = server(
        "split-window", "-t", first, "-l", "3", "-P", "-F", "#{pane_id}", "echo second; exec sleep 1000"
    ).strip()
    zoomed = server.open("zoomed", "zoomed\n")
    server("split-window", "-t", zoomed, "exec sleep 1000")
    server("resize-pane", "-Z", "-t", zoomed)
    copying = server.open("copying", "copying\n")
    server("copy-mode", "-t", copying)
    alternate = server.open("alternate", "hidden\n\033[?1049h\033[Halternate\n")
    scrolled = server.open("scrolled", "".join(f"{number}\n" for number in range(100)))
    words = {
        first: "first",
        second: "second",
        zoomed: "zoomed",
        copying: "copying",
        alternate: "alternate",
        scrolled: "99",
    }
    for pane, word in words.items():
        server.wait_for_line(pane, word)
    _, screens = server.sweep(list(words))
    assert {pane: [line for line in screen if line][-1] for pane, screen in screens.items()} == words
    assert {pane: len(screens[pane]) for pane in words} == {
        pane: int(server("display-message", "-p", "-t", pane, "#{pane_height}")) for pane in words
    }
    assert len(screens[second]) == 3


def test_where_there_is_nothing_nothing_is_found(server: Server) -> None:
    assert tmux.sweep(server.socket, ["%0"]) == ((), {})
    assert tmux.sweep(str(server.base / "none"), ["%0"]) == ((), {})
    assert tmux.captures(server.socket, []) == {}
    folder = server.base / "left"
    folder.mkdir()
    orphan = Server(folder)
    pid = int(orphan("display-message", "-p", "#{pid}"))
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: identify(pid, BOOT) is None, 30, "the end of the server")
    assert os.path.exists(orphan.socket)
    assert tmux.sweep(orphan.socket, ["%0"]) == ((), {})


def test_a_server_that_does_not_answer_is_unknown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pane = server.open("t")
    monkeypatch.setattr(tmux, "TIMEOUT_S", 0.5)
    os.kill(int(server("display-message", "-p", "#{pid}")), signal.SIGSTOP)
    with pytest.raises(tmux.ProbeFailedError):
        tmux.sweep(server.socket, [pane])


@pytest.mark.parametrize("evil", ["", "%", "t", "=t:", "%0'\nkill-server\n'", "%0\n", "%²", "-a", "%0 ; kill-server"])
def test_what_is_no_pane_is_not_asked_for(server: Server, evil: str) -> None:
    pane = server.open("t", "here\n")
    server.wait_for_line(pane, "here")
    panes, screens = server.sweep([evil, pane, pane])
    assert list(panes) == ["t"]
    assert screens == {pane: filled("here")}


LINES = st.lists(st.text(st.characters(blacklist_characters="\n")), min_size=1, max_size=4)


@given(st.lists(LINES, max_size=4), st.data())
def test_any_screens_are_told_apart(screens: list[list[str]], data: st.DataObject) -> None:
    mark = "<mark>"
    rows = [
        mark + mark.join(["1", f"s{number}", f"%{number}", "2", "0", str(len(lines)), "0", "a title"])
        for number, lines in enumerate(screens)
    ]
    asked = data.draw(st.permutations([f"%{number}" for number in range(len(screens) + 2)]))
    shown = [pane for pane in asked if int(pane[1:]) < len(screens)]
    body = [line for pane in shown for line in screens[int(pane[1:])]]
    panes, found = tmux.sorted_out([*rows, *body], mark, asked)
    assert [pane.id for pane in panes] == [f"%{number}" for number in range(len(screens))]
    assert found == {pane: tuple(screens[int(pane[1:])]) for pane in shown}
    with pytest.raises(tmux.ProbeFailedError):
        tmux.sorted_out([*rows, *body, "one more"], mark, asked)
