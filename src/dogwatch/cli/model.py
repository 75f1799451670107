"""Play a language model for real agent CLIs, by a scenario, for tests that need no key and cost nothing.

It serves on 127.0.0.1 only, asks no other server, and speaks Anthropic's Messages API, OpenAI's Responses API and chat
completions, and the Gemini API. The first line that it prints is its URL; Ctrl-C or SIGTERM ends it. A prompt may say
itself what to answer, without a file (docs/reference/model.md).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import replace

EXAMPLE = "dogwatch model --scenario model.yaml --port 8765 --log requests.jsonl"
PORT_MAX = 65535
GIVEN = ("DOGWATCH_PROJECT", "DOGWATCH_OUTPUT", "DOGWATCH_RUN")
"""What the scenario of a rehearsal may name."""
ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenario", default="", metavar="FILE", help="what it answers (default: a short text to all)")
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="where it serves (default: any free port)")
    parser.add_argument("--log", default="", metavar="FILE", help="append a line of JSON for each request to this file")


def execute(arguments: argparse.Namespace) -> int:
    from dogwatch.testing.model import Scenario, ScriptedModel, load

    scenario = load(arguments.scenario) if arguments.scenario else Scenario()
    given = {name: os.environ[name] for name in GIVEN if name in os.environ}
    scenario = replace(scenario, variables={**given, **scenario.variables})
    # Blocked before any thread is started, the signals come to `sigwait` alone, and never in the middle of something.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        with ScriptedModel(scenario, port=arguments.port, log=arguments.log, keep=0) as model:
            print(model.url, flush=True)
            print(f"for Claude Code: ANTHROPIC_BASE_URL={model.url} ANTHROPIC_API_KEY=any", file=sys.stderr)
            signal.sigwait(ENDS)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 0


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {PORT_MAX}")
    return int(text)
