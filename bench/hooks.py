"""The hook inside every turn: what a tool call costs, against a bare Python and against bash with jq, in one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from bench.harness import Figure, scratch
from dogwatch.actions.registry import register
from dogwatch.actions.spawn import HOOK
from dogwatch.guard.fast import is_harmless
from dogwatch.harness.claude import HOOK_S
from dogwatch.model.life import NotStarted
from dogwatch.model.process import ProcessId
from dogwatch.model.records import AgentRecord
from dogwatch.world.home import Home
from dogwatch.world.processes import boot_id, identify

ROUNDS = 150
AT_ONCE = 16
CALLS = Path(__file__).parent / "data" / "agent_calls.jsonl"
WITH_JQ = Path(__file__).parent / "hook_with_jq.sh"
PLAIN = "git status --short"
JUDGED = 'for file in $(git ls-files "*.py"); do python3 -m py_compile "$file" || echo "bad: $file"; done | sort | head'

HARMLESS, FULL, DENIED, BARE, JQ = "plainly harmless", "full guard", "denied", "bare python", "bash and jq"


def measure() -> list[Figure]:
    """All ways in turn, many times; then many at once; then which share of real calls is plainly harmless."""
    version = subprocess.run(["jq", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"bash with {version}: {WITH_JQ.name}")
    with scratch() as folder:
        environment = _agent(Home(str(folder / "home")))
        hook = [sys.executable, "-I", "-S", HOOK, "PreToolUse"]
        ways: Mapping[str, tuple[Sequence[str], bytes, int]] = {
            BARE: ([sys.executable, "-I", "-S", "-c", "pass"], b"", 0),
            HARMLESS: (hook, payload("Bash", {"command": PLAIN}), 0),
            FULL: (hook, payload("Bash", {"command": JUDGED}), 0),
            DENIED: (hook, payload("Bash", {"command": "tmux kill-server"}), 2),
            JQ: (["bash", str(WITH_JQ), "PreToolUse"], payload("Bash", {"command": PLAIN}), 0),
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, (argv, stdin, code) in ways.items():
                times[way].append(_time(argv, stdin, code, environment))
        at_once = _at_once(ways[FULL], environment)
    middle = {way: median(series) for way, series in times.items()}
    tails = {way: sorted(times[way])[int(0.95 * ROUNDS)] / middle[way] for way in (HARMLESS, FULL)}
    return [
        _ratio(f"{HARMLESS} / {BARE}", middle[HARMLESS] / middle[BARE], 1.3, times, (HARMLESS, BARE)),
        _ratio(f"{HARMLESS} / {JQ} ({version})", middle[HARMLESS] / middle[JQ], 1.0, times, (HARMLESS, JQ)),
        _ratio(f"{FULL} / {BARE}", middle[FULL] / middle[BARE], 8.0, times, (FULL, BARE)),
        _ratio(f"{DENIED} / {BARE}", middle[DENIED] / middle[BARE], 8.0, times, (DENIED,)),
        *(_ratio(f"{way}: p95 / p50", tail, 3.0, {}, ()) for way, tail in tails.items()),
        _ratio(f"{AT_ONCE} at once, slowest / client's limit", at_once / HOOK_S, 1.0, {}, ()),
        *_shares(),
    ]


def payload(tool: str, tool_input: Mapping[str, Any], cwd: str = "/home/dev/app") -> bytes:
    """What the client sends to the hook."""
    call = {
        "session_id": "30564887-bf37-420e-abe6-0498567ef2d6",
        "transcript_path": "/home/dev/.claude/projects/-home-dev-app/30564887-bf37-420e-abe6-0498567ef2d6.jsonl",
        "cwd": cwd,
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": tool_input,
        "tool_use_id": "toolu_e1eb2d9d72554af0badf",
    }
    return json.dumps(call, separators=(",", ":"), ensure_ascii=False).encode()


def _agent(home: Home) -> dict[str, str]:
    """The environment of an agent whose process is this one."""
    process = identify(os.getpid(), boot_id())
    assert isinstance(process, ProcessId)
    os.makedirs(home.run("bench-1"))
    register(home, AgentRecord(run="bench-1", agent="writer", role="writer", incarnation=1, life=NotStarted()), process)
    marks = {"DOGWATCH_HOME": home.path, "DOGWATCH_RUN": "bench-1", "DOGWATCH_ROLE": "writer"}
    spool = f"{home.run('bench-1')}/writer.spool"
    return {**os.environ, **marks, "DOGWATCH_INCARNATION": "1", "DOGWATCH_SPOOL": spool}


def _time(argv: Sequence[str], stdin: bytes, code: int, environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run(argv, input=stdin, env=environment, capture_output=True, check=False)
    taken = time.perf_counter() - begin
    assert done.returncode == code, (argv, done)
    return taken * 1000


def _at_once(way: tuple[Sequence[str], bytes, int], environment: Mapping[str, str]) -> float:
    """How many seconds the slowest of many takes that start together."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return max(pool.map(lambda _: _time(*way, environment), range(AT_ONCE))) / 1000


def _ratio(
    name: str, value: float, target: float, times: Mapping[str, Sequence[float]], shown: Sequence[str]
) -> Figure:
    return Figure(name=name, value=value, unit="x", target=target, times_ms={way: times[way] for way in shown})


def _shares() -> list[Figure]:
    """Which share of a realistic mix passes at once: of all calls, and of the shell commands among them."""
    calls = [json.loads(line) for line in CALLS.read_text(encoding="utf-8").splitlines()]
    passed: Counter[str] = Counter()
    cwd = ""
    for call in calls:
        path = call["input"].get("file_path", "")
        cwd = "/".join(path.split("/")[:4]) or cwd  # that of the session's project
        if is_harmless(payload(call["tool"], call["input"], cwd)):
            passed.update(["all", call["tool"]])
    shells = sum(call["tool"] == "Bash" for call in calls)
    return [
        Figure(
            name=name, value=share, unit="of calls", target=0.0, comparison=">="
        )  # there is no target, the share is told
        for name, share in (
            (f"plainly harmless of {len(calls)} real calls", passed["all"] / len(calls)),
            (f"plainly harmless of {shells} shell commands", passed["Bash"] / shells),
        )
    ]
