"""The scripted agent alone, in a real tmux: what it does, what it shows, and what its ground truth says."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dogwatch.actions.registry import register
from dogwatch.harness import Screen, harness
from dogwatch.model import brief, spool
from dogwatch.model.process import ProcessId
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, identify
from support.helpers import wait_for
from support.records import agent_record

DISPATCH = "[dogwatch:m1 dispatch analyse]\n" + brief.dispatch(
    "analyse", "Look at it.", (("a/report.md", "report"), ("data.json", "file"))
)
NUDGE = "[dogwatch:m2 nudge analyse]\n" + brief.nudge("task", "analyse")

STAND_IN = """#!/bin/sh
printf '%s\\n' "$*" >> {lab}/calls
[ -f {lab}/stdout-$1 ] && cat {lab}/stdout-$1
[ -f {lab}/exit-$1 ] && exit "$(cat {lab}/exit-$1)"
exit 0
"""


class Lab:
    """A tmux server of its own, and a stand-in for the `dogwatch` command that logs how it is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "out"
        self.starts = 0
        (folder / "bin").mkdir()
        (folder / "bin" / "dogwatch").write_text(STAND_IN.format(lab=folder))
        (folder / "bin" / "dogwatch").chmod(0o755)

    def tmux(self, *arguments: str, stdin: bytes = b"") -> str:
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        command = ["tmux", "-u", "-S", str(self.folder / "tmux"), "-f", "/dev/null", *arguments]
        done = subprocess.run(command, input=stdin, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def start(self, *rules: dict[str, Any], incarnation: int = 1, **top: Any) -> None:
        (self.folder / "scenario.json").write_text(json.dumps({"work_s": 0.2, "rules": rules, **top}))
        environment = {
            "DOGWATCH_HOME": str(self.folder / "home"),
            "DOGWATCH_RUN": self.folder.name,
            "DOGWATCH_ROLE": "analyst",
            "DOGWATCH_INCARNATION": str(incarnation),
            "DOGWATCH_SPOOL": str(self.folder / "spool"),
            "DOGWATCH_OUTPUT": str(self.output),
            "SCRIPTED_TRUTH": str(self.folder / "truth"),
            "PS1": "shell # ",
        }
        given = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        session = ("new-session", "-d", "-s", "agent", "-x", "100", "-y", "30", *given)
        agent = (sys.executable, "-m", "dogwatch.testing.agent", "--scenario", str(self.folder / "scenario.json"))
        self.starts += 1
        status = self.folder / f"status-{self.starts}"
        launcher = ("sh", "-c", f'"$@"; echo $? > {status}.new; mv {status}.new {status}', "sh")
        options = ("set", "-g", "remain-on-exit", "on", ";", "set", "-s", "exit-empty", "off", ";")
        self.tmux("start-server", ";", *options, *session, *launcher, *agent)
        self.register(incarnation)

    def register(self, incarnation: int) -> None:
        """What a captain does for its agents, so that the guard knows them."""
        pid = int(self.tmux("display-message", "-p", "-t", "=agent:", "#{pane_pid}"))
        process = identify(pid, boot_id()) or ProcessId("", pid, 0)
        home = Home(str(self.folder / "home"))
        os.makedirs(home.run(self.folder.name), exist_ok=True)
        agent = agent_record("analyst", run=self.folder.name, incarnation=incarnation)
        register(home, agent, process)

    def ready(self, *rules: dict[str, Any], **top: Any) -> None:
        self.start(*rules, **top)
        self.did("ready")

    def paste(self, text: str) -> None:
        self.tmux("load-buffer", "-", ";", "paste-buffer", "-p", "-d", "-t", "=agent:", stdin=text.encode())

    def key(self, *names: str) -> None:
        self.tmux("send-keys", "-t", "=agent:", *names)

    def prompt(self, text: str) -> None:
        self.paste(text)
        wait_for(lambda: self.read().composer, what="the paste in the composer")
        self.key("Enter")

    def lines(self) -> list[str]:
        return self.tmux("capture-pane", "-p", "-t", "=agent:").split("\n")

    def read(self) -> Screen:
        return harness("scripted").read(self.lines())

    def shows(self, screen: Screen) -> None:
        wait_for(lambda: self.read() == screen, what=f"{screen}")

    def becomes(self, state: str) -> Screen:
        def there() -> Screen | None:
            screen = self.read()
            return screen if screen.state == state else None

        seen = wait_for(there, what=f"the screen state {state}")
        assert seen is not None
        return seen

    def truth(self, word: str) -> list[dict[str, Any]]:
        path = self.folder / "truth"
        lines = path.read_text().splitlines() if path.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["did"] == word]

    def did(self, word: str, times: int = 1) -> dict[str, Any]:
        wait_for(lambda: len(self.truth(word)) >= times, what=f"{word} in the ground truth")
        return self.truth(word)[times - 1]

    def hooks(self, event: str = "") -> list[spool.SpoolLine]:
        path = self.folder / "spool"
        lines = [spool.parse(raw) for raw in path.read_bytes().splitlines()] if path.exists() else []
        assert None not in lines
        return [line for line in lines if line is not None and event in ("", line.event)]

    def hook(self, event: str, times: int = 1) -> dict[str, Any]:
        wait_for(lambda: len(self.hooks(event)) >= times, what=f"the hook {event}")
        return self.hooks(event)[times - 1].payload()

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def pid(self) -> int:
        return int(self.did("started")["pid"])

    def ended(self, pid: int) -> None:
        wait_for(lambda: state_of(pid) in ("", "Z"), what=f"the end of {pid}")

    def exit_status(self) -> int:
        """As a shell tells it: the code, or 128 and the signal. tmux's own `pane_dead_status` is sometimes lost."""
        path = self.folder / f"status-{self.starts}"
        wait_for(path.exists, what="the exit status")
        return int(path.read_text())


def state_of(pid: int) -> str:
    """The letter of /proc/<pid>/stat, or nothing for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def lab() -> Iterator[Lab]:
    folder = Path(tempfile.mkdtemp(prefix="dw", dir="/tmp"))  # a short path: tmux's socket name must fit 108 bytes
    lab = Lab(folder)
    yield lab
    started = [entry["pid"] for entry in lab.truth("started")]
    started += [entry["child"] for entry in lab.truth("subagent_start")]
    lab.tmux("kill-server")
    for pid in started:
        lab.ended(pid)
    shutil.rmtree(folder)


def on(kind: str, *do: Any, **match: Any) -> dict[str, Any]:
    return {"on": kind, "do": list(do), **match}


def test_a_dispatch_is_worked_on_written_and_reported(lab: Lab) -> None:
    lab.ready()
    lab.shows(Screen("idle", ""))
    lab.paste(DISPATCH)
    composer = wait_for(lambda: lab.read().composer, what="the paste in the composer")
    assert composer == "[Pasted text #1 +6 lines]"
    lab.key("Enter")
    assert lab.did("turn_end")["stop"]
    assert lab.calls() == ["report done --task analyse"]
    assert "analyse" in (lab.output / "a/report.md").read_text()
    assert json.loads((lab.output / "data.json").read_text())["task"] == "analyse"
    events = [line.event for line in lab.hooks()]
    assert events[:3] == ["SessionStart", "UserPromptSubmit", "PreToolUse"]
    assert events[-2:] == ["PostToolUse", "Stop"]
    assert {line.pid for line in lab.hooks()} == {lab.pid()}
    assert lab.hook("UserPromptSubmit")["prompt"] == DISPATCH
    assert lab.hook("Stop")["stop_hook_active"] is False
    wrote = lab.truth("wrote")[0]
    assert wrote["sha256"] == hashlib.sha256((lab.output / "a/report.md").read_bytes()).hexdigest()
    assert wrote["agent"] == f"{lab.folder.name}/analyst"
    assert lab.truth("report_exit")[0]["code"] == 0
    assert lab.becomes("idle").composer == ""


def test_a_big_prompt_with_quotes_and_emoji_arrives_byte_for_byte(lab: Lab) -> None:
    lab.ready()
    text = "\n".join(f"""line {n}: "double" 'single' `back` $HOME \\ 🚀 日本 é""" for n in range(4000))
    assert len(text.encode()) > 200_000
    lab.prompt(text)
    prompt = lab.did("prompt")
    assert prompt["bytes"] == len(text.encode())
    assert prompt["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    lab.did("turn_end")
    (line,) = lab.hooks("UserPromptSubmit")
    assert line.payload_bytes > 200_000
    assert len(line.raw) == spool.PAYLOAD_BYTES_MAX


def test_short_prompts_can_be_typed_and_edited(lab: Lab) -> None:
    lab.ready()
    lab.key("-l", "oops")
    lab.key("C-u")
    lab.key("-l", "helloo")
    lab.key("BSpace")
    lab.shows(Screen("idle", "hello"))
    lab.tmux("resize-window", "-t", "=agent:", "-x", "60", "-y", "20")
    wait_for(lambda: any(line == "─" * 60 for line in lab.lines()), what="a narrower screen")
    lab.shows(Screen("idle", "hello"))
    lab.key("Enter")
    assert lab.did("prompt")["text"] == "hello"


def test_a_message_submitted_twice_is_handled_once(lab: Lab) -> None:
    lab.ready()
    for times in (1, 2):
        lab.prompt(DISPATCH)
        lab.did("turn_end", times)
    assert len(lab.truth("prompt")) == 2
    assert lab.did("duplicate")["id"] == "m1"
    assert lab.calls() == ["report done --task analyse"]


def test_a_prompt_typed_while_busy_is_submitted_after_the_turn(lab: Lab) -> None:
    lab.ready(on("prompt", {"tool": {"seconds": 1}}, times=1))
    lab.prompt("first")
    lab.did("tool_start")
    lab.prompt("second")
    lab.did("queued")
    assert len(lab.hooks("UserPromptSubmit")) == 1
    lab.did("turn_end", 2)
    assert [line.payload()["prompt"] for line in lab.hooks("UserPromptSubmit")] == ["first", "second"]
    order = [line.event for line in lab.hooks() if line.event in ("Stop", "UserPromptSubmit")]
    assert order == ["UserPromptSubmit", "Stop"] * 2


def test_a_swallowed_enter_leaves_the_text_in_the_composer(lab: Lab) -> None:
    lab.ready(on("start", {"swallow_enter": 1}))
    lab.prompt("hello")
    lab.did("enter_swallowed")
    lab.shows(Screen("idle", "hello"))
    assert lab.hooks("UserPromptSubmit") == []
    lab.key("Enter")
    assert lab.did("prompt")["text"] == "hello"


def test_a_draft_stays_and_a_paste_is_appended_to_it(lab: Lab) -> None:
    lab.ready(on("start", {"draft": "please do not"}))
    lab.did("draft")
    lab.shows(Screen("idle", "please do not"))
    lab.paste(" forget")
    lab.key("Enter")
    assert lab.did("prompt")["text"] == "please do not forget"


def test_a_silent_turn_leaves_the_task_open_and_a_nudge_finishes_it(lab: Lab) -> None:
    lab.ready(on("dispatch", {"work": 0.2}, "silent"))
    lab.prompt(DISPATCH)
    assert lab.did("fell_silent")["task"] == "analyse"
    lab.did("turn_end")
    assert lab.becomes("idle").composer == ""
    assert (len(lab.hooks("Stop")), lab.calls(), lab.output.exists()) == (1, [], False)
    lab.prompt(NUDGE)
    lab.did("turn_end", 2)
    assert lab.calls() == ["report done --task analyse"]
    assert (lab.output / "data.json").exists()


def test_a_lost_report_is_made_good_after_a_nudge_without_working_again(lab: Lab) -> None:
    lab.ready(on("dispatch", "lose_report"))
    lab.prompt(DISPATCH)
    lab.did("report_lost")
    lab.did("turn_end")
    assert lab.calls() == []
    written = (lab.output / "data.json").stat().st_mtime_ns
    lab.prompt(NUDGE)
    lab.did("turn_end", 2)
    assert lab.calls() == ["report done --task analyse"]
    assert (lab.output / "data.json").stat().st_mtime_ns == written


def test_an_offer_is_claimed_and_then_worked_on(lab: Lab) -> None:
    (lab.folder / "stdout-claim").write_text(DISPATCH)
    lab.ready()
    lab.prompt("[dogwatch:m7 offer analyse]\n" + brief.offer("analyse", "Who wants it?"))
    lab.did("turn_end")
    assert lab.calls() == ["claim analyse", "report done --task analyse"]
    assert (lab.output / "a/report.md").exists()


def test_an_offer_that_somebody_else_has_is_left_alone(lab: Lab) -> None:
    (lab.folder / "exit-claim").write_text("77")
    lab.ready()
    lab.prompt("[dogwatch:m7 offer analyse]\n" + brief.offer("analyse", "Who wants it?"))
    lab.did("turn_end")
    assert lab.calls() == ["claim analyse"]
    assert lab.truth("claim_exit")[0]["code"] == 77
    assert not lab.output.exists()


def test_checkpoints_and_mail_are_answered(lab: Lab) -> None:
    (lab.folder / "stdout-mail").write_text(brief.inbox([("m3", "lead", "hello"), ("m4", "lead", "and hello again")]))
    lab.ready(on("checkpoint", {"revise": "too short"}, subject="plan"))
    lab.prompt("[dogwatch:m1 checkpoint plan]\n[dogwatch:m2 checkpoint text]\n[dogwatch:m3 mail lead]")
    lab.did("turn_end")
    assert lab.calls() == [
        "checkpoint revise plan --note too short",
        "checkpoint approve text",
        "mail read",
        "mail ack m3",
        "mail ack m4",
    ]
    assert [entry["verdict"] for entry in lab.truth("checkpoint")] == ["revise", "approve"]


def test_nudges_about_checkpoints_and_offers_are_answered_like_these(lab: Lab) -> None:
    (lab.folder / "exit-claim").write_text("77")
    lab.ready()
    lab.prompt("[dogwatch:m1 nudge plan]\n" + brief.nudge("checkpoint", "plan"))
    lab.did("turn_end")
    lab.prompt("[dogwatch:m2 nudge review]\n" + brief.nudge("offer", "review"))
    lab.did("turn_end", 2)
    assert lab.calls() == ["checkpoint approve plan", "claim review"]


def test_reports_mail_and_files_are_as_the_scenario_says(lab: Lab) -> None:
    lab.ready(
        on(
            "dispatch",
            {"write": {"path": "big.bin", "bytes": 100_000}},
            {"write": {"path": "part-{n}.txt", "content": "x", "copies": 3}},
            {"write_outputs": {"wrong_path": "elsewhere/"}},
            {"mail_send": {"to": "lead", "text": "look"}},
            "heartbeat",
            {"assert_edit": {"path": "README.md", "text": "footer"}},
            {"report": {"outcome": "failed", "note": "no data"}},
        ),
        content="{task} in {path} by {agent}",
    )
    lab.prompt(DISPATCH)
    lab.did("turn_end")
    files = sorted(str(path.relative_to(lab.output)) for path in lab.output.rglob("*") if path.is_file())
    assert files == [
        "big.bin",
        "elsewhere/a/report.md",
        "elsewhere/data.json",
        "part-1.txt",
        "part-2.txt",
        "part-3.txt",
    ]
    assert (lab.output / "big.bin").stat().st_size == 100_000
    assert (lab.output / "elsewhere/data.json").read_text() == f"analyse in data.json by {lab.folder.name}/analyst"
    assert lab.calls() == [
        "mail send lead look",
        "heartbeat",
        "report done --task analyse --note README.md: added 'footer'",
        "report failed --task analyse --note no data",
    ]
    assert lab.truth("asserted_edit")[0]["path"] == "README.md"


def test_a_long_silent_tool_is_a_living_child_in_a_session_of_its_own(lab: Lab) -> None:
    lab.ready(on("prompt", {"tool": {"command": ["sleep", "300"]}}))
    lab.prompt("go")
    lab.did("tool_start")
    # a process that was only just forked is not yet in its session
    (child,) = wait_for(
        lambda: [pid for pid in children(lab.pid()) if os.getsid(pid) == pid], what="the tool's process, in its session"
    )
    assert lab.becomes("busy").composer == ""
    assert lab.hook("PreToolUse")["tool_input"] == {"command": "sleep 300"}
    assert lab.hooks("PostToolUse") == []
    lab.key("Escape")
    lab.did("interrupted")
    lab.ended(child)
    lab.becomes("idle")
    assert lab.hooks("Stop") == []


def test_a_hook_that_denies_keeps_the_tool_from_running(lab: Lab) -> None:
    lab.ready(on("prompt", {"write": {"path": "x", "content": "x"}}))
    (lab.folder / "spool").rename(lab.folder / "spool-before")
    (lab.folder / "spool").mkdir()  # now no hook can write: tools are denied, stopping is not
    lab.prompt("go")
    assert "could not be recorded" in lab.did("tool_denied")["reason"]
    lab.did("turn_end")
    assert not lab.output.exists()
    wait_for(lambda: any("Denied" in line for line in lab.lines()), what="the denial on the screen")


def test_a_hung_agent_answers_nothing_and_ends_only_by_sigkill(lab: Lab) -> None:
    lab.ready(on("prompt", "hang"))
    lab.prompt("go")
    lab.did("hung")
    lab.shows(Screen("busy", ""))
    before = len(lab.hooks())
    frozen = lab.lines()
    lab.key("-l", "hello")
    lab.key("Escape")
    os.kill(lab.pid(), signal.SIGTERM)
    wait_for(lambda: state_of(lab.pid()) == "S", what="a process that sleeps")
    assert (lab.lines(), len(lab.hooks())) == (frozen, before)
    os.kill(lab.pid(), signal.SIGKILL)
    assert lab.exit_status() == 128 + signal.SIGKILL


def test_a_spinning_agent_burns_cpu_and_repeats_itself(lab: Lab) -> None:
    lab.ready(on("prompt", "spin"))
    before = cpu_ticks(lab.pid())
    lab.prompt("go")
    lab.hook("PostToolUse", 3)
    inputs = [line.payload()["tool_input"] for line in lab.hooks("PreToolUse")]
    assert len(inputs) >= 3
    assert all(given == inputs[0] for given in inputs)
    wait_for(lambda: cpu_ticks(lab.pid()) - before > 20, what="the cpu time of an agent that spins")
    lab.becomes("busy")
    lab.key("Escape")
    lab.did("interrupted")
    lab.becomes("idle")


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_an_idle_agent_uses_no_cpu_and_wakes_for_nothing(lab: Lab) -> None:
    lab.ready()
    lab.becomes("idle")
    before = switches(lab.pid())
    subprocess.run(["sleep", "1.5"], check=True)  # the time over which it is observed
    assert switches(lab.pid()) - before <= 5


def switches(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_leaving_in_good_order_has_a_code_and_a_last_hook(lab: Lab) -> None:
    lab.ready(on("prompt", {"exit": 7}))
    lab.prompt("go")
    assert lab.exit_status() == 7
    assert lab.hook("SessionEnd")["reason"] == "other"
    assert lab.truth("exiting")[0]["code"] == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_signal_ends_it_with_its_children_and_a_last_hook(lab: Lab, number: signal.Signals) -> None:
    lab.ready(on("prompt", {"tool": {"command": ["sleep", "300"]}}))
    lab.prompt("go")
    lab.did("tool_start")
    (child,) = wait_for(lambda: children(lab.pid()), what="the tool's process")
    os.kill(lab.pid(), number)
    lab.hook("SessionEnd")
    assert lab.exit_status() == 128 + number
    lab.ended(child)


def test_people_can_leave_by_command_or_by_ctrl_c_twice(lab: Lab) -> None:
    lab.ready()
    lab.key("-l", "draft")
    lab.key("C-c")
    lab.shows(Screen("idle", ""))
    lab.key("C-c")
    wait_for(lambda: any("Ctrl-C again" in line for line in lab.lines()), what="the hint")
    lab.key("C-c")
    assert lab.exit_status() == 0
    assert lab.hook("SessionEnd")["reason"] == "prompt_input_exit"


def test_a_crash_is_a_crash_and_its_tool_survives_it(lab: Lab) -> None:
    lab.ready(on("prompt", {"tool": {"command": ["sleep", "300"]}}))
    lab.prompt("go")
    lab.did("tool_start")

    def tool() -> list[int]:
        # A fork that has not become the tool yet, or a hook that is about to end, is no tool.
        return [pid for pid in children(lab.pid()) if Path(f"/proc/{pid}/comm").read_text() == "sleep\n"]

    (child,) = wait_for(tool, what="the tool's process")
    os.kill(lab.pid(), signal.SIGKILL)
    assert lab.exit_status() == 128 + signal.SIGKILL
    wait_for(lambda: state_of(child) == "S", what="the tool that goes on")
    os.kill(child, signal.SIGKILL)
    assert lab.hooks("SessionEnd") == []


def test_it_kills_itself_with_the_signal_of_the_scenario_in_its_first_life_only(lab: Lab) -> None:
    rule = on("start", {"crash": "SIGSEGV"}, incarnation=1)
    lab.start(rule)
    assert lab.exit_status() == 128 + signal.SIGSEGV
    assert lab.did("crashed")["signal"] == 11
    lab.tmux("kill-session", "-t", "=agent")
    lab.start(rule, incarnation=2)
    assert lab.did("ready", 2)["incarnation"] == 2
    lab.becomes("idle")
    assert [entry["incarnation"] for entry in lab.truth("started")] == [1, 2]


@pytest.mark.parametrize("how", ["shell", {"crash": "SIGKILL"}])
def test_what_is_left_may_be_a_shell_in_the_same_pane(lab: Lab, how: Any) -> None:
    lab.ready(on("prompt", {"wait": 0.3}, how), shell=True)  # noqa: S604 (a key of the scenario)
    launcher = int(Path(f"/proc/{lab.pid()}/stat").read_text().rpartition(")")[2].split()[1])
    assert Path(f"/proc/{launcher}/comm").read_text().startswith("python")
    lab.prompt("go")
    lab.ended(lab.pid())
    assert lab.becomes("shell").composer is None
    assert Path(f"/proc/{launcher}/comm").read_text() == "sh\n"
    assert len(lab.hooks("SessionEnd")) == (1 if how == "shell" else 0)


def test_a_permission_dialog_waits_for_its_answer(lab: Lab) -> None:
    lab.ready(on("prompt", {"permission": "rm -r build"}, {"say": "permitted"}))
    lab.prompt("one")
    lab.did("dialog_open")
    assert lab.becomes("permission").composer is None
    assert lab.hook("PermissionRequest")["tool_input"] == {"command": "rm -r build"}
    assert lab.hook("Notification")["notification_type"] == "permission_prompt"
    lab.paste("1 this is typed blindly")
    lab.key("x")
    lab.key("1")
    assert lab.did("dialog_answer")["key"] == "1"
    lab.did("turn_end")
    assert lab.becomes("idle").composer == ""
    lab.prompt("two")
    lab.becomes("permission")
    lab.key("Escape")
    assert lab.did("turn_end", 2)["stop"] is False
    lab.becomes("idle")
    assert len(lab.hooks("Stop")) == 1


def test_a_startup_dialog_comes_before_everything_and_a_blind_enter_ends_the_client(lab: Lab) -> None:
    lab.start(on("start", "startup_dialog"))
    lab.did("dialog_open")
    assert lab.becomes("dialog").composer is None
    assert lab.hooks() == []
    lab.key("Enter")
    assert lab.exit_status() == 1
    lab.tmux("kill-session", "-t", "=agent")
    lab.start(on("start", "startup_dialog"))
    lab.did("dialog_open", 2)
    lab.key("2")
    lab.did("ready")
    lab.hook("SessionStart")
    lab.becomes("idle")


def test_a_slow_start_shows_that_it_starts(lab: Lab) -> None:
    lab.start(start_delay_s=600)
    lab.becomes("starting")
    assert lab.hooks() == []


def test_provider_errors_show_retries_and_then_go_on_or_end_the_turn(lab: Lab) -> None:
    lab.ready(
        on("prompt", {"provider_error": {"code": 429, "retries": 2, "seconds": 0.7}}, {"say": "on"}, times=1),
        on("prompt", {"provider_error": {"retries": 1, "seconds": 0.2, "final": True}}, times=1),
    )
    lab.prompt("one")
    lab.becomes("retry")
    lab.did("provider_ok")
    assert lab.did("turn_end")["stop"] is True
    assert len(lab.truth("provider_retry")) == 2
    lab.becomes("idle")
    lab.prompt("two")
    assert lab.did("turn_end", 2)["stop"] is False
    assert lab.hook("StopFailure")["error"] == "overloaded"
    assert len(lab.hooks("Stop")) == 1
    assert lab.becomes("error").composer == ""
    lab.prompt("three")
    lab.did("turn_end", 3)
    lab.becomes("idle")


def test_old_errors_and_questions_in_the_transcript_do_not_make_it_look_ill(lab: Lab) -> None:
    lab.ready(on("start", "old_error"))
    wait_for(lambda: any("API Error" in line for line in lab.lines()), what="the old error")
    assert lab.becomes("idle").composer == ""


def test_memory_really_grows(lab: Lab) -> None:
    lab.ready(on("prompt", {"grow": {"mb": 80, "seconds": 0.2}}))
    lab.prompt("go")
    lab.did("grew")
    pages = int(Path(f"/proc/{lab.pid()}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGESIZE") > 80 << 20


def test_memory_is_really_given_back(lab: Lab) -> None:
    lab.ready(on("prompt", {"grow": {"mb": 160}}, "release"))
    lab.prompt("go")
    assert lab.did("released")["mb"] == 160
    pages = int(Path(f"/proc/{lab.pid()}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGESIZE") < 160 << 20


def test_a_sub_agent_runs_beside_the_turn_and_its_end_starts_a_new_one(lab: Lab) -> None:
    lab.ready(on("dispatch", {"subagent": {"type": "explorer", "seconds": 1.5, "output": "sub.md"}}, "silent"))
    lab.prompt(DISPATCH)
    child = lab.did("subagent_start")["child"]
    lab.hook("Stop")
    assert child in children(lab.pid())
    lab.becomes("busy")
    assert lab.did("subagent_end")["code"] == 0
    assert (lab.output / "sub.md").exists()
    started, ended = lab.hook("SubagentStart"), lab.hook("SubagentStop")
    assert started["agent_type"] == "explorer"
    assert started["agent_id"] == ended["agent_id"]
    assert lab.hook("UserPromptSubmit", 2)["prompt"].startswith("<task-notification>")
    lab.did("turn_end", 2)
    assert lab.calls() == ["report done --task analyse"]


def test_a_sub_agent_may_never_end(lab: Lab) -> None:
    lab.ready(on("prompt", {"subagent": {"never": True}}))
    lab.prompt("go")
    child = lab.did("subagent_start")["child"]
    lab.did("turn_end")
    assert lab.hook("Stop")["background_tasks"][0]["agent_type"] == "general-purpose"
    wait_for(lambda: state_of(child) == "S", what="the sub-agent that goes on")
    lab.key("-l", "/exit")
    lab.key("Enter")
    lab.ended(child)


def test_stopping_again_and_again_is_seen_by_the_hooks(lab: Lab) -> None:
    lab.ready(on("prompt", {"stop_loop": 3}))
    lab.prompt("go")
    lab.did("turn_end")
    active = [line.payload()["stop_hook_active"] for line in lab.hooks("Stop")]
    assert active == [False, True, True, True]


def test_a_stop_loop_lasts_until_it_is_interrupted_unless_it_is_deaf(lab: Lab) -> None:
    lab.ready(on("prompt", "stop_loop", times=1), on("prompt", {"stop_loop": {"deaf": True}}))
    lab.prompt("go")
    lab.did("stop_again", 3)
    lab.key("Escape")
    lab.did("interrupted")
    lab.prompt("again")
    lab.did("turn_start", 2)
    lab.key("Escape")
    lab.did("interrupt_ignored")
    lab.did("stop_again", len(lab.truth("stop_again")) + 2)
    assert not lab.truth("turn_end")


def test_a_compaction_has_its_hooks(lab: Lab) -> None:
    lab.ready(on("prompt", {"compact": 0.1}))
    lab.prompt("go")
    lab.did("turn_end")
    events = [line.event for line in lab.hooks()]
    assert events[2:5] == ["PreCompact", "PostCompact", "SessionStart"]
    assert lab.hooks("SessionStart")[1].payload()["source"] == "compact"


def test_the_prompt_may_flash_between_two_tools(lab: Lab) -> None:
    lab.ready(on("prompt", {"flash_prompt": 1}))
    lab.prompt("go")
    lab.did("flash_start")
    lab.becomes("idle")
    assert lab.hooks("Stop") == []
    lab.did("turn_end")
    assert len(lab.hooks("PreToolUse")) == 2


def test_a_bad_scenario_is_explained_and_not_traced(lab: Lab) -> None:
    lab.start(on("start", "dance"))
    assert lab.exit_status() == 64
    # Its last words may reach the screen a moment after its end.
    wait_for(lambda: "hint: the steps are work" in "".join(lab.lines()), what="the hint")
    assert "Traceback" not in "".join(lab.lines())
